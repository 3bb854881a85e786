/* Packets of random words, one message or several; the clusters' vectors must add up to the sum of
 * the packets, and the host must have heard of every message. */
#include <string.h>

#include "reduce.h"
#include "workload.h"

enum { PACKETS, WORDS, MESSAGES, UNROLLED };
static const struct workload_parameter parameters[] = {
    {"packets", "of a message", 512, 1, 65536},
    {"words", "of a packet", 512, 1, 8000},
    {"messages", "one after the other", 1, 1, 1024},
    {"unrolled", "0: one word per iteration of the loop, as on the card's RTL", 1, 0, 1},
    {0}};

struct run {
    struct workload_run base;
    uint8_t *packet;
    uint32_t *sum;
};

static bool begin(struct workload_run *base) {
    struct run *r = (struct run *)base;
    uint32_t words = (uint32_t)base->value[WORDS];
    r->packet = workload_memory(base, WORKLOAD_HEADERS + 4 * words);
    r->sum = workload_memory(base, 4 * words);
    base->context.payload = base->value[UNROLLED] ? "reduce_ph" : "reduce_words_ph";
    base->context.completion = "reduce_th";
    base->context.handler_bytes = sizeof(reduce_state_t);
    base->context.scratchpad_bytes = 4 * words;
    base->context.host_bytes = 8 * (uint32_t)base->value[MESSAGES];
    return r->packet && r->sum;
}

static bool next(struct workload_run *base, struct workload_packet *p) {
    struct run *r = (struct run *)base;
    uint32_t words = (uint32_t)base->value[WORDS], packets = (uint32_t)base->value[PACKETS];
    uint32_t message = base->given / packets, i = base->given % packets;
    if (message == base->value[MESSAGES])
        return false;
    workload_headers(r->packet, WORKLOAD_HEADERS + 4 * words, i, rng_u32(&base->rng));
    for (uint32_t w = 0; w < words; w++) {
        uint32_t value = rng_u32(&base->rng);
        memcpy(r->packet + WORKLOAD_HEADERS + 4 * w, &value, 4);
        r->sum[w] += value;
    }
    *p = (struct workload_packet){.data = r->packet,
                                  .bytes = WORKLOAD_HEADERS + 4 * words,
                                  .message = message,
                                  .first = i == 0,
                                  .last = i + 1 == packets};
    return true;
}

static int check(struct workload_run *base, const struct workload_results *results,
                 struct spin_error *err) {
    struct run *r = (struct run *)base;
    for (uint32_t w = 0; w < base->value[WORDS]; w++) {
        uint32_t got = 0, part;
        for (int c = 0; c < WORKLOAD_CLUSTERS; c++) {
            memcpy(&part, results->scratchpad[c] + 4 * (size_t)w, 4);
            got += part;
        }
        if (got != r->sum[w])
            return workload_differs(base, err, "word", w, got, r->sum[w]);
    }
    for (uint32_t m = 0; m < base->value[MESSAGES]; m++) {
        uint64_t told;
        memcpy(&told, results->host_memory + 8 * (size_t)m, 8);
        if (told != m + 1)
            return workload_differs(base, err, "completion", m, told, m + 1);
    }
    return SPIN_OK;
}

const struct workload reduce_workload = {.name = "reduce",
                                         .about = "adds up the vectors that the packets carry",
                                         .parameters = parameters,
                                         .run_bytes = sizeof(struct run),
                                         .begin = begin,
                                         .next = next,
                                         .check = check};
