/* spinlib/kv.h: a distributed key-value store (SC'17 section 5.4). Ranks 0 to servers - 1 have a
 * hash table each, in their memory; their cards insert, get and delete. A processor takes part only
 * when a chain is longer than a card walks. Operations are linearizable. See handlers/kv/README.md.
 */
#ifndef SPINLIB_KV_H
#define SPINLIB_KV_H

#include "spinlib.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spin_kv;

#define SPIN_KV_KEY_BYTES   64u
#define SPIN_KV_VALUE_BYTES 832u

struct spin_kv_options {
    uint32_t servers;   /* 0: all ranks */
    uint32_t buckets;   /* of each, a power of two (0: 1,024) */
    uint32_t items;     /* that each card has room for (0: 4,096); as many more for its processor */
    uint32_t max_steps; /* of a chain that a card walks (0: 8) */
    bool by_host;       /* processors do everything, not the cards: to compare */
    bool planted_bug;   /* for tests: a card may insert a key twice */
};

/* All ranks call it, in the same order as other calls that take a portal table entry. */
int spin_kv_open(ptl_handle_ni_t ni, const struct spin_kv_options *options, struct spin_kv **kv);
/* When no rank has an operation under way. */
void spin_kv_close(struct spin_kv *kv);

/* Each waits for the answer; one at a time per `kv`. A key has 1 to SPIN_KV_KEY_BYTES, a value up
 * to SPIN_KV_VALUE_BYTES bytes. PTL_NO_SPACE: the server has no room. PTL_FAIL: it is gone. */
int spin_kv_insert(struct spin_kv *kv, const void *key, uint32_t key_bytes, const void *value,
                   uint32_t value_bytes);
/* *found: whether there is such a key. `value` has room for SPIN_KV_VALUE_BYTES. */
int spin_kv_get(struct spin_kv *kv, const void *key, uint32_t key_bytes, void *value,
                uint32_t *value_bytes, bool *found);
int spin_kv_delete(struct spin_kv *kv, const void *key, uint32_t key_bytes, bool *found);

/* The part of a server's processor: whatever has come for it, or comes within so many milliseconds
 * (the operations do it as well while they wait). A program whose chains may grow longer than
 * max_steps calls it now and then, or in a thread. */
int spin_kv_work(struct spin_kv *kv, ptl_time_t timeout_ms);
/* Operations that this server's processor has done. */
uint64_t spin_kv_by_processor(const struct spin_kv *kv);

#ifdef __cplusplus
}
#endif

#endif
