/* Messages of random values, in one packet each or several; the host must get the counts of them
 * all.
 */
#include "histogram.h"

#include <string.h>

#include "workload.h"

enum { MESSAGES, WORDS, PACKET_WORDS, TRUSTING };
static const struct workload_parameter parameters[] = {
    {"messages", "one after the other", 512, 1, 65536},
    {"words", "of a message", 512, 1, 65536},
    {"packet_words", "of a packet at most", 512, 1, 8000},
    {"trusting", "1: without the check that a value has a bin", 0, 0, 1},
    {0}};

struct run {
    struct workload_run base;
    histogram_state_t state;
    uint8_t *packet;
    uint32_t message, taken; /* messages begun before this one; its words that are in packets */
    uint32_t count[HISTOGRAM_BINS];
};

static bool begin(struct workload_run *base) {
    struct run *r = (struct run *)base;
    r->packet = workload_memory(base, WORKLOAD_HEADERS + 4 * base->value[PACKET_WORDS]);
    r->state.messages = (int32_t)base->value[MESSAGES];
    base->context.payload = base->value[TRUSTING] ? "histogram_trusting_ph" : "histogram_ph";
    base->context.completion = "histogram_th";
    base->context.handler_memory = &r->state;
    base->context.handler_bytes = sizeof r->state;
    base->context.scratchpad_bytes = sizeof(histogram_pad_t);
    base->context.host_bytes = 4 * HISTOGRAM_BINS;
    return r->packet != NULL;
}

static bool next(struct workload_run *base, struct workload_packet *p) {
    struct run *r = (struct run *)base;
    uint32_t left = (uint32_t)base->value[WORDS] - r->taken;
    uint32_t words = left < base->value[PACKET_WORDS] ? left : (uint32_t)base->value[PACKET_WORDS];
    if (r->message == base->value[MESSAGES])
        return false;
    *p = (struct workload_packet){.data = r->packet,
                                  .bytes = WORKLOAD_HEADERS + 4 * words,
                                  .message = r->message,
                                  .first = r->taken == 0,
                                  .last = words == left};
    workload_headers(r->packet, p->bytes, base->given & 0xffff, rng_u32(&base->rng));
    for (uint32_t w = 0; w < words; w++) {
        uint32_t value = rng_below(&base->rng, HISTOGRAM_BINS);
        memcpy(r->packet + WORKLOAD_HEADERS + 4 * w, &value, 4);
        r->count[value]++;
    }
    r->taken = p->last ? 0 : r->taken + words;
    r->message += p->last;
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
