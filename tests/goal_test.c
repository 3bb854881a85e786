/* GOAL readers, writers, generators and join. */
#include "lib/test.h"

#include <unistd.h>

#include "base/rng.h"
#include "base/file_in.h"
#include "sim/goal.h"
#include "sim/noise.h"

static int read_text(const char *text, struct spin_goal **goal, struct spin_error *err) {
    return goal_read_text("t.goal", text, strlen(text), goal, err);
}

static int read_bytes(const char *name, const uint8_t *bytes, size_t length,
                      struct spin_goal **goal, struct spin_error *err) {
    struct file_in in = file_in_memory(name, bytes, length);
    return goal_read_binary(&in, goal, err);
}

/* The n-th that waits for the operation, with the bit that says for what. */
static uint32_t successor(const struct spin_goal *g, uint32_t op, uint32_t n) {
    uint32_t edge = g->edges[goal_shape_of(g, op)->edges + n];
    return goal_after(op, edge) | (edge & GOAL_ON_START);
}

TEST(text_is_read_with_its_freedoms) {
    struct spin_goal *g;
    struct spin_error err;
    const char *text = "/* a schedule\n of two */ num_ranks 2\n"
                       "rank 0{ // first\n"
                       "a: send 8 b to 1 tag 7 cpu 2 nic 1\n"
                       "b:recv 16b from -1 tag -1\r\n"
                       "calc 500 cpu 3\n"
                       "send: calc 1\n" /* a label may be any word */
                       "b requires a\n"
                       "send irequires b /* why */ // so\n"
                       "}\n\nrank 1\n{\nrecv 8b from 0 tag 7 nic 2\n}\n// end";
    if (read_text(text, &g, &err) != SPIN_OK)
        TEST_FAIL("%s", err.text);
    CHECK_EQ(g->num_ranks, 2);
    CHECK_EQ(g->op_count, 5);
    CHECK_EQ(g->max_cpu, 3);
    CHECK_EQ(g->max_nic, 2);
    CHECK(g->wildcards);
    CHECK(goal_at(g, 0).type == GOAL_SEND && goal_at(g, 0).size == 8 && goal_at(g, 0).peer == 1 &&
          goal_at(g, 0).tag == 7 && goal_at(g, 0).cpu == 2 && goal_at(g, 0).nic == 1);
    CHECK(goal_at(g, 1).type == GOAL_RECV && goal_at(g, 1).peer == GOAL_ANY &&
          goal_at(g, 1).tag == GOAL_ANY);
    CHECK(goal_at(g, 2).type == GOAL_CALC && goal_at(g, 2).size == 500 && goal_at(g, 2).cpu == 3);
    CHECK_EQ(g->edge_count, 2);
    CHECK_EQ(successor(g, 0, 0), 1);
    CHECK_EQ(successor(g, 1, 0), 3 | GOAL_ON_START);
    goal_free(g);
}

TEST(blanks_within_a_statement_are_optional) {
    struct spin_goal *g;
    struct spin_error err;
    const char *text = "num_ranks 2\nrank 0{\na:send8bto1tag7cpu2nic1\nb:recv16bfrom-1tag-1\n"
                       "c:calc5cpu3\nb requiresa\nc irequiresb\n}\nrank 1{\n}\n";
    if (read_text(text, &g, &err) != SPIN_OK)
        TEST_FAIL("%s", err.text);
    CHECK(goal_at(g, 0).size == 8 && goal_at(g, 0).peer == 1 && goal_at(g, 0).tag == 7 &&
          goal_at(g, 0).cpu == 2 && goal_at(g, 0).nic == 1);
    CHECK(goal_at(g, 1).size == 16 && goal_at(g, 1).peer == GOAL_ANY &&
          goal_at(g, 1).tag == GOAL_ANY);
    CHECK(goal_at(g, 2).size == 5 && goal_at(g, 2).cpu == 3);
    CHECK_EQ(successor(g, 0, 0), 1);
    CHECK_EQ(successor(g, 1, 0), 2 | GOAL_ON_START);
    goal_free(g);
}

