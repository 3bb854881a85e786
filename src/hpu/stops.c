/* Design notes. Nothing to stop at: the handler runs in slices at full speed. Otherwise it is
 * stepped, and each pc compared with the breakpoints, each address an instruction is about to
 * access with the watchpoints. That costs time on the host and nothing on the card: a step takes
 * the same cycles as the instruction does in a run, so debugging does not change what is measured.
 *
 * Watchpoints see what the handler itself loads and stores. What the card writes for it, as DMA
 * does, they do not. */
#include "hpu/stops.h"

#define SLICE_CYCLES (1u << 20) /* some ms at full speed */
#define SLICE_STEPS  (1u << 16)

static struct stops_point *find(struct stops *s, enum stops_kind kind, uint32_t address,
                                uint32_t length) {
    bool is_break = kind <= STOPS_HARDWARE_BREAK; /* one a place, whatever its length */
    for (uint32_t i = 0; i < s->points; i++) {
        struct stops_point *p = &s->point[i];
        if (p->kind == kind && p->address == address && (is_break || p->length == length))
            return p;
    }
    return NULL;
}

bool stops_add(struct stops *s, enum stops_kind kind, uint32_t address, uint32_t length) {
    if (find(s, kind, address, length))
        return true;
    if (s->points == STOPS_POINTS)
        return false;
    s->point[s->points++] = (struct stops_point){kind, address, length};
    s->watches += kind > STOPS_HARDWARE_BREAK;
    return true;
}

void stops_remove(struct stops *s, enum stops_kind kind, uint32_t address, uint32_t length) {
    struct stops_point *p = find(s, kind, address, length);
    if (!p)
        return;
    *p = s->point[--s->points];
    s->watches -= kind > STOPS_HARDWARE_BREAK;
}

bool stops_breaks_at(const struct stops *s, uint32_t pc, struct stops_result *result) {
    for (uint32_t i = 0; i < s->points; i++) {
        const struct stops_point *p = &s->point[i];
        if (p->kind <= STOPS_HARDWARE_BREAK && p->address == pc) {
            *result = (struct stops_result){.why = STOPS_AT_BREAK, .kind = p->kind};
            return true;
        }
    }
    return false;
}

static bool watches(const struct stops *s, const struct hpu_next_access *a,
                    struct stops_result *result) {
    for (uint32_t i = 0; i < s->points; i++) {
        const struct stops_point *p = &s->point[i];
        bool wanted = p->kind == STOPS_WATCH_WRITE  ? a->write
                      : p->kind == STOPS_WATCH_READ ? a->read
                                                    : p->kind == STOPS_WATCH_ACCESS;
        if (!wanted || a->address >= (uint64_t)p->address + p->length ||
            p->address >= (uint64_t)a->address + a->size)
            continue;
        *result = (struct stops_result){.why = STOPS_AT_WATCH, .kind = p->kind};
        /* gdb looks for its watchpoint by this address, so it must be inside the range. */
        result->address = a->address > p->address ? a->address : p->address;
        return true;
    }
    return false;
}

static struct stops_result ended(enum hpu_stop stop) {
    return (struct stops_result){.why = STOPS_ENDED, .stop = stop};
}

/* One instruction. Where it leads outside the program onto a breakpoint, that is a stop and not the
 * end: gdb puts one where a handler returns to (`finish`) and where a function that it calls itself
 * does (`print f(1)`). */
static enum hpu_stop step(const struct stops *s, const struct stops_target *target) {
    struct hpu *h = target->hpu;
    uint32_t before = h->pc;
    if (before == MAP_RETURN)
        return HPU_DONE; /* stopped there last time */
    enum hpu_stop stop = target->step(h);
    struct stops_result at;
    bool outside = !hpu_code_find(h->code, h->pc) && h->pc != before;
    if ((stop == HPU_DONE || stop == HPU_FAULTED) && outside && stops_breaks_at(s, h->pc, &at)) {
        h->fault = HPU_FAULT_NONE;
        h->fault_address = 0;
        h->mid_block = false;
        stop = HPU_PAUSED;
    }
    return stop;
}

static struct stops_result run_stepped(const struct stops *s, const struct stops_target *target,
                                       struct stops_how how, uint64_t until,
                                       bool (*ask)(void *context), void *context) {
    const struct hpu *h = target->hpu;
    for (uint32_t n = 1;; n++) {
        struct stops_result hit;
        struct hpu_next_access a = s->watches ? hpu_next_access(h) : (struct hpu_next_access){0};
        bool watched = a.size && watches(s, &a, &hit);
        enum hpu_stop stop = step(s, target);
        if (stop != HPU_PAUSED)
            return ended(stop);
        if (watched)
            return hit;
        if (stops_breaks_at(s, h->pc, &hit))
            return hit;
        if (how.step && !(h->pc >= how.from && h->pc < how.to))
            return (struct stops_result){.why = STOPS_STEPPED};
        if (h->cycles >= until)
            return ended(HPU_PAUSED);
        if (n % SLICE_STEPS == 0 && ask(context))
            return (struct stops_result){.why = STOPS_ASKED};
    }
}

struct stops_result stops_run(const struct stops *s, const struct stops_target *target,
                              struct stops_how how, uint64_t until, bool (*ask)(void *context),
                              void *context) {
    struct hpu *h = target->hpu;
    if (how.step || s->points || target->only_steps || h->pc == MAP_RETURN)
        return run_stepped(s, target, how, until, ask, context);
    for (;;) {
        bool last = until - h->cycles <= SLICE_CYCLES;
        enum hpu_stop stop = hpu_run(h, last ? until : h->cycles + SLICE_CYCLES);
        if (stop != HPU_PAUSED || last)
            return ended(stop);
        if (ask(context))
            return (struct stops_result){.why = STOPS_ASKED};
    }
}
