/* Layouts: a type and a count as a dataloop, packed and unpacked by the host. */
#include "datatype_layout.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "datatype_type.h"

#define MOST_BYTES ((1ull << 32) - 1) /* of data, of memory, and of a dataloop: 32-bit words */

static int refuse(struct spin_error *err, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static int refuse(struct spin_error *err, const char *format, ...) {
    va_list arguments;
    if (err) {
        err->code = SPIN_ELIMIT;
        va_start(arguments, format);
        vsnprintf(err->text, sizeof err->text, format, arguments);
        va_end(arguments);
    }
    return PTL_NO_SPACE;
}

/* ---- From loops to words ---- */

/* Words written so far, and where each loop stands: a loop that several others have is written
 * once. */
struct writer {
    uint32_t *words;
    uint64_t used, room;
    struct written {
        const struct loop *loop;
        uint32_t at;
    } * table; /* hashed; at most half full */
    uint64_t loops, slots;
    bool no_memory;
};

static struct written *find_written(const struct writer *w, const struct loop *loop) {
    uint64_t i = ((uintptr_t)loop >> 4) * 0x9e3779b97f4a7c15ull >> 20;
    while (w->table[i & (w->slots - 1)].loop && w->table[i & (w->slots - 1)].loop != loop)
        i++;
    return &w->table[i & (w->slots - 1)];
}

static bool grow_table(struct writer *w) {
    struct writer larger = {.slots = w->slots ? 2 * w->slots : 64};
    larger.table = calloc(larger.slots, sizeof *larger.table);
    if (!larger.table)
        return false;
    for (uint64_t i = 0; i < w->slots; i++)
        if (w->table[i].loop)
            *find_written(&larger, w->table[i].loop) = w->table[i];
    free(w->table);
    w->table = larger.table;
    w->slots = larger.slots;
    return true;
}

static uint64_t words_of(const struct loop *l) {
    static const uint64_t row[] = {0, 1, 2, 3};
    bool ends = l->kind == DATALOOP_INDEX || l->kind == DATALOOP_STRUCT;
    return DATALOOP_TABLE + row[l->kind] * (l->count + ends);
}

/* Room for a loop; its index, or 0. */
static uint32_t reserve(struct writer *w, uint64_t words) {
    if (w->used + words > MOST_BYTES / 4) {
        w->no_memory = true;
        return 0;
    }
    while (w->used + words > w->room) {
        uint64_t room = 2 * w->room + 256;
        uint32_t *larger = realloc(w->words, room * sizeof *larger);
        if (!larger) {
            w->no_memory = true;
            return 0;
        }
        w->words = larger;
        w->room = room;
    }
    uint32_t at = (uint32_t)w->used;
    w->used += words;
    return at;
}

static uint32_t write_loop(struct writer *w, const struct loop *l);

static void write_table(struct writer *w, const struct loop *l, uint32_t at) {
    uint64_t position = 0;
    if (l->kind == DATALOOP_BLOCKINDEX)
        for (uint64_t i = 0; i < l->count; i++)
            w->words[at + DATALOOP_TABLE + i] = (uint32_t)l->offset[i];
    if (!l->part)
        return;
    uint32_t row = l->kind == DATALOOP_INDEX ? 2 : 3;
    for (uint64_t i = 0; i <= l->count && !w->no_memory; i++) {
        bool ends = i == l->count;
        uint32_t child = !ends && l->part[i].loop ? write_loop(w, l->part[i].loop) : 0;
        uint32_t *to = w->words + at + DATALOOP_TABLE + i * row; /* writing may have moved it */
        to[0] = ends ? 0 : (uint32_t)l->part[i].offset;
        to[1] = (uint32_t)position;
        if (row == 3)
            to[2] = child;
        position += ends ? 0 : l->part[i].bytes;
    }
}

/* Its index; no_memory says whether that means anything. */
static uint32_t write_loop(struct writer *w, const struct loop *l) {
    if (2 * w->loops >= w->slots && !grow_table(w))
        w->no_memory = true;
    if (w->no_memory)
        return 0;
    struct written *old = find_written(w, l);
    if (old->loop)
        return old->at;
    uint32_t child = l->element.loop ? write_loop(w, l->element.loop) : 0;
    uint32_t at = w->no_memory ? 0 : reserve(w, words_of(l));
    if (w->no_memory)
        return 0;
    uint32_t *to = w->words + at;
    to[DATALOOP_KIND] = l->kind;
    to[DATALOOP_COUNT] = (uint32_t)l->count;
    to[DATALOOP_BYTES] = (uint32_t)l->element.bytes;
    to[DATALOOP_STRIDE] = (uint32_t)l->stride;
    to[DATALOOP_CHILD] = child;
    write_table(w, l, at);
    if (2 * w->loops >= w->slots && !w->no_memory && !grow_table(w))
        w->no_memory = true;
    if (!w->no_memory) {
        w->loops++;
        *find_written(w, l) = (struct written){l, at};
    }
    return at;
}

/* Contiguous bytes are a vector of one. */
static bool write_dataloop(struct spin_layout *layout, struct part part) {
    struct writer w = {0};
    struct loop one = {.kind = DATALOOP_VECTOR, .count = 1, .element = {.bytes = part.bytes}};
    uint32_t head = reserve(&w, DATALOOP_HEAD);
    uint32_t root = w.no_memory ? 0 : write_loop(&w, part.loop ? part.loop : &one);
    free(w.table);
    if (w.no_memory) {
        free(w.words);
        return false;
    }
    w.words[head + DATALOOP_SIZE] = (uint32_t)part.bytes;
    w.words[head + DATALOOP_BASE] = (uint32_t)(part.offset - layout->info.true_lb);
    w.words[head + DATALOOP_ROOT] = root;
    w.words[head + DATALOOP_DEPTH] = layout->info.depth;
    layout->dataloop = w.words;
    layout->info.dataloop_bytes = (uint32_t)(w.used * sizeof *w.words);
    return true;
}

/* ---- Committing ---- */

static int within_limits(const struct spin_layout_info *info, struct spin_error *err) {
    if (info->size > MOST_BYTES)
        return refuse(err, "%" PRIu64 " bytes of data; a layout has less than 4 GiB", info->size);
    if (info->true_extent > MOST_BYTES)
        return refuse(err, "the data spans %" PRIu64 " bytes of memory; a layout less than 4 GiB",
                      info->true_extent);
    if (info->depth > DATALOOP_MOST_DEPTH)
        return refuse(err,
                      "%" PRIu32 " loops within each other, none of which can be merged with its "
                      "neighbour; a layout has at most %u",
                      info->depth, DATALOOP_MOST_DEPTH);
    return PTL_OK;
}

static int form_of(struct part part) {
    const struct loop *l = part.loop;
    if (!l || (l->kind == DATALOOP_VECTOR && !l->element.loop))
        return SPIN_LAYOUT_VECTOR;
    return l->kind == DATALOOP_INDEX || (l->kind == DATALOOP_BLOCKINDEX && !l->element.loop)
               ? SPIN_LAYOUT_INDEX
               : SPIN_LAYOUT_GENERAL;
}

int spin_type_commit(struct spin_type *type, int count, struct spin_layout **out,
                     struct spin_error *err) {
    struct spin_type *all;
    struct spin_layout *layout = calloc(1, sizeof *layout);
    *out = NULL;
    int code = spin_type_contiguous(count, type, &all);
    if (code == PTL_ARG_INVALID)
        refuse(err, "a count of %d; %s", count,
               count < 0 ? "it is negative" : "it spans more than 2^60 bytes");
    if (code == PTL_OK && layout) {
        layout->info = (struct spin_layout_info){
            .size = all->part.bytes,
            .true_lb = all->true_lb,
            .true_extent = (uint64_t)(all->true_ub - all->true_lb),
            .regions = part_regions(all->part),
            .depth = all->part.loop ? all->part.loop->depth : 1,
            .form = form_of(all->part),
        };
        code = within_limits(&layout->info, err);
        if (code == PTL_OK && !write_dataloop(layout, all->part))
            code = refuse(err, "no memory for the dataloop of %" PRIu64 " regions",
                          layout->info.regions);
    } else if (code == PTL_OK) {
        code = refuse(err, "no memory for a layout");
    }
    spin_type_free(all);
    if (code == PTL_OK)
        *out = layout;
    else
        spin_layout_free(layout);
    return code;
}

void spin_layout_free(struct spin_layout *layout) {
    if (layout)
        free(layout->dataloop);
    free(layout);
}

struct spin_layout_info spin_layout_info(const struct spin_layout *layout) {
    return layout->info;
}

/* ---- Packing ---- */

struct copy {
    uint8_t *memory, *packed;
};

static void pack_region(void *argument, uint32_t at, uint32_t from, uint32_t bytes) {
    const struct copy *c = argument;
    memcpy(c->packed + from, c->memory + at, bytes);
}

static void unpack_region(void *argument, uint32_t at, uint32_t from, uint32_t bytes) {
    const struct copy *c = argument;
    memcpy(c->memory + at, c->packed + from, bytes);
}

/* Sets the segment there and returns how many bytes there are, at most `bytes`. */
static uint32_t begin(const struct spin_layout *layout, uint64_t position, uint64_t bytes,
                      struct dataloop_segment *s) {
    uint64_t size = layout->info.size;
    if (position >= size)
        return 0;
    dataloop_seek(layout->dataloop, s, (uint32_t)position);
    return (uint32_t)(bytes < size - position ? bytes : size - position);
}

void spin_layout_pack(const struct spin_layout *layout, const void *buffer, uint64_t position,
                      uint64_t bytes, void *packed) {
    struct dataloop_segment s;
    struct copy c = {(uint8_t *)(uintptr_t)buffer + layout->info.true_lb, packed};
    uint32_t n = begin(layout, position, bytes, &s);
    if (n)
        dataloop_move(layout->dataloop, &s, n, pack_region, &c);
}

void spin_layout_unpack(const struct spin_layout *layout, void *buffer, uint64_t position,
                        uint64_t bytes, const void *packed) {
    struct dataloop_segment s;
    struct copy c = {(uint8_t *)buffer + layout->info.true_lb, (uint8_t *)(uintptr_t)packed};
    uint32_t n = begin(layout, position, bytes, &s);
    if (n)
        dataloop_move(layout->dataloop, &s, n, unpack_region, &c);
}