/* text, and what the one line of error must hold */
static const struct {
    const char *text, *error;
} bad_texts[] = {
    {"", "t.goal:1:1: expected 'num_ranks', found the end of the file"},
    {"num_rank 2", "t.goal:1:1: expected 'num_ranks', found 'num_rank'"},
    {"num_ranks x", "t.goal:1:11: expected a number of ranks"},
    {"num_ranks 0", "at least one rank"},
    {"num_ranks 999999999999", "t.goal:1:11: a number of ranks is over the limit of 268435456"},
    {"num_ranks 99999999999999999999999", "over the limit"},
    {"num_ranks 2\nrank 0 {\n}\n", "t.goal:4:1: rank 1 is missing: num_ranks is 2"},
    {"num_ranks 2\nrank 1 {\n}\n", "t.goal:2:6: rank 0 is next, found rank 1"},
    {"num_ranks 1\nrank 0 {\n}\nrank 1 {\n}\n", "t.goal:4:1: expected nothing after"},
    {"num_ranks 1\nrank 0 {\nsend 8b to 1\n}", "t.goal:3:12: rank 1 does not exist"},
    {"num_ranks 1\nrank 0 {\nrecv 8b from 9 tag 1\n}", "t.goal:3:14: rank 9 does not exist"},
    {"num_ranks 1\nrank 0 {\nrecv 8b from -2\n}", "t.goal:3:14: expected a rank"},
    {"num_ranks 1\nrank 0 {\nsend 8 to 0\n}", "t.goal:3:8: expected 'b', found 'to'"},
    {"num_ranks 1\nrank 0 {\nsend 8b to 0 cpu 1 tag 2\n}", "t.goal:3:20: expected 'tag', 'cpu'"},
    {"num_ranks 1\nrank 0 {\ncalc 5 nic 1\n}", "t.goal:3:8: expected 'cpu'"},
    {"num_ranks 1\nrank 0 {\ncalc 5 cpu 256\n}", "t.goal:3:12: a cpu (0 to 255) is over"},
    {"num_ranks 1\nrank 0 {\ncalc -5\n}", "t.goal:3:6: expected a time, found '-5'"},
    {"num_ranks 1\nrank 0 {\ncalc 99999999999999999999\n}", "over the limit of 18446744073709551"},
    {"num_ranks 1\nrank 0 {\na: calc 5\na: calc 6\n}", "t.goal:4:1: label 'a' is defined twice"},
    {"num_ranks 1\nrank 0 {\na: calc 5\na requires b\n}", "t.goal:4:12: label 'b' is not defined"},
    {"num_ranks 1\nrank 0 {\na: calc 5\na needs a\n}", "t.goal:4:3: expected ':', 'requires'"},
    {"num_ranks 1\nrank 0 {\na: calc 5\na requires\n}", "t.goal:4:11: expected a label"},
    {"num_ranks 1\nrank 0 {\na: calc 5\na requires a\n}", "in a circle"},
    {"num_ranks 1\nrank 0 {\na: calc 5\nb: calc 6\nb requires a\na irequires b\n}", "in a circle"},
    {"num_ranks 1\nrank 0 {\ncalc 5 calc 6\n}", "t.goal:3:8: expected 'cpu'"},
    {"num_ranks 1\nrank 0 {\na: b: calc 5\n}", "t.goal:3:4: expected 'send', 'recv' or 'calc'"},
    {"num_ranks 1\nrank 0 {\ncalc 5", "found the end of the file"},
    {"num_ranks 1\nrank 0 {\n/* open", "t.goal:3:1: comment is not closed"},
    {"num_ranks 1\nrank 0 {\n/ x", "t.goal:3:1: expected a statement or a comment"},
    {"num_ranks 1\nrank 0 {\n\x01\n}", "found byte 0x01"},
    {"num_ranks 1\nrank 0 {\nput 8b tag 1\n}", "'to' is missing"},
    {"num_ranks 1\nrank 0 {\nput 8b to 5 tag 1\n}", "rank 5 does not exist"},
    {"num_ranks 1\nrank 0 {\nput 8b to 0 hh 1\n}", "expected an attribute"},
};

TEST(bad_text_says_what_and_where) {
    for (size_t i = 0; i < sizeof bad_texts / sizeof bad_texts[0]; i++) {
        struct spin_goal *g = NULL;
        struct spin_error err = {0};
        int code = read_text(bad_texts[i].text, &g, &err);
        if (code != SPIN_EFORMAT || !strstr(err.text, bad_texts[i].error))
            TEST_FAIL("text %zu: code %d, '%.200s', expected '%.200s'", i, code, err.text,
                      bad_texts[i].error);
    }
}

