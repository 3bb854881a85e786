/* Memory that runs out in a world: the n-th allocation of a run fails, for every n. The run ends
 * with an error, or does without and takes the time that it takes otherwise; nothing crashes, hangs
 * or leaks. The linker puts our allocator before the C library's (tests/meson.build). */
#include "lib/failing.h"
#include "lib/worlds.h"
#include "sim/spread.h"
#include "sim/world_libc.h"

uint8_t *__real_guard_memory_new(size_t bytes); /* images' memory on PsPIN cards, from mmap */
uint8_t *__wrap_guard_memory_new(size_t bytes);

uint8_t *__wrap_guard_memory_new(size_t bytes) {
    return fails() ? NULL : __real_guard_memory_new(bytes);
}

/* An array goes to handlers that multiply it into another. The program allocates nothing itself:
 * what it has when a run is given up, nobody frees. */
enum { BYTES = 9000 };

/* Rank 0 puts BYTES to an entry of rank 1 with these handlers. Returns 0, or what went wrong. */
static int put_to_handlers(struct p4_rank *r, const struct p4_setup *setup, uint8_t *memory,
                           const char *image, struct p4_entry entry) {
    const uint64_t state = 0;
    uint32_t me = spin_rank();
    entry.length = BYTES;
    entry.bits = 1;
    entry.state = &state;
    entry.state_bytes = sizeof state;
    if (!p4_open_with(r, setup, memory, BYTES, me ? image : NULL))
        return 1;
    if (me && !p4_append(r, &entry))
        return 2;
    spin_barrier();
    return (me ? p4_wait(r, 1) : p4_put(r, 0, BYTES, 1, 1)) ? 0 : 3;
}

static int accumulate(void *argument) {
    static uint8_t memory[2][BYTES];
    struct p4_rank r;
    int status = put_to_handlers(&r, argument, memory[spin_rank()], "p4_accumulate",
                                 (struct p4_entry){.header = "accumulate_header_handler",
                                                   .payload = "accumulate_payload_handler"});
    if (!status)
        p4_close(&r);
    return status;
}

/* An image with variables of every kind: the right ones, or none. */
static int variables(void *argument) {
    static uint8_t memory[2][BYTES];
    struct p4_rank r;
    uint64_t sum;
    uint32_t me = spin_rank();
    memset(memory[me], 0, BYTES);
    int status =
        put_to_handlers(&r, argument, memory[me], "variables",
                        (struct p4_entry){.payload = "variables_ph", .completion = "variables_th"});
    if (status)
        return status;
    memcpy(&sum, memory[1], sizeof sum);
    if (me)
        CHECK_EQ(sum, 3ull << 32 | 650321); /* of three packets */
    p4_close(&r);
    return 0;
}

/* std::thread::_State of libstdc++: delete and run. */
struct cxx_state {
    void (*const *table)(struct cxx_state *);
};

static void does_nothing(struct cxx_state *state) {
    (void)state;
}

/* Calls of the C and the C++ library that cannot say that there is no memory, as a program that is
 * loaded finds them. */
static int call_libraries(void *argument) {
    static void (*const table[])(struct cxx_state *) = {NULL, does_nothing, does_nothing};
    struct cxx_state of = {table}, *state = &of;
    char text[] = "one two";
    char *(*tokens)(char *, const char *);
    void (*start)(pthread_t *, struct cxx_state **, void (*)(void));
    void (*join)(pthread_t *);
    const void *calls[] = {
        world_libc_call("strtok"),
        world_libc_call("_ZNSt6thread15_M_start_threadESt10unique_ptrINS_6_StateESt14default_delete"
                        "IS1_EEPFvvE"),
        world_libc_call("_ZNSt6thread4joinEv")};
    pthread_t id;
    (void)argument;
    memcpy(&tokens, &calls[0], sizeof tokens);
    memcpy(&start, &calls[1], sizeof start);
    memcpy(&join, &calls[2], sizeof join);
    CHECK_STR(tokens(text, " "), "one");
    start(&id, &state, NULL);
    CHECK(!state); /* the thread's */
    join(&id);
    return 0;
}

/* SPIN_OK, or what went wrong. */
static int run(struct p4_setup *setup, int (*program)(void *), uint64_t *time_ps,
               struct spin_error *err) {
    struct spin_world *w;
    int code = spin_world_new(&w, &setup->world, err);
    if (code)
        return code;
    code = spin_world_run(w, program, setup, err);
    struct spin_world_result r = spin_world_result(w);
    *time_ps = r.makespan_ps;
    if (strstr(r.first_fault, "SEGV")) /* it was not given what its image has */
        TEST_FAIL("allocation %llu: %s", (unsigned long long)fail_at, r.first_fault);
    spin_world_free(w);
    if (!code && r.failed) {
        snprintf(err->text, sizeof err->text, "a rank returns %d", r.first_status);
        code = SPIN_ENOMEM;
    }
    return code;
}

/* What was loaded and compiled by the first run is there for the others. */
static void every_allocation_fails_once(int (*program)(void *), const char *images,
                                        const char *const *set, int set_count) {
    struct p4_setup setup = setup_of(P4_STREAM, "sc17-int", BYTES);
    struct spin_error err;
    uint64_t time_ps, without_ps, failed = 0;
    setup.images = images;
    setup.world.ranks = 2;
    setup.world.set = set;
    setup.world.set_count = set_count;
    setup.world.jit = SPIN_JIT_OFF;
    fail_at = allocations = 0;
    if (run(&setup, program, &time_ps, &err))
        TEST_FAIL("%s", err.text);
    uint64_t count = allocations;
    for (uint64_t n = 1; n <= count; n++) {
        err.text[0] = 0;
        allocations = 0;
        fail_at = n;
        int code = run(&setup, program, &without_ps, &err);
        fail_at = 0;
        failed += code != SPIN_OK;
        if (code ? !err.text[0] : without_ps != time_ps)
            TEST_FAIL("allocation %llu of %llu fails: code %d, %s", (unsigned long long)n,
                      (unsigned long long)count, code, err.text);
    }
    CHECK(failed > count / 2);
}

TEST(every_allocation_fails_once_on_sc17_cards) {
    every_allocation_fails_once(accumulate, IMAGES, NULL, 0);
    every_allocation_fails_once(variables, getenv("VARIABLES"), NULL, 0);
}

TEST(every_allocation_fails_once_on_pspin_cards) {
    static const char *const set[] = {"card=pspin"};
    every_allocation_fails_once(accumulate, IMAGES, set, 1);
    every_allocation_fails_once(variables, getenv("VARIABLES"), set, 1);
}

TEST(every_allocation_for_the_libraries_of_a_rank_fails_once) {
    every_allocation_fails_once(call_libraries, IMAGES, NULL, 0);
}

/* What was measured is told right, or not at all. */
TEST(percentiles_of_several_contexts_need_no_memory) {
    struct spread s[2] = {{0}};
    struct spin_spread out;
    for (uint64_t i = 1; i <= 1000; i++)
        spread_add(&s[i % 2], i);
    allocations = 0;
    fail_at = 1;
    spread_report(&(struct spread_set){s, sizeof *s, 2}, &out);
    fail_at = 0;
    CHECK_EQ(out.count, 1000);
    CHECK_EQ(out.p50, 500);
    CHECK_EQ(out.p999, 999);
    spread_free(&s[0]);
    spread_free(&s[1]);
}

TEST_MAIN
