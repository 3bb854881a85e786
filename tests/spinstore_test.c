/* The store in worlds, on SC'17's card and on PsPIN's: what is written is read, by whom and from
 * wherever. */
#include "lib/store_scene.h"

#include "base/temporary.h"

/* ---- Where it is ---- */

TEST(what_is_written_is_read) {
    static const struct spinstore_policy policies[] = {{SPINSTORE_PLAIN, 0, 0},
                                                       {SPINSTORE_RING, 3, 0},
                                                       {SPINSTORE_TREE, 4, 0},
                                                       {SPINSTORE_RS, 3, 2}};
    static const uint64_t sizes[] = {1, 5000, 40000};
    for (int p = 0; p < 4; p++)
        for (int i = 0; i < 3; i++) {
            snprintf(test_context, sizeof test_context, "policy %d, size %d", p, i);
            run(&(struct scene){.o = {.nodes = 5, .trust = (enum spinstore_trust)i},
                                .clients = 1,
                                .client = one_object,
                                .policy = policies[p],
                                .bytes = sizes[i]});
        }
}

/* Writes over each other, with holes, against an array. */
static int overlapping(struct scene *s, struct spinstore *store, uint32_t number) {
    enum { BYTES = 60000 };
    uint8_t *model = calloc(1, BYTES), *data = malloc(BYTES), *back = malloc(BYTES);
    uint64_t size = 0, got;
    struct spinstore_object *o;
    struct rng r = rng_seeded(number);
    RANK_CHECK(spinstore_open(store, "o", &s->policy, &o) == PTL_OK);
    for (uint32_t i = 0; i < 12; i++) {
        uint32_t at = rng_below(&r, BYTES), bytes = 1 + rng_below(&r, BYTES - at);
        memset(data, (int)i + 1, bytes);
        RANK_CHECK(spinstore_write(o, at, data, bytes) == PTL_OK);
        memset(model + at, (int)i + 1, bytes);
        size = at + bytes > size ? at + bytes : size;
        at = rng_below(&r, BYTES);
        bytes = 1 + rng_below(&r, BYTES - at);
        RANK_CHECK(spinstore_read(o, at, back, bytes, &got) == PTL_OK);
        RANK_CHECK(got == (at >= size ? 0 : size - at < bytes ? size - at : bytes));
        RANK_CHECK(memcmp(back, model + at, got) == 0);
    }
    struct spinstore_status status;
    RANK_CHECK(spinstore_ask(store, &status) == PTL_OK);
    RANK_CHECK(status.objects == 1 && status.extents <= 12 && status.dead == 0);
    RANK_CHECK(spinstore_remove(store, "o") == PTL_OK);
    RANK_CHECK(spinstore_write(o, 0, data, 1) == PTL_ARG_INVALID);
    RANK_CHECK(spinstore_remove(store, "o") == PTL_ARG_INVALID);
    spinstore_close(o);
    free(model);
    free(data);
    free(back);
    return 0;
}

TEST(writes_cover_each_other) {
    run(&(struct scene){.o = {.nodes = 3, .node_bytes = 4 << 20},
                        .clients = 1,
                        .client = overlapping,
                        .policy = {SPINSTORE_RING, 2, 0}});
}

/* A write of more than an extent, committed as one. */
static int large(struct scene *s, struct spinstore *store, uint32_t number) {
    struct spinstore_object *o;
    uint8_t *data = filled(9, s->bytes), *back = calloc(1, s->bytes);
    uint64_t got;
    (void)number;
    RANK_CHECK(spinstore_open(store, "large", &s->policy, &o) == PTL_OK);
    RANK_CHECK(spinstore_write(o, 5, data, s->bytes) == PTL_OK);
    RANK_CHECK(spinstore_read(o, 5, back, s->bytes, &got) == PTL_OK && got == s->bytes);
    RANK_CHECK(memcmp(data, back, s->bytes) == 0);
    /* nodes of this size have no room for it again */
    RANK_CHECK(spinstore_write(o, 5, data, s->bytes) == PTL_NO_SPACE);
    RANK_CHECK(spinstore_read(o, 5, back, s->bytes, &got) == PTL_OK && is_filled(back, 9, got));
    spinstore_close(o);
    free(data);
    free(back);
    return 0;
}

