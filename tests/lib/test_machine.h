/* Runs a program in every way and demands that they agree: functional and timed, each at once,
 * instruction by instruction and as generated code. The memory of the handler stands between
 * canaries. */
#ifndef TESTS_MACHINE_H
#define TESTS_MACHINE_H

#include "asm.h"
#include "hpu/guard.h"
#include "hpu/hpu.h"
#include "hpu/interp.h"
#include "hpu/jit_private.h"
#include "test.h"

#define CODE_BASE  MAP_PROGRAM
#define DATA_BASE  0x10010000u /* L1, read and write */
#define DATA_BYTES 1024u
#define FIXED_BASE 0x1c000000u /* L2, read only */
#define L2_BASE    0x1c001000u /* L2, read and write */
#define SIDE_BYTES 256u        /* of each of the two */
#define CANARY     64u

/* Generated code twice: at first sight, when no access is where it is expected, and once the
 * interpreter has been through the program. */
enum {
    RUN_FUNCTIONAL,
    STEP_FUNCTIONAL,
    NEW_FUNCTIONAL,
    JIT_FUNCTIONAL,
    RUN_TIMED,
    STEP_TIMED,
    NEW_TIMED,
    JIT_TIMED,
    WAYS
};
static const char *const way_name[WAYS] = {
    "functional run", "functional step", "functional JIT, new", "functional JIT",
    "timed run",      "timed step",      "timed JIT, new",      "timed JIT"};

/* What a program finds, and how it is run. */
struct start {
    uint32_t entry; /* offset in the program */
    uint32_t x[32]; /* 0 for ra and sp: as hpu_start sets them */
    uint32_t f[32];
    uint32_t fcsr;
    bool with_float;
    bool counts_cycles; /* the program reads `cycle`: modes differ in what they see */
    uint64_t budget;    /* 0: 100,000 */
    uint8_t data[DATA_BYTES];
};

struct result {
    enum hpu_stop stop;
    enum hpu_fault fault;
    uint32_t fault_address, pc;
    uint32_t x[32], f[32], fcsr;
    uint64_t cycles, instret;
    uint32_t loads[HPU_WINDOWS], stores[HPU_WINDOWS]; /* counted when timed */
    uint8_t data[DATA_BYTES], l2[SIDE_BYTES];
    uint64_t pages; /* a sum over all bytes of the windows with pages */
};

/* A window's host memory with canaries around it. */
struct fenced {
    _Alignas(16) uint8_t before[CANARY];
    uint8_t bytes[DATA_BYTES];
    uint8_t after[CANARY];
};

/* A window of any size, with a view of its whole pages where guard pages are on. */
struct paged {
    uint8_t *memory, *view, *host;
    uint32_t size, mapped;
};
#define MOST_PAGED 4

struct machine {
    struct hpu hpu;
    struct hpu_code *code;
    struct hpu_icache *icache;
    struct fenced data, fixed, l2;
    struct paged paged[MOST_PAGED];
    int pageds;
};

/* Which rows of isa.def some test has executed. */
__attribute__((unused)) static bool machine_ran[HPU_INSN_COUNT];

/* And how often in a program that generated code has run: compiling takes so long that only the
 * first programs with a row, and some of the others, are compiled; fewer where a sanitizer looks at
 * memory and not at results. */
__attribute__((unused)) static unsigned machine_compiled[HPU_INSN_COUNT];
#define COMPILED_PROGRAMS (TEST_SANITIZED ? 2u : 6u)

static uint8_t fixed_byte(uint32_t i) {
    return (uint8_t)(i * 7 + 0x81);
}

