/* Execution contexts: an image's program and data, memory, and what the host gave. Images are all
 * linked at the same addresses; each context has its own copy of constants and data, and the card
 * accounts for their sum. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "hpu/code_store.h"
#include "sim/card_private.h"

#define DEFAULT_WATCHDOG 1000000u
#define RUNTIME_BYTES    526u /* the RTL's, by gcc 12 */

static uint32_t round64(uint32_t n) {
    return (n + 63) & ~63u;
}

static int find_program(struct card *c, const struct spin_image *image, uint32_t *number,
                        struct spin_error *err) {
    for (uint32_t i = 0; i < c->programs; i++)
        if (c->program[i].image == image) {
            *number = i;
            return SPIN_OK;
        }
    uint32_t bytes = image->code.bytes;
    if (bytes > c->config.program_bytes - c->program_used)
        return spin_fail(err, SPIN_ELIMIT,
                         "%s: %u bytes of code, the card has %llu of %llu bytes of program memory "
                         "left",
                         image->path, bytes,
                         (unsigned long long)(c->config.program_bytes - c->program_used),
                         (unsigned long long)c->config.program_bytes);
    struct card_program *p = &c->program[c->programs];
    *p = (struct card_program){.image = image, .icache = calloc(c->clusters, sizeof *p->icache)};
    if (!p->icache)
        return spin_fail(err, SPIN_ENOMEM, "out of memory");
    int code =
        hpu_code_share(&p->code,
                       &(struct hpu_code_key){.program = image->code.content,
                                              .base = image->code.address,
                                              .bytes = bytes,
                                              .mode = HPU_TIMED,
                                              .timing = &c->timing,
                                              .with_float = image->limits.with_float,
                                              .jit = c->config.check ? SPIN_JIT_OFF : c->config.jit,
                                              .is_alone = true},
                       err);
    /* All programs share a cluster's cache, each at its place in program memory: the runtime first,
     * whose end need not be that of a line. */
    uint32_t line = c->timing.icache_line;
    for (uint32_t i = 0; i < c->clusters && !code; i++) {
        p->icache[i] = hpu_icache_new(p->code, c->programs ? c->program[0].icache[i] : NULL,
                                      (c->program_used + line - 1) / line * line + RUNTIME_BYTES);
        if (!p->icache[i])
            code = spin_fail(err, SPIN_ENOMEM, "out of memory");
        else if (!c->programs)
            hpu_icache_share_memory(p->icache[i], p->icache[0]);
    }
    if (code) {
        for (uint32_t i = 0; i < c->clusters; i++)
            hpu_icache_free(p->icache[i]);
        free(p->icache);
        hpu_code_release(p->code);
        return code;
    }
    c->program_used += bytes;
    *number = c->programs++;
    return SPIN_OK;
}

static int check(const struct card *c, const struct card_context *set, struct spin_error *err) {
    const struct spin_image *im = set->image;
    if (c->contexts == c->config.contexts)
        return spin_fail(err, SPIN_ELIMIT, "the card has room for %u contexts", c->contexts);
    if (!im)
        return spin_fail(err, SPIN_EARG, "an execution context needs an image");
    if (im->info.hpus && c->hpus > im->info.hpus)
        return spin_fail(err, SPIN_ELIMIT, "%s: made for up to %u HPUs, the card has %u", im->path,
                         im->info.hpus, c->hpus);
    if (im->info.is_pspin != (set->abi == CARD_PSPIN))
        return spin_fail(err, SPIN_EARG, "%s: %s handlers in a context of the other interface",
                         im->path, im->info.is_pspin ? "PsPIN" : "P4sPIN");
    for (int i = 0; i < 3; i++)
        if (set->entry[i] && (set->entry[i] < im->code.address ||
                              set->entry[i] - im->code.address >= im->code.bytes))
            return spin_fail(err, SPIN_EARG, "%s: no code at 0x%x", im->path, set->entry[i]);
    if (set->host && set->host_address + set->host_bytes < set->host_address)
        return spin_fail(err, SPIN_EARG, "%s: the host memory wraps around", im->path);
    return SPIN_OK;
}

static uint32_t image_bytes(const struct spin_image *im) {
    return round64(im->constants.bytes) + round64(im->data.bytes) + round64(im->handler_data.bytes);
}

