/* libFuzzer target: the list of points of a sweep. A list that is taken, written with every value
 * in quotes, is the same list. */
#include "sweep.h"

#include "cli_checks.h"

static int make(const void *bytes, size_t length, struct sweep_plan *plan) {
    char path[40], text[60];
    const struct cli_list none = {0};
    int fd = file_of(bytes, length, path, sizeof path), before = errors;
    int status = sweep_plan_make(NULL, &none, path, plan);
    FUZZ_HOLDS(errors - before == (status != 0), "what fails has one error");
    if (!status) {
        FUZZ_CHECK(plan->points > 0 && plan->points <= SWEEP_MOST_POINTS && plan->columns > 0);
        sweep_describe(plan, plan->points - 1, text, sizeof text);
        FUZZ_CHECK(strlen(text) < sizeof text);
    }
    close(fd);
    return status;
}

static void put(FILE *out, const char *text, bool last) {
    fputc('"', out);
    for (; *text; text++)
        fprintf(out, *text == '"' ? "\"\"" : "%c", *text);
    fputs(last ? "\"\n" : "\",", out);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
    struct sweep_plan plan, again;
    char *text = NULL;
    size_t written = 0;
    if (make(bytes, length, &plan)) {
        sweep_plan_free(&plan);
        return 0;
    }
    FILE *out = open_memstream(&text, &written);
    for (int c = 0; c < plan.columns; c++)
        put(out, sweep_name(&plan, c), c + 1 == plan.columns);
    for (uint32_t p = 0; p < plan.points; p++)
        for (int c = 0; c < plan.columns; c++)
            put(out, sweep_value(&plan, p, c), c + 1 == plan.columns);
    fclose(out);
    FUZZ_HOLDS(!make(text, written, &again), "a list in quotes is read");
    FUZZ_CHECK(again.points == plan.points && again.columns == plan.columns);
    for (uint32_t p = 0; p < plan.points; p++)
        for (int c = 0; c < plan.columns; c++)
            FUZZ_HOLDS(strcmp(sweep_value(&plan, p, c), sweep_value(&again, p, c)) == 0,
                       "its values are the same");
    sweep_plan_free(&plan);
    sweep_plan_free(&again);
    free(text);
    return 0;
}
