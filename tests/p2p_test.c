/* Messages between ranks: random programs of sends and receives against a plain model of MPI's
 * matching, on networks that lose and reorder packets; the four cases of Figure 5b; overlap; what
 * is too short, cancelled, probed for or refused. */
#include "spinlib/p2p.h"

#include <stdlib.h>
#include <string.h>

#include "lib/spinlib_world.h"

#include "lib/p2p_program.h"

static const char *const variants[] = {"rdma", "portals", "spin"};
enum { VARIANTS = 3 };

/* ---- Random programs ---- */

static void run_programs(uint64_t first, uint64_t count, const char *const *set, int set_count) {
    struct scene *s = malloc(sizeof *s);
    if (TEST_SANITIZED)
        count = 1;
    for (uint64_t seed = first; seed < first + count; seed++)
        for (int v = 0; v < VARIANTS; v++) {
            snprintf(test_context, sizeof test_context, "seed %d, %s", (int)seed, variants[v]);
            make_program(s, variants[v], seed, 0);
            spinlib_world_with(
                (struct spin_world_options){.ranks = s->ranks, .set = set, .set_count = set_count},
                random_rank, s);
        }
    free(s);
}

TEST(random_programs_match_as_in_mpi) {
    run_programs(1, 4, NULL, 0);
}

TEST(random_programs_on_a_network_that_loses_and_reorders) {
    static const char *const set[] = {"loss=0.02", "reordering=0.1"};
    run_programs(100, 3, set, 2);
}

/* ---- One thing at a time, on two ranks ---- */

typedef int part(struct spin_p2p *p2p, const char *variant);
struct pair {
    struct spin_p2p_options options;
    part *part;
};

static int pair_rank(void *argument) {
    const struct pair *pair = argument;
    struct spin_job job;
    struct spin_p2p *p2p;
    RANK_CHECK(spin_job_open(&job) == PTL_OK);
    RANK_CHECK(spin_p2p_open(job.ni, &pair->options, &p2p) == PTL_OK);
    spin_barrier();
    int line = pair->part(p2p, pair->options.variant);
    spin_barrier();
    spin_p2p_close(p2p);
    spin_job_close(&job);
    return line;
}

static void run_pair(part *part, struct spin_p2p_options options) {
    for (int v = 0; v < VARIANTS; v++) {
        struct pair pair = {options, part};
        pair.options.variant = variants[v];
        snprintf(test_context, sizeof test_context, "%s", variants[v]);
        spinlib_world(2, pair_rank, &pair);
    }
}

enum { SMALL = 1000, LARGE = 100000, MEGABYTE = 1 << 20 };

static int receive_one(struct spin_p2p *p2p, uint8_t *into, uint64_t bytes, bool first) {
    struct spin_p2p_request *r = NULL;
    struct spin_p2p_status status;
    if (first)
        RANK_CHECK(spin_p2p_irecv(p2p, into, bytes, 1, 5, 0, &r) == PTL_OK);
    spin_barrier();
    spin_compute(100000); /* the message comes */
    if (!first)
        RANK_CHECK(spin_p2p_irecv(p2p, into, bytes, 1, 5, 0, &r) == PTL_OK);
    RANK_CHECK(spin_p2p_wait(p2p, &r, &status) == PTL_OK && status.code == PTL_OK && !r);
    RANK_CHECK(status.source == 1 && status.tag == 5 && status.bytes == bytes);
    for (uint32_t i = 0; i < bytes; i++)
        RANK_CHECK(into[i] == byte_of(5, i));
    return 0;
}

/* Figure 5b: who copies and who gets, in each case. */
static int four_cases(struct spin_p2p *p2p, const char *variant) {
    static const uint64_t bytes[2] = {SMALL, LARGE};
    uint8_t *data = malloc(LARGE);
    for (uint32_t i = 0; i < LARGE; i++)
        data[i] = spin_rank() ? byte_of(5, i) : 0;
    for (int one = 0; one < 4; one++) {
        if (spin_rank() == 0) {
            int line = receive_one(p2p, data, bytes[one % 2], one < 2);
            if (line)
                return line;
        } else {
            spin_barrier();
            RANK_CHECK(spin_p2p_send(p2p, data, bytes[one % 2], 0, 5, 0) == PTL_OK);
        }
        spin_barrier();
    }
    free(data);
    if (spin_rank())
        return 0;
    struct spin_p2p_counts c;
    spin_p2p_counts(p2p, &c);
    bool rdma = strcmp(variant, "rdma") == 0, spin = strcmp(variant, "spin") == 0;
    uint64_t eager = 16384;
    RANK_CHECK(c.received == 4);
    /* A processor that matches only sees a message when it has posted the receive. */
    RANK_CHECK(rdma || (c.expected_small == 1 && c.expected_large == 1));
    RANK_CHECK(rdma || (c.unexpected_small == 1 && c.unexpected_large == 1));
    RANK_CHECK(c.host_gets == (spin ? 1 : 2));
    RANK_CHECK(rdma ? c.copied_bytes >= 2 * SMALL : c.copied_bytes == SMALL + eager);
    return 0;
}

