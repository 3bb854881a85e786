/* A message of blocks, scattered by the target's handler or by its CPU. */
#include "p4_strided/p4_strided.h"

#include <string.h>

#include "p4.h"

#define BLOCK 8192u /* as in the appendix */

/* What a core takes to copy: a load and a store of 8 bytes per cycle, and so many per block. */
enum { COPY_BYTES = 8, BLOCK_CYCLES = 10 };

struct shared {
    const struct p4_setup *setup;
    uint64_t start_ps, end_ps;
};

static uint8_t pattern(uint32_t i) {
    return (uint8_t)(i * 11 + i / 241 + 3);
}

static uint32_t block_of(const struct p4_setup *setup) {
    return setup->block ? setup->block : BLOCK;
}

static uint64_t spread(const struct p4_setup *setup) {
    uint32_t block = block_of(setup);
    return ((uint64_t)setup->bytes + block - 1) / block * (2ull * block);
}

static int initiator(struct p4_rank *r, struct shared *s) {
    for (uint32_t i = 0; i < s->setup->bytes; i++)
        r->buffer[i] = pattern(i);
    spin_barrier();
    s->start_ps = spin_now_ps();
    if (!p4_put(r, 0, s->setup->bytes, 1, 1))
        return 3;
    spin_barrier();
    return 0;
}

static void scatter(const struct p4_setup *setup, uint8_t *to, const uint8_t *from) {
    uint32_t bytes = setup->bytes, block = block_of(setup), blocks = 0;
    for (uint32_t at = 0; at < bytes; at += block, blocks++)
        memcpy(to + 2ull * at, from + at, bytes - at < block ? bytes - at : block);
    spin_work(bytes / COPY_BYTES + (uint64_t)blocks * BLOCK_CYCLES, 2ull * bytes);
}

static bool is_right(const struct p4_setup *setup, const uint8_t *got) {
    uint32_t block = block_of(setup);
    for (uint64_t i = 0; i < spread(setup); i++) {
        uint32_t in = (uint32_t)(i % (2ull * block)),
                 at = (uint32_t)(i / (2ull * block)) * block + in;
        if (got[i] != (in < block && at < setup->bytes ? pattern(at) : 0))
            return false;
    }
    return true;
}

static int target(struct p4_rank *r, struct shared *s) {
    uint32_t n = s->setup->bytes;
    bool on_cpu = s->setup->variant < P4_STORE;
    struct p4_strided state = {.block = block_of(s->setup), .gap = block_of(s->setup)};
    struct p4_entry entry = {
        .start = on_cpu ? spread(s->setup) : 0, .length = on_cpu ? n : spread(s->setup), .bits = 1};
    if (!on_cpu) {
        entry.payload = "ddtvec_payload_handler";
        entry.state = &state;
        entry.state_bytes = sizeof state;
    }
    if (!p4_append(r, &entry))
        return 2;
    spin_barrier();
    if (on_cpu ? !p4_receive(r) : !p4_wait(r, 1))
        return 3;
    if (on_cpu)
        scatter(s->setup, r->buffer, r->buffer + spread(s->setup));
    s->end_ps = spin_now_ps();
    spin_barrier();
    return is_right(s->setup, r->buffer) ? 0 : 5;
}

static int rank(void *argument) {
    struct shared *s = argument;
    struct p4_rank r;
    bool handlers = s->setup->variant >= P4_STORE && spin_rank() == 1;
    if (!p4_open(&r, s->setup, spread(s->setup) + s->setup->bytes, handlers ? "p4_strided" : NULL))
        return 1;
    int status = spin_rank() == 0 ? initiator(&r, s) : target(&r, s);
    p4_close(&r);
    return status;
}

int p4_strided(const struct p4_setup *setup, struct p4_outcome *outcome, struct spin_error *err) {
    static const char *const images[] = {"p4_strided", NULL};
    struct shared s = {.setup = setup};
    int code = p4_run(setup, 2, images, rank, &s, outcome, err);
    outcome->time_ps = s.end_ps - s.start_ps;
    return code;
}
