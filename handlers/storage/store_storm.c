/* A storage node, or a client in the middle of a write, is killed at a random moment; or (crash)
 * everybody, and all are started again with their files (recover). What was acknowledged is there;
 * what was not is there as a whole or not at all. Client 0 reads and kills, client 1 writes
 * versions 1, 2, ... of an object. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "store_live.h"

/* By the seed; with nodes enough, the widest. */
static const struct spinstore_policy policies[] = {
    {SPINSTORE_RING, 3, 0}, {SPINSTORE_TREE, 4, 0}, {SPINSTORE_RS, 3, 2}};
static const struct spinstore_policy widest = {SPINSTORE_RS, 10, 4};

static uint64_t mixed(uint64_t x) {
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    return x ^ x >> 31;
}

static int wrong(const char *what, uint64_t version, int code) {
    printf("WRONG: %s, version %llu: %s\n", what, (unsigned long long)version,
           PtlToStr(code, PTL_STR_ERROR));
    return 1;
}

/* Writes until the reader has killed somebody, and some more. */
static int write_versions(struct store_live *live, struct spinstore_object *o, uint8_t *data) {
    uint32_t after = 0;
    for (uint32_t version = 1; after < 10 && version < 100000; version++) {
        store_live_fill(data, live->bytes, 0, version);
        live->shared->writing = version;
        int code = spinstore_write(o, 0, data, live->bytes);
        if (code != PTL_OK) {
            live->shared->failed = 1;
            return wrong("write", version, code);
        }
        live->shared->written = version;
        after += live->shared->killed > 0;
    }
    live->shared->writing = 0;
    return 0;
}

/* A read that begins after a write was acknowledged sees it, or a later one; and all of it. */
static int check_read(struct store_live *live, struct spinstore_object *o, uint8_t *data,
                      uint8_t *back, uint32_t *seen) {
    uint32_t least = live->shared->written;
    uint64_t got = 0;
    int code = spinstore_read(o, 0, back, live->bytes, &got);
    uint32_t most = live->shared->writing ? live->shared->writing : live->shared->written;
    if (code != PTL_OK)
        return wrong("read", least, code);
    if (got == 0)
        return least ? wrong("nothing is read", least, PTL_FAIL) : 0;
    for (uint32_t version = least > *seen ? least : *seen; version <= most; version++) {
        store_live_fill(data, live->bytes, 0, version);
        if (got == live->bytes && memcmp(data, back, got) == 0) {
            *seen = version;
            return 0;
        }
    }
    return wrong("what is read is no version from here on", least, PTL_FAIL);
}

/* The writer is dead: the same range is written by another client. */
static int write_instead(struct store_live *live, struct spinstore_object *o, uint8_t *data,
                         uint32_t version) {
    live->shared->writing = version;
    store_live_fill(data, live->bytes, 0, version);
    int code = spinstore_write(o, 0, data, live->bytes);
    if (code != PTL_OK)
        return wrong("the next client's write", version, code);
    live->shared->written = version;
    return 0;
}

/* Until a moment that the seed says. */
static int read_some(struct store_live *live, struct spinstore_object *o, uint8_t *data,
                     uint8_t *back, uint32_t *seen) {
    uint64_t at = mixed(live->seed), reads = mixed(at) % 20;
    int status = 0;
    while (!status && !live->shared->failed && live->shared->written < 2)
        status = check_read(live, o, data, back, seen);
    for (uint64_t i = 0; i < reads && !status; i++)
        status = check_read(live, o, data, back, seen);
    nanosleep(&(struct timespec){.tv_nsec = (long)(mixed(reads + at) % 3000000)}, NULL);
    return status;
}

static int read_and_kill(struct store_live *live, struct spinstore_object *o, uint8_t *data,
                         uint8_t *back) {
    bool client_dies = live->seed % 5 == 4;
    uint32_t victim =
        client_dies ? live->nodes + 2 : 1 + (uint32_t)(mixed(live->seed) % live->nodes);
    uint32_t seen = 0;
    int status = read_some(live, o, data, back, &seen);
    uint32_t around = live->shared->written;
    store_live_kill(live, victim);
    while (!status && !client_dies && !live->shared->failed && live->shared->writing)
        status = check_read(live, o, data, back, &seen);
    for (int i = 0; i < 5 && !status; i++)
        status = check_read(live, o, data, back, &seen);
    if (client_dies && !status && !live->shared->failed)
        status = write_instead(live, o, data, live->shared->writing + 1);
    struct spinstore_repaired r;
    status = status || live->shared->failed;
    int code = status ? PTL_OK : spinstore_repair(live->store, &r);
    if (!status && (code != PTL_OK || r.lost))
        status = wrong("repair", seen, code);
    if (!status)
        status = check_read(live, o, data, back, &seen);
    printf("seed %llu: %s %u killed after version %u, version %u is read: %s\n",
           (unsigned long long)live->seed, client_dies ? "writer" : "node", victim, around, seen,
           status ? "wrong" : "right");
    return status;
}

/* Everybody but this rank. */
static int read_and_kill_all(struct store_live *live, struct spinstore_object *o, uint8_t *data,
                             uint8_t *back) {
    uint32_t seen = 0;
    int status = read_some(live, o, data, back, &seen);
    store_live_kill(live, live->nodes + 2);
    for (uint32_t rank = 0; rank <= live->nodes; rank++)
        store_live_kill(live, rank);
    live->over = true;
    return status;
}

static int read_again(struct store_live *live, struct spinstore_object *o, uint8_t *data,
                      uint8_t *back) {
    uint32_t around = live->shared->written, seen = 0, last;
    int status = check_read(live, o, data, back, &seen);
    last = seen;
    if (!status)
        status = write_instead(live, o, data, live->shared->writing + 1);
    if (!status)
        status = check_read(live, o, data, back, &seen);
    printf("seed %llu: all killed after version %u, version %u is read: %s\n",
           (unsigned long long)live->seed, around, last, status ? "wrong" : "right");
    return status;
}

typedef int part(struct store_live *live, struct spinstore_object *o, uint8_t *data, uint8_t *back);

/* Client 0 has that part, client 1 writes. */
static int play(struct store_live *live, part *of_client_0, bool writes) {
    struct spinstore_object *o = NULL;
    uint8_t *data = malloc(live->bytes), *back = malloc(live->bytes);
    const struct spinstore_policy *policy =
        live->nodes > widest.k + widest.m ? &widest : &policies[live->seed % 3];
    int code = data && back ? spinstore_open(live->store, "storm", policy, &o) : PTL_NO_SPACE;
    int status = code == PTL_OK ? 0 : wrong("open", 0, code);
    if (!status && live->rank == live->nodes + 1)
        status = of_client_0(live, o, data, back);
    else if (!status && writes && live->rank == live->nodes + 2)
        status = write_versions(live, o, data);
    spinstore_close(o);
    free(data);
    free(back);
    return status;
}

int store_live_storm(struct store_live *live) {
    return play(live, read_and_kill, true);
}

int store_live_crash(struct store_live *live) {
    return play(live, read_and_kill_all, true);
}

int store_live_recover(struct store_live *live) {
    return play(live, read_again, false);
}