/* ---- round trips ---- */

static char *as_text(const struct spin_goal *g) {
    char *text;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    goal_write_text(g, out, NULL);
    fclose(out);
    return text;
}

static char *as_binary(const struct spin_goal *g, bool portals, size_t *length) {
    char *bytes;
    FILE *out = open_memstream(&bytes, length);
    goal_write_binary(g, portals, out);
    fclose(out);
    return bytes;
}

/* Everything a schedule says, without the order of memory. */
static bool same(const struct spin_goal *a, const struct spin_goal *b) {
    if (a->num_ranks != b->num_ranks || a->op_count != b->op_count ||
        a->edge_count != b->edge_count || a->portals_count != b->portals_count ||
        a->max_cpu != b->max_cpu || a->max_nic != b->max_nic || a->wildcards != b->wildcards)
        return false;
    for (uint32_t i = 0; i <= a->num_ranks; i++)
        if (a->first_op[i] != b->first_op[i])
            return false;
    for (uint32_t i = 0; i < a->op_count; i++) {
        const struct goal_op x = goal_at(a, i), y = goal_at(b, i);
        const struct goal_shape *s = goal_shape_of(a, i), *t = goal_shape_of(b, i);
        if (x.size != y.size || x.peer != y.peer || x.tag != y.tag || x.type != y.type ||
            x.cpu != y.cpu || x.nic != y.nic || s->edge_count != t->edge_count ||
            s->waits != t->waits)
            return false;
        for (uint32_t e = 0; e < s->edge_count; e++)
            if (successor(a, i, e) != successor(b, i, e))
                return false;
    }
    for (uint32_t i = 0; i < a->portals_count; i++) {
        const struct goal_portals *x = &a->portals[i], *y = &b->portals[i];
        if (x->op != y->op || x->options != y->options || x->ct != y->ct || x->oct != y->oct ||
            x->hh != y->hh || x->ph != y->ph || x->ch != y->ch || x->mem != y->mem ||
            x->threshold != y->threshold || memcmp(x->arg, y->arg, sizeof x->arg) != 0)
            return false;
    }
    return true;
}

static void round_trip(const struct spin_goal *g, const char *what) {
    struct spin_error err;
    struct spin_goal *again;
    char *text = as_text(g);
    if (goal_read_text(what, text, strlen(text), &again, &err) != SPIN_OK)
        TEST_FAIL("%s", err.text);
    if (!same(g, again))
        TEST_FAIL("%s: text does not give the schedule back:\n%.300s", what, text);
    goal_free(again);
    free(text);
    for (int portals = 0; portals < 2; portals++) {
        size_t length;
        char *bytes = as_binary(g, portals, &length);
        CHECK(goal_is_binary((const uint8_t *)bytes, length));
        if (read_bytes(what, (const uint8_t *)bytes, length, &again, &err) != SPIN_OK)
            TEST_FAIL("%s", err.text);
        if (!same(g, again))
            TEST_FAIL("%s: binary (portals %d) does not give the schedule back", what, portals);
        goal_free(again);
        free(bytes);
    }
}

