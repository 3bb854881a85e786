/* A core alone: runs payload handlers on packets that are there already, started as every card
 * starts them (hpu_invoke.h), with nothing around it. Of the commands it knows DMA to host memory,
 * which is a memcpy. */
#ifndef BENCH_ALONE_CORE_H
#define BENCH_ALONE_CORE_H

#include "measure.h"

#include "hpu/code_store.h"
#include "hpu/hpu_invoke.h"

#define ALONE_PACKET (MAP_L1_BASE + MAP_L1_PACKETS + CALL_HEADROOM)
#define ALONE_STATE  (MAP_L1_BASE + MAP_L1_SCRATCH + HEAP_BYTES)
#define ALONE_BUDGET 100000000u

struct alone_core {
    struct hpu hpu; /* first: its port finds the rest through it */
    struct port port;
    struct invoke_context context;
    struct invoke_core core;
    struct spin_image *image;
    struct hpu_code *code;
    uint8_t *host;
    uint64_t host_bytes;
    uint8_t *heap;
    _Alignas(16) uint8_t stack[MAP_STACK_SIZE];
};

static inline struct port_host alone_host(struct port *p, uint32_t space) {
    const struct alone_core *c = (const struct alone_core *)p->hpu;
    (void)space;
    return (struct port_host){0, c->host_bytes, c->host};
}

static inline enum hpu_access alone_issue(struct port *p, const struct port_command *c) {
    if (c->effect != PORT_STORE)
        return port_refuse(p);
    memcpy(c->host, c->local, c->bytes);
    return HPU_ACCESS_OK;
}

static inline void alone_need(bool good, const char *what) {
    if (good)
        return;
    fprintf(stderr, "bench: %s\n", what);
    exit(1);
}

/* Its handlers have `state` bytes of state, of zeroes, and `host_bytes` of memory at `host`. */
static inline struct alone_core *alone_open(const char *path, uint32_t state, uint8_t *host,
                                            uint64_t host_bytes) {
    static const struct port_card card = {.host = alone_host, .issue = alone_issue};
    struct alone_core *c = aligned_alloc(_Alignof(struct alone_core), sizeof *c);
    struct spin_error err;
    memset(c, 0, sizeof *c);
    alone_need(!spin_image_load(&c->image, path, NULL, &err), err.text);
    const struct spin_image *im = c->image;
    struct hpu_code_key key = {.program = im->code.content,
                               .base = im->code.address,
                               .bytes = im->code.bytes,
                               .mode = HPU_FUNCTIONAL,
                               .timing = hpu_timing_find("ri5cy"),
                               .with_float = im->limits.with_float,
                               .jit = SPIN_JIT_FORCE,
                               .is_alone = true};
    if (hpu_code_share(&c->code, &key, &err)) { /* without LLVM all is interpreted */
        key.jit = SPIN_JIT_OFF;
        alone_need(!hpu_code_share(&c->code, &key, &err), err.text);
    }
    c->host = host;
    c->host_bytes = host_bytes;
    c->heap = calloc(1, HEAP_BYTES);
    c->context = (struct invoke_context){
        .image = im,
        .memory = {ALONE_STATE, state, calloc(1, state), NULL},
        .memory_region = HPU_REGION_L1,
    };
    c->core = (struct invoke_core){
        .stack = c->stack, .heap = {MAP_L1_BASE + MAP_L1_SCRATCH, HEAP_BYTES, c->heap, NULL}};
    hpu_init(&c->hpu, c->code, 0);
    port_open(&c->port, &c->hpu, &card, false);
    alone_need(hpu_invoke_open(&c->port, &c->context, &c->core), "memory is not aligned");
    c->hpu.direct[PORT_ENTRY] = (struct hpu_direct){host_bytes, host};
    return c;
}

static inline void alone_close(struct alone_core *c) {
    hpu_code_release(c->code);
    spin_image_free(c->image);
    free(c->context.memory.host);
    free(c->heap);
    free(c);
}

/* The entry of a handler of the image. */
static inline uint32_t alone_entry(const struct alone_core *c, const char *handler) {
    uint32_t address = 0, bytes;
    alone_need(image_symbol(c->image, handler, &address, &bytes), "the image has no such handler");
    return address;
}

/* The handler on a packet that has CALL_HEADROOM bytes before it. */
static inline void alone_run(struct alone_core *c, uint32_t entry, uint8_t *packet, uint32_t bytes,
                             uint32_t offset) {
    struct invoke_end end;
    if (c->hpu.entry == entry) {
        end = hpu_invoke_next(&c->hpu, packet, bytes, offset);
    } else {
        const struct invoke_call call = {.entry = entry,
                                         .kind = SPIN_PAYLOAD_HANDLER,
                                         .budget_cycles = ALONE_BUDGET,
                                         .packet = packet,
                                         .address = ALONE_PACKET,
                                         .headroom = CALL_HEADROOM,
                                         .bytes = bytes,
                                         .length = bytes,
                                         .memory_address = ALONE_STATE,
                                         .memory_bytes = c->context.memory.bytes,
                                         .offset = offset};
        c->hpu.cycles = c->hpu.instret = 0;
        hpu_invoke_begin(&c->port, &c->context, &c->core, &call);
        end.stop = hpu_run(&c->hpu, UINT64_MAX);
        end.code = c->hpu.x[10];
    }
    alone_need(end.stop == HPU_DONE && end.code == 0, "a handler failed");
}

#endif
