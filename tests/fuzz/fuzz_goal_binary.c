/* libFuzzer target: the same for the binary readers. The magic is put in front, since the fuzzer
 * would waste its time on finding it; the rest decides which dialect it can be. */
#include "goal_checks.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const uint8_t magic[8] = {0x7f, 0x10};
    uint8_t *bytes = malloc(size + sizeof magic);
    memcpy(bytes, magic, sizeof magic);
    memcpy(bytes + sizeof magic, data, size);
    struct spin_goal *goal = NULL;
    struct spin_error err = {0};
    int code = fuzz_read(bytes, size + sizeof magic, &goal, &err);
    if (code)
        FUZZ_HOLDS(err.text[0] != 0 && !strchr(err.text, '\n'), "an error is one line");
    else
        fuzz_schedule(goal);
    if (!code)
        goal_free(goal);
    free(bytes);
    return 0;
}