__attribute__((unused)) static void machine_open(struct machine *m, const struct program *p,
                                                 enum hpu_mode mode, bool with_float) {
    memset(m, 0, sizeof *m);
    struct fenced *all[] = {&m->data, &m->fixed, &m->l2};
    for (int i = 0; i < 3; i++)
        memset(all[i], 0xc5, sizeof *all[i]);
    memset(m->data.bytes, 0, DATA_BYTES);
    memset(m->l2.bytes, 0, SIDE_BYTES);
    for (uint32_t i = 0; i < SIDE_BYTES; i++)
        m->fixed.bytes[i] = fixed_byte(i);
    m->code = hpu_code_new(p->byte, CODE_BASE, p->bytes, mode, &hpu_timing_ri5cy, with_float);
    CHECK(m->code);
    hpu_init(&m->hpu, m->code, 3);
    if (mode == HPU_TIMED) {
        m->icache = hpu_icache_new(m->code, NULL, 0);
        CHECK(m->icache);
        m->hpu.icache = m->icache;
    }
    hpu_add_window(&m->hpu, DATA_BASE, DATA_BYTES, m->data.bytes, true, HPU_REGION_L1);
    hpu_add_window(&m->hpu, FIXED_BASE, SIDE_BYTES, m->fixed.bytes, false, HPU_REGION_L2_HANDLER);
    hpu_add_window(&m->hpu, L2_BASE, SIDE_BYTES, m->l2.bytes, true, HPU_REGION_L2_HANDLER);
}

__attribute__((unused)) static struct paged *machine_add_pages(struct machine *m, uint32_t base,
                                                               uint32_t size, bool writable) {
    struct paged *p = &m->paged[m->pageds++];
    uint32_t skew = base % GUARD_PAGE;
    p->size = size;
    p->mapped = skew + size;
    p->memory = guard_memory_new(p->mapped);
    CHECK(p->memory);
    p->host = p->memory + skew;
    int window = hpu_add_window(&m->hpu, base, size, p->host, writable, HPU_REGION_L2_HANDLER);
    CHECK(window >= 0);
    m->hpu.window[window].view = p->view = guard_view_new(p->host, base, size, writable);
    return p;
}

__attribute__((unused)) static void machine_close(struct machine *m) {
    for (int i = 0; i < m->pageds; i++) {
        guard_view_free(m->paged[i].view);
        guard_memory_free(m->paged[i].memory, m->paged[i].mapped);
    }
    hpu_icache_free(m->icache);
    hpu_code_free(m->code);
}

static bool canaries_live(const struct machine *m) {
    const struct fenced *all[] = {&m->data, &m->fixed, &m->l2};
    for (int i = 0; i < 3; i++)
        for (uint32_t k = 0; k < CANARY; k++)
            if (all[i]->before[k] != 0xc5 || all[i]->after[k] != 0xc5)
                return false;
    for (uint32_t i = 0; i < SIDE_BYTES; i++)
        if (m->fixed.bytes[i] != fixed_byte(i))
            return false;
    for (uint32_t i = SIDE_BYTES; i < DATA_BYTES; i++)
        if (m->l2.bytes[i] != 0xc5)
            return false;
    return true;
}

/* With bytes that differ from place to place; they are computed once, since tests begin often. */
static void machine_fill(struct paged *p, uint32_t which) {
    static uint8_t pattern[65536 + MOST_PAGED];
    if (!pattern[1])
        for (uint32_t k = 0; k < sizeof pattern; k++)
            pattern[k] = (uint8_t)(k * 29 + (k >> 8));
    for (uint32_t k = 0; k < p->size; k += 65536)
        memcpy(p->host + k, pattern + which, p->size - k < 65536 ? p->size - k : 65536);
}

__attribute__((unused)) static void machine_begin(struct machine *m, const struct start *s) {
    struct hpu *h = &m->hpu;
    h->cycles = h->instret = 0;
    if (h->icache)
        hpu_icache_rewind(h->icache);
    for (uint32_t i = 0; i < h->windows; i++)
        h->window[i].loads = h->window[i].stores = 0;
    for (int i = 0; i < m->pageds; i++)
        machine_fill(&m->paged[i], (uint32_t)i);
    hpu_start(h, CODE_BASE + s->entry, DATA_BASE + DATA_BYTES, s->budget ? s->budget : 100000);
    for (int i = 1; i < 32; i++)
        if (s->x[i] || i > 2)
            h->x[i] = s->x[i];
    memcpy(h->f, s->f, sizeof h->f);
    h->fcsr = s->fcsr;
    memcpy(m->data.bytes, s->data, DATA_BYTES);
    memset(m->l2.bytes, 0, SIDE_BYTES);
}