/* From the top of L2 handler memory down; images' data stand at the bottom. */
static int place_memory(const struct card *c, struct card_execution *x, struct spin_error *err) {
    const struct spin_image *im = x->set.image;
    uint32_t left = c->handler_high - c->handler_low, bytes = round64(x->set.memory_bytes);
    x->memory_address = x->set.memory_address;
    if (x->set.as_rtl)
        return SPIN_OK;
    if (image_bytes(im) > left || bytes < x->set.memory_bytes || bytes > left - image_bytes(im))
        return spin_fail(err, SPIN_ELIMIT,
                         "%s: %u bytes of constants and data and %u bytes of handler memory, the "
                         "card has %u bytes of L2 handler memory left",
                         im->path, image_bytes(im), x->set.memory_bytes, left);
    x->memory_address = MAP_L2_HANDLER + c->handler_high - bytes;
    const struct image_segment *data = &im->handler_data;
    if (data->bytes && x->memory_address < data->address + data->bytes &&
        x->memory_address + x->set.memory_bytes > data->address)
        return spin_fail(err, SPIN_ELIMIT,
                         "%s: %u bytes of handler memory at 0x%x reach into its .l2_handler_data "
                         "at 0x%x",
                         im->path, x->set.memory_bytes, x->memory_address, data->address);
    return SPIN_OK;
}

/* Heaps of P4sPIN handlers stand at the end of each L1. */
static uint32_t heaps_with(const struct card *c, const struct card_execution *x) {
    uint32_t heaps = x->set.abi == CARD_P4SPIN ? (uint32_t)c->config.cluster_hpus * HEAP_BYTES : 0;
    return heaps > c->heap_bytes ? heaps : c->heap_bytes;
}

static uint32_t scratch_start(const struct card *c) {
    return MAP_L1_PACKETS + (uint32_t)c->config.l1_packet_bytes;
}

static int place_scratch(const struct card *c, struct card_execution *x, struct spin_error *err) {
    uint32_t start = scratch_start(c), taken = start + heaps_with(c, x);
    uint32_t room = taken < MAP_L1_SIZE ? MAP_L1_SIZE - taken : 0;
    uint32_t bytes = round64(x->set.scratch_bytes);
    uint32_t used = c->cluster[0].scratch_used, left = used < room ? room - used : 0;
    if (used > room || bytes > left || bytes < x->set.scratch_bytes)
        return spin_fail(err, SPIN_ELIMIT,
                         "%s: scratchpad of %u bytes, each L1 has %u of %u bytes left",
                         x->set.image->path, x->set.scratch_bytes, left, room);
    x->scratch_offset = start + used;
    return SPIN_OK;
}

/* Nothing can fail any more: the card has that much less from now on. */
static void take_room(struct card *c, const struct card_execution *x) {
    if (x->set.as_rtl)
        return;
    c->handler_high -= round64(x->set.memory_bytes);
    c->handler_low += image_bytes(x->set.image);
    c->heap_bytes = heaps_with(c, x);
    for (uint32_t i = 0; i < c->clusters; i++)
        c->cluster[i].scratch_used += round64(x->set.scratch_bytes);
}

/* A copy whose place in a page is the handler's: atomics and views need it. */
static uint8_t *copy_segment(const struct image_segment *s) {
    uint32_t skew = s->address % GUARD_PAGE;
    uint8_t *block = guard_memory_new(skew + s->bytes);
    if (!block)
        return NULL;
    if (s->filled)
        memcpy(block + skew, s->content, s->filled);
    return block + skew;
}

static void free_segment(uint8_t *copy, const struct image_segment *s) {
    if (copy)
        guard_memory_free(copy - s->address % GUARD_PAGE, s->address % GUARD_PAGE + s->bytes);
}

static struct invoke_memory given(uint32_t address, uint32_t bytes, uint8_t *host) {
    return (struct invoke_memory){address, bytes, host, NULL};
}

static struct invoke_memory given_segment(const struct image_segment *s, uint8_t *copy) {
    return given(s->address, copy ? s->bytes : 0, copy);
}

static void describe(struct card *c, struct card_execution *x) {
    const struct spin_image *im = x->set.image;
    uint32_t bytes, memory = card_handler_memory(c, x, &bytes);
    x->given = (struct invoke_context){
        .image = im,
        .constants = given_segment(&im->constants, x->constants),
        .data = given_segment(&im->data, x->data),
        .handler_data = given_segment(&im->handler_data, x->handler_data),
        .memory = given(memory, bytes, c->l2_handler + (memory - MAP_L2_HANDLER)),
        .memory_region = HPU_REGION_L2_HANDLER,
        .host_address = x->set.host_address,
        .host_bytes = x->set.host_bytes};
    for (uint32_t i = 0; i < c->clusters && i < SCRATCHPADS; i++) {
        uint32_t at = card_scratch_offset(c, x, i);
        x->given.scratchpad[i] =
            given(card_l1_address(c, i) + at, card_scratch_bytes(c, x, i), c->cluster[i].l1 + at);
    }
}