static struct spin_goal *random_goal(uint64_t seed, bool portals) {
    struct rng rng = rng_seeded(seed);
    uint32_t ranks = 1 + rng_below(&rng, 5), circle;
    struct spin_goal *g = goal_new(ranks, NULL);
    for (uint32_t rank = 0; rank < ranks; rank++) {
        uint32_t ops = rng_below(&rng, 30);
        for (uint32_t i = 0; i < ops; i++) {
            struct goal_op op = {.type = (uint8_t)(1 + rng_below(&rng, portals ? 11 : 3)),
                                 .size = rng_u64(&rng) >> rng_below(&rng, 64),
                                 .cpu = (uint8_t)rng_below(&rng, 4),
                                 .nic = (uint8_t)rng_below(&rng, 4),
                                 .tag = rng_u32(&rng) >> rng_below(&rng, 32),
                                 .peer = rng_below(&rng, ranks)};
            bool append = op.type == GOAL_APPEND || op.type == GOAL_TAPPEND;
            if (op.type == GOAL_CALC || op.type == GOAL_CTWAIT || op.type == GOAL_GEM5CALC)
                op.peer = op.tag = op.nic = 0;
            if (op.type == GOAL_CTWAIT || op.type == GOAL_GEM5CALC)
                op.cpu = 0;
            if (op.type == GOAL_CTWAIT)
                op.size = 0;
            if ((op.type == GOAL_RECV || append) && rng_below(&rng, 3) == 0)
                op.peer = GOAL_ANY;
            goal_add(g, op);
            if (op.type <= GOAL_CALC)
                continue;
            struct goal_portals x = GOAL_PORTALS_NONE;
            if (op.type != GOAL_GEM5CALC && op.type != GOAL_APPEND) {
                x.ct = rng_below(&rng, 3);
                x.threshold = rng_below(&rng, 3);
            }
            if (op.type != GOAL_CTWAIT && op.type != GOAL_GEM5CALC) {
                x.oct = rng_below(&rng, 3);
                x.arg[rng_below(&rng, 4)] = rng_u64(&rng);
            }
            if (append) {
                x.options = (uint8_t)rng_below(&rng, 4);
                x.hh = rng_below(&rng, 3);
                x.ph = rng_below(&rng, 3);
                x.ch = rng_below(&rng, 3);
                x.mem = rng_below(&rng, 3);
            }
            goal_add_portals(g, x);
        }
        /* By seed: to earlier operations, to later ones; stated in order or in reverse. */
        for (uint32_t k = 1; k < ops; k++) {
            uint32_t i = seed % 4 < 2 ? k : ops - k;
            for (uint32_t edges = rng_below(&rng, 3); edges > 0; edges--)
                goal_link(g, seed % 2 ? i : rng_below(&rng, i), seed % 2 ? rng_below(&rng, i) : i,
                          rng_below(&rng, 2));
        }
        CHECK_EQ(goal_end_rank(g, &circle), SPIN_OK);
    }
    return g;
}

/* All ranks do the same with other peers; `odd` of them differ somewhere. */
static struct spin_goal *alike_goal(uint64_t seed, uint32_t odd) {
    struct rng peers = rng_seeded(seed);
    uint32_t ranks = 4 + rng_below(&peers, 8), circle;
    struct spin_goal *g = goal_new(ranks, NULL);
    for (uint32_t rank = 0; rank < ranks; rank++) {
        struct rng rng = rng_seeded(seed + 1000);
        uint32_t ops = 1 + rng_below(&rng, 12);
        uint32_t change = rng_below(&peers, ranks) < odd ? rng_below(&peers, ops) : ops;
        for (uint32_t i = 0; i < ops; i++) {
            struct goal_op op = {.type = (uint8_t)(1 + rng_below(&rng, 3)),
                                 .size = rng_below(&rng, 3),
                                 .tag = rng_below(&rng, 3),
                                 .peer = rng_below(&peers, ranks)};
            if (op.type == GOAL_RECV && rng_below(&peers, 4) == 0)
                op.peer = GOAL_ANY;
            if (i == change)
                op.size += 1ull << rng_below(&peers, 50);
            if (op.type == GOAL_CALC)
                op.peer = op.tag = 0;
            goal_add(g, op);
            if (i && i != change)
                goal_link(g, i, rng_below(&rng, i), rng_below(&rng, 2));
        }
        CHECK_EQ(goal_end_rank(g, &circle), SPIN_OK);
    }
    return g;
}

TEST(ranks_that_are_alike_share_shapes_and_keep_their_differences) {
    for (uint64_t seed = 1; seed <= 200; seed++) {
        char what[40];
        snprintf(what, sizeof what, "alike, seed %d", (int)seed);
        struct spin_goal *g = alike_goal(seed, seed % 4);
        if (seed % 4 == 0)
            CHECK(g->shape_count <= goal_rank_ops(g, 0));
        round_trip(g, what);
        goal_free(g);
    }
}

