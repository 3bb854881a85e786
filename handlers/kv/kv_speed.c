/* Speed of the key-value store: one server, clients that insert and get in turn. */
#include <stdlib.h>
#include <string.h>

#include "speed.h"
#include "spinlib/kv.h"

enum { KEYS = 256 };

extern const struct speed_case kv_speed;

struct use {
    struct spin_kv *kv;
    bool is_client;
    uint32_t bytes, first; /* of a value; key of this client */
};

static int open_use(const struct speed *s, const struct spin_job *job, void **out) {
    const struct spin_kv_options o = {.servers = 1, .by_host = s->by_host};
    struct use *u = calloc(1, sizeof *u);
    *out = u;
    if (!u)
        return PTL_NO_SPACE;
    u->is_client = job->rank > 0;
    u->bytes = speed_bytes(&kv_speed, s);
    u->first = job->rank * KEYS;
    return spin_kv_open(job->ni, &o, &u->kv);
}

static int work(void *use, uint32_t operations, struct speed_done *done) {
    struct use *u = use;
    uint8_t value[SPIN_KV_VALUE_BYTES] = {0};
    int code = PTL_OK;
    if (!u->is_client) {
        done->serves = true;
        return PTL_OK;
    }
    for (uint32_t i = 0; i < operations && code == PTL_OK; i++) {
        uint32_t key = u->first + i / 2 % KEYS, bytes = u->bytes;
        bool found = true;
        code = i % 2 ? spin_kv_get(u->kv, &key, sizeof key, value, &bytes, &found)
                     : spin_kv_insert(u->kv, &key, sizeof key, value, u->bytes);
        if (code == PTL_OK && (!found || bytes != u->bytes))
            code = PTL_FAIL;
    }
    done->operations = operations;
    done->bytes = (uint64_t)operations * u->bytes;
    return code;
}

static int serve(void *use) {
    return spin_kv_work(((struct use *)use)->kv, 1);
}

static void close_use(void *use) {
    struct use *u = use;
    spin_kv_close(u->kv);
    free(u);
}

const struct speed_case kv_speed = {.name = "kv",
                                    .operation = "insert or get of 64 B",
                                    .image = "kv_handler",
                                    .ranks = 2,
                                    .least_ranks = 2,
                                    .bytes = 64,
                                    .least_bytes = 1,
                                    .most_bytes = SPIN_KV_VALUE_BYTES,
                                    .operations = 64,
                                    .live_operations = 400,
                                    .open = open_use,
                                    .work = work,
                                    .serve = serve,
                                    .close = close_use};
