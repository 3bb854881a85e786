/* The same as functions of the host, compiled as a program would. */
#ifndef BENCH_PAYLOAD_HOST_H
#define BENCH_PAYLOAD_HOST_H

#include <stdint.h>

struct payload_state;
typedef void payload_function(struct payload_state *s, const uint32_t *word, uint32_t bytes,
                              uint32_t offset, uint8_t *host);
extern const struct payload_row {
    const char *name, *handler;
    payload_function *run;
} payload_rows[6];

#endif
