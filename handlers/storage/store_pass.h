/* Fields that one function reads and writes, so that both agree; every field is checked when it is
 * read. Little-endian, as the machine is. */
#ifndef STORE_PASS_H
#define STORE_PASS_H

#include <string.h>

#include "store_meta.h"

/* Where something is written to or read from; `ok` is false from the first field that is wrong. */
struct pass {
    uint8_t *at;
    uint32_t left;
    bool reads, ok;
};

static inline void pass_bytes(struct pass *p, void *value, uint32_t bytes) {
    if (!p->ok || p->left < bytes) {
        p->ok = false;
        if (p->reads)
            memset(value, 0, bytes);
        return;
    }
    if (p->reads)
        memcpy(value, p->at, bytes);
    else
        memcpy(p->at, value, bytes);
    p->at += bytes;
    p->left -= bytes;
}

static inline void pass_must(struct pass *p, bool holds) {
    p->ok = p->ok && holds;
}

/* A value that is at most `most`, in 1, 2 or 4 bytes. */
static inline void pass_small(struct pass *p, uint32_t *value, uint32_t bytes, uint32_t most) {
    uint32_t copy = *value;
    pass_must(p, p->reads || copy <= most);
    if (p->reads)
        copy = 0;
    pass_bytes(p, &copy, bytes); /* little-endian: the lower bytes are first */
    pass_must(p, copy <= most);
    *value = p->ok ? copy : 0;
}

static inline void pass_u32(struct pass *p, uint32_t *value) {
    pass_bytes(p, value, sizeof *value);
}

static inline void pass_u64(struct pass *p, uint64_t *value) {
    pass_bytes(p, value, sizeof *value);
}

static inline void pass_bool(struct pass *p, bool *value) {
    uint32_t number = *value;
    pass_small(p, &number, 1, 1);
    *value = number;
}

static inline void pass_policy(struct pass *p, struct spinstore_policy *policy) {
    uint32_t strategy = policy->strategy;
    pass_small(p, &strategy, 1, SPINSTORE_RS);
    policy->strategy = (enum spinstore_strategy)strategy;
    pass_small(p, &policy->k, 1, STORE_PLACES);
    pass_small(p, &policy->m, 1, STORE_PLACES);
    pass_must(p, store_policy_valid(policy));
}

static inline void pass_name(struct pass *p, char name[SPINSTORE_NAME + 1]) {
    uint32_t length = p->reads ? 0 : (uint32_t)strnlen(name, SPINSTORE_NAME + 1);
    pass_small(p, &length, 1, SPINSTORE_NAME);
    pass_bytes(p, name, length);
    name[length] = 0;
    pass_must(p, length && strlen(name) == length);
}

#endif