TEST(a_write_of_several_extents) {
    static const char *const sc17[] = {"card=sc17"};
    struct scene s = {.o = {.nodes = 1, .node_bytes = 6 << 20},
                      .clients = 1,
                      .client = large,
                      .policy = {SPINSTORE_PLAIN, 0, 0},
                      .bytes = (4 << 20) + 10000};
    spinlib_world_on((struct spin_world_options){.ranks = 3, .set = sc17, .set_count = 1}, "sc17",
                     rank, &s);
}

/* ---- Checksums ---- */

static int rots(struct scene *s, struct spinstore *store, uint32_t number) {
    struct spinstore_object *o;
    uint8_t *data = filled(number, s->bytes), *back = calloc(1, s->bytes);
    uint64_t got;
    RANK_CHECK(spinstore_open(store, "o", &s->policy, &o) == PTL_OK);
    RANK_CHECK(spinstore_write(o, 0, data, s->bytes) == PTL_OK);
    for (uint32_t node = 0; node + 1 < s->o.nodes; node++)
        for (uint64_t i = 0; i < s->o.node_bytes; i++)
            s->medium[node][i] ^= i % 4096 == 77;
    RANK_CHECK(spinstore_read(o, 4000, back, 5000, &got) == PTL_OK && got == 5000);
    RANK_CHECK(memcmp(data + 4000, back, got) == 0);
    RANK_CHECK(spinstore_read(o, 0, back, s->bytes, &got) == PTL_OK && got == s->bytes);
    RANK_CHECK(memcmp(data, back, got) == 0);
    RANK_CHECK(spinstore_counts(store).wrong_sums > 0);
    for (uint64_t i = 0; i < s->o.node_bytes; i++)
        s->medium[s->o.nodes - 1][i] ^= i % 4096 == 77;
    RANK_CHECK(spinstore_read(o, 0, back, s->bytes, &got) == PTL_FAIL); /* never what is wrong */
    spinstore_close(o);
    free(data);
    free(back);
    return 0;
}

TEST(a_copy_that_has_changed_is_not_used) {
    run(&(struct scene){.o = {.nodes = 3},
                        .clients = 1,
                        .client = rots,
                        .policy = {SPINSTORE_RING, 3, 0},
                        .bytes = 20000});
}

/* Data or parity, on as many nodes as there are parities. */
static int rots_coded(struct scene *s, struct spinstore *store, uint32_t number) {
    struct spinstore_object *o;
    uint8_t *data = filled(number, s->bytes), *back = calloc(1, s->bytes);
    uint64_t got;
    RANK_CHECK(spinstore_open(store, "o", &s->policy, &o) == PTL_OK);
    RANK_CHECK(spinstore_write(o, 0, data, s->bytes) == PTL_OK);
    for (uint32_t set = 0; set < 1u << s->o.nodes; set++) {
        bool readable = __builtin_popcount(set) <= (int)s->policy.m;
        for (int twice = 0; twice < 2; twice++) {
            for (uint32_t node = 0; node < s->o.nodes; node++)
                for (uint64_t i = 77; set >> node & 1 && i < s->o.node_bytes; i += 512)
                    s->medium[node][i] ^= 3;
            if (twice || (!readable && set % 4))
                continue;
            memset(back, 0, s->bytes);
            int code = spinstore_read(o, 0, back, s->bytes, &got);
            /* parities are not needed if the data is there */
            RANK_CHECK(readable || (set & 3) == 0 ? code == PTL_OK : code == PTL_FAIL);
            RANK_CHECK(code != PTL_OK || (got == s->bytes && memcmp(data, back, got) == 0));
        }
    }
    spinstore_close(o);
    free(data);
    free(back);
    return 0;
}

