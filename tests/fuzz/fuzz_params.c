/* libFuzzer target: a parameter file, given to a card. What the card says of itself afterwards is a
 * parameter file too, of the same card. */
#include "params.h"

#include "cli_checks.h"
#include "sim/card.h"

static int set(void *to, const char *assignment, struct spin_error *err) {
    return card_config_set(to, assignment, err);
}

static int apply(const void *bytes, size_t length, struct card_config *config) {
    char path[40];
    struct params p;
    struct spin_error err;
    int fd = file_of(bytes, length, path, sizeof path), before = errors;
    FUZZ_CHECK(!card_config_preset(config, "pspin", &err));
    int status = params_read(NULL, path, &p);
    for (int i = 0; !status && i < p.count; i++)
        FUZZ_HOLDS(strchr(p.assignment[i], '=') && p.line[i] > 0, "it is NAME=VALUE of a line");
    if (!status)
        status = params_apply(NULL, &p, set, config);
    FUZZ_HOLDS(errors - before == (status != 0), "what fails has one error");
    params_free(&p);
    close(fd);
    return status;
}

/* As --parameters prints it. */
static char *tell(const struct card_config *config, size_t *length) {
    struct spin_parameter row;
    char *text = NULL;
    FILE *out = open_memstream(&text, length);
    for (int i = 0; card_config_row(config, i, &row); i++)
        fprintf(out, "  %s = %s, %s (%s)\n", row.name, row.value, row.what, row.source);
    fclose(out);
    return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
    struct card_config config, again;
    size_t first_length, second_length;
    if (apply(bytes, length, &config))
        return 0;
    char *first = tell(&config, &first_length);
    FUZZ_HOLDS(!apply(first, first_length, &again), "what a card says of itself is read back");
    char *second = tell(&again, &second_length);
    FUZZ_HOLDS(strcmp(first, second) == 0, "and is the same card");
    free(first);
    free(second);
    return 0;
}