TEST(a_rank_like_the_one_before_is_still_checked) {
    struct spin_goal *g = goal_new(3, NULL), *again;
    struct spin_error err;
    uint32_t circle;
    for (uint32_t rank = 0; rank < 3; rank++) {
        goal_add(g, (struct goal_op){.type = GOAL_SEND, .size = 8, .peer = 2 - rank});
        goal_add(g, (struct goal_op){.type = GOAL_RECV, .size = 8, .peer = 2 - rank});
        goal_end_rank(g, &circle);
    }
    size_t length;
    uint8_t *bytes = (uint8_t *)as_binary(g, false, &length);
    uint8_t *peer = bytes + length - 2 * 39 + 5; /* of rank 2's send */
    CHECK_EQ(peer[0], 0);
    peer[0] = 3;
    CHECK_EQ(read_bytes("t", bytes, length, &again, &err), SPIN_EFORMAT);
    CHECK_HAS(err.text, "rank 2: operation 1: rank 3 does not exist");
    peer[0] = peer[1] = peer[2] = peer[3] = 0xff; /* only a receive takes from any */
    CHECK_EQ(read_bytes("t", bytes, length, &again, &err), SPIN_EFORMAT);
    CHECK_HAS(err.text, "rank 2: operation 1");
    memset(peer, 0, 4);
    memset(peer + 39, 0xff, 4);
    CHECK_EQ(read_bytes("t", bytes, length, &again, &err), SPIN_OK);
    CHECK(again->wildcards && goal_at(again, 5).peer == GOAL_ANY && goal_at(again, 3).peer == 1);
    goal_free(again);
    goal_free(g);
    free(bytes);
}

TEST(schedules_survive_every_format) {
    for (uint64_t seed = 1; seed <= 400; seed++) {
        char what[40];
        snprintf(what, sizeof what, "seed %d", (int)seed);
        struct spin_goal *g = random_goal(seed, seed % 3 == 0);
        round_trip(g, what);
        goal_free(g);
    }
}

TEST(both_binary_dialects_have_their_sizes) {
    struct spin_goal *g;
    CHECK_EQ(read_text("num_ranks 1\nrank 0 {\na: calc 5\nb: calc 6\nb requires a\n}", &g, NULL),
             0);
    size_t plain, portals;
    free(as_binary(g, false, &plain));
    free(as_binary(g, true, &portals));
    /* magic, header, one offset pair, counts, one root, two nodes, one successor */
    CHECK_EQ(plain, 8 + 6 + 16 + 8 + 4 + 2 * 39 + 4);
    CHECK_EQ(portals, 8 + 6 + 16 + 8 + 4 + 2 * 104 + 4);
    goal_free(g);
}

/* Layout by hand, not by our writer: offsets from byte 8, an end that names the last byte. */
TEST(a_binary_file_made_by_hand_is_read) {
    uint8_t file[8 + 6 + 16 + 8 + 4 + 2 * 39 + 4] = {0x7f, 0x10};
    file[8] = 1;
    file[14] = 22;
    file[22] = sizeof file - 8 - 1;
    uint8_t *rank = file + 8 + 22;
    rank[0] = 2;                         /* nodes */
    rank[4] = 1;                         /* roots: node 0 */
    uint8_t *a = rank + 12, *b = a + 39; /* a: calc 5, b: calc 6 after a has started */
    a[4] = 3;
    a[9] = 5;
    a[31] = 1;
    b[0] = 1;
    b[4] = 3;
    b[9] = 6;
    b[39] = 1; /* the appendix: node 1 */
    struct spin_goal *g;
    struct spin_error err;
    if (read_bytes("hand", file, sizeof file, &g, &err) != SPIN_OK)
        TEST_FAIL("%s", err.text);
    CHECK_EQ(g->op_count, 2);
    CHECK_EQ(goal_at(g, 1).size, 6);
    CHECK_EQ(successor(g, 0, 0), 1 | GOAL_ON_START);
    goal_free(g);
}

TEST(damaged_binary_files_are_refused) {
    struct spin_error err;
    struct spin_goal *g = random_goal(7, false), *again;
    size_t length;
    char *bytes = as_binary(g, false, &length);
    for (size_t cut = 0; cut < length; cut++) {
        /* In memory of its own size, so that a sanitizer sees any read behind it. */
        uint8_t *part = malloc(cut + 1);
        memcpy(part, bytes, cut);
        if (read_bytes("cut", part, cut, &again, &err) == SPIN_OK)
            TEST_FAIL("a file cut to %zu of %zu bytes was read", cut, length);
        CHECK(strlen(err.text) > 10);
        free(part);
    }
    struct rng rng = rng_seeded(3);
    for (int i = 0; i < 20000; i++) {
        size_t at = 8 + rng_below(&rng, (uint32_t)length - 8);
        char kept = bytes[at];
        bytes[at] = (char)rng_u32(&rng);
        if (read_bytes("damaged", (const uint8_t *)bytes, length, &again, &err) == SPIN_OK)
            goal_free(again);
        bytes[at] = kept;
    }
    /* Counts that would need more memory than there is. */
    uint8_t huge[30] = {0x7f, 0x10, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff};
    CHECK_EQ(read_bytes("huge", huge, sizeof huge, &again, &err), SPIN_EFORMAT);
    CHECK_HAS(err.text, "4294967295 ranks");
    free(bytes);
    goal_free(g);
}