/* What does not become a view is checked: no error. */
static void make_views(const struct card *c, struct card_execution *x) {
    struct invoke_context *g = &x->given;
    struct invoke_memory *m[] = {&g->constants, &g->data, &g->memory};
    if (!c->program[x->program].code->jit)
        return;
    for (size_t i = 0; i < sizeof m / sizeof m[0]; i++)
        m[i]->view = guard_view_new(m[i]->host, m[i]->address, m[i]->bytes, i > 0);
    for (uint32_t i = 0; i < MAP_CLUSTERS; i++)
        g->scratchpad[i].view = guard_view_new(g->scratchpad[i].host, g->scratchpad[i].address,
                                               g->scratchpad[i].bytes, true);
}

static void free_views(struct card_execution *x) {
    guard_view_free(x->given.constants.view);
    guard_view_free(x->given.data.view);
    guard_view_free(x->given.memory.view);
    for (uint32_t i = 0; i < MAP_CLUSTERS; i++)
        guard_view_free(x->given.scratchpad[i].view);
}

static int load_program(struct card *c, const struct spin_image *im, uint32_t *number,
                        struct spin_error *err) {
    const struct image_segment *data = &im->handler_data;
    int code = find_program(c, im, number, err);
    struct card_program *p = &c->program[code ? 0 : *number];
    if (code || p->data)
        return code;
    p->constants = copy_segment(&im->constants);
    p->data = p->constants ? copy_segment(&im->data) : NULL;
    if (!p->data) {
        free_segment(p->constants, &im->constants);
        p->constants = NULL;
        return spin_fail(err, SPIN_ENOMEM, "out of memory");
    }
    if (data->filled)
        memcpy(c->l2_handler + (data->address - MAP_L2_HANDLER), data->content, data->filled);
    return SPIN_OK;
}

int card_load(struct card *c, const struct spin_image *im, struct spin_error *err) {
    uint32_t number;
    return load_program(c, im, &number, err);
}

/* The image's constants and data: copies, or with `as_rtl` the program's. */
static bool give_segments(struct card *c, struct card_execution *x) {
    const struct spin_image *im = x->set.image;
    if (x->set.as_rtl) {
        x->constants = c->program[x->program].constants;
        x->data = c->program[x->program].data;
        return true;
    }
    x->constants = copy_segment(&im->constants);
    x->data = copy_segment(&im->data);
    x->handler_data = im->handler_data.bytes ? copy_segment(&im->handler_data) : NULL;
    return x->constants && x->data && (x->handler_data || !im->handler_data.bytes);
}

static void free_segments(const struct card_execution *x) {
    if (x->set.as_rtl || !x->set.image) /* of a card that serves, context 0 has none */
        return;
    free_segment(x->constants, &x->set.image->constants);
    free_segment(x->data, &x->set.image->data);
    free_segment(x->handler_data, &x->set.image->handler_data);
}

int card_add_context(struct card *c, const struct card_context *set, uint32_t *number,
                     struct spin_error *err) {
    int code = check(c, set, err);
    struct card_execution *x = &c->context[c->contexts];
    if (code)
        return code;
    *x = (struct card_execution){.set = *set};
    if (!x->set.watchdog_cycles)
        x->set.watchdog_cycles = DEFAULT_WATCHDOG;
    if (!x->set.name)
        x->set.name = set->image->path;
    if ((code = place_memory(c, x, err)) || (code = place_scratch(c, x, err)))
        return code;
    if (set->as_rtl && (code = load_program(c, set->image, &x->program, err)))
        return code;
    code = give_segments(c, x) ? find_program(c, set->image, &x->program, err)
                               : spin_fail(err, SPIN_ENOMEM, "out of memory");
    if (code) {
        free_segments(x);
        return code;
    }
    describe(c, x);
    if (!hpu_invoke_fits(&x->given)) {
        free_segments(x);
        return spin_fail(err, SPIN_EARG, INVOKE_UNALIGNED, set->image->path);
    }
    take_room(c, x);
    make_views(c, x);
    *number = c->contexts++;
    return SPIN_OK;
}

void card_contexts_free(struct card *c) {
    for (uint32_t i = 0; i < c->contexts; i++) {
        free_views(&c->context[i]);
        card_stats_free(&c->context[i]);
        free_segments(&c->context[i]);
    }
    for (uint32_t i = c->programs; i-- > 0;) { /* the first has the caches' lines */
        for (uint32_t k = 0; k < c->clusters; k++)
            hpu_icache_free(c->program[i].icache[k]);
        free(c->program[i].icache);
        hpu_code_release(c->program[i].code);
        free_segment(c->program[i].constants, &c->program[i].image->constants);
        free_segment(c->program[i].data, &c->program[i].image->data);
    }
}

