/* Reads and writes of keys by Zipf's law, as YCSB makes them, and a store in host memory.
 *
 * In order, every reply, the store and the counts of the cache must be those of the same cache
 * written in plain C. In another order: a read answers with the first value of its key or with one
 * that was written to it, every read is answered once, the store ends with such a value too, and
 * what the cache holds is what the store holds. */
#include "kvstore.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "spin/pspin/packets.h"
#include "workload.h"

enum { REQUESTS, KEYS, THETA, WRITES };
static const struct workload_parameter parameters[] = {
    {"requests", "of one packet and message each", 1000, 1, 65536},
    {"keys", "of the store", 1000, 1, 65536},
    {"theta", "of Zipf's law, in hundredths", 110, 0, 300},
    {"writes", "percent of the requests", 50, 0, 100},
    {0}};

#define BYTES (WORKLOAD_HEADERS + (uint32_t)sizeof(kvstore_request_t))

struct run {
    struct workload_run base;
    uint8_t packet[BYTES];
    double *share;              /* of keys 0 to i */
    uint64_t *store;            /* host memory at first */
    kvstore_request_t *request; /* all of them */
    uint8_t *answered;
    uint32_t *reply, *model_reply;
    uint64_t strange;
    kvstore_state_t state; /* of the cache, at first */
    struct {
        struct {
            uint32_t key, value; /* key + 1; 0: empty */
        } way[KVSTORE_WAYS];     /* the latest use first */
    } model[KVSTORE_SETS];
    uint32_t model_hits;
    uint64_t *model_store;
};

/* x to the power of -y without a C library's last bit, which differs between machines: the binary
 * logarithm and its inverse by squarings and square roots, which IEEE 754 rounds exactly. */
static double inverse_power(double x, double y) {
    double log = 0, bit = 0.5, root = 2, result = 1;
    for (; x >= 2; x /= 2)
        log++;
    for (int i = 0; i < 40; i++, bit /= 2) {
        x *= x;
        if (x >= 2) {
            x /= 2;
            log += bit;
        }
    }
    log *= y;
    for (; log >= 1; log--)
        result *= 2;
    for (int i = 0; i < 40; i++) {
        root = sqrt(root);
        log *= 2;
        if (log >= 1) {
            log--;
            result *= root;
        }
    }
    return 1 / result;
}

/* The key whose share holds a random point: by halving. Popular keys are spread over the sets by a
 * step that has no divisor in common with the number of keys. */
static uint32_t draw_key(struct run *r) {
    uint32_t keys = (uint32_t)r->base.value[KEYS], low = 0, high = keys - 1;
    double point = (double)rng_u32(&r->base.rng) / 4294967296.0 * r->share[high];
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (r->share[middle] <= point)
            low = middle + 1;
        else
            high = middle;
    }
    return (uint32_t)((uint64_t)low * 65537 % keys); /* a prime above every number of keys */
}

static void draw_requests(struct run *r) {
    struct rng *rng = &r->base.rng;
    uint32_t keys = (uint32_t)r->base.value[KEYS];
    double sum = 0, theta = (double)r->base.value[THETA] / 100;
    for (uint32_t k = 0; k < keys; k++) {
        r->share[k] = sum += inverse_power(k + 1, theta);
        r->model_store[k] = r->store[k] = rng_u32(rng);
    }
    for (uint32_t i = 0; i < r->base.value[REQUESTS]; i++)
        r->request[i] =
            (kvstore_request_t){.operation = rng_below(rng, 100) < r->base.value[WRITES],
                                .key = draw_key(r),
                                .value = rng_u32(rng),
                                .number = i};
}

static bool begin(struct workload_run *base) {
    struct run *r = (struct run *)base;
    size_t keys = base->value[KEYS], requests = base->value[REQUESTS];
    r->share = workload_memory(base, keys * sizeof *r->share);
    r->store = workload_memory(base, keys * 8);
    r->model_store = workload_memory(base, keys * 8);
    r->request = workload_memory(base, requests * sizeof *r->request);
    r->answered = workload_memory(base, requests);
    r->reply = workload_memory(base, requests * 4);
    r->model_reply = workload_memory(base, requests * 4);
    if (!r->share || !r->store || !r->model_store || !r->request || !r->answered || !r->reply ||
        !r->model_reply)
        return false;
    draw_requests(r);
    base->context.payload = "kvstore_ph";
    for (uint32_t i = 0; i < KVSTORE_SETS; i++)
        r->state.set[i].order = KVSTORE_ORDER;
    base->context.handler_bytes = sizeof r->state;
    base->context.handler_memory = &r->state;
    base->context.scratchpad_bytes = sizeof(kvstore_pad_t);
    base->context.host_memory = r->store;
    base->context.host_bytes = (uint32_t)keys * 8;
    return true;
}

/* The cache in plain C: a list of what is in the set, the latest use first. */
static void model(struct run *r, const kvstore_request_t *q) {
    typeof(r->model[0]) *set = &r->model[q->key % KVSTORE_SETS];
    uint32_t at = 0;
    while (at < KVSTORE_WAYS - 1 && set->way[at].key != q->key + 1)
        at++;
    bool hit = set->way[at].key == q->key + 1;
    uint32_t value = hit ? set->way[at].value : (uint32_t)r->model_store[q->key];
    if (q->operation == KVSTORE_WRITE)
        r->model_store[q->key] = value = q->value;
    else
        r->model_reply[q->number] = value;
    memmove(&set->way[1], &set->way[0], at * sizeof set->way[0]);
    set->way[0].key = q->key + 1;
    set->way[0].value = value;
    r->model_hits += hit;
}