/* ---- generators ---- */

struct expectation {
    const char *pattern;
    uint32_t ranks;
    uint64_t sends, bytes;
};

/* Larger than the window through which it is read, some ranks larger than that too. */
TEST(large_files_are_read_in_pieces) {
    struct spin_goal *g, *again;
    struct spin_error err;
    char path[] = "goal-test-XXXXXX";
    int fd = mkstemp(path);
    CHECK(fd >= 0);
    close(fd);
    for (uint32_t ranks = 2; ranks <= 20000; ranks *= 100) {
        struct spin_goal_pattern pattern = {.name = "dissemination",
                                            .ranks = ranks,
                                            .bytes = 8,
                                            .iterations = ranks == 2 ? 20000 : 2};
        CHECK_EQ(spin_goal_generate(&pattern, &g, &err), SPIN_OK);
        for (int format = 0; format < 2; format++) {
            CHECK_EQ(spin_goal_write(g, path, format ? SPIN_GOAL_BINARY : SPIN_GOAL_TEXT, &err),
                     SPIN_OK);
            if (spin_goal_read(path, &again, &err) != SPIN_OK)
                TEST_FAIL("%s", err.text);
            CHECK(same(again, g));
            goal_free(again);
        }
        goal_free(g);
    }
    unlink(path);
}

TEST(patterns_send_what_they_should) {
    static const struct expectation rows[] = {
        {"binomial-bcast", 1, 0, 0},
        {"binomial-bcast", 7, 6, 60},
        {"binary-bcast", 12, 11, 110},
        {"binomial-reduce", 9, 8, 80},
        {"binary-reduce", 10, 9, 90},
        {"binomial-scatter", 8, 7, 120}, /* 4+2+1 + 1 + 2+1 + 1 pieces of 10 bytes */
        {"binomial-gather", 8, 7, 120},
        {"dissemination", 8, 24, 240},
        {"dissemination", 9, 36, 360},
        {"doubling-allreduce", 8, 24, 240},
        {"doubling-allreduce", 6, 12, 120}, /* 2 in, 4 x 2 rounds, 2 out */
        {"ring-allreduce", 5, 40, 80},      /* 2 x 4 steps of 5 ranks, pieces of 2 bytes */
        {"linear-alltoall", 6, 30, 300},
        {"pairwise-alltoall", 6, 30, 300},
        {"halo-2d", 12, 48, 480},
        {"halo-3d", 27, 162, 1620},
        {"halo-4d", 16, 128, 1280},
        {"halo-2d", 7, 14, 140}, /* 1 x 7: one dimension has neighbours */
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct spin_goal_pattern p = {
            .name = rows[i].pattern, .ranks = rows[i].ranks, .bytes = 10, .iterations = 1};
        struct spin_goal *g;
        struct spin_error err;
        if (spin_goal_generate(&p, &g, &err) != SPIN_OK)
            TEST_FAIL("%s", err.text);
        struct spin_goal_info info = spin_goal_info(g);
        if (info.sends != rows[i].sends || info.receives != rows[i].sends ||
            info.bytes_sent != rows[i].bytes)
            TEST_FAIL("%s on %u: %d sends, %d receives, %d bytes", rows[i].pattern, rows[i].ranks,
                      (int)info.sends, (int)info.receives, (int)info.bytes_sent);
        goal_free(g);
    }
}

static uint64_t makespan(const struct spin_goal *g, struct spin_goal_result *keep) {
    struct spin_goal_options o = {.loggops = {2500000, 1500000, 1000000, 6000000, 0, 65535}};
    struct spin_goal_result r;
    struct spin_error err;
    if (spin_goal_run(g, &o, &r, &err) != SPIN_OK)
        TEST_FAIL("%s", err.text);
    uint64_t span = r.makespan_ps;
    if (keep)
        *keep = r;
    else
        spin_goal_result_free(&r);
    return span;
}

/* All patterns finish on any number of ranks, also when repeated and with other roots, and nothing
 * is left unreceived. */