TEST(the_four_cases_of_figure_5b) {
    run_pair(four_cases, (struct spin_p2p_options){0});
}

/* With spin a large message arrives while the receiver computes; with the others it does not. */
static int overlap(struct spin_p2p *p2p, const char *variant) {
    uint8_t *data = calloc(1, MEGABYTE);
    if (spin_rank()) {
        spin_barrier();
        RANK_CHECK(spin_p2p_send(p2p, data, MEGABYTE, 0, 5, 0) == PTL_OK);
        free(data);
        return 0;
    }
    struct spin_p2p_request *r;
    RANK_CHECK(spin_p2p_irecv(p2p, data, MEGABYTE, 1, 5, 0, &r) == PTL_OK);
    spin_barrier();
    spin_compute(200000);
    uint64_t start = spin_now_ps();
    RANK_CHECK(spin_p2p_wait(p2p, &r, NULL) == PTL_OK);
    uint64_t waited_ps = spin_now_ps() - start;
    free(data);
    if (strcmp(variant, "spin") == 0)
        RANK_CHECK(waited_ps < 1000000);
    else
        RANK_CHECK(waited_ps > 20000000); /* 1 MiB at 50 GiB/s */
    return 0;
}

TEST(spin_receives_while_the_processor_computes) {
    run_pair(overlap, (struct spin_p2p_options){0});
}

/* More than the card takes at a time: the rest waits, in order. */
static int more_than_fit(struct spin_p2p *p2p, const char *variant) {
    enum { MANY = 40 };
    static const uint32_t bytes[3] = {8, 300, 20000};
    struct spin_p2p_request *r[MANY];
    struct spin_p2p_status status[MANY];
    uint8_t *data = calloc(MANY, 20000);
    (void)variant;
    for (uint32_t i = 0; i < MANY; i++) {
        uint8_t *at = data + i * 20000;
        if (spin_rank()) {
            *at = (uint8_t)i;
            RANK_CHECK(spin_p2p_isend(p2p, at, bytes[i % 3], 0, 1, 0, &r[i]) == PTL_OK);
        } else {
            RANK_CHECK(spin_p2p_irecv(p2p, at, 20000, SPIN_P2P_ANY_SOURCE, 1, 0, &r[i]) == PTL_OK);
        }
    }
    RANK_CHECK(spin_p2p_waitall(p2p, MANY, r, status) == PTL_OK);
    for (uint32_t i = 0; i < MANY; i++) {
        RANK_CHECK(status[i].code == PTL_OK && status[i].bytes == bytes[i % 3] && !r[i]);
        RANK_CHECK(data[i * 20000] == i);
    }
    free(data);
    return 0;
}

TEST(what_the_card_has_no_room_for_waits) {
    run_pair(more_than_fit, (struct spin_p2p_options){.depth = 3});
}

/* The same where the interface has few entries; and without enough headers sends are told so. */
static int few_entries_rank(void *argument) {
    const struct spin_p2p_options options = {.variant = argument};
    const ptl_ni_limits_t limits = {.max_entries = 20, .max_unexpected_headers = 8};
    struct spin_p2p *p2p;
    ptl_handle_ni_t ni;
    RANK_CHECK(PtlInit() == PTL_OK);
    RANK_CHECK(PtlNIInit(PTL_IFACE_DEFAULT, PTL_NI_MATCHING | PTL_NI_LOGICAL, PTL_PID_ANY, &limits,
                         NULL, &ni) == PTL_OK);
    RANK_CHECK(spin_map_ranks(ni) == PTL_OK);
    RANK_CHECK(spin_p2p_open(ni, &options, &p2p) == PTL_OK);
    spin_barrier();
    int line = 0, refused = 0;
    if (spin_rank())
        spin_compute(50000); /* receives first */
    line = more_than_fit(p2p, options.variant);
    spin_barrier();
    for (int i = 0; i < 20 && spin_rank() && !line; i++) {
        int code = spin_p2p_send(p2p, &line, sizeof line, 0, 9, 0);
        RANK_CHECK(code == PTL_OK || code == PTL_NO_SPACE);
        refused += code == PTL_NO_SPACE;
    }
    bool by_card = strcmp(options.variant, "rdma") != 0;
    RANK_CHECK(line || !spin_rank() || refused == (by_card ? 12 : 0));
    spin_barrier();
    spin_p2p_close(p2p);
    PtlNIFini(ni);
    PtlFini();
    return line;
}

