/* What a program has of the JIT, and compiling: at once, or by a thread of its own. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "hpu/guard.h"
#include "hpu/interp.h"
#include "hpu/jit_state.h"

bool spin_jit_parse(const char *text, enum spin_jit *mode) {
    static const char *const names[] = {
        [SPIN_JIT_OFF] = "off", [SPIN_JIT_ON] = "on", [SPIN_JIT_FORCE] = "force"};
    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(text, names[i]) == 0) {
            *mode = (enum spin_jit)i;
            return true;
        }
    return false;
}

void hpu_jit_free(struct hpu_jit *jit) {
    if (!jit)
        return;
#ifdef OPENSPIN_JIT
    jit_aside_free(jit->aside);
    jit_linker_free(jit->linker);
#endif
    pthread_mutex_destroy(&jit->compiling);
    free(jit->root);
    free(jit->wrong);
    free(jit->by_call);
    free(jit->seen);
    free(jit->nothing_seen);
    free(jit);
}

struct hpu_jit_stats hpu_jit_stats(const struct hpu_code *code) {
    if (!code->jit)
        return (struct hpu_jit_stats){0};
    pthread_mutex_lock(&code->jit->compiling);
    struct hpu_jit_stats stats = code->jit->stats;
    pthread_mutex_unlock(&code->jit->compiling);
    stats.guard_faults = atomic_load_explicit(&code->jit->guard_faults, memory_order_relaxed);
    return stats;
}

bool hpu_jit_has_code(const struct hpu_code *code) {
    return code->jit && atomic_load_explicit(&code->jit->has_code, memory_order_relaxed);
}

static uint32_t trait_of(const struct hpu *h, uint32_t i) {
    uint32_t latency;
    if (i == JIT_DEVICE)
        return h->device != NULL;
    memcpy(&latency, &h->window[i].region, sizeof latency);
    return latency;
}

void jit_compare_traits(const struct hpu *h, struct hpu_jit *jit) {
    uint32_t known = atomic_load_explicit(&jit->known, memory_order_acquire), differ = 0;
    for (uint32_t i = 0; i < JIT_TRAITS; i++)
        if (known >> i & 1 && trait_of(h, i) != jit->trait[i])
            differ |= 1u << i;
    atomic_fetch_or_explicit(&jit->mixed, differ, memory_order_relaxed);
}

#ifdef OPENSPIN_JIT
static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now); /* others' work is not the compiler's */
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Which windows of the HPU generated code may reach by their views. The last function at a root
 * uses none: faults and missing views cannot trouble it. */
static uint32_t usable_views(const struct hpu *h, const struct hpu_jit *jit, uint32_t halfword) {
    uint8_t attempts = atomic_load_explicit(&jit->root[halfword].attempts, memory_order_relaxed);
    uint32_t views = 0;
    if (!h || jit->sandbox != JIT_VIEWS || attempts + 1u >= MOST_ATTEMPTS)
        return 0;
    for (uint32_t i = 0; i < h->windows; i++)
        views |= (uint32_t)(h->window[i].view != NULL) << i;
    views &= ~atomic_load_explicit(&jit->viewless, memory_order_relaxed);
    return views && guard_is_ready() ? views : 0;
}

/* With the lock held: what can be compiled in. */
static void fix_traits(const struct hpu *h, struct hpu_jit *jit, struct jit_request *request) {
    uint32_t known = atomic_load_explicit(&jit->known, memory_order_relaxed);
    for (uint32_t i = 0; h && i < JIT_TRAITS; i++)
        if (!(known >> i & 1) && (i < h->windows || i == JIT_DEVICE)) {
            jit->trait[i] = trait_of(h, i);
            known |= 1u << i;
        }
    atomic_store_explicit(&jit->known, known, memory_order_release);
    if (h)
        jit_compare_traits(h, jit);
    request->fixed = known & ~atomic_load_explicit(&jit->mixed, memory_order_relaxed);
    memcpy(request->trait, jit->trait, sizeof request->trait);
}

/* With the lock held. For the windows of an HPU, or any. */
static struct jit_request request_for(const struct hpu *h, struct hpu_jit *jit, uint32_t halfword) {
    struct jit_request r = {.halfword = halfword, .views = usable_views(h, jit, halfword)};
    fix_traits(h, jit, &r);
    return r;
}

/* With the lock held. */
static jit_function *compile(const struct hpu_code *code, const struct jit_request *request) {
    struct hpu_jit *jit = code->jit;
    uint32_t halfword = request->halfword;
    char why[200];
    if (jit->gave_up || jit->stats.functions >= MOST_FUNCTIONS)
        return NULL;
    if (!jit->linker && !(jit->linker = jit_linker_new(why, sizeof why))) {
        jit->gave_up = true; /* no LLVM here: the interpreter it is */
        return NULL;
    }
    uint8_t *by_call = malloc(code->slots + 1);
    if (!by_call)
        return NULL;
    struct jit_region region = {.code = code,
                                .root = halfword,
                                .by_call = by_call,
                                .seen = jit_is_seen(jit, halfword) ? jit->seen : NULL,
                                .views = request->views,
                                .fixed = request->fixed,
                                .unprotected = jit->sandbox == JIT_UNPROTECTED,
                                .has_effort = jit->has_effort,
                                .effort = jit->effort};
    for (uint32_t i = 0; i < code->slots; i++) /* as of now: others may be learning */
        by_call[i] = __atomic_load_n(&jit->by_call[i], __ATOMIC_RELAXED);
    memcpy(region.trait, request->trait, sizeof region.trait);
    uint64_t start = now_ns(), bytes = 0;
    jit_function *made = jit_link(jit->linker, &region, &bytes);
    uint64_t took = now_ns() - start;
    free(by_call);
    if (!made) {
        jit->gave_up = true;
        return NULL;
    }
    jit->stats.functions++;
    jit->stats.instructions += region.instructions;
    jit->stats.guarded += region.guarded;
    jit->stats.code_bytes += bytes;
    jit->stats.compile_ns += took;
    if (took > jit->stats.most_ns)
        jit->stats.most_ns = took;
    struct jit_root *root = &jit->root[halfword];
    atomic_store_explicit(&root->misses, 0, memory_order_relaxed);
    atomic_store_explicit(&root->calls, region.seen ? 0 : DRAFT_CALLS, memory_order_relaxed);
    atomic_fetch_add_explicit(&root->attempts, 1, memory_order_relaxed);
    atomic_store_explicit(&jit->has_code, true, memory_order_relaxed);
    atomic_store_explicit(&root->run, made, memory_order_release);
    return made;
}

