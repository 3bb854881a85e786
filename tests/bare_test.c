/* Every handler of the tree, called once on the same memory in every way to run it: interpreted and
 * compiled, with and without cycles, its own code in qemu-riscv32, and as the host's gcc compiles
 * its C. Value, packet, state, scratchpads, heap and the registers of commands must be the same. */
#include "lib/test.h"

#include "bare_case.h"

static struct bare_case *taken[400];
static size_t count;

static void take(void *context, struct bare_case *c) {
    (void)context;
    if (count == sizeof taken / sizeof taken[0])
        TEST_FAIL("more than %zu cases", count);
    taken[count++] = c;
}

static void take_all(void) {
    if (!count)
        bare_visit(BUILD, take, NULL);
}

/* Of its handler. */
static bool is_last(size_t i) {
    for (size_t k = i + 1; k < count; k++)
        if (strcmp(taken[i]->name, taken[k]->name) == 0)
            return false;
    return true;
}

static struct bare_machine *called(const struct bare_case *c, bool functional, enum spin_jit jit) {
    struct bare_machine *m = bare_machine_new(c, functional, jit);
    CHECK(m);
    for (int i = 0; i < (jit == SPIN_JIT_FORCE ? 3 : 1); i++) /* also when compiled again */
        bare_call_first(m);
    return m;
}

static void check_machine(bool functional, enum spin_jit jit) {
    char where[200];
    take_all();
    for (size_t i = 0; i < count; i++) {
        if (jit && !is_last(i))
            continue; /* compiling takes long: one of each handler */
        struct bare_machine *plain = called(taken[i], true, SPIN_JIT_OFF);
        struct bare_machine *other = called(taken[i], functional, jit);
        if (bare_differs(plain->memory, other->memory, true, where, sizeof where))
            TEST_FAIL("%s", where);
        bare_machine_free(plain);
        bare_machine_free(other);
    }
}

static void check_program(enum bare_program program) {
    char where[200];
    const char *why;
    take_all();
    for (size_t i = 0; i < count; i++) {
        if (program == BARE_NATIVE && !bare_has_native(taken[i]))
            continue;
        struct bare_machine *plain = called(taken[i], true, SPIN_JIT_OFF);
        struct bare_case *other = bare_apart(taken[i], program, BUILD, 0, &why);
        if (!other)
            TEST_SKIP(why);
        if (bare_differs(plain->memory, other, false, where, sizeof where))
            TEST_FAIL("%s", where);
        bare_machine_free(plain);
        free(other);
    }
}

TEST(the_same_when_timed) {
    check_machine(false, SPIN_JIT_OFF);
}

TEST(the_same_when_compiled) {
#ifndef OPENSPIN_JIT
    TEST_SKIP("built without LLVM");
#endif
    check_machine(true, SPIN_JIT_FORCE);
}

TEST(the_same_in_qemu) {
    check_program(BARE_QEMU);
}

TEST(the_same_as_native_code) {
    check_program(BARE_NATIVE);
}

/* Calls that are timed start from what the one before has left, or from what was put back; the one
 * that is kept starts from the first memory. */
TEST(timed_calls_leave_no_trace) {
    char where[200];
    const char *why;
    take_all();
    for (size_t i = 0; i < count; i += 7) {
        struct bare_case *once = bare_apart(taken[i], BARE_QEMU, BUILD, 0, &why);
        if (!once)
            TEST_SKIP(why);
        struct bare_case *often = bare_apart(taken[i], BARE_QEMU, BUILD, 20, &why);
        if (bare_differs(once, often, false, where, sizeof where))
            TEST_FAIL("%s", where);
        CHECK(often->ns > 0 && once->ns == 0);
        free(once);
        free(often);
    }
}

/* Or else there would be nothing to compare. */
TEST(every_handler_does_something) {
    char where[200];
    take_all();
    for (size_t i = 0; i < count; i++) {
        if (!is_last(i) || strncmp(taken[i]->name, "empty.", 6) == 0 ||
            strncmp(taken[i]->name, "synthetic.", 10) == 0)
            continue;
        struct bare_machine *m = called(taken[i], true, SPIN_JIT_OFF);
        m->memory->value = taken[i]->value;
        if (!bare_differs(taken[i], m->memory, false, where, sizeof where))
            TEST_FAIL("%s changed nothing", taken[i]->name);
        bare_machine_free(m);
    }
}

/* A byte of state, packet or command that is off is noticed. */
TEST(differences_are_told) {
    char where[200];
    take_all();
    for (size_t i = 0; i < count; i++) {
        struct bare_machine *a = called(taken[i], true, SPIN_JIT_OFF);
        struct bare_machine *b = called(taken[i], true, SPIN_JIT_OFF);
        CHECK(!bare_differs(a->memory, b->memory, false, where, sizeof where));
        const struct bare_window *packet = &b->memory->window[0],
                                 *driver = &b->memory->window[b->memory->driver];
        uint8_t *at = (uint8_t *)b->memory + packet->at + packet->bytes - 1;
        *at ^= 1;
        CHECK(bare_differs(a->memory, b->memory, false, where, sizeof where));
        *at ^= 1;
        *((uint8_t *)b->memory + driver->at + 0x93) ^= 0x80;
        CHECK(bare_differs(a->memory, b->memory, false, where, sizeof where));
        bare_machine_free(a);
        bare_machine_free(b);
    }
}

static bool is_taken(const char *image, const char *function) {
    char name[200];
    snprintf(name, sizeof name, "%s.%s", image, function);
    for (size_t i = 0; i < count; i++)
        if (strcmp(taken[i]->name, name) == 0)
            return true;
    return false;
}

/* HANDLERS: folder of the image, and its name without .spin, for each that the build makes. */
TEST(no_handler_is_left_out) {
    static const char *const images[] = {HANDLERS};
    struct spin_limits limits;
    take_all();
    spin_limits_default(&limits);
    limits.with_float = true;
    for (size_t n = 0; n < sizeof images / sizeof images[0]; n++) {
        char path[600];
        struct spin_image *image;
        struct spin_error err;
        const char *name = strrchr(images[n], '/') + 1;
        snprintf(path, sizeof path, "%s.spin", images[n]);
        if (spin_image_load(&image, path, &limits, &err))
            TEST_FAIL("%.300s", err.text);
        const struct spin_image_info *info = spin_image_info(image);
        for (uint32_t i = 0; i < info->functions; i++) {
            const struct spin_function *f = &info->function[i];
            if (f->is_global && f->kind != SPIN_OTHER_FUNCTION && !is_taken(name, f->name))
                TEST_FAIL("%s of %s is in no case", f->name, path);
        }
        spin_image_free(image);
    }
}

TEST_MAIN
