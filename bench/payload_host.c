#include "payload_host.h"

#include <string.h>

#define STORE(host, offset, from, bytes) memcpy((host) + (offset), from, bytes)
#include "payload.h"

#define ROW(name)                                                                                  \
    static __attribute__((noinline)) void run_##name(ARGUMENTS) {                                  \
        name(s, word, bytes, offset, host);                                                        \
    }
PAYLOADS(ROW)
#undef ROW

const struct payload_row payload_rows[6] = {
#define ROW(name) {#name, #name "_payload_handler", run_##name},
    PAYLOADS(ROW)
#undef ROW
};