static jit_function *compile_at(const struct hpu_code *code, uint32_t halfword,
                                const struct hpu *h) {
    struct jit_request r = request_for(h, code->jit, halfword);
    return compile(code, &r);
}

/* In the thread that compiles for the program. */
static void compile_wanted(void *code) {
    struct hpu_jit *jit = ((const struct hpu_code *)code)->jit;
    pthread_mutex_lock(&jit->compiling);
    if (jit->is_wanted)
        compile(code, &jit->wanted);
    jit->is_wanted = false;
    pthread_mutex_unlock(&jit->compiling);
}

/* With the lock held. What comes while something else waits will come again. */
static void ask_for(const struct hpu *h, uint32_t halfword) {
    struct hpu_jit *jit = h->code->jit;
    if (jit->is_wanted || jit->gave_up)
        return;
    jit->wanted = request_for(h, jit, halfword);
    jit->is_wanted = true;
    jit_aside_ask(jit->aside);
}

static int go_aside(struct hpu_code *code, struct spin_error *err) {
    struct hpu_jit *jit = code->jit;
    char why[200];
    jit->gave_up = !jit_find_llvm(why, sizeof why);
    jit->aside = jit->gave_up ? NULL : jit_aside_new(compile_wanted, code);
    if (jit->aside || jit->gave_up)
        return SPIN_OK;
    hpu_jit_free(jit);
    code->jit = NULL;
    return spin_fail(err, SPIN_ENOMEM, "no thread to compile handlers in");
}

#else
static void ask_for(const struct hpu *h, uint32_t halfword) {
    (void)h, (void)halfword;
}

static jit_function *compile_at(const struct hpu_code *code, uint32_t halfword,
                                const struct hpu *h) {
    (void)code, (void)halfword, (void)h;
    return NULL;
}
#endif

#ifdef OPENSPIN_JIT
static struct hpu_jit *jit_new(const struct hpu_code *code, enum spin_jit mode) {
    struct hpu_jit *jit = calloc(1, sizeof *jit);
    size_t places = code->bytes / 2 + 1, slots = code->slots + 1;
    if (!jit)
        return NULL;
    pthread_mutex_init(&jit->compiling, NULL);
    jit->mode = mode;
    jit->root = calloc(places, sizeof *jit->root);
    jit->wrong = calloc(slots, 1);
    jit->by_call = calloc(slots, 1);
    jit->seen = calloc(places, 1);
    jit->nothing_seen = calloc(slots, sizeof *jit->nothing_seen);
    if (jit->root && jit->wrong && jit->by_call && jit->seen && jit->nothing_seen)
        return jit;
    hpu_jit_free(jit);
    return NULL;
}
#endif

int hpu_jit_enable(struct hpu_code *code, enum spin_jit mode, struct spin_error *err) {
    hpu_jit_free(code->jit);
    code->jit = NULL;
    if (mode == SPIN_JIT_OFF)
        return SPIN_OK;
#ifdef OPENSPIN_JIT
    struct hpu_jit *jit = jit_new(code, mode);
    char why[200] = "out of memory";
    if (!jit)
        return spin_fail(err, SPIN_ENOMEM, "out of memory");
    if (mode == SPIN_JIT_FORCE && !(jit->linker = jit_linker_new(why, sizeof why))) {
        hpu_jit_free(jit);
        return spin_fail(err, SPIN_EARG, "the JIT was forced, but cannot work: %s", why);
    }
    code->jit = jit;
    if (mode == SPIN_JIT_ASIDE)
        return go_aside(code, err);
#else
    if (mode == SPIN_JIT_FORCE)
        return spin_fail(err, SPIN_EARG,
                         "the JIT was forced, but this program was built without LLVM");
#endif
    return SPIN_OK;
}

void hpu_jit_load(void) {
#ifdef OPENSPIN_JIT
    char why[200];
    jit_find_llvm(why, sizeof why);
#endif
}

bool hpu_jit_compile(const struct hpu_code *code, uint32_t pc) {
    if (!code->jit || !hpu_code_find(code, pc))
        return false;
    pthread_mutex_lock(&code->jit->compiling);
    uint32_t place = (pc - code->base) / 2;
    bool made = atomic_load_explicit(&code->jit->root[place].run, memory_order_relaxed) ||
                compile_at(code, place, NULL);
    pthread_mutex_unlock(&code->jit->compiling);
    return made;
}

jit_function *jit_compile_for(const struct hpu *h, uint32_t halfword) {
    struct hpu_jit *jit = h->code->jit;
    if (pthread_mutex_trylock(&jit->compiling) != 0)
        return NULL;
    jit_function *made = atomic_load_explicit(&jit->root[halfword].run, memory_order_acquire);
    if (!made && jit->aside)
        ask_for(h, halfword);
    else if (!made)
        made = compile_at(h->code, halfword, h);
    pthread_mutex_unlock(&jit->compiling);
    return made;
}
