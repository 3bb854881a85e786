#include "sim/rank_set.h"

#include <ctype.h>
#include <stdlib.h>

#include "base/error.h"

static bool read_number(const char **text, uint32_t *number) {
    char *end;
    if (!isdigit((unsigned char)**text))
        return false;
    unsigned long value = strtoul(*text, &end, 10);
    *number = value > UINT32_MAX ? UINT32_MAX : (uint32_t)value;
    *text = end;
    return true;
}

/* "3", "0-3", "4-" */
static bool read_range(const char **text, uint32_t ranks, uint32_t *first, uint32_t *last) {
    if (!read_number(text, first))
        return false;
    *last = *first;
    if (**text != '-')
        return true;
    ++*text;
    if (read_number(text, last))
        return *first <= *last;
    *last = *first > ranks - 1 ? *first : ranks - 1;
    return true;
}

static int fill(uint8_t *set, const char *text, uint32_t ranks, struct spin_error *err) {
    const char *at = text;
    for (bool more = true; more; at++) {
        uint32_t first, last;
        bool good = read_range(&at, ranks, &first, &last);
        more = *at == ',';
        if (!good || (*at && !more))
            return spin_fail(err, SPIN_EARG,
                             "ranks '%.60s': expected numbers and ranges, as 0-3,7 or 4-", text);
        if (last >= ranks)
            return spin_fail(err, SPIN_EARG, "ranks '%.60s': there are 0 to %u", text, ranks - 1);
        for (uint32_t r = first; r <= last; r++)
            set[r / 8] |= (uint8_t)(1u << r % 8);
    }
    return SPIN_OK;
}

int rank_set_read(uint8_t **out, const char *text, uint32_t ranks, struct spin_error *err) {
    *out = calloc(ranks / 8 + 1, 1);
    if (!*out)
        return spin_fail(err, SPIN_ENOMEM, "out of memory for %u ranks", ranks);
    int code = fill(*out, text, ranks, err);
    if (code) {
        free(*out);
        *out = NULL;
    }
    return code;
}