static bool next(struct workload_run *base, struct workload_packet *p) {
    struct run *r = (struct run *)base;
    uint32_t i = base->given;
    if (i == base->value[REQUESTS])
        return false;
    workload_headers(r->packet, BYTES, i, rng_u32(&base->rng));
    memcpy(r->packet + WORKLOAD_HEADERS, &r->request[i], sizeof r->request[i]);
    model(r, &r->request[i]);
    *p = (struct workload_packet){
        .data = r->packet, .bytes = BYTES, .message = i, .first = true, .last = true};
    return true;
}

static void sent(struct workload_run *base, uint32_t dest, const uint8_t *data, uint32_t bytes) {
    struct run *r = (struct run *)base;
    kvstore_request_t got;
    if (dest || bytes != BYTES) {
        r->strange++;
        return;
    }
    memcpy(&got, data + WORKLOAD_HEADERS, sizeof got);
    if (got.number >= base->given || got.operation != KVSTORE_READ ||
        r->request[got.number].operation != KVSTORE_READ || r->request[got.number].key != got.key ||
        r->answered[got.number]) {
        r->strange++;
        return;
    }
    r->answered[got.number] = 1;
    r->reply[got.number] = got.value;
}

/* Is it the first value of the key, or was it written to it? */
static bool possible(const struct run *r, uint32_t key, uint32_t value) {
    bool found = (uint32_t)r->store[key] == value;
    for (uint32_t i = 0; i < r->base.given && !found; i++)
        found = r->request[i].operation == KVSTORE_WRITE && r->request[i].key == key &&
                r->request[i].value == value;
    return found;
}

static int check_replies(struct run *r, const struct workload_results *results,
                         struct spin_error *err) {
    if (r->strange)
        return workload_differs(&r->base, err, "number of replies without a request", 0, r->strange,
                                0);
    for (uint32_t i = 0; i < r->base.given; i++) {
        if (r->request[i].operation != KVSTORE_READ)
            continue;
        if (!r->answered[i])
            return workload_differs(&r->base, err, "number of replies to request", i, 0, 1);
        if (results->in_order ? r->reply[i] != r->model_reply[i]
                              : !possible(r, r->request[i].key, r->reply[i]))
            return workload_differs(&r->base, err, "reply", i, r->reply[i], r->model_reply[i]);
    }
    return SPIN_OK;
}

static int check_counts(struct run *r, const struct workload_results *results,
                        struct spin_error *err) {
    uint32_t hits = 0, misses = 0;
    for (int i = 0; i < WORKLOAD_CLUSTERS; i++) {
        kvstore_pad_t pad;
        memcpy(&pad, results->scratchpad[i], sizeof pad);
        hits += (uint32_t)pad.hits;
        misses += (uint32_t)pad.misses;
    }
    if (hits + misses != r->base.given)
        return workload_differs(&r->base, err, "hits and misses of requests", r->base.given,
                                hits + misses, r->base.given);
    if (results->in_order && hits != r->model_hits)
        return workload_differs(&r->base, err, "hits of requests", r->base.given, hits,
                                r->model_hits);
    return SPIN_OK;
}

/* Every way once, whatever the order. */
static bool is_order(uint32_t order) {
    uint32_t seen = 0;
    for (uint32_t i = 0; i < KVSTORE_WAYS; i++, order >>= 8)
        seen |= 1u << (order & 31);
    return seen == (1u << KVSTORE_WAYS) - 1;
}

static int check_cache(struct run *r, const struct workload_results *results,
                       struct spin_error *err) {
    kvstore_state_t state;
    memcpy(&state, results->handler_memory, sizeof state);
    for (uint32_t s = 0; s < KVSTORE_SETS; s++) {
        if (state.set[s].lock)
            return workload_differs(&r->base, err, "lock of set", s, state.set[s].lock, 0);
        if (!is_order(state.set[s].order))
            return workload_differs(&r->base, err, "order of set", s, state.set[s].order,
                                    KVSTORE_ORDER);
        for (uint32_t w = 0; w < KVSTORE_WAYS; w++) {
            uint32_t key = state.set[s].way[w].tag & KVSTORE_KEY, stored;
            if (!key)
                continue;
            if (key > r->base.value[KEYS] || (key - 1) % KVSTORE_SETS != s)
                return workload_differs(&r->base, err, "key in set", s, key - 1, s);
            memcpy(&stored, results->host_memory + 8 * (size_t)(key - 1), 4);
            if (state.set[s].way[w].value != stored)
                return workload_differs(&r->base, err, "cached value of key", key - 1,
                                        state.set[s].way[w].value, stored);
        }
    }
    return check_counts(r, results, err);
}

static int check(struct workload_run *base, const struct workload_results *results,
                 struct spin_error *err) {
    struct run *r = (struct run *)base;
    int code = check_replies(r, results, err);
    for (uint32_t k = 0; k < base->value[KEYS] && !code; k++) {
        uint64_t got;
        memcpy(&got, results->host_memory + 8 * (size_t)k, 8);
        if (results->in_order ? got != r->model_store[k]
                              : got >> 32 || !possible(r, k, (uint32_t)got))
            code = workload_differs(base, err, "stored value of key", k, got, r->model_store[k]);
    }
    return code ? code : check_cache(r, results, err);
}

const struct workload kvstore_workload = {.name = "kvstore",
                                          .about = "a 4-way cache of 500 keys on the card",
                                          .parameters = parameters,
                                          .run_bytes = sizeof(struct run),
                                          .begin = begin,
                                          .next = next,
                                          .sent = sent,
                                          .check = check};