TEST(patterns_run_on_any_number_of_ranks) {
    const char *name;
    for (int i = 0; (name = spin_goal_pattern_name(i, NULL)) != NULL; i++)
        for (uint32_t ranks = 1; ranks <= 40; ranks += ranks < 20 ? 1 : 5)
            for (uint32_t iterations = 1; iterations <= 3; iterations += 2) {
                struct spin_goal_pattern p = {.name = name,
                                              .ranks = ranks,
                                              .bytes = 10,
                                              .calc_ns = 100,
                                              .root = ranks / 2,
                                              .iterations = iterations};
                struct spin_goal *g;
                struct spin_goal_result r;
                struct spin_error err;
                if (spin_goal_generate(&p, &g, &err) != SPIN_OK)
                    TEST_FAIL("%s", err.text);
                makespan(g, &r);
                CHECK_EQ(r.unreceived, 0);
                spin_goal_result_free(&r);
                goal_free(g);
            }
}

/* Analytic: a binomial broadcast of small messages on 2^k ranks takes k steps of L + 2o on its
 * longest path when g <= o, since the first child is reached first and has the deepest tree. */
TEST(a_binomial_broadcast_takes_its_known_time) {
    for (uint32_t k = 1; k <= 10; k++) {
        struct spin_goal_pattern p = {
            .name = "binomial-bcast", .ranks = 1u << k, .bytes = 1, .iterations = 1};
        struct spin_goal *g;
        CHECK_EQ(spin_goal_generate(&p, &g, NULL), SPIN_OK);
        CHECK_EQ(makespan(g, NULL), k * (2500000ull + 2 * 1500000));
        goal_free(g);
    }
}

TEST(repeated_patterns_follow_each_other) {
    struct spin_goal_pattern p = {.name = "dissemination", .ranks = 8, .bytes = 1, .iterations = 1};
    struct spin_goal *g;
    CHECK_EQ(spin_goal_generate(&p, &g, NULL), SPIN_OK);
    uint64_t once = makespan(g, NULL);
    goal_free(g);
    p.iterations = 5;
    CHECK_EQ(spin_goal_generate(&p, &g, NULL), SPIN_OK);
    CHECK_EQ(makespan(g, NULL), 5 * once);
    goal_free(g);
}

TEST(wrong_patterns_are_refused) {
    struct spin_goal *g;
    struct spin_error err;
    struct spin_goal_pattern p = {.name = "nonsense", .ranks = 4, .iterations = 1};
    CHECK_EQ(spin_goal_generate(&p, &g, &err), SPIN_EARG);
    CHECK_HAS(err.text, "unknown pattern 'nonsense'");
    p = (struct spin_goal_pattern){
        .name = "binomial-bcast", .ranks = 4, .root = 4, .iterations = 1};
    CHECK_EQ(spin_goal_generate(&p, &g, &err), SPIN_EARG);
    CHECK_HAS(err.text, "root 4");
    p = (struct spin_goal_pattern){.name = "halo-2d", .ranks = 4, .dims = {3, 2}, .iterations = 1};
    CHECK_EQ(spin_goal_generate(&p, &g, &err), SPIN_EARG);
    CHECK_HAS(err.text, "4 ranks");
}

/* ---- join ---- */

TEST(joined_jobs_run_as_if_alone) {
    struct spin_goal *jobs[2], *both;
    struct spin_error err;
    struct spin_goal_pattern
        a = {.name = "ring-allreduce", .ranks = 5, .bytes = 50, .iterations = 1},
        b = {.name = "halo-2d", .ranks = 4, .bytes = 99, .calc_ns = 7000, .iterations = 2};
    CHECK_EQ(spin_goal_generate(&a, &jobs[0], NULL), SPIN_OK);
    CHECK_EQ(spin_goal_generate(&b, &jobs[1], NULL), SPIN_OK);
    static const uint32_t placement[] = {9, 1, 3, 5, 0, 2, 8, 4, 7};
    if (spin_goal_join((const struct spin_goal *const *)jobs, 2, placement, 10, &both, &err) != 0)
        TEST_FAIL("%s", err.text);
    struct spin_goal_result alone[2], joined;
    makespan(jobs[0], &alone[0]);
    makespan(jobs[1], &alone[1]);
    makespan(both, &joined);
    for (uint32_t i = 0; i < 9; i++)
        CHECK_EQ(joined.finish_ps[placement[i]],
                 i < 5 ? alone[0].finish_ps[i] : alone[1].finish_ps[i - 5]);
    CHECK_EQ(joined.finish_ps[6], 0);
    CHECK_EQ(joined.messages, alone[0].messages + alone[1].messages);
    static const uint32_t twice[] = {9, 1, 3, 5, 0, 2, 8, 4, 9};
    struct spin_goal *none;
    CHECK_EQ(spin_goal_join((const struct spin_goal *const *)jobs, 2, twice, 10, &none, &err),
             SPIN_EARG);
    CHECK_HAS(err.text, "node 9");
    CHECK_EQ(spin_goal_join((const struct spin_goal *const *)jobs, 2, placement, 9, &none, &err),
             SPIN_EARG);
    for (int i = 0; i < 2; i++) {
        spin_goal_result_free(&alone[i]);
        goal_free(jobs[i]);
    }
    spin_goal_result_free(&joined);
    goal_free(both);
}

