#include "hpu/hpu.h"

#include <stdlib.h>
#include <string.h>

#include "hpu/heap.h"
#include "hpu/interp.h"
#include "hpu/jit.h"
#include "openspin.h"

const char *hpu_fault_name(unsigned fault) {
    static const char *const names[] = {
#define ROW(name, text) text,
        HPU_FAULTS(ROW)
#undef ROW
    };
    return fault < sizeof names / sizeof names[0] ? names[fault] : "unknown";
}

void hpu_init(struct hpu *h, const struct hpu_code *code, uint32_t id) {
    memset(h, 0, sizeof *h);
    h->code = code;
    h->id = id;
    h->return_pc = 1; /* no address: none returns there */
}

int hpu_add_window(struct hpu *h, uint32_t base, uint32_t size, uint8_t *host, bool writable,
                   enum hpu_region region) {
    if (h->windows == HPU_WINDOWS || !hpu_is_aligned(base, host))
        return -1;
    const struct hpu_timing *t = h->code->timing;
    h->window[h->windows] = (struct hpu_window){
        .base = base,
        .region = (uint8_t)region,
        .load_extra = t->load_extra[region],
        .store_extra = t->store_extra[region],
        .amo_extra = t->amo_extra[region],
        .host = host,
    };
    hpu_size_window(&h->window[h->windows], size, writable);
    return (int)h->windows++;
}

int hpu_find_window(struct hpu *h, uint32_t address, uint32_t size, bool write) {
    for (uint32_t i = 0; i < h->windows; i++) {
        const struct hpu_window *w = &h->window[i];
        /* room[0] is the window's size */
        uint32_t offset = address - w->base, room = write ? w->write_room[0] : w->read_room[0];
        if (offset <= room && size <= room - offset)
            return (int)i;
    }
    return h->heap && heap_find(h, address, size) ? (int)h->windows - 1 : -1;
}

uint8_t *hpu_reach(struct hpu *h, uint32_t address, uint64_t size, bool write) {
    if (size > UINT32_MAX)
        return NULL;
    int i = hpu_find_window(h, address, (uint32_t)size, write);
    return i < 0 ? NULL : h->window[i].host + (address - h->window[i].base);
}

static bool csr_read(const struct hpu *h, unsigned csr, uint32_t *value) {
    switch (csr) {
    case 0x001:
        *value = h->fcsr & 0x1f;
        return h->code->with_float;
    case 0x002:
        *value = h->fcsr >> 5;
        return h->code->with_float;
    case 0x003:
        *value = h->fcsr;
        return h->code->with_float;
    case 0xc00:
        *value = (uint32_t)h->cycles;
        return true;
    case 0xc80:
        *value = (uint32_t)(h->cycles >> 32);
        return true;
    case 0xc02:
        *value = (uint32_t)h->instret;
        return true;
    case 0xc82:
        *value = (uint32_t)(h->instret >> 32);
        return true;
    case 0xf14:
        *value = h->id;
        return true;
    }
    return false;
}

static bool csr_write(struct hpu *h, unsigned csr, uint32_t value) {
    switch (csr) { /* existence was checked by the read */
    case 0x001:
        h->fcsr = (h->fcsr & 0xe0) | (value & 0x1f);
        return true;
    case 0x002:
        h->fcsr = (h->fcsr & 0x1f) | (value & 7) << 5;
        return true;
    case 0x003:
        h->fcsr = value & 0xff;
        return true;
    }
    return false; /* the counters and the id are read-only */
}

bool hpu_csr(struct hpu *h, const struct hpu_insn *in) {
    unsigned csr = (unsigned)in->imm;
    bool constant = in->id == HPU_CSRRWI || in->id == HPU_CSRRSI || in->id == HPU_CSRRCI;
    uint32_t operand = constant ? in->rs1 : h->x[in->rs1], old;
    if (!csr_read(h, csr, &old))
        return false;
    bool swap = in->id == HPU_CSRRW || in->id == HPU_CSRRWI;
    if (swap || in->rs1 != 0) { /* set and clear with x0 or 0 only read */
        bool set = in->id == HPU_CSRRS || in->id == HPU_CSRRSI;
        if (!csr_write(h, csr, swap ? operand : set ? old | operand : old & ~operand))
            return false;
    }
    if (in->rd)
        h->x[in->rd] = old;
    return true;
}