__attribute__((unused)) static void machine_result(const struct machine *m, enum hpu_stop stop,
                                                   struct result *r) {
    const struct hpu *h = &m->hpu;
    memset(r, 0, sizeof *r);
    r->stop = stop;
    r->fault = h->fault;
    r->fault_address = h->fault_address;
    r->pc = h->pc;
    memcpy(r->x, h->x, sizeof r->x);
    memcpy(r->f, h->f, sizeof r->f);
    r->fcsr = h->fcsr;
    r->cycles = h->cycles;
    r->instret = h->instret;
    for (uint32_t i = 0; i < h->windows && h->code->mode == HPU_TIMED; i++) {
        r->loads[i] = h->window[i].loads;
        r->stores[i] = h->window[i].stores;
    }
    memcpy(r->data, m->data.bytes, DATA_BYTES);
    memcpy(r->l2, m->l2.bytes, SIDE_BYTES);
    for (int i = 0; i < m->pageds; i++) {
        uint32_t size = m->paged[i].size, k = 0;
        for (uint64_t word; k + 8 <= size; k += 8) {
            memcpy(&word, m->paged[i].host + k, 8);
            r->pages = (r->pages ^ word) * 0x9e3779b97f4a7c15u;
            r->pages ^= r->pages >> 29;
        }
        for (; k < size; k++)
            r->pages = r->pages * 31 + m->paged[i].host[k];
    }
}

__attribute__((unused)) static enum hpu_stop machine_step(struct machine *m) {
    enum hpu_stop stop;
    do {
        const struct hpu_slot *slot = hpu_code_find(m->code, m->hpu.pc);
        uint64_t before = m->hpu.instret;
        stop = hpu_step(&m->hpu);
        if (slot && (stop == HPU_PAUSED || stop == HPU_DONE))
            CHECK_EQ(m->hpu.instret, before + 1);
        if (slot)
            machine_ran[m->code->insn[slot - m->code->slot].id] = true;
    } while (stop == HPU_PAUSED);
    return stop;
}

static void demand_same(const struct result *a, const struct result *b, int way) {
#define SAME(field)                                                                                \
    if (a->field != b->field)                                                                      \
    TEST_FAIL("%s: " #field " is 0x%llx, in the %s 0x%llx (pc 0x%x)", way_name[0],                 \
              (unsigned long long)a->field, way_name[way], (unsigned long long)b->field, b->pc)
    SAME(stop);
    SAME(fault);
    SAME(fault_address);
    SAME(pc);
    SAME(instret);
    SAME(fcsr);
    SAME(pages);
    for (int i = 0; i < 32; i++) {
        SAME(x[i]);
        SAME(f[i]);
    }
    for (uint32_t i = 0; i < DATA_BYTES; i++)
        SAME(data[i]);
    for (uint32_t i = 0; i < SIDE_BYTES; i++)
        SAME(l2[i]);
#undef SAME
}

/* Calls the same handler in both, with the same argument; all that they leave must be the same. */
__attribute__((unused)) static void demand_same_call(struct machine *plain, struct machine *jit,
                                                     const struct start *s) {
    static struct result a, b;
    machine_begin(plain, s);
    machine_begin(jit, s);
    enum hpu_stop one = hpu_run(&plain->hpu, ~0ull), two = hpu_run(&jit->hpu, ~0ull);
    machine_result(plain, one, &a);
    machine_result(jit, two, &b);
    demand_same(&a, &b, JIT_FUNCTIONAL);
    CHECK_EQ(b.cycles, a.cycles);
    for (int i = 0; i < HPU_WINDOWS; i++) {
        CHECK_EQ(b.loads[i], a.loads[i]);
        CHECK_EQ(b.stores[i], a.stores[i]);
    }
    CHECK(canaries_live(jit));
}

/* False where this build has no generated code. */
__attribute__((unused)) static bool machine_force_jit(struct machine *m) {
#ifdef OPENSPIN_JIT
    static unsigned machines;
    struct spin_error err;
    m->code->is_alone = machines++ % 2; /* atomics in both ways */
    if (hpu_jit_enable(m->code, SPIN_JIT_FORCE, &err) != SPIN_OK)
        TEST_FAIL("%s", err.text);
    return true;
#else
    (void)m;
    return false;
#endif
}

/* The same with one of the efforts of jit_private.h, or, by any other number, as it comes. */
__attribute__((unused)) static void machine_force_effort(struct machine *m, unsigned effort) {
    if (machine_force_jit(m) && effort <= JIT_WELL)
        jit_set_effort(m->code, (enum jit_effort)effort);
}

