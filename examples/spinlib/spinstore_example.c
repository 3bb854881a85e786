/* A store of objects: rank 0 is its service, ranks 1 to 6 are storage nodes, the last rank is a
 * client, which writes an object of each policy and reads all of them.
 *     cc spinstore_example.c -o spinstore $(pkg-config --cflags --libs spinlib)
 *     openspin launch -n 8 ./spinstore
 *     openspin sim run -n 8 ./spinstore */
#include <spinlib/spinstore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NODES = 6, BYTES = 100000 };

static const struct {
    const char *name;
    struct spinstore_policy policy;
} objects[] = {
    {"plain", {SPINSTORE_PLAIN, 0, 0}},
    {"three copies by a ring", {SPINSTORE_RING, 3, 0}},
    {"four copies by a tree", {SPINSTORE_TREE, 4, 0}},
    {"RS(4,2)", {SPINSTORE_RS, 4, 2}},
};
enum { OBJECTS = sizeof objects / sizeof *objects };

/* 0, or what failed. */
static int client(struct spinstore *store) {
    uint8_t *data = malloc(BYTES), *back = malloc(BYTES);
    int code = data && back ? PTL_OK : PTL_NO_SPACE;
    for (int i = 0; i < OBJECTS && code == PTL_OK; i++) {
        struct spinstore_object *object;
        uint64_t got = 0;
        for (int k = 0; k < BYTES; k++)
            data[k] = (uint8_t)(i + k * 7 + k / 100);
        code = spinstore_open(store, objects[i].name, &objects[i].policy, &object);
        if (code != PTL_OK)
            break;
        code = spinstore_write(object, 0, data, BYTES);
        if (code == PTL_OK)
            code = spinstore_read(object, 0, back, BYTES, &got);
        if (code == PTL_OK && (got != BYTES || memcmp(data, back, BYTES) != 0))
            code = PTL_FAIL;
        printf("%s: %s\n", objects[i].name,
               code == PTL_OK ? "every byte is right" : PtlToStr(code, PTL_STR_ERROR));
        spinstore_close(object);
    }
    free(data);
    free(back);
    int stopped = spinstore_stop(store);
    return code == PTL_OK ? stopped : code;
}

int main(void) {
    struct spin_job job;
    struct spinstore *store;
    const struct spinstore_options options = {.nodes = NODES, .node_bytes = 1 << 20};
    if (spin_job_open(&job) != PTL_OK || job.ranks != NODES + 2) {
        printf("start this with %d ranks\n", NODES + 2);
        return 2;
    }
    int code = spinstore_join(job.ni, &options, &store);
    if (code != PTL_OK) {
        printf("rank %u: %s %s\n", job.rank, PtlToStr(code, PTL_STR_ERROR), PtlImageError());
        return 1;
    }
    spin_barrier();
    code = job.rank == job.ranks - 1 ? client(store) : spinstore_serve(store);
    spinstore_leave(store);
    spin_job_close(&job);
    return code != PTL_OK;
}
