/* What `openspin store demo` shows: objects of every policy, nodes that are killed, everything read
 * back, repaired, and killed again. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store_live.h"

enum { EACH = 4 }; /* objects of a policy */

static const struct demo_policy {
    const char *name;
    struct spinstore_policy policy;
    uint32_t survives; /* nodes that may be lost */
} policies[] = {
    {"plain", {SPINSTORE_PLAIN, 0, 0}, 0},
    {"3 copies, ring", {SPINSTORE_RING, 3, 0}, 2},
    {"4 copies, tree", {SPINSTORE_TREE, 4, 0}, 3},
    {"RS(4,2)", {SPINSTORE_RS, 4, 2}, 2},
};
enum { POLICIES = sizeof policies / sizeof *policies };

struct demo {
    struct store_live *live;
    struct spinstore_object *object[POLICIES][EACH];
    uint64_t version[POLICIES][EACH];
    bool lost[POLICIES][EACH];
    uint8_t *data, *back;
};

static double now_s(void) {
    return (double)spin_now_ps() * 1e-12;
}

static int wrong(const char *what, const struct demo_policy *p, uint32_t i, int code) {
    printf("WRONG: %s of object %u (%s): %s\n", what, i, p->name, PtlToStr(code, PTL_STR_ERROR));
    return 1;
}

/* The first objects of a policy, in their next version. */
static int write_some(struct demo *d, uint32_t p, uint32_t count) {
    uint64_t bytes = d->live->bytes;
    double began = now_s(), took = 0;
    for (uint32_t i = 0; i < count; i++) {
        store_live_fill(d->data, bytes, p * EACH + i, ++d->version[p][i]);
        began = now_s();
        int code = spinstore_write(d->object[p][i], 0, d->data, bytes);
        took += now_s() - began;
        if (code != PTL_OK)
            return wrong("write", &policies[p], i, code);
        d->lost[p][i] = false;
    }
    printf("  wrote %u objects of %llu bytes, %-15s %6.2f ms each, %7.1f MB/s\n", count,
           (unsigned long long)bytes, policies[p].name, took / count * 1e3,
           (double)bytes * count / took / 1e6);
    return 0;
}

/* Every byte of every object; only what has no copy left may be missing. */
static int read_all(struct demo *d, uint32_t dead) {
    uint64_t bytes = d->live->bytes;
    struct spinstore_counts before = spinstore_counts(d->live->store);
    uint32_t right = 0, lost = 0;
    for (uint32_t p = 0; p < POLICIES; p++)
        for (uint32_t i = 0; i < EACH; i++) {
            uint64_t got = 0;
            int code = spinstore_read(d->object[p][i], 0, d->back, bytes, &got);
            if (code == PTL_FAIL && dead > policies[p].survives) {
                lost++;
                d->lost[p][i] = true;
                continue;
            }
            if (code != PTL_OK)
                return wrong("read", &policies[p], i, code);
            store_live_fill(d->data, bytes, p * EACH + i, d->version[p][i]);
            if (got != bytes || memcmp(d->data, d->back, bytes) != 0)
                return wrong("data", &policies[p], i, PTL_FAIL);
            right++;
        }
    struct spinstore_counts c = spinstore_counts(d->live->store);
    printf("  read %u objects: every byte is right; %llu reads went to another copy, %llu extents "
           "were reconstructed\n",
           right, (unsigned long long)(c.reads_again - before.reads_again),
           (unsigned long long)(c.reconstructed - before.reconstructed));
    if (lost)
        printf("  %u plain objects had their only copy on a node that is gone: the store says so\n",
               lost);
    return 0;
}

static int show_status(struct demo *d, uint32_t dead, bool whole) {
    struct spinstore_status s;
    int code = spinstore_ask(d->live->store, &s);
    if (code != PTL_OK)
        return wrong("status", &policies[0], 0, code);
    printf("  the service knows %u objects in %u extents; %u of %u nodes are dead; %u extents lack "
           "a part\n",
           s.objects, s.extents, s.dead, s.nodes, s.damaged);
    if (s.dead == dead && (!whole || s.damaged == 0))
        return 0;
    printf("WRONG: expected %u dead nodes%s\n", dead, whole ? " and nothing damaged" : "");
    return 1;
}

static int kill_node(struct demo *d, uint32_t rank) {
    printf("kill -9: node %u (process %u)\n", rank, d->live->shared->pid[rank]);
    store_live_kill(d->live, rank);
    return 0;
}

