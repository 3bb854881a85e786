/* What `openspin store large` shows: nodes with more data than their processes may have in memory.
 * The client fills their media and reads everything back. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "store_live.h"

#define PIECE (1u << 20) /* of a write or read */

uint64_t store_live_resident(struct store_live *live) {
    uint64_t bytes, there = 0, page = (uint64_t)sysconf(_SC_PAGESIZE);
    void *medium = spinstore_memory(live->store, &bytes);
    uint64_t pages = (bytes + page - 1) / page;
    unsigned char *is = malloc(pages + 1);
    if (is && medium && mincore(medium, bytes, is) == 0)
        for (uint64_t i = 0; i < pages; i++)
            there += is[i] & 1;
    free(is);
    return there * page;
}

static int wrong(const char *what, uint64_t piece, int code) {
    printf("WRONG: %s of MiB %llu: %s\n", what, (unsigned long long)piece,
           PtlToStr(code, PTL_STR_ERROR));
    return 1;
}

static void say(const char *what, uint64_t pieces, double seconds, const char *how) {
    printf("%s %llu MiB in %.1f s, %.1f MB/s%s\n", what, (unsigned long long)pieces, seconds,
           (double)pieces * PIECE / seconds / 1e6, how);
}

/* What the nodes have room for, but for the odd block. */
static uint64_t pieces_of(const struct store_live *live) {
    uint64_t all = live->nodes * (live->bytes / PIECE);
    return all - all / 16 - live->nodes;
}

static int run(struct store_live *live, struct spinstore_object *object, uint8_t *data,
               uint8_t *back) {
    uint64_t pieces = pieces_of(live), got;
    double took = 0;
    int code;
    for (uint64_t i = 0; i < pieces; i++) {
        store_live_fill(data, PIECE, i, 1);
        uint64_t began = spin_now_ps();
        code = spinstore_write(object, i * PIECE, data, PIECE);
        took += (double)(spin_now_ps() - began) * 1e-12;
        if (code != PTL_OK)
            return wrong("write", i, code);
    }
    say("wrote", pieces, took, "");
    took = 0;
    /* in another order: what was written last is not what is asked for first */
    uint64_t step = 7919;
    while (pieces % step == 0)
        step += 2;
    for (uint64_t i = 0, at = 0; i < pieces; i++, at = (at + step) % pieces) {
        uint64_t began = spin_now_ps();
        code = spinstore_read(object, at * PIECE, back, PIECE, &got);
        took += (double)(spin_now_ps() - began) * 1e-12;
        store_live_fill(data, PIECE, at, 1);
        if (code != PTL_OK || got != PIECE)
            return wrong("read", at, code);
        if (memcmp(data, back, PIECE) != 0)
            return wrong("data", at, PTL_FAIL);
    }
    say("read", pieces, took, ": every byte is right");
    return 0;
}

int store_live_large(struct store_live *live) {
    static const struct spinstore_policy plain = {SPINSTORE_PLAIN, 0, 0};
    uint8_t *data = malloc(PIECE), *back = malloc(PIECE);
    struct spinstore_object *object = NULL;
    setvbuf(stdout, NULL, _IOLBF, 0);
    int code = data && back ? spinstore_open(live->store, "large", &plain, &object) : PTL_NO_SPACE;
    int status = code == PTL_OK ? run(live, object, data, back) : wrong("open", 0, code);
    spinstore_close(object);
    free(data);
    free(back);
    return status;
}
