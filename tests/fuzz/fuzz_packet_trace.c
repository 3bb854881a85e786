/* libFuzzer target: whatever bytes come as a text trace, there are packets or an error. */
#include "traffic_checks.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct traffic *t = NULL;
    struct spin_error err = {0};
    int code = traffic_trace_parse(&t, "fuzz", data, size, NULL, &err);
    fuzz_traffic(t, code, &err);
    return 0;
}
