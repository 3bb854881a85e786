/* libFuzzer target: whatever bytes come as a capture, there are packets or an error. The first byte
 * chooses the options. */
#include "traffic_checks.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const choices[] = {"", "messages=2", "messages=gap:1us", "link=ip,limit=5",
                                          "rate=100Gbit/s"};
    if (size < 2)
        return 0;
    char options[40];
    strcpy(options, choices[data[0] % (sizeof choices / sizeof choices[0])]);
    struct traffic *t = NULL;
    struct spin_error err = {0};
    int code = traffic_pcap_parse(&t, "fuzz", data + 1, size - 1, options, &err);
    fuzz_traffic(t, code, &err);
    return 0;
}