/* ---- noise ---- */

/* Walks through time in steps of one unit: obviously right. */
static uint64_t slow_delay(const uint64_t (*detours)[2], int count, uint64_t period, uint64_t start,
                           uint64_t busy) {
    uint64_t now = start, left = busy;
    while (left) {
        bool lost = false;
        for (int i = 0; i < count; i++)
            lost |= now % period >= detours[i][0] && now % period < detours[i][0] + detours[i][1];
        left -= !lost;
        now++;
    }
    return now - start - busy;
}

TEST(noise_delays_as_a_walk_through_time_does) {
    static const uint64_t record[][2] = {{3, 2}, {10, 1}, {11, 4}, {30, 10}};
    char path[] = "/tmp/openspin-noise-XXXXXX";
    int fd = mkstemp(path);
    CHECK(fd >= 0);
    FILE *file = fdopen(fd, "w");
    fputs("# start length\n", file);
    for (int i = 0; i < 4; i++)
        fprintf(file, "%dps %dps\n", (int)record[i][0], (int)record[i][1]);
    fclose(file);
    struct noise *recorded, *periodic;
    struct spin_noise options = {.record = path, .together = true};
    CHECK_EQ(noise_new(&options, &recorded, NULL), SPIN_OK);
    options = (struct spin_noise){.period_ps = 13, .length_ps = 4, .together = true};
    CHECK_EQ(noise_new(&options, &periodic, NULL), SPIN_OK);
    static const uint64_t regular[][2] = {{0, 4}};
    for (uint64_t start = 0; start < 90; start++)
        for (uint64_t busy = 0; busy < 120; busy += busy < 30 ? 1 : 7) {
            CHECK_EQ(noise_delay(recorded, 0, start, busy), slow_delay(record, 4, 40, start, busy));
            CHECK_EQ(noise_delay(periodic, 0, start, busy),
                     slow_delay(regular, 1, 13, start, busy));
        }
    noise_free(recorded);
    noise_free(periodic);
    unlink(path);
}

TEST(noise_slows_a_run_and_is_counted) {
    struct spin_goal_pattern p = {
        .name = "halo-2d", .ranks = 16, .bytes = 8, .calc_ns = 1000000, .iterations = 3};
    struct spin_goal *g;
    CHECK_EQ(spin_goal_generate(&p, &g, NULL), SPIN_OK);
    uint64_t quiet = makespan(g, NULL);
    struct spin_goal_options o = {
        .loggops = {2500000, 1500000, 1000000, 6000000, 0, 65535},
        .noise = {.period_ps = 100000000, .length_ps = 10000000, .seed = 5}};
    struct spin_goal_result a, b;
    CHECK_EQ(spin_goal_run(g, &o, &a, NULL), SPIN_OK);
    CHECK(a.makespan_ps > quiet + quiet / 20);
    CHECK(a.noise_ps > 0);
    CHECK_EQ(spin_goal_run(g, &o, &b, NULL), SPIN_OK);
    CHECK_EQ(a.makespan_ps, b.makespan_ps);
    CHECK_EQ(a.noise_ps, b.noise_ps);
    spin_goal_result_free(&b);
    o.noise.seed = 6;
    CHECK_EQ(spin_goal_run(g, &o, &b, NULL), SPIN_OK);
    CHECK(a.noise_ps != b.noise_ps);
    spin_goal_result_free(&a);
    spin_goal_result_free(&b);
    goal_free(g);
}

TEST_MAIN