TEST(chunks_that_have_changed_are_reconstructed) {
    if (!can_decode())
        TEST_SKIP("no ISA-L here");
    run(&(struct scene){.o = {.nodes = 4, .node_bytes = 64 << 10},
                        .clients = 1,
                        .client = rots_coded,
                        .policy = {SPINSTORE_RS, 2, 2},
                        .bytes = 15000});
}

/* ---- Keys ---- */

static int rotates(struct scene *s, struct spinstore *store, uint32_t number) {
    uint32_t generation;
    for (uint32_t i = 2; i < 5; i++) {
        RANK_CHECK(one_object(s, store, number) == 0);
        RANK_CHECK(spinstore_rotate(store, &generation) == PTL_OK && generation == i);
        RANK_CHECK(spinstore_remove(store, "object") == PTL_OK);
    }
    return one_object(s, store, number);
}

TEST(keys_change_between_writes) {
    for (int trust = 0; trust < 3; trust++)
        run(&(struct scene){.o = {.nodes = 3, .trust = (enum spinstore_trust)trust},
                            .clients = 1,
                            .client = rotates,
                            .policy = {SPINSTORE_RING, 2, 0},
                            .bytes = 3000});
}

/* Capabilities live for a second, and the client is slow: everything is asked for again. */
static int slowly(struct scene *s, struct spinstore *store, uint32_t number) {
    RANK_CHECK(one_object(s, store, number) == 0);
    RANK_CHECK(spinstore_remove(store, "object") == PTL_OK);
    spin_compute_ps(20000000000000);
    return one_object(s, store, number);
}

TEST(time_passes) {
    run(&(struct scene){.o = {.nodes = 2, .lifetime_s = 1, .node_bytes = 8192},
                        .clients = 1,
                        .client = slowly,
                        .policy = {SPINSTORE_RING, 2, 0},
                        .bytes = 8000});
}

/* ---- Everybody begins anew, with files ---- */

static const struct spinstore_policy kept[] = {
    {SPINSTORE_PLAIN, 0, 0}, {SPINSTORE_RING, 3, 0}, {SPINSTORE_TREE, 4, 0}, {SPINSTORE_RS, 3, 2}};

/* In its second life the store has what was written in the first; what was removed is gone. */
static int lives_on(struct spinstore *store, uint32_t life, uint64_t bytes) {
    struct spinstore_object *o;
    struct spinstore_status status;
    uint8_t *back = calloc(1, bytes + 100);
    uint64_t got;
    for (uint32_t p = 0; p < 4; p++) {
        uint8_t *data = filled(p, bytes);
        char name[] = {(char)('a' + p), 0};
        RANK_CHECK(spinstore_open(store, name, life ? NULL : &kept[p], &o) == PTL_OK);
        if (life == 0) {
            RANK_CHECK(spinstore_write(o, 0, data, bytes) == PTL_OK);
            RANK_CHECK(spinstore_write(o, bytes / 2, data, bytes / 4) == PTL_OK);
        }
        RANK_CHECK(spinstore_size(o) == bytes);
        RANK_CHECK(spinstore_read(o, 0, back, bytes + 100, &got) == PTL_OK && got == bytes);
        RANK_CHECK(is_filled(back, p, bytes / 2) && is_filled(back + bytes / 2, p, bytes / 4));
        uint64_t rest = bytes / 2 + bytes / 4;
        RANK_CHECK(memcmp(back + rest, data + rest, bytes - rest) == 0);
        if (life)
            RANK_CHECK(spinstore_write(o, bytes, data, bytes) == PTL_OK);
        spinstore_close(o);
        free(data);
    }
    if (life == 0) {
        RANK_CHECK(spinstore_open(store, "gone", &kept[1], &o) == PTL_OK &&
                   spinstore_write(o, 0, back, bytes) == PTL_OK);
        spinstore_close(o);
    }
    RANK_CHECK(life || spinstore_remove(store, "gone") == PTL_OK);
    RANK_CHECK(spinstore_open(store, "gone", NULL, &o) == PTL_ARG_INVALID);
    RANK_CHECK(spinstore_ask(store, &status) == PTL_OK && status.objects == 4);
    RANK_CHECK(status.dead == 0 && status.damaged == 0);
    free(back);
    return 0;
}

