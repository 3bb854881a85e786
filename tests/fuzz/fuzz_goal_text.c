/* libFuzzer target: whatever bytes come, the text reader gives a schedule or an error; a schedule
 * that it gives survives being written and read again, and can be replayed. */
#include "goal_checks.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = malloc(size + 1); /* of exactly this size: a read behind it is seen */
    memcpy(text, data, size);
    text[size] = 0;
    struct spin_goal *goal = NULL;
    struct spin_error err = {0};
    int code = goal_read_text("fuzz", text, size, &goal, &err);
    if (code)
        FUZZ_HOLDS(err.text[0] != 0 && !strchr(err.text, '\n'), "an error is one line");
    else
        fuzz_schedule(goal);
    goal_free(goal);
    free(text);
    return 0;
}