TEST(an_interface_with_few_entries) {
    for (int v = 0; v < VARIANTS; v++) {
        snprintf(test_context, sizeof test_context, "%s", variants[v]);
        spinlib_world(2, few_entries_rank, (void *)(uintptr_t)variants[v]);
    }
}

static int probes(struct spin_p2p *p2p, const char *variant) {
    struct spin_p2p_status status = {0};
    uint8_t data[64] = {0};
    bool found = true;
    (void)variant;
    if (spin_rank()) {
        spin_barrier();
        spin_compute(3000);
        RANK_CHECK(spin_p2p_send(p2p, data, 20, 0, 7, 2) == PTL_OK);
        RANK_CHECK(spin_p2p_send(p2p, data, 30, 0, 8, 2) == PTL_OK);
        return 0;
    }
    RANK_CHECK(spin_p2p_iprobe(p2p, SPIN_P2P_ANY_SOURCE, SPIN_P2P_ANY_TAG, 2, &found, NULL) == 0);
    RANK_CHECK(!found);
    spin_barrier();
    RANK_CHECK(spin_p2p_probe(p2p, 1, 8, 2, &status) == PTL_OK);
    RANK_CHECK(status.source == 1 && status.tag == 8 && status.bytes == 30);
    RANK_CHECK(spin_p2p_iprobe(p2p, 1, SPIN_P2P_ANY_TAG, 2, &found, &status) == PTL_OK);
    RANK_CHECK(found && status.tag == 7 && status.bytes == 20);
    RANK_CHECK(spin_p2p_iprobe(p2p, 1, SPIN_P2P_ANY_TAG, 3, &found, &status) == 0 && !found);
    RANK_CHECK(spin_p2p_iprobe(p2p, 0, 7, 2, &found, &status) == PTL_OK && !found);
    RANK_CHECK(spin_p2p_recv(p2p, data, 64, 1, 8, 2, &status) == PTL_OK && status.bytes == 30);
    RANK_CHECK(spin_p2p_recv(p2p, data, 64, 1, 7, 2, &status) == PTL_OK && status.bytes == 20);
    RANK_CHECK(spin_p2p_iprobe(p2p, 1, 7, 2, &found, &status) == PTL_OK && !found);
    return 0;
}

TEST(probes_see_what_waits) {
    run_pair(probes, (struct spin_p2p_options){0});
}

/* A receive that is cancelled takes no message; one that has its message goes on. */
static int cancels(struct spin_p2p *p2p, const char *variant) {
    struct spin_p2p_request *r[3];
    struct spin_p2p_status status;
    uint8_t data[3][8] = {{0}};
    uint32_t which;
    bool done;
    (void)variant;
    if (spin_rank()) {
        spin_barrier();
        return spin_p2p_send(p2p, "message", 8, 0, 1, 0);
    }
    for (int i = 0; i < 3; i++)
        RANK_CHECK(spin_p2p_irecv(p2p, data[i], 8, 1, SPIN_P2P_ANY_TAG, 0, &r[i]) == PTL_OK);
    RANK_CHECK(spin_p2p_cancel(p2p, r[0]) == PTL_OK);
    RANK_CHECK(spin_p2p_waitany(p2p, 3, r, &which, &status) == PTL_OK);
    RANK_CHECK(which == 0 && status.code == PTL_IGNORED && !r[0]);
    spin_barrier();
    RANK_CHECK(spin_p2p_waitany(p2p, 3, r, &which, &status) == PTL_OK);
    RANK_CHECK(which == 1 && status.code == PTL_OK && strcmp((char *)data[1], "message") == 0);
    RANK_CHECK(spin_p2p_test(p2p, &r[2], &done, &status) == PTL_OK && !done && r[2]);
    RANK_CHECK(spin_p2p_next(p2p, 0, &status) == PTL_EQ_EMPTY);
    RANK_CHECK(spin_p2p_cancel(p2p, r[2]) == PTL_OK);
    RANK_CHECK(spin_p2p_cancel(p2p, r[2]) == PTL_OK);
    RANK_CHECK(spin_p2p_test(p2p, &r[2], &done, &status) == PTL_OK && done && !r[2]);
    RANK_CHECK(status.code == PTL_IGNORED && data[2][0] == 0);
    RANK_CHECK(spin_p2p_waitany(p2p, 3, r, &which, &status) == PTL_OK && which == 3);
    return 0;
}

