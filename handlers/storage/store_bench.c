/* What `openspin store bench` shows: a client's writes and reads of each policy, beside what bounds
 * them: a put that is acknowledged, memcpy, the checksum, and Reed-Solomon coding by ISA-L. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store_decode.h"
#include "store_live.h"
#include "store_private.h"

enum { MOST = 1 << 20, TIMES = 24, CHUNKS = 6 };

static const struct {
    const char *name;
    struct spinstore_policy policy;
} policies[] = {
    {"plain", {SPINSTORE_PLAIN, 0, 0}},
    {"3 copies, ring", {SPINSTORE_RING, 3, 0}},
    {"4 copies, tree", {SPINSTORE_TREE, 4, 0}},
    {"RS(4,2)", {SPINSTORE_RS, 4, 2}},
};
static const uint32_t sizes[] = {4096, 65536, MOST};
enum { SIZES = sizeof sizes / sizeof *sizes };

static int compare(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

struct bench {
    struct store_live *live;
    struct spinstore_object *object;
    uint8_t *data, *back;
    uint32_t bytes;
    ptl_handle_md_t md;
    ptl_handle_ct_t acked;
    ptl_pt_index_t pt;
    uint64_t puts;
};

/* The median of some times in us; < 0: it failed. */
static double median(struct bench *b, int (*what)(struct bench *)) {
    uint64_t took[TIMES];
    for (int i = -2; i < TIMES; i++) { /* the first two warm up */
        uint64_t began = spin_now_ps();
        if (what(b) != PTL_OK)
            return -1;
        if (i >= 0)
            took[i] = spin_now_ps() - began;
    }
    qsort(took, TIMES, sizeof *took, compare);
    return (double)took[TIMES / 2] * 1e-6;
}

static int write_object(struct bench *b) {
    return spinstore_write(b->object, 0, b->data, b->bytes);
}

static int read_object(struct bench *b) {
    uint64_t got;
    int code = spinstore_read(b->object, 0, b->back, b->bytes, &got);
    return code == PTL_OK && got == b->bytes ? PTL_OK : PTL_FAIL;
}

static int put_data(struct bench *b) {
    ptl_ct_event_t event;
    int code = PtlPut(b->md, (ptl_size_t)(uintptr_t)b->data, b->bytes, PTL_CT_ACK_REQ,
                      (ptl_process_t){.rank = 1}, b->pt, 0, 0, NULL, 0);
    if (code == PTL_OK)
        code = PtlCTWait(b->acked, ++b->puts, &event);
    return code == PTL_OK && event.failure ? PTL_FAIL : code;
}

static int copy_data(struct bench *b) {
    memcpy(b->back, b->data, b->bytes);
    __asm__ volatile("" ::"r"(b->back) : "memory");
    return PTL_OK;
}

static int sum_data(struct bench *b) {
    uint32_t sum = store_crc32c_padded(b->data, b->bytes, 0);
    __asm__ volatile("" ::"r"(sum));
    return PTL_OK;
}

/* The parities of four chunks that are all of the data. */
static int code_data(struct bench *b) {
    uint32_t chunk = b->bytes / 4;
    uint8_t *chunks[CHUNKS];
    struct spin_error err;
    for (uint32_t i = 0; i < CHUNKS; i++)
        chunks[i] = i < 4 ? b->data + i * chunk : b->back + (i - 4) * chunk;
    return store_decode(4, 2, 15, chunks, chunk, &err) ? PTL_FAIL : PTL_OK;
}

static void print_us(double us, uint32_t bytes) {
    if (us < 0)
        printf(" %10s %8s", "-", "-");
    else
        printf(" %10.2f %8.1f", us, bytes / us);
}

static void print_row(struct bench *b, const char *name, int (*what)(struct bench *)) {
    printf("%-24s", name);
    for (uint32_t i = 0; i < SIZES; i++) {
        b->bytes = sizes[i];
        print_us(median(b, what), sizes[i]);
    }
    printf("\n");
}

static int print_policy(struct bench *b, uint32_t p) {
    char name[40];
    int code = spinstore_open(b->live->store, policies[p].name, &policies[p].policy, &b->object);
    if (code != PTL_OK) {
        printf("WRONG: open: %s\n", PtlToStr(code, PTL_STR_ERROR));
        return 1;
    }
    snprintf(name, sizeof name, "write, %s", policies[p].name);
    print_row(b, name, write_object);
    snprintf(name, sizeof name, "read, %s", policies[p].name);
    print_row(b, name, read_object);
    spinstore_close(b->object);
    return 0;
}

/* All ranks have memory for plain puts. */
int store_live_open_puts(struct store_live *live, ptl_handle_ni_t ni) {
    const struct spin_entry entry = {.length = MOST,
                                     .start = malloc(MOST),
                                     .options = PTL_ME_OP_PUT | PTL_ME_EVENT_COMM_DISABLE};
    live->ni = ni;
    live->memory = entry.start;
    if (!live->memory)
        return PTL_NO_SPACE;
    int code = PtlPTAlloc(ni, 0, PTL_EQ_NONE, PTL_PT_ANY, &live->pt);
    return code == PTL_OK ? spin_entry_append(ni, live->pt, &entry, &live->puts) : code;
}

static int bench_open(struct bench *b) {
    ptl_md_t md = {
        .length = PTL_SIZE_MAX, .options = PTL_MD_EVENT_CT_ACK, .eq_handle = PTL_EQ_NONE};
    int code = b->data && b->back ? PtlCTAlloc(b->live->ni, &b->acked) : PTL_NO_SPACE;
    md.ct_handle = b->acked;
    return code == PTL_OK ? PtlMDBind(b->live->ni, &md, &b->md) : code;
}

int store_live_bench(struct store_live *live) {
    struct bench b = {.live = live, .pt = live->pt, .data = malloc(MOST), .back = malloc(MOST)};
    int status = bench_open(&b) != PTL_OK;
    if (!status) {
        store_live_fill(b.data, MOST, 0, 0);
        store_live_fill(b.back, MOST, 0, 1);
        printf("%-24s", "median of 24");
        for (uint32_t i = 0; i < SIZES; i++)
            printf(" %7u B: us %8s", sizes[i], "MB/s");
        printf("\n");
        print_row(&b, "memcpy", copy_data);
        print_row(&b, "CRC32C", sum_data);
        print_row(&b, "ISA-L, parities RS(4,2)", code_data);
        print_row(&b, "put, acknowledged", put_data);
    }
    for (uint32_t p = 0; p < sizeof policies / sizeof *policies && !status; p++)
        status = print_policy(&b, p);
    free(b.data);
    free(b.back);
    return status;
}
