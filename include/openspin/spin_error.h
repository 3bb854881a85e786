/* openspin/spin_error.h: what a call says that failed. */
#ifndef OPENSPIN_SPIN_ERROR_H
#define OPENSPIN_SPIN_ERROR_H

#ifdef __cplusplus
extern "C" {
#endif

/* Error codes: every call that can fail returns one, 0 for success. */
#define SPIN_CODES(X)                                                                              \
    X(SPIN_OK, 0, "success")                                                                       \
    X(SPIN_EARG, -1, "invalid argument")                                                           \
    X(SPIN_EFILE, -2, "file cannot be read or written")                                            \
    X(SPIN_EFORMAT, -3, "malformed input")                                                         \
    X(SPIN_ELIMIT, -4, "over a limit")                                                             \
    X(SPIN_ENOMEM, -5, "out of memory")                                                            \
    X(SPIN_ETOOL, -6, "an external program failed")                                                \
    X(SPIN_ESYS, -7, "a system call failed")                                                       \
    X(SPIN_EDEADLOCK, -8, "nothing left to do, but not everything is done")                        \
    X(SPIN_EINTERRUPTED, -9, "interrupted by a signal")

enum spin_code {
#define SPIN_CODE_ROW(name, value, text) name = value,
    SPIN_CODES(SPIN_CODE_ROW)
#undef SPIN_CODE_ROW
};

/* What went wrong, in one line: what, where, which limit, what to do. */
struct spin_error {
    int code;
    char text[500];
};

const char *spin_version(void);
const char *spin_code_name(int code); /* "SPIN_EFILE" */
const char *spin_code_text(int code); /* "file cannot be read or written" */

#ifdef __cplusplus
}
#endif

#endif
