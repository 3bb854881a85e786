/* Messages of one packet of random values each; the host must get the counts of them all. */
#include "histogram.h"

#include <string.h>

#include "workload.h"

enum { MESSAGES, WORDS };
static const struct workload_parameter parameters[] = {
    {"messages", "of one packet each", 512, 1, 65536}, {"words", "of a packet", 512, 1, 8000}, {0}};

struct run {
    struct workload_run base;
    histogram_state_t state;
    uint8_t *packet;
    uint32_t count[HISTOGRAM_BINS];
};

static bool begin(struct workload_run *base) {
    struct run *r = (struct run *)base;
    r->packet = workload_memory(base, WORKLOAD_HEADERS + 4 * base->value[WORDS]);
    r->state.messages = (int32_t)base->value[MESSAGES];
    base->context.payload = "histogram_ph";
    base->context.completion = "histogram_th";
    base->context.handler_memory = &r->state;
    base->context.handler_bytes = sizeof r->state;
    base->context.scratchpad_bytes = sizeof(histogram_pad_t);
    base->context.host_bytes = 4 * HISTOGRAM_BINS;
    return r->packet != NULL;
}

static bool next(struct workload_run *base, struct workload_packet *p) {
    struct run *r = (struct run *)base;
    uint32_t words = (uint32_t)base->value[WORDS], bytes = WORKLOAD_HEADERS + 4 * words;
    if (base->given == base->value[MESSAGES])
        return false;
    workload_headers(r->packet, bytes, base->given, rng_u32(&base->rng));
    for (uint32_t w = 0; w < words; w++) {
        uint32_t value = rng_below(&base->rng, HISTOGRAM_BINS);
        memcpy(r->packet + WORKLOAD_HEADERS + 4 * w, &value, 4);
        r->count[value]++;
    }
    *p = (struct workload_packet){
        .data = r->packet, .bytes = bytes, .message = base->given, .first = true, .last = true};
    return true;
}

static int check(struct workload_run *base, const struct workload_results *results,
                 struct spin_error *err) {
    struct run *r = (struct run *)base;
    for (uint32_t bin = 0; bin < HISTOGRAM_BINS; bin++) {
        uint32_t got;
        memcpy(&got, results->host_memory + 4 * (size_t)bin, 4);
        if (got != r->count[bin])
            return workload_differs(base, err, "bin", bin, got, r->count[bin]);
    }
    return SPIN_OK;
}

const struct workload histogram_workload = {.name = "histogram",
                                            .about = "counts the values 0 to 1,024",
                                            .parameters = parameters,
                                            .run_bytes = sizeof(struct run),
                                            .begin = begin,
                                            .next = next,
                                            .check = check};