/* What is lost is written anew, so that all can be repaired. */
static int repair_all(struct demo *d) {
    struct spinstore_repaired r;
    int status = 0;
    for (uint32_t p = 0; p < POLICIES && !status; p++)
        for (uint32_t i = 0; i < EACH && !status; i++)
            if (d->lost[p][i]) {
                store_live_fill(d->data, d->live->bytes, p * EACH + i, d->version[p][i]);
                int code = spinstore_write(d->object[p][i], 0, d->data, d->live->bytes);
                if (code != PTL_OK)
                    status = wrong("write", &policies[p], i, code);
                d->lost[p][i] = false;
            }
    double began = now_s();
    int code = status ? PTL_FAIL : spinstore_repair(d->live->store, &r);
    if (code != PTL_OK)
        return status ? status : wrong("repair", &policies[0], 0, code);
    printf("  put %llu parts with %llu bytes onto other nodes in %.1f ms\n",
           (unsigned long long)r.parts, (unsigned long long)r.bytes, (now_s() - began) * 1e3);
    if (!r.lost)
        return 0;
    printf("WRONG: %llu extents cannot be repaired\n", (unsigned long long)r.lost);
    return 1;
}

/* The service, too: what it knows is in its journal. */
static int kill_all(struct demo *d) {
    if (!d->live->by_files)
        return 0;
    printf("kill -9: the service and all nodes\n");
    for (uint32_t rank = 0; rank <= d->live->nodes; rank++)
        if (rank == 0 || rank > 4)
            store_live_kill(d->live, rank);
    d->live->over = true;
    return 0;
}

static int open_all(struct demo *d, bool are_there) {
    for (uint32_t p = 0; p < POLICIES; p++)
        for (uint32_t i = 0; i < EACH; i++) {
            char name[64];
            snprintf(name, sizeof name, "%s %u", policies[p].name, i);
            int code = spinstore_open(d->live->store, name, are_there ? NULL : &policies[p].policy,
                                      &d->object[p][i]);
            if (code != PTL_OK)
                return wrong("open", &policies[p], i, code);
        }
    return 0;
}

static int say(const char *step) {
    printf("%s\n", step);
    return 0;
}

static int write_all(struct demo *d, uint32_t count) {
    for (uint32_t p = 0; p < POLICIES; p++)
        if (write_some(d, p, count))
            return 1;
    return 0;
}

static int change_key(struct demo *d) {
    uint32_t generation;
    int code = spinstore_rotate(d->live->store, &generation);
    if (code != PTL_OK)
        return wrong("key", &policies[0], 0, code);
    printf("  nodes have key %u now\n", generation);
    return 0;
}

/* The first step that is wrong is the last. */
static int run(struct demo *d) {
    return open_all(d, false) || say("write, and read back") || write_all(d, EACH) ||
           read_all(d, 0) || kill_node(d, 1) || read_all(d, 1) ||
           say("write while it is gone, with a new key") || change_key(d) ||
           write_all(d, EACH / 2) || read_all(d, 1) || say("repair") || repair_all(d) ||
           show_status(d, 1, true) || read_all(d, 0) ||
           /* what was repaired is whole again: as many nodes may be lost as at first */
           kill_node(d, 2) || read_all(d, 1) || say("repair") || repair_all(d) ||
           show_status(d, 2, true) || read_all(d, 0) ||
           /* RS(4,2) has no node to spare now, and can do without two */
           kill_node(d, 3) || kill_node(d, 4) || read_all(d, 2) || show_status(d, 4, false) ||
           kill_all(d);
}

/* The nodes that were killed are back as well, with all that they had. */
static int run_again(struct demo *d) {
    for (uint32_t p = 0; p < POLICIES; p++)
        for (uint32_t i = 0; i < EACH; i++)
            d->version[p][i] = i < EACH / 2 ? 2 : 1; /* as the demo has written them */
    return open_all(d, true) || read_all(d, 0) || show_status(d, 0, true) ||
           say("write, and read back") || write_all(d, EACH) || read_all(d, 0);
}

static int play(struct store_live *live, int (*run_it)(struct demo *)) {
    struct demo d = {.live = live, .data = malloc(live->bytes), .back = malloc(live->bytes)};
    int status = 1;
    if (live->rank != live->nodes + 1)
        return 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (d.data && d.back)
        status = run_it(&d);
    for (uint32_t p = 0; p < POLICIES; p++)
        for (uint32_t i = 0; i < EACH; i++)
            spinstore_close(d.object[p][i]);
    free(d.data);
    free(d.back);
    return status;
}

int store_live_demo(struct store_live *live) {
    if (live->rank == live->nodes + 1)
        printf("a store of %u nodes, each a process with a live card\n", live->nodes);
    return play(live, run);
}

int store_live_again(struct store_live *live) {
    if (live->rank == live->nodes + 1)
        printf("start all of them again, with the files that they have left\n");
    return play(live, run_again);
}
