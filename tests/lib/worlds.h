/* Simulated worlds of a test: one that runs a function on its ranks, and the use cases of SC'17. */
#ifndef TESTS_LIB_WORLDS_H
#define TESTS_LIB_WORLDS_H

#include "openspin.h"
#include "p4.h"
#include "portals4.h"
#include "test.h"

/* Fails the test if the run does not return what is expected. */
__attribute__((unused)) static struct spin_world_result
run_world(const struct spin_world_options *o, int (*rank)(void *), void *argument, int expected,
          struct spin_error *err) {
    struct spin_world *w;
    if (spin_world_new(&w, o, err))
        TEST_FAIL("%s", err->text);
    int code = spin_world_run(w, rank, argument, err);
    if (code != expected)
        TEST_FAIL("the run returns %d (%s), expected %d", code, code ? err->text : "", expected);
    struct spin_world_result r = spin_world_result(w);
    r.first_fault = "";
    spin_world_free(w);
    return r;
}

__attribute__((unused)) static int open_interface(unsigned options, ptl_handle_ni_t *ni) {
    int code = PtlInit();
    return code ? code : PtlNIInit(PTL_IFACE_DEFAULT, options, PTL_PID_ANY, NULL, NULL, ni);
}

__attribute__((unused)) static struct p4_setup setup_of(enum p4_variant variant, const char *preset,
                                                        uint32_t bytes) {
    return (struct p4_setup){.variant = variant,
                             .ranks = 2,
                             .bytes = bytes,
                             .images = IMAGES,
                             .world = {.preset = preset}};
}

__attribute__((unused)) static struct p4_outcome
run_case(int (*run)(const struct p4_setup *, struct p4_outcome *, struct spin_error *),
         const struct p4_setup *setup) {
    struct p4_outcome o;
    struct spin_error err;
    if (run(setup, &o, &err))
        TEST_FAIL("%s, %u B, %s: %s", p4_variant_name(setup->variant), setup->bytes,
                  setup->world.preset, err.text);
    return o;
}

#endif