uint32_t card_scratch_offset(const struct card *c, const struct card_execution *x,
                             uint32_t cluster) {
    return x->set.as_rtl ? scratch_start(c) + x->set.pad_offset[cluster % SCRATCHPADS]
                         : x->scratch_offset;
}

uint32_t card_scratch_bytes(const struct card *c, const struct card_execution *x,
                            uint32_t cluster) {
    if (!x->set.as_rtl)
        return x->set.scratch_bytes;
    uint32_t area = MAP_L1_SIZE - scratch_start(c), from = x->set.pad_offset[cluster % SCRATCHPADS];
    uint32_t bytes = cluster < SCRATCHPADS ? x->set.pad_bytes[cluster] : 0;
    return from > area ? 0 : bytes > area - from ? area - from : bytes;
}

uint32_t card_scratch_address(const struct card *c, uint32_t context, uint32_t cluster) {
    return card_l1_address(c, cluster) + card_scratch_offset(c, &c->context[context], cluster);
}

uint32_t card_handler_memory(const struct card *c, const struct card_execution *x,
                             uint32_t *bytes) {
    uint32_t from = x->memory_address, end = MAP_L2_HANDLER + (uint32_t)c->config.handler_bytes;
    *bytes = x->set.memory_bytes;
    if (!x->set.as_rtl)
        return from;
    /* The image's own stay what they are. */
    const struct image_segment *s[] = {&x->set.image->constants, &x->set.image->data};
    for (int i = 0; i < 2; i++)
        if (s[i]->bytes && from < s[i]->address + s[i]->bytes)
            from = s[i]->address + s[i]->bytes;
    if (x->set.image->handler_data.bytes && from > x->set.image->handler_data.address)
        from = x->set.image->handler_data.address;
    if (x->memory_address < MAP_L2_HANDLER || x->memory_address >= end)
        from = end; /* none: who uses it faults */
    *bytes = end - from;
    return from;
}

uint32_t card_address(const struct card *c, uint32_t context, uint32_t cluster, uint32_t *bytes) {
    const struct card_execution *x = &c->context[context];
    if (cluster == UINT32_MAX) {
        *bytes = x->set.memory_bytes;
        return x->memory_address;
    }
    *bytes = cluster < c->clusters ? card_scratch_bytes(c, x, cluster) : 0;
    return card_scratch_address(c, context, cluster);
}

static bool within(uint32_t base, uint32_t size, uint32_t address, uint32_t bytes) {
    return address - base <= size && bytes <= size - (address - base);
}

uint8_t *card_reach(struct card *c, uint32_t context, uint32_t address, uint32_t bytes) {
    if (context >= c->contexts)
        return NULL;
    const struct card_execution *x = &c->context[context];
    const struct image_segment *data = &x->set.image->data;
    if (within(data->address, data->bytes, address, bytes))
        return x->data + (address - data->address);
    uint32_t room, memory = card_handler_memory(c, x, &room);
    if (within(memory, room, address, bytes))
        return c->l2_handler + (address - MAP_L2_HANDLER);
    for (uint32_t i = 0; i < c->clusters; i++) {
        uint32_t base = card_scratch_address(c, context, i);
        if (within(base, card_scratch_bytes(c, x, i), address, bytes))
            return c->cluster[i].l1 + (address - card_l1_address(c, i));
    }
    return NULL;
}

uint8_t *card_memory(struct card *c, uint32_t address, uint32_t bytes) {
    for (uint32_t i = c->programs; i-- > 0;) { /* they are at the same addresses: the latest */
        const struct card_program *p = &c->program[i];
        const struct image_segment *data = &p->image->data;
        if (p->data && within(data->address, data->bytes, address, bytes))
            return p->data + (address - data->address);
    }
    if (within(MAP_L2_HANDLER, (uint32_t)c->config.handler_bytes, address, bytes))
        return c->l2_handler + (address - MAP_L2_HANDLER);
    for (uint32_t i = 0; i < c->clusters; i++)
        if (within(card_l1_address(c, i), MAP_L1_SIZE, address, bytes))
            return c->cluster[i].l1 + (address - card_l1_address(c, i));
    if (within(MAP_L2_PACKETS, (uint32_t)c->config.l2_packet_bytes, address, bytes))
        return c->l2_packets + (address - MAP_L2_PACKETS);
    return NULL;
}

const struct spin_image *card_context_image(const struct card *c, uint32_t context) {
    return c->context[context].set.image;
}
