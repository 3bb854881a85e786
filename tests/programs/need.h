/* For programs of ranks that cannot go on without a call: says what failed, and ends. */
#ifndef TESTS_PROGRAMS_NEED_H
#define TESTS_PROGRAMS_NEED_H

#include <openspin.h>
#include <portals4.h>
#include <stdio.h>
#include <stdlib.h>

#define NEED(call)                                                                                 \
    do {                                                                                           \
        int code_ = (call);                                                                        \
        if (code_ != PTL_OK) {                                                                     \
            fprintf(stderr, "rank %u: %s: %s\n", spin_rank(), #call,                               \
                    PtlToStr(code_, PTL_STR_ERROR));                                               \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

#endif
