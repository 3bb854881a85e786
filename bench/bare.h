/* One call of a handler on bare memory: all that it needs, as a file that bare_run.c runs without a
 * card. It maps memory at the addresses of the card's map, fills the windows, and calls the handler
 * as a function. The driver's registers are memory there: a command is stores that nobody looks at,
 * and RESULT reads what was put there at first. Host and RV32 have the same layout of these. */
#ifndef BENCH_BARE_H
#define BENCH_BARE_H

#include <stdint.h>

#define BARE_WINDOWS    16
#define BARE_PIECES     64
#define BARE_FILE_BYTES (8u << 20) /* at most */

/* A window of the handler, the driver's registers, or the code. */
struct bare_window {
    uint32_t address, bytes;
    uint32_t at; /* of its content, in the file */
    uint32_t writable, region;
};

/* Bytes that are put back to what the file has before each call. */
struct bare_piece {
    uint32_t address, bytes, at;
};

struct bare_case {
    char name[96]; /* IMAGE.FUNCTION: as the program for the host calls it */
    uint32_t kind; /* enum spin_handler_kind */
    uint32_t with_float;
    uint32_t entry, stack, argument[3];
    uint32_t windows, pieces, driver, code; /* driver, code: which windows these are */
    struct bare_window window[BARE_WINDOWS];
    struct bare_piece piece[BARE_PIECES];
    uint32_t bytes; /* of the file */
    uint32_t calls; /* that are timed; after them one more from the first memory, which is kept */
    /* Filled in by who runs it; the windows' contents are then those after the last call. */
    uint32_t value, is_done;
    uint64_t ns;      /* CPU time of the calls, */
    uint64_t back_ns; /* and of putting back alone, as often */
};

#endif
