/* libFuzzer target: the JSON reader. What it takes, our writer can write, and it reads that back.
 */
#include <stdbool.h>

#include "base/json.h"
#include "fuzz.h"

#define MOST_VALUES 1000

struct values {
    char *value[MOST_VALUES];
    int count, again; /* again: how many were read back */
};

static bool is_plain(const char *text) {
    for (; *text; text++)
        if ((unsigned char)*text >= 0x80)
            return false; /* what is no UTF-8 is written as something that is */
    return true;
}

static void keep(void *user, const char *path, const char *value, bool in_array) {
    struct values *v = user;
    FUZZ_HOLDS(strlen(path) < 200, "a path has a limit");
    FUZZ_HOLDS(!in_array || *path, "an element of an array has a path");
    if (v->count < MOST_VALUES && is_plain(value))
        v->value[v->count++] = strdup(value);
}

static void compare(void *user, const char *path, const char *value, bool in_array) {
    struct values *v = user;
    char number[24];
    FUZZ_CHECK(v->again < v->count && in_array);
    snprintf(number, sizeof number, "%d", v->again);
    FUZZ_HOLDS(strcmp(path, number) == 0, "an element's path is its number");
    FUZZ_HOLDS(strcmp(value, v->value[v->again++]) == 0, "a value that was written is read");
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
    struct values v = {.count = 0};
    char *text = NULL;
    size_t written = 0;
    json_read((const char *)bytes, length, keep, &v);
    struct json j = {.out = open_memstream(&text, &written)};
    json_array(&j, NULL);
    for (int i = 0; i < v.count; i++)
        json_string(&j, NULL, v.value[i]);
    json_end_array(&j);
    fclose(j.out);
    FUZZ_HOLDS(json_read(text, written, compare, &v), "what was written is JSON");
    FUZZ_HOLDS(v.again == v.count, "all values are read");
    for (int i = 0; i < v.count; i++)
        free(v.value[i]);
    free(text);
    return 0;
}