static struct temporary files; /* removed even after a kill, by the next test */

static int two_lives(void *argument) {
    struct scene *s = argument;
    struct spin_job job;
    struct spinstore *store;
    char file[sizeof files.path + 16], journal[sizeof files.path + 16];
    RANK_CHECK(spin_job_open(&job) == PTL_OK);
    snprintf(file, sizeof file, "%s/node-%u", files.path, job.rank);
    snprintf(journal, sizeof journal, "%s/journal", files.path);
    struct spinstore_options mine = s->o;
    mine.secret = job.rank ? spinstore_secret(7, job.rank) : 7;
    mine.file = file;
    mine.journal = journal;
    int line = 0;
    for (uint32_t life = 0; life < 2 && !line; life++) {
        RANK_CHECK(spinstore_join(job.ni, &mine, &store) == PTL_OK);
        spin_barrier();
        if (job.rank > s->o.nodes) {
            line = lives_on(store, life, s->bytes);
            RANK_CHECK(spinstore_stop(store) == PTL_OK);
        } else {
            RANK_CHECK(spinstore_serve(store) == PTL_OK);
        }
        spinstore_leave(store);
        spin_barrier();
    }
    spin_job_close(&job);
    return line;
}

TEST(what_is_in_files_stays) {
    for (int trust = 0; trust < 3; trust++) {
        struct spin_error err;
        struct scene s = {
            .o = {.nodes = 5, .trust = (enum spinstore_trust)trust, .node_bytes = 256 << 10},
            .bytes = 9000};
        CHECK_EQ(temporary_make(&files, &err), 0);
        static const char *const cards[] = {"card=sc17", "card=pspin", "card=pspin"};
        spinlib_world_on(
            (struct spin_world_options){.ranks = 7, .set = &cards[trust], .set_count = 1},
            cards[trust], two_lives, &s);
        temporary_remove(&files);
    }
}

/* ---- Several clients ---- */

/* Registers of one byte that is everywhere in the object, so that a read that mixes two writes is
 * seen at once. */
static int races(struct scene *s, struct spinstore *store, uint32_t number) {
    struct spinstore_object *o;
    struct rng r = rng_seeded(s->seed * 100 + number);
    uint8_t *data = malloc(s->bytes);
    uint64_t got;
    RANK_CHECK(spinstore_open(store, "o", &s->policy, &o) == PTL_OK);
    for (int i = 0; i < 7; i++) {
        struct register_operation *op = &s->history[s->operations++];
        *op = (struct register_operation){.start = spin_now_ps(), .end = UINT64_MAX};
        op->kind = rng_below(&r, 2) ? REGISTER_WRITE : REGISTER_READ;
        if (op->kind == REGISTER_WRITE) {
            op->value = 1 + number * 7 + (uint32_t)i;
            memset(data, (int)op->value, s->bytes);
            RANK_CHECK(spinstore_write(o, 0, data, s->bytes) == PTL_OK);
        } else {
            RANK_CHECK(spinstore_read(o, 0, data, s->bytes, &got) == PTL_OK);
            RANK_CHECK(got == 0 || got == s->bytes);
            op->value = got ? data[0] : 0;
            for (uint64_t k = 0; k < got; k++)
                RANK_CHECK(data[k] == op->value);
        }
        op->end = spin_now_ps();
        spin_compute_ps(rng_below(&r, 4000000));
    }
    spinstore_close(o);
    free(data);
    return 0;
}

