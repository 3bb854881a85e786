/* An array of complex numbers, multiplied into another rank's. */
#include "p4_accumulate/p4_accumulate.h"

#include <math.h>
#include <string.h>

#include "p4.h"

/* Cycles of a host's core for one product, which the RDMA variant computes there: what compilers
 * make of a plain loop for x86-64 by default, scalar SSE2, is about 15 instructions of which 4
 * load, 2 store and 6 compute. A Haswell core starts 4 instructions, 2 loads, 1 store and 2
 * floating-point operations per cycle, so 4 cycles. Vector code would be some times faster, and
 * then memory is the limit. The paper does not say. */
#define CYCLES_A_PRODUCT 4

static float factor(uint32_t i) {
    return (float)(i % 17) - 8;
}
static float initial(uint32_t i) {
    return (float)(i % 13) * 0.5f - 3;
}

void p4_multiply(float *into, const float *by, uint32_t floats) {
    for (uint32_t j = 0; j < floats; j += 2) {
        float re = by[j] * into[j] - by[j + 1] * into[j + 1];
        float im = by[j] * into[j + 1] + by[j + 1] * into[j];
        into[j] = re;
        into[j + 1] = im;
    }
}

static bool is_right(const float *got, uint32_t floats) {
    for (uint32_t j = 0; j < floats; j += 2) {
        double a = factor(j), b = factor(j + 1), c = initial(j), d = initial(j + 1);
        if (fabs(got[j] - (a * c - b * d)) > 1e-4 || fabs(got[j + 1] - (a * d + b * c)) > 1e-4)
            return false;
    }
    return true;
}

static int initiator(struct p4_rank *r, struct p4_shared *s) {
    float *data = (float *)(void *)r->buffer;
    for (uint32_t i = 0; i < s->setup->bytes / 4; i++)
        data[i] = factor(i);
    do {
        spin_barrier();
        p4_settle();
        s->start_ps = spin_now_ps();
        if (!p4_put(r, 0, s->setup->bytes, p4_partner(), 1))
            return 3;
    } while (p4_again(s));
    return 0;
}

static int target(struct p4_rank *r, struct p4_shared *s) {
    uint32_t n = s->setup->bytes;
    bool on_cpu = s->setup->variant < P4_STORE;
    float *array = (float *)(void *)r->buffer, *arrived = array + n / 4;
    struct p4_accumulate state = {0};
    /* The CPU needs a place for what arrives; handlers multiply on the way. */
    struct p4_entry entry = {.start = on_cpu ? n : 0, .length = n, .bits = 1};
    if (!on_cpu) {
        entry.header = "accumulate_header_handler";
        entry.payload = "accumulate_payload_handler";
        entry.state = &state;
        entry.state_bytes = sizeof state;
    }
    if (!p4_append(r, &entry))
        return 2;
    uint64_t messages = 0;
    bool right = true, again;
    do {
        for (uint32_t i = 0; i < n / 4; i++)
            array[i] = initial(i);
        spin_barrier();
        if (on_cpu) {
            if (!p4_receive(r))
                return 3;
            p4_multiply(array, arrived, n / 4);
            p4_work((uint64_t)n / 8 * CYCLES_A_PRODUCT, 3ull * n); /* two read, one written */
        } else if (!p4_wait(r, ++messages)) {
            return 4;
        }
        p4_ended(s);
        again = p4_again(s);
        right &= is_right(array, n / 4);
    } while (again);
    return right ? 0 : 5;
}

static int rank(void *argument) {
    struct p4_shared *s = argument;
    struct p4_rank r;
    bool handlers = s->setup->variant >= P4_STORE && !p4_is_first();
    if (!p4_open(&r, s->setup, 2ull * s->setup->bytes, handlers ? "p4_accumulate" : NULL))
        return 1;
    int status = p4_is_first() ? initiator(&r, s) : target(&r, s);
    p4_close(&r);
    return status;
}

int p4_accumulate(const struct p4_setup *setup, struct p4_outcome *outcome,
                  struct spin_error *err) {
    static const char *const images[] = {"p4_accumulate", NULL};
    struct p4_shared s = {.setup = setup};
    int code = p4_run(setup, p4_ranks(setup), images, rank, &s, outcome, err);
    outcome->time_ps = s.end_ps - s.start_ps;
    return code;
}
