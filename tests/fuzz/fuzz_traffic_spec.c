/* libFuzzer target: the options of a generator, as they stand behind --traffic gen: */
#include "traffic_checks.h"

#define MOST_TEXT 400

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct traffic *t = NULL;
    struct traffic_packet p;
    struct spin_error err = {0};
    char spec[8 + MOST_TEXT];
    uint64_t before = 0;
    size_t length = size < MOST_TEXT ? size : MOST_TEXT;
    memcpy(spec, "gen:", 4);
    memcpy(spec + 4, data, length);
    spec[4 + length] = 0;
    if (traffic_open(&t, spec, &err)) {
        FUZZ_HOLDS(!t && err.text[0], "an error says what is wrong");
        return 0;
    }
    for (int i = 0; i < 100; i++) { /* of maybe 2^64 */
        int code = traffic_next(t, &p, &err);
        if (code <= 0)
            break;
        FUZZ_HOLDS(p.length > 0 && p.length <= TRAFFIC_MOST_BYTES, "a packet has bytes");
        FUZZ_HOLDS(p.arrival_ps >= before, "packets arrive in order");
        before = p.arrival_ps;
    }
    traffic_close(t);
    return 0;
}