TEST(writers_and_readers_of_one_object_are_linearizable) {
    static const char *const cards[] = {"card=sc17", "card=pspin"};
    for (uint32_t seed = 0; seed < 6; seed++) {
        struct scene s = {.o = {.nodes = 3, .node_bytes = 4 << 20},
                          .clients = 4,
                          .client = races,
                          .policy = {seed < 4 ? SPINSTORE_RING : SPINSTORE_RS, 2, seed < 4 ? 0 : 1},
                          .bytes = 6000,
                          .seed = seed};
        spinlib_world_on(
            (struct spin_world_options){.ranks = 8, .set = &cards[seed % 2], .set_count = 1},
            cards[seed % 2], rank, &s);
        snprintf(test_context, sizeof test_context, "seed %u", seed);
        CHECK_EQ(s.operations, 28);
        CHECK(linearizable(s.history, (int)s.operations));
        /* the checker would have seen it */
        for (uint32_t i = 0; i < s.operations; i++)
            if (s.history[i].kind == REGISTER_READ && s.history[i].value) {
                s.history[i].value = 200;
                CHECK(!linearizable(s.history, (int)s.operations));
                break;
            }
    }
}

/* ---- What is refused ---- */

static int refused(void *argument) {
    struct spin_job job;
    struct spinstore *store;
    (void)argument;
    RANK_CHECK(spin_job_open(&job) == PTL_OK);
    static const struct spinstore_options bad[] = {
        {.nodes = 0},
        {.nodes = 3},
        {.nodes = 2, .first_node = 2},
        {.nodes = 1, .service = 3},
        {.nodes = 2, .service = 1},
        {.nodes = 1, .node_bytes = 5ull << 30},
        {.nodes = 1, .trust = (enum spinstore_trust)9},
    };
    for (uint32_t i = 0; i < sizeof bad / sizeof *bad; i++)
        RANK_CHECK(spinstore_join(job.ni, &bad[i], &store) == PTL_ARG_INVALID && !store);
    spin_job_close(&job);
    return 0;
}

static int refuses(struct scene *s, struct spinstore *store, uint32_t number) {
    struct spinstore_object *o;
    char name[100];
    uint64_t got;
    uint8_t byte = 1;
    bool stopped;
    (void)number;
    memset(name, 'x', sizeof name);
    name[SPINSTORE_NAME + 1] = 0;
    RANK_CHECK(spinstore_open(store, name, &s->policy, &o) == PTL_ARG_INVALID && !o);
    RANK_CHECK(spinstore_open(store, "", &s->policy, &o) == PTL_ARG_INVALID);
    name[SPINSTORE_NAME] = 0;
    RANK_CHECK(spinstore_open(store, name, &(struct spinstore_policy){SPINSTORE_RS, 12, 4}, &o) ==
               PTL_ARG_INVALID);
    RANK_CHECK(spinstore_open(store, name, &(struct spinstore_policy){SPINSTORE_RING, 3, 0}, &o) ==
               PTL_NO_SPACE);
    RANK_CHECK(spinstore_open(store, name, &s->policy, &o) == PTL_OK);
    RANK_CHECK(spinstore_write(o, INT64_MAX, &byte, 1) == PTL_ARG_INVALID);
    RANK_CHECK(spinstore_write(o, 0, &byte, (256ull << 20) + 1) == PTL_ARG_INVALID);
    RANK_CHECK(spinstore_write(o, 0, NULL, 0) == PTL_OK);
    RANK_CHECK(spinstore_read(o, UINT64_MAX, &byte, 1, &got) == PTL_ARG_INVALID);
    RANK_CHECK(spinstore_read(o, 1ull << 60, &byte, 1, &got) == PTL_OK && got == 0);
    RANK_CHECK(spinstore_work(store, 0, &stopped) == PTL_ARG_INVALID);
    spinstore_close(o);
    return 0;
}

TEST(arguments_that_are_wrong) {
    spinlib_world(3, refused, NULL);
    run(&(struct scene){
        .o = {.nodes = 2}, .clients = 1, .client = refuses, .policy = {SPINSTORE_RING, 2, 0}});
}

TEST_MAIN
