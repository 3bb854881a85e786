/* libFuzzer target: the journal of the store's metadata service. What is taken is consistent, and
 * what there is then, written as a journal, is taken again. An input is a file; or, if it begins
 * with 1, a sequence of records that get their checksums here: length in two bytes, then as many.
 */
#include "../../handlers/storage/store_crc.h"
#include "../../handlers/storage/store_journal.h"
#include "fuzz.h"

enum { NODES = 5, BLOCKS = 64 };

/* A file that grows. */
struct file {
    uint8_t *bytes;
    uint64_t used, room;
};

static void add(struct file *f, const void *bytes, uint64_t count) {
    if (f->room - f->used < count) {
        f->room = 2 * f->room + count;
        f->bytes = realloc(f->bytes, f->room);
    }
    if (count)
        memcpy(f->bytes + f->used, bytes, count);
    f->used += count;
}

static void add_record(struct file *f, const uint8_t *record, uint32_t bytes) {
    uint32_t frame[3] = {bytes, store_crc32c_padded(record, bytes, 0), 0};
    frame[2] = store_crc32c_padded(frame, 8, 0);
    add(f, frame, sizeof frame);
    add(f, record, bytes);
}

static void add_head(struct file *f) {
    struct {
        char magic[8];
        uint32_t version, nodes;
        uint64_t blocks, begins;
        uint32_t crc, zero;
    } h = {"SPINJRN", 1, NODES, BLOCKS, 40, 0, 0};
    h.magic[7] = 'L';
    h.crc = store_crc32c_padded(&h, 32, 0);
    add(f, &h, sizeof h);
}

static bool note(void *user, const struct store_record *record) {
    static uint8_t bytes[STORE_RECORD_BYTES];
    uint32_t count =
        store_record_write((struct store_record *)(uintptr_t)record, bytes, sizeof bytes);
    FUZZ_HOLDS(count, "a record can be written");
    add_record(user, bytes, count);
    return true;
}

static struct store_meta *meta_of(const struct file *f) {
    struct store_meta *m = store_meta_new(&(struct store_meta_options){
        .nodes = NODES, .node_bytes = BLOCKS * STORE_BLOCK, .lifetime = 10});
    struct spin_error err;
    uint64_t good;
    if (m && store_journal_read(f->bytes, f->used, m, &good, &err) == 0) {
        FUZZ_HOLDS(good <= f->used, "the end is in the file");
        return m;
    }
    store_meta_free(m);
    return NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
    struct file f = {0}, again = {0}, third = {0};
    if (length && bytes[0] == 1) {
        add_head(&f);
        for (size_t at = 1; length - at >= 2;) {
            uint32_t count = bytes[at] | (uint32_t)bytes[at + 1] << 8;
            at += 2;
            count = count < length - at ? count : (uint32_t)(length - at);
            add_record(&f, bytes + at, count);
            at += count;
        }
    } else {
        add(&f, bytes, length);
    }
    struct store_meta *m = meta_of(&f);
    if (m) {
        FUZZ_HOLDS(store_meta_consistent(m), "it is consistent");
        add_head(&again);
        FUZZ_HOLDS(store_meta_each(m, note, &again), "all of it can be noted");
        struct store_meta *same = meta_of(&again);
        FUZZ_HOLDS(same, "which is taken");
        add_head(&third);
        store_meta_each(same, note, &third);
        FUZZ_HOLDS(third.used == again.used && memcmp(third.bytes, again.bytes, third.used) == 0,
                   "and is the same");
        store_meta_free(same);
    }
    store_meta_free(m);
    free(f.bytes);
    free(again.bytes);
    free(third.bytes);
    return 0;
}