struct hpu_next_access hpu_next_access(const struct hpu *h) {
    struct hpu_next_access a = {0};
    const struct hpu_slot *slot = hpu_code_find(h->code, h->pc);
    if (!slot)
        return a;
    const struct hpu_insn *in = &h->code->insn[slot - h->code->slot];
    unsigned operands = hpu_insn_info(in->id)->operands;
    uint32_t base = h->x[in->rs1];
    switch (operands) {
    case OPERANDS_LD:
    case OPERANDS_FLD:
    case OPERANDS_ST:
    case OPERANDS_FST:
        a.address = base + (uint32_t)in->imm;
        a.size = hpu_access_bytes(in->id);
        a.read = operands == OPERANDS_LD || operands == OPERANDS_FLD;
        a.write = !a.read;
        break;
    case OPERANDS_LR:
    case OPERANDS_AMO:
        a.address = base;
        a.size = 4;
        a.read = in->id != HPU_SC_W;
        /* An SC that lost its reservation stores nothing. */
        a.write = in->id == HPU_SC_W ? h->reserved && h->reserved_address == base
                                     : operands == OPERANDS_AMO;
        break;
    }
    return a;
}

/* First in, first out within a set: a hit changes nothing, which is what lets a block that was seen
 * whole in this generation pass without a look. */
static void lines_free(struct hpu_icache_lines *l) {
    if (!l)
        return;
    free(l->tag);
    free(l->filled);
    free(l->next);
    free(l);
}

static struct hpu_icache_lines *lines_new(const struct hpu_timing *t) {
    struct hpu_icache_lines *l = calloc(1, sizeof *l);
    if (!l)
        return NULL;
    l->timing = t;
    l->sets = t->icache_bytes / t->icache_line / t->icache_ways;
    l->tag = calloc((size_t)l->sets * t->icache_ways, sizeof *l->tag);
    l->filled = calloc((size_t)l->sets * t->icache_ways, sizeof *l->filled);
    l->next = calloc(l->sets, sizeof *l->next);
    l->generation = 1;
    l->memory = &l->own;
    if (!l->tag || !l->filled || !l->next) {
        lines_free(l);
        return NULL;
    }
    return l;
}

struct hpu_icache *hpu_icache_new(const struct hpu_code *code, const struct hpu_icache *with,
                                  uint32_t place) {
    struct hpu_icache *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->lines = with ? with->lines : lines_new(code->timing);
    c->owns_lines = !with;
    c->place = place;
    c->seen = calloc(code->slots + 1, sizeof *c->seen);
    if (!c->lines || !c->seen) {
        hpu_icache_free(c);
        return NULL;
    }
    return c;
}

void hpu_icache_free(struct hpu_icache *c) {
    if (!c)
        return;
    if (c->owns_lines)
        lines_free(c->lines);
    free(c->seen);
    free(c);
}

void hpu_icache_share_memory(struct hpu_icache *c, struct hpu_icache *with) {
    c->lines->memory = with->lines->memory;
}

void hpu_icache_clear(struct hpu_icache *c) {
    struct hpu_icache_lines *l = c->lines;
    memset(l->tag, 0, (size_t)l->sets * l->timing->icache_ways * sizeof *l->tag);
    memset(l->next, 0, l->sets);
    l->generation++;
    l->misses = 0;
    hpu_icache_rewind(c);
}

uint64_t hpu_icache_misses(const struct hpu_icache *c) {
    return c->lines->misses;
}

uint64_t hpu_icache_waited(const struct hpu_icache *c) {
    return c->lines->waited;
}

uint64_t hpu_icache_latest(const struct hpu_icache *c) {
    return c->lines->latest;
}

/* The clock begins anew: what was fetched is there. */
void hpu_icache_rewind(struct hpu_icache *c) {
    struct hpu_icache_lines *l = c->lines;
    memset(l->filled, 0, (size_t)l->sets * l->timing->icache_ways * sizeof *l->filled);
    l->latest = 0;
    l->asked = *l->memory = (struct hpu_cycles){0};
}

/* The way that has the line or waits for it, as an index; -1: none. */
static int way_of(const struct hpu_icache_lines *l, uint32_t line) {
    uint32_t ways = l->timing->icache_ways, first = line % l->sets * ways;
    for (uint32_t i = 0; i < ways; i++)
        if (l->tag[first + i] == line + 1)
            return (int)(first + i);
    return -1;
}

/* A core that misses a line looks it up, misses, and asks for it in the third cycle; the cluster's
 * controller takes one request in a cycle. (RTL: icache_bank_mp_128 with its request buffer, the
 * arbiter in front of the refill table.) */
#define ASKS_AFTER 3u

static uint64_t asks_after(const struct hpu_icache_lines *l) {
    return l->timing->icache_miss < ASKS_AFTER ? l->timing->icache_miss : ASKS_AFTER;
}