TEST(receives_can_be_cancelled) {
    run_pair(cancels, (struct spin_p2p_options){0});
    run_pair(cancels, (struct spin_p2p_options){.depth = 1});
}

/* Messages that nobody receives: the end does not wait for them. */
static int unreceived(struct spin_p2p *p2p, const char *variant) {
    uint8_t data[2000] = {0};
    (void)variant;
    for (int i = 0; i < 10 && spin_rank(); i++)
        RANK_CHECK(spin_p2p_send(p2p, data, 200 * (uint32_t)i, 0, 1, 0) == PTL_OK);
    return 0;
}

TEST(unreceived_messages_do_not_hold_up_the_end) {
    run_pair(unreceived, (struct spin_p2p_options){0});
}

/* A rank that has closed its end: a send there fails, and does not wait for ever. */
static int closed_rank(void *argument) {
    const struct spin_p2p_options options = {.variant = argument};
    struct spin_job job;
    struct spin_p2p *p2p;
    uint8_t *data = calloc(1, LARGE);
    RANK_CHECK(spin_job_open(&job) == PTL_OK);
    RANK_CHECK(spin_p2p_open(job.ni, &options, &p2p) == PTL_OK);
    spin_barrier();
    if (job.rank == 1)
        spin_p2p_close(p2p);
    spin_barrier();
    if (job.rank == 0) {
        RANK_CHECK(spin_p2p_send(p2p, data, SMALL, 1, 0, 0) == PTL_NO_SPACE);
        RANK_CHECK(spin_p2p_send(p2p, data, LARGE, 1, 0, 0) == PTL_NO_SPACE);
        spin_p2p_close(p2p);
    }
    spin_job_close(&job);
    free(data);
    return 0;
}

TEST(a_send_to_a_closed_end_fails) {
    for (int v = 0; v < VARIANTS; v++) {
        snprintf(test_context, sizeof test_context, "%s", variants[v]);
        spinlib_world(2, closed_rank, (void *)(uintptr_t)variants[v]);
    }
}

static int refused_rank(void *argument) {
    static const struct spin_p2p_options wrong[] = {
        {.variant = "ucx"},
        {.variant = ""},
        {.eager_bytes = 1u << 30},
        {.depth = 8193},
        {.unexpected_bytes = 1ull << 40},
    };
    struct spin_job job;
    struct spin_p2p *p2p;
    struct spin_p2p_request *r;
    uint8_t byte = 0;
    (void)argument;
    RANK_CHECK(spin_job_open(&job) == PTL_OK);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        RANK_CHECK(spin_p2p_open(job.ni, &wrong[i], &p2p) == PTL_ARG_INVALID && !p2p);
    RANK_CHECK(spin_p2p_open(job.ni, NULL, &p2p) == PTL_OK);
    RANK_CHECK(spin_p2p_isend(p2p, &byte, 1, 2, 0, 0, &r) == PTL_ARG_INVALID && !r);
    RANK_CHECK(spin_p2p_isend(p2p, &byte, 1ull << 32, 0, 0, 0, &r) == PTL_ARG_INVALID && !r);
    RANK_CHECK(spin_p2p_isend(p2p, NULL, 1, 0, 0, 0, &r) == PTL_ARG_INVALID && !r);
    RANK_CHECK(spin_p2p_isend(p2p, &byte, 1, 0, SPIN_P2P_ANY_TAG, 0, &r) == PTL_ARG_INVALID);
    RANK_CHECK(spin_p2p_irecv(p2p, &byte, 1, 2, 0, 0, &r) == PTL_ARG_INVALID && !r);
    RANK_CHECK(spin_p2p_cancel(p2p, NULL) == PTL_ARG_INVALID);
    spin_p2p_close(p2p);
    spin_p2p_close(NULL);
    spin_job_close(&job);
    return 0;
}

TEST(what_cannot_be_is_refused) {
    spinlib_world(2, refused_rank, NULL);
}

TEST_MAIN
