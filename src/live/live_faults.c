#include "live/live_faults.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

static const char *const names[FAULTS] = {"loss", "duplicate", "reorder", "corrupt"};

/* NAME=SHARE; what follows it, or NULL. */
static const char *parse_one(struct live_faults *f, const char *text) {
    for (int i = 0; i < FAULTS; i++) {
        size_t length = strlen(names[i]);
        char *end;
        if (strncmp(text, names[i], length) || text[length] != '=')
            continue;
        f->share[i] = strtod(text + length + 1, &end);
        return end != text + length + 1 && f->share[i] >= 0 && f->share[i] <= 1 ? end : NULL;
    }
    return NULL;
}

int live_faults_parse(struct live_faults *f, const char *text, struct spin_error *err) {
    char *end;
    *f = (struct live_faults){0};
    if (!text)
        return 0;
    f->on = true;
    f->rng = rng_seeded(strtoull(text, &end, 10));
    const char *at = end != text && *end == ':' ? end : NULL;
    while (at && *at)
        at = *at == ':' || *at == ',' ? parse_one(f, at + 1) : NULL;
    return at ? 0
              : spin_fail(
                    err, SPIN_EARG,
                    "OPENSPIN_FAULTS: '%.60s' is not SEED:NAME=SHARE,... with the names loss, "
                    "duplicate, reorder and corrupt and shares from 0 to 1",
                    text);
}
