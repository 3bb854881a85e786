#include "live/live_faults.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

static const char *const names[FAULTS] = {"loss", "duplicate", "reorder", "corrupt"};

/* NAME=SHARE, each name once; what follows it, or NULL. */
static const char *parse_one(struct live_faults *f, const char *text, unsigned *seen) {
    for (int i = 0; i < FAULTS; i++) {
        size_t length = strlen(names[i]);
        char *end;
        if (strncmp(text, names[i], length) || text[length] != '=')
            continue;
        if (*seen & 1u << i)
            return NULL;
        *seen |= 1u << i;
        f->share[i] = strtod(text + length + 1, &end);
        return end != text + length + 1 && f->share[i] >= 0 && f->share[i] <= 1 ? end : NULL;
    }
    return NULL;
}

int live_faults_parse(struct live_faults *f, const char *text, struct spin_error *err) {
    char *end;
    unsigned seen = 0;
    *f = (struct live_faults){0};
    if (!text)
        return 0;
    f->on = true;
    f->rng = rng_seeded(strtoull(text, &end, 10));
    const char *at = end != text && *end == ':' ? end : NULL;
    while (at && *at)
        at = *at == ':' || *at == ',' ? parse_one(f, at + 1, &seen) : NULL;
    return at ? 0
              : spin_fail(
                    err, SPIN_EARG,
                    "OPENSPIN_FAULTS: '%.60s' is not SEED:NAME=SHARE,... with the names loss, "
                    "duplicate, reorder and corrupt, each once, and shares from 0 to 1",
                    text);
}
