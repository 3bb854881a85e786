/* libFuzzer target: a CSV trace up to the first zero byte and the packets' bytes behind it. */
#include "traffic_checks.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct traffic *t = NULL;
    struct spin_error err = {0};
    const uint8_t *zero = size ? memchr(data, 0, size) : NULL;
    size_t rows = zero ? (size_t)(zero - data) : size;
    size_t rest = zero ? size - rows - 1 : 0;
    int code = traffic_csv_parse(&t, "fuzz", data, rows, "bytes", zero ? zero + 1 : data, rest,
                                 NULL, &err);
    fuzz_traffic(t, code, &err);
    return 0;
}