static bool is_taken(struct hpu_cycles *of, uint64_t cycle) {
    uint64_t page = cycle / 64;
    if (page > of->page + 1) {
        of->taken[0] = page == of->page + 2 ? of->taken[1] : 0;
        of->taken[1] = 0;
        of->page = page - 1;
    }
    /* a core that is far behind meets nobody */
    return page >= of->page && of->taken[page - of->page] >> cycle % 64 & 1;
}

/* The first `n` cycles in a row from `cycle` on that nobody has. */
static uint64_t take(struct hpu_cycles *of, uint64_t cycle, uint32_t n) {
    for (uint32_t free = 0; free < n; cycle++)
        free = is_taken(of, cycle) ? 0 : free + 1;
    cycle -= n;
    for (uint64_t i = cycle; i < cycle + n; i++)
        if (i / 64 >= of->page)
            of->taken[i / 64 - of->page] |= 1ull << i % 64;
    return cycle;
}

/* The cycle in which the controller takes the request of a core that looks the line up now. */
static uint64_t ask(struct hpu_icache_lines *l, uint64_t now) {
    if (!l->timing->icache_miss)
        return now; /* a cache that costs nothing */
    return take(&l->asked, now + asks_after(l), 1);
}

/* When a line comes that was asked for then. All clusters read one program memory, through a port
 * of 64 bit. (RTL: prog_mem.) */
#define MEMORY_BYTES 8u

static uint64_t read_line(struct hpu_icache_lines *l, uint64_t asked) {
    uint32_t cycles = (l->timing->icache_line + MEMORY_BYTES - 1) / MEMORY_BYTES;
    if (!l->timing->icache_miss)
        return asked;
    cycles = cycles < 64 ? cycles : 64;
    return take(l->memory, asked, cycles) + l->timing->icache_miss - asks_after(l);
}

static uint64_t fetch_line(struct hpu_icache_lines *l, uint32_t line, uint64_t filled) {
    uint32_t set = line % l->sets, ways = l->timing->icache_ways;
    uint32_t way = set * ways + l->next[set];
    if (l->tag[way])
        l->generation++; /* an eviction: blocks seen before may have lost a line */
    l->tag[way] = line + 1;
    l->filled[way] = filled;
    if (l->latest < filled)
        l->latest = filled;
    l->next[set] = (uint8_t)((l->next[set] + 1) % ways);
    l->misses++;
    return filled;
}

/* Until when a core waits for a line. Requests for one on its way are served with it. One that
 * comes with it or in the cycle after is told to look again; one that comes later, from a core that
 * has not seen the line come, has it fetched again. (RTL: merge_refill_cam_128_16.) */
static uint64_t wait_for_line(struct hpu_icache_lines *l, uint32_t line, uint64_t now) {
    int way = way_of(l, line);
    if (way >= 0 && l->filled[way] <= now)
        return now;
    uint64_t asked = ask(l, now), soonest = asked + l->timing->icache_miss - asks_after(l);
    if (way < 0)
        return fetch_line(l, line, read_line(l, asked));
    if (l->filled[way] > soonest) /* of a core that is ahead in time */
        l->filled[way] = soonest;
    if (asked < l->filled[way])
        return l->filled[way];
    if (asked <= l->filled[way] + 1)
        return asked + 1;
    l->misses++;
    return read_line(l, asked);
}

/* The core's prefetch buffer is ahead of what it executes, and waits for that line too. */
#define FETCH_AHEAD 8u

uint32_t hpu_icache_fetch(struct hpu_icache *c, const struct hpu_code *code, uint32_t slot,
                          uint64_t now) {
    uint32_t first = code->base + c->place + 2 * code->halfword_of[slot];
    uint32_t last = first + code->insn[slot].length - 1 + FETCH_AHEAD;
    uint32_t line = c->lines->timing->icache_line;
    uint64_t at = now;
    for (uint32_t l = first / line; l <= last / line; l++)
        at = wait_for_line(c->lines, l, at);
    c->lines->waited += at - now;
    return (uint32_t)(at - now);
}

bool hpu_icache_holds(struct hpu_icache *c, const struct hpu_code *code, uint32_t slot,
                      uint64_t now) {
    const struct hpu_icache_lines *lines = c->lines;
    uint32_t at = 2 * code->halfword_of[slot], line = lines->timing->icache_line;
    uint32_t base = code->base + c->place, first = (base + at) / line;
    const struct hpu_insn *in;
    while (at < code->bytes) { /* by address, so that links between slots do not matter */
        in = &code->insn[code->slot_at[at / 2]];
        at += in->length;
        if (hpu_insn_ends_block(in))
            break;
    }
    for (uint32_t l = first; l * line < base + at + FETCH_AHEAD; l++) {
        int way = way_of(lines, l);
        if (way < 0 || lines->filled[way] > now)
            return false;
    }
    c->seen[slot] = lines->generation;
    return true;
}