/* Whether the program goes through generated code too. */
static bool is_compiled(const struct program *p, bool with_float) {
    static unsigned programs;
    unsigned ids[64], n = 0;
    bool wanted = programs++ % (TEST_SANITIZED ? 256 : 64) == 0;
    for (uint32_t at = 0; at + 2 <= p->bytes && n < 64; n++) {
        uint32_t word = 0;
        memcpy(&word, p->byte + at, at + 4 <= p->bytes ? 4 : 2);
        struct hpu_insn in = hpu_decode(word, with_float);
        ids[n] = in.id;
        at += in.length;
    }
    for (unsigned i = 0; i < n; i++)
        wanted |= machine_compiled[ids[i]] < COMPILED_PROGRAMS;
    for (unsigned i = 0; i < n && wanted; i++)
        machine_compiled[ids[i]]++;
    return wanted;
}

static enum hpu_stop run_way(struct machine *m, const struct start *s, int way) {
    int kind = way % RUN_TIMED;
    if (kind == JIT_FUNCTIONAL) {
        hpu_run(&m->hpu, ~0ull);
        if (m->icache)
            hpu_icache_clear(m->icache);
        machine_begin(m, s);
    }
    if (kind >= NEW_FUNCTIONAL)
        machine_force_effort(m, kind == NEW_FUNCTIONAL ? JIT_QUICKLY : JIT_WELL);
    return kind == STEP_FUNCTIONAL ? machine_step(m) : hpu_run(&m->hpu, ~0ull);
}

static void demand_agreement(const struct result r[WAYS], const struct start *s) {
    CHECK_EQ(r[RUN_FUNCTIONAL].cycles, r[RUN_FUNCTIONAL].instret);
    for (int way = 1; way < WAYS; way++) {
        const struct result *same = &r[way < RUN_TIMED ? RUN_FUNCTIONAL : RUN_TIMED];
        if (way == RUN_TIMED)
            continue;
        demand_same(same, &r[way], way);
        for (int i = 0; i < HPU_WINDOWS && way > RUN_TIMED; i++) {
            CHECK_EQ(r[way].loads[i], same->loads[i]);
            CHECK_EQ(r[way].stores[i], same->stores[i]);
        }
        if (same->cycles != r[way].cycles)
            TEST_FAIL("%s: %llu cycles instead of %llu", way_name[way],
                      (unsigned long long)r[way].cycles, (unsigned long long)same->cycles);
    }
    /* The budget is in cycles, so it ends a timed handler elsewhere. */
    if (!s->counts_cycles && r[0].fault != HPU_FAULT_BUDGET &&
        r[RUN_TIMED].fault != HPU_FAULT_BUDGET)
        demand_same(&r[0], &r[RUN_TIMED], RUN_TIMED);
}

/* Runs it in all ways, from cold and once more; returns what the timed run gave when cold. */
__attribute__((unused)) static struct result run_program(const struct program *p,
                                                         const struct start *s) {
    static struct machine m;
    static struct result cold[WAYS], warm[WAYS];
    bool compiled = is_compiled(p, s->with_float);
    for (int way = 0; way < WAYS; way++) {
        if (!compiled && way % RUN_TIMED >= NEW_FUNCTIONAL) {
            cold[way] = cold[way < RUN_TIMED ? RUN_FUNCTIONAL : RUN_TIMED];
            warm[way] = warm[way < RUN_TIMED ? RUN_FUNCTIONAL : RUN_TIMED];
            continue;
        }
        machine_open(&m, p, way >= RUN_TIMED ? HPU_TIMED : HPU_FUNCTIONAL, s->with_float);
        machine_begin(&m, s);
        machine_result(&m, run_way(&m, s, way), &cold[way]);
        CHECK(canaries_live(&m));
        machine_begin(&m, s);
        bool step = way == STEP_FUNCTIONAL || way == STEP_TIMED;
        machine_result(&m, step ? machine_step(&m) : hpu_run(&m.hpu, ~0ull), &warm[way]);
        CHECK(canaries_live(&m));
        CHECK_EQ(m.hpu.x[0], 0);
        machine_close(&m);
    }
    demand_agreement(cold, s);
    demand_agreement(warm, s);
    return cold[RUN_TIMED];
}

#endif
