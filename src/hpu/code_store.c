#include "hpu/code_store.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "hpu/jit.h"

#define MOST_KEPT 16u /* that nobody uses now */

struct stored {
    struct stored *next; /* the one used last is the first */
    struct hpu_code_key key;
    struct hpu_code *code;
    uint64_t users;
};

static struct stored *first;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static bool is_same(const struct hpu_code_key *a, const struct hpu_code_key *b) {
    return a->base == b->base && a->bytes == b->bytes && a->mode == b->mode && a->jit == b->jit &&
           a->variant == b->variant && a->is_alone == b->is_alone &&
           a->with_float == b->with_float && memcmp(a->timing, b->timing, sizeof *a->timing) == 0 &&
           (!a->bytes || memcmp(a->program, b->program, a->bytes) == 0);
}

static void drop(struct stored *s) {
    hpu_code_free(s->code);
    free((void *)s->key.program);
    free(s);
}

/* The key refers to what the caller may free; the stored one to what it owns. */
static int make(struct stored **out, const struct hpu_code_key *key, struct spin_error *err) {
    struct stored *s = calloc(1, sizeof *s);
    uint8_t *program = malloc(key->bytes ? key->bytes : 1);
    *out = NULL;
    if (s && program) {
        if (key->bytes)
            memcpy(program, key->program, key->bytes);
        s->key = *key;
        s->key.program = program;
        s->code =
            hpu_code_new(program, key->base, key->bytes, key->mode, key->timing, key->with_float);
    }
    if (!s || !program || !s->code) {
        free(program);
        free(s);
        return spin_fail(err, SPIN_ENOMEM, "out of memory");
    }
    s->key.timing = &s->code->timing_copy;
    s->code->is_alone = key->is_alone;
    int code = hpu_jit_enable(s->code, key->jit, err);
    if (code)
        drop(s);
    else
        *out = s;
    return code;
}

static struct stored **find(const struct hpu_code_key *key) {
    struct stored **at = &first;
    while (*at && !is_same(&(*at)->key, key))
        at = &(*at)->next;
    return at;
}

int hpu_code_share(struct hpu_code **code, const struct hpu_code_key *key, struct spin_error *err) {
    struct hpu_code_key wanted = *key;
    int result = SPIN_OK;
    if (wanted.mode == HPU_FUNCTIONAL)
        wanted.timing = &hpu_timing_unit; /* as hpu_code_new has it */
    pthread_mutex_lock(&lock);
    struct stored **at = find(&wanted), *s = *at;
    if (s)
        *at = s->next;
    else
        result = make(&s, &wanted, err);
    if (s) {
        s->users++;
        s->next = first;
        first = s;
    }
    pthread_mutex_unlock(&lock);
    *code = s ? s->code : NULL;
    return result;
}

/* Keeps generated code of those that were used last, and nothing else that nobody uses. Returns the
 * rest, to be dropped without the lock: that may have to wait for a compilation. */
static struct stored *take_unused(void) {
    uint32_t kept = 0;
    struct stored *unused = NULL;
    for (struct stored **at = &first; *at;) {
        struct stored *s = *at;
        bool stays = s->users || (hpu_jit_has_code(s->code) && kept < MOST_KEPT);
        kept += stays && !s->users;
        if (stays) {
            at = &s->next;
        } else {
            *at = s->next;
            s->next = unused;
            unused = s;
        }
    }
    return unused;
}

void hpu_code_release(struct hpu_code *code) {
    pthread_mutex_lock(&lock);
    for (struct stored *s = first; s && code; s = s->next)
        if (s->code == code) {
            s->users--;
            break;
        }
    struct stored *unused = take_unused();
    pthread_mutex_unlock(&lock);
    while (unused) {
        struct stored *s = unused;
        unused = s->next;
        drop(s);
    }
}
