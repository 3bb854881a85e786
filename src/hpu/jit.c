/* When to generate code, and running it. */
#include "hpu/jit.h"

#include "hpu/guard.h"
#include "hpu/interp.h"
#include "hpu/jit_state.h"

/* Interpreted instructions of a handler before it is compiled: what the interpreter does in 10 to
 * 30 ms, about as long as compiling takes; so the worst that can happen is that both take as long.
 */
#define HOT_INSTRUCTIONS 10000000u
#define ASIDE_HEAT       16u  /* an instruction counts as so many where another thread compiles */
#define ACCESS_HEAT      16u  /* an access to the driver takes the interpreter as long as so many */
#define SLICE_CYCLES     256u /* of the interpreter, between two looks for a root */
/* A function that is left so often because of one of its accesses is compiled again, with what is
 * known by then. */
#define MOST_MISSES    8u
#define BLOCKS_LEARNED 4000u /* in a lesson, and after a draft's miss: most of what a call does */
#define LESSONS        8u    /* before a hot root is compiled: calls that are stepped through */
#define MOST_WIDENED   3u    /* functions at a root, because what they lack has become usual */
#define DRAFT_CYCLES   (1u << 20) /* at once in a draft */
#define MOST_WRONG     2u         /* of a guess, before the access looks at it when it runs */
/* Going on behind such a place becomes worth compiling after so many times. */
#define HEAT_OF_EXIT (HOT_INSTRUCTIONS / 16)
/* At once in generated code: accesses are counted in 32 bits. */
#define MOST_CYCLES (1u << 31)

static bool is_hot(const struct jit_root *root) {
    return atomic_load_explicit(&root->heat, memory_order_relaxed) >= HOT_INSTRUCTIONS;
}

/* The function at a place that has none, if it is time for one. While it is compiled, the
 * interpreter goes on. */
static __attribute__((noinline, cold)) jit_function *warm(const struct hpu *h, uint32_t halfword,
                                                          bool now) {
    const struct jit_root *root = &h->code->jit->root[halfword];
    now &= !atomic_load_explicit(&root->attempts, memory_order_relaxed); /* a draft */
    now |= is_hot(root) && atomic_load_explicit(&root->lessons, memory_order_relaxed) >= LESSONS;
    return now ? jit_compile_for(h, halfword) : NULL;
}

static uint64_t least(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

/* Two threads may lose some: it is a guess. */
static void add_heat(struct jit_root *root, uint64_t instructions) {
    uint32_t old = atomic_load_explicit(&root->heat, memory_order_relaxed);
    if (old < HOT_INSTRUCTIONS)
        atomic_store_explicit(&root->heat, old + (uint32_t)instructions, memory_order_relaxed);
}

/* Interpreted instructions make the handler hot, so that it is compiled from its beginning; and, if
 * that did not help, the place where they were. */
static void add_heat_at(const struct hpu *h, uint32_t place, uint64_t instructions) {
    struct hpu_jit *jit = h->code->jit;
    uint32_t offset = h->entry - h->code->base;
    if (offset < h->code->bytes && !is_hot(&jit->root[offset / 2]))
        place = offset / 2;
    add_heat(&jit->root[place],
             jit->mode == SPIN_JIT_ASIDE ? ASIDE_HEAT * instructions : instructions);
}

/* Up to so many cycles; to the next block with 1. HPU_PAUSED: there is time left, or none. */
static enum hpu_stop interpret(struct hpu *h, uint64_t until, uint64_t cycles) {
    uint64_t end = h->cycles > UINT64_MAX - cycles ? UINT64_MAX : h->cycles + cycles;
    return hpu_interpret(h, least(until, end));
}

static enum hpu_stop jumped(struct hpu *h) {
    if (h->pc == MAP_RETURN)
        return HPU_DONE;
    h->fault = HPU_FAULT_SEGV;
    h->fault_address = h->pc;
    return HPU_FAULTED;
}

const struct jit_exit jit_jumps = {.status = JIT_JUMP};
const struct jit_exit jit_other = {.status = JIT_OTHER};

/* Takes back what a function had counted and not done. Returns how it ended. */
static __attribute__((noinline)) uint32_t leave(struct hpu *h, const struct jit_exit *taken) {
    if (taken == &jit_other)
        return JIT_OTHER;
    h->mid_block = taken->mid_block;
    h->pc = taken->pc ? taken->pc : h->pc;
    h->cycles -= (uint64_t)(int64_t)taken->cycles;
    h->instret -= taken->count;
    if (h->code->mode != HPU_TIMED || !taken->count)
        return taken->status;
    h->device_loads -= taken->words[JIT_LOAD];
    h->device_stores -= taken->words[JIT_STORE];
    for (int i = 0; i < HPU_WINDOWS; i++) {
        const uint32_t *n = taken->ahead[i];
        struct hpu_window *w = &h->window[i];
        w->loads -= n[JIT_LOAD] + n[JIT_ATOMIC];
        w->stores -= n[JIT_STORE] + n[JIT_ATOMIC];
        h->cycles -= (uint64_t)n[JIT_LOAD] * w->load_extra +
                     (uint64_t)n[JIT_STORE] * w->store_extra +
                     (uint64_t)n[JIT_ATOMIC] * w->amo_extra;
    }
    return taken->status;
}

static inline const struct jit_exit *run_function(struct hpu *h, jit_function *run, int64_t left) {
    const struct hpu_icache *icache = h->icache;
    h->horizon = h->cycles + (uint64_t)left;
    return jit_exit_of(run(h, left, h->window[0].host, h->x[10],
                           icache ? icache->seen : h->code->jit->nothing_seen,
                           icache ? hpu_icache_generation(icache, h->cycles) : 0));
}

static void guess_atomic(struct hpu *h, uint32_t slot) {
    const struct hpu_code *code = h->code;
    int index = hpu_find_window(h, h->x[code->insn[slot].rs1], 4, false);
    if (index >= 0)
        jit_set_guess(code, slot, index);
}

/* An access in its window, but not in the window's view. */
static bool is_at_edge(struct hpu *h, uint32_t address, uint32_t bytes) {
    int i = hpu_find_window(h, address, bytes, false);
    if (i < 0 || !h->window[i].view)
        return false;
    const struct hpu_window *w = &h->window[i];
    return address < guard_from(w->base) ||
           (uint64_t)address + bytes > guard_to(w->base, w->read_room[0]);
}

/* Has the access at a slot done in this way from the next function on, or in one that can more. */
static void want(struct hpu_jit *jit, uint32_t slot, uint8_t how) {
    uint8_t known = __atomic_load_n(&jit->by_call[slot], __ATOMIC_RELAXED);
    bool are_commands = known >= JIT_BY_COPY && how >= JIT_BY_COPY;
    if (known != how && known >= JIT_BY_TASK && !are_commands)
        how = JIT_BY_CALL;
    if (known < how)
        __atomic_store_n(&jit->by_call[slot], how, __ATOMIC_RELAXED);
}

/* How an access that was to a register of the driver is done. */
static uint8_t how_to_register(struct hpu *h, uint32_t address, uint32_t bytes, bool write,
                               uint32_t value) {
    uint32_t offset = address - MAP_DRIVER;
    bool has_direct = h->direct[0].bytes || h->direct[1].bytes;
    if (write && offset == SPIN_REG_ISSUE && value == SPIN_COMMAND_DMA_TO_HOST && has_direct)
        return JIT_BY_COPY;
    bool is_own = hpu_own_register(h, address, bytes, write);
    if (is_own && !write && offset < SPIN_TASK_REGISTERS)
        return JIT_BY_TASK;
    if (is_own && (write ? offset >= SPIN_REG_WORD : offset == SPIN_REG_RESULT))
        return JIT_BY_WORD;
    if (is_own || !write || offset >= MAP_DRIVER_SIZE)
        return JIT_BY_CALL;
    return offset == SPIN_REG_ISSUE ? JIT_BY_ISSUE : JIT_BY_PORT;
}

/* The loop at pc, of one block, could not take its iterations at once. If that is so again, it will
 * not try. */
static void note_loop(const struct hpu *h) {
    const struct hpu_code *code = h->code;
    uint32_t place = (h->pc - code->base) / 2;
    while (!hpu_insn_ends_block(&code->insn[code->slot_at[place]]))
        place += code->insn[code->slot_at[place]].length / 2;
    uint32_t slot = code->slot_at[place];
    uint8_t wrong = __atomic_load_n(&code->jit->wrong[slot], __ATOMIC_RELAXED);
    if (wrong >= MOST_WRONG)
        want(code->jit, slot, JIT_BY_CHECK);
    else
        __atomic_store_n(&code->jit->wrong[slot], wrong + 1, __ATOMIC_RELAXED);
}

/* Goes through the rest of a block whose accesses were not where its function expects them, or
 * that it does not know, and learns: a window's guess is corrected by the interpreter itself, what
 * keeps changing windows will look at it, what goes to the device or crosses words becomes a call,
 * unless the HPU has the register itself. */
static enum hpu_stop learn_block(struct hpu *h) {
    const struct hpu_code *code = h->code;
    struct hpu_jit *jit = code->jit;
    enum hpu_stop stop;
    __atomic_store_n(&jit->seen[(h->pc - code->base) / 2], 1, __ATOMIC_RELAXED);
    do {
        uint32_t slot = code->slot_at[(h->pc - code->base) / 2];
        const struct hpu_insn *in = &code->insn[slot];
        const struct hpu_operand *o = &code->slot[slot].a;
        uint32_t address = h->x[in->rs1] + (uint32_t)in->imm, bytes = hpu_access_bytes(in->id);
        uint32_t value = h->x[in->rs2];
        uint8_t guess = atomic_load_explicit(&o->window, memory_order_relaxed);
        uint64_t stores = h->device_stores, device = h->device_loads + stores;
        if (hpu_insn_info(in->id)->timing == HPU_TIME_AMO) /* these have no guess by themselves */
            guess_atomic(h, slot);
        stop = hpu_step(h);
        bool turned = atomic_load_explicit(&o->window, memory_order_relaxed) != guess;
        uint8_t wrong = __atomic_load_n(&jit->wrong[slot], __ATOMIC_RELAXED);
        if (turned && wrong < MOST_WRONG) {
            wrong += guess ? 2 : 1; /* the first window is also what a new slot names */
            __atomic_store_n(&jit->wrong[slot], wrong, __ATOMIC_RELAXED);
        }
        if (device != h->device_loads + h->device_stores)
            want(jit, slot, how_to_register(h, address, bytes, h->device_stores != stores, value));
        else if (bytes > 1 && code->mode == HPU_TIMED && (address & 3) + bytes > 4)
            want(jit, slot, JIT_BY_CALL);
        else if (turned && wrong >= MOST_WRONG)
            want(jit, slot, JIT_BY_GUESS);
        else if (is_at_edge(h, address, bytes))
            want(jit, slot, JIT_BY_CHECK);
    } while (stop == HPU_PAUSED && h->mid_block && h->pc - code->base < code->bytes);
    return stop; /* behind the program's end: the interpreter's fault */
}

/* The same for some blocks, and those that had not been seen between them. */
static enum hpu_stop learn(struct hpu *h, uint64_t limit, uint32_t blocks) {
    enum hpu_stop stop;
    do {
        blocks -= jit_is_seen(h->code->jit, (h->pc - h->code->base) / 2);
        stop = learn_block(h);
    } while (blocks && stop == HPU_PAUSED && !h->mid_block && h->cycles < limit &&
             h->pc - h->code->base < h->code->bytes);
    return stop;
}

/* The next function at the root is compiled when it is next called. Another thread may be in this
 * one, so its memory stays. */
static void drop_function(struct jit_root *root) {
    atomic_store_explicit(&root->heat, HOT_INSTRUCTIONS, memory_order_relaxed);
    atomic_store_explicit(&root->run, NULL, memory_order_release);
}

void jit_make_hot(const struct hpu_code *code, uint32_t pc) {
    struct jit_root *root = &code->jit->root[(pc - code->base) / 2];
    atomic_store_explicit(&root->heat, HOT_INSTRUCTIONS, memory_order_relaxed);
}

void jit_set_sandbox(const struct hpu_code *code, enum jit_sandbox sandbox) {
    struct hpu_jit *jit = code->jit;
    jit->sandbox = sandbox;
    for (uint32_t i = 0; i < code->bytes / 2; i++)
        if (atomic_load_explicit(&jit->root[i].run, memory_order_relaxed))
            drop_function(&jit->root[i]);
}

void jit_set_effort(const struct hpu_code *code, enum jit_effort effort) {
    code->jit->has_effort = true;
    code->jit->effort = effort;
}

/* Whether the root will be compiled soon, so that it is time to look where its calls lead. */
static bool is_due_a_lesson(struct jit_root *root) {
    uint8_t lessons = atomic_load_explicit(&root->lessons, memory_order_relaxed);
    if (!is_hot(root) || lessons >= LESSONS)
        return false;
    atomic_store_explicit(&root->lessons, lessons + 1, memory_order_relaxed);
    return true;
}

static __attribute__((noinline, cold)) void count_call(struct jit_root *root, uint8_t calls) {
    atomic_store_explicit(&root->calls, calls - 1, memory_order_relaxed);
    if (calls == 1)
        drop_function(root);
}

/* A function that keeps missing is dropped, to be compiled again when it is next called. A draft
 * goes with its first miss: true. */
static bool count_miss(struct jit_root *root, bool is_draft) {
    uint8_t n = atomic_load_explicit(&root->misses, memory_order_relaxed);
    uint8_t attempts = atomic_load_explicit(&root->attempts, memory_order_relaxed);
    if (n > MOST_MISSES)
        return false;
    atomic_store_explicit(&root->misses, n + 1, memory_order_relaxed);
    if (is_draft || (n == MOST_MISSES && attempts < MOST_ATTEMPTS))
        drop_function(root);
    return is_draft;
}

/* A function was left for pc. If it might have had that place and this is usual, the next one has
 * it; or it is too far away, and gets one of its own. False: nothing had run there yet. */
static bool count_exit(const struct hpu *h, struct jit_root *root, bool might_have) {
    struct hpu_jit *jit = h->code->jit;
    uint32_t place = (h->pc - h->code->base) / 2;
    struct jit_root *to = &jit->root[place];
    if (!jit_is_seen(jit, place))
        return false;
    add_heat(to, HEAT_OF_EXIT);
    if (might_have && is_hot(to) && !atomic_load_explicit(&to->run, memory_order_relaxed) &&
        atomic_load_explicit(&root->attempts, memory_order_relaxed) < MOST_WIDENED)
        drop_function(root);
    return true;
}

/* An access that page protection caught costs a hundred times what its check would have, so it has
 * one from the next function on, whether it is at the edge of its window or outside. */
static void note_fault(struct hpu_jit *jit, uint32_t slot) {
    atomic_fetch_add_explicit(&jit->guard_faults, 1, memory_order_relaxed);
    want(jit, slot, JIT_BY_CHECK);
}

/* The function wants views that this HPU does not have, or another kind of HPU. */
static void note_other(const struct hpu *h, struct jit_root *root) {
    uint32_t none = 0;
    for (uint32_t i = 0; i < HPU_WINDOWS; i++)
        none |= (uint32_t)(h->window[i].view == NULL) << i;
    atomic_fetch_or_explicit(&h->code->jit->viewless, none, memory_order_relaxed);
    jit_compare_traits(h, h->code->jit);
    drop_function(root);
}

/* Something was not as the function expects. Goes through it, and learns. */
static enum hpu_stop learn_from(struct hpu *h, struct jit_root *root, uint32_t status,
                                bool is_draft, uint64_t limit) {
    const struct hpu_code *code = h->code;
    if (status == JIT_FAULT)
        note_fault(code->jit, code->slot_at[(h->pc - code->base) / 2]);
    if (status == JIT_TURNS)
        note_loop(h);
    return learn(h, limit, count_miss(root, is_draft) ? BLOCKS_LEARNED : 1);
}

/* A device that faults without saying as what. */
static enum hpu_stop faulted(struct hpu *h) {
    const struct hpu_code *code = h->code;
    if (h->fault == HPU_FAULT_NONE) {
        const struct hpu_insn *in = &code->insn[code->slot_at[(h->pc - code->base) / 2]];
        h->fault = HPU_FAULT_SEGV;
        h->fault_address = h->x[in->rs1] + (uint32_t)in->imm;
    }
    return HPU_FAULTED;
}

/* A function has been left in some other way than by the handler's end. HPU_PAUSED: there is more
 * to run, or no time left. `is_draft`: it was one. */
static enum hpu_stop after_leaving(struct hpu *h, const struct jit_exit *taken,
                                   struct jit_root *root, bool is_draft, uint64_t until,
                                   uint64_t limit) {
    const struct hpu_code *code = h->code;
    uint32_t status = leave(h, taken);
    switch (status) {
    case HPU_FAULTED:
        return faulted(h);
    case HPU_WAITING:
    case HPU_PAUSED:
        return (enum hpu_stop)status;
    case JIT_SHORT:
        return interpret(h, until, SLICE_CYCLES);
    case JIT_OTHER:
        note_other(h, root);
        return HPU_PAUSED;
    case JIT_JUMP:
        if (h->pc - code->base >= code->bytes)
            return jumped(h);
        /* fall through */
    case JIT_BRANCH:
        if (h->cycles >= limit) /* there is no time to look at what is there */
            return HPU_PAUSED;
        if (count_exit(h, root, status == JIT_BRANCH))
            return HPU_PAUSED;
    }
    enum hpu_stop stop = status == JIT_INTERPRET ? interpret(h, until, 1)
                                                 : learn_from(h, root, status, is_draft, limit);
    if (stop == HPU_PAUSED && h->pc - code->base < code->bytes)
        add_heat(&code->jit->root[(h->pc - code->base) / 2], HEAT_OF_EXIT);
    return stop;
}

/* What the interpreter has done, in instructions. */
static uint64_t work_of(const struct hpu *h) {
    return h->instret + ACCESS_HEAT * (h->device_loads + h->device_stores);
}

/* To the end of all that there is to run. */
static __attribute__((noinline)) enum hpu_stop go_on(struct hpu *h, uint64_t until, bool now) {
    const struct hpu_code *code = h->code;
    struct hpu_jit *jit = code->jit;
    const uint64_t limit = least(until, h->budget_end);
    for (;; now = false) {
        uint32_t offset = h->pc - code->base, place = offset / 2;
        if (offset >= code->bytes || offset & 1 || (!h->mid_block && h->cycles >= limit))
            return hpu_interpret(h, until); /* which says what to say about it */
        struct jit_root *root = &jit->root[place];
        jit_function *run = atomic_load_explicit(&root->run, memory_order_acquire);
        enum hpu_stop stop;
        if (run || (run = warm(h, place, now))) {
            uint8_t calls = atomic_load_explicit(&root->calls, memory_order_relaxed);
            int64_t left = h->cycles < limit ? (int64_t)least(limit - h->cycles,
                                                              calls ? DRAFT_CYCLES : MOST_CYCLES)
                                             : -(int64_t)(h->cycles - limit);
            const struct jit_exit *taken = run_function(h, run, left);
            if (calls)
                count_call(root, calls);
            if (!taken)
                return HPU_DONE;
            stop = after_leaving(h, taken, root, calls, until, limit);
        } else if (is_due_a_lesson(root)) {
            stop = learn(h, limit, BLOCKS_LEARNED);
        } else {
            uint64_t before = work_of(h);
            stop = interpret(h, until, SLICE_CYCLES);
            add_heat_at(h, place, work_of(h) - before);
        }
        if (stop != HPU_PAUSED)
            return stop;
    }
}

/* Limits are looked at where blocks begin, so a block could run past the watchdog: when the budget
 * may end inside one, each instruction is looked at. */
static enum hpu_stop run_to_budget(struct hpu *h, uint64_t until) {
    enum hpu_stop stop = HPU_PAUSED;
    while (stop == HPU_PAUSED && (h->cycles < until || h->mid_block))
        stop = hpu_step(h);
    return stop;
}

static __attribute__((noinline)) enum hpu_stop run_any(struct hpu *h, uint64_t until,
                                                       uint64_t end) {
    const struct hpu_jit *jit = h->code->jit;
    bool now = jit && jit->mode == SPIN_JIT_FORCE && h->is_fresh;
    h->is_fresh = false;
    if (h->cycles < h->step_from) {
        enum hpu_stop stop = jit ? go_on(h, end, now) : hpu_interpret(h, end);
        if (stop != HPU_PAUSED || end == until)
            return stop;
    }
    return run_to_budget(h, until);
}

/* A function was left before the handler's end. */
static __attribute__((noinline)) enum hpu_stop run_rest(struct hpu *h, uint64_t until, uint64_t end,
                                                        const struct jit_exit *taken) {
    struct jit_root *root = &h->code->jit->root[(h->began_at - h->code->base) / 2];
    enum hpu_stop stop = after_leaving(h, taken, root, false, end, end);
    return stop == HPU_PAUSED ? run_any(h, until, end) : stop;
}

/* Most calls: there is a function, it is no draft, and it runs to the handler's end. What others
 * need is in the HPU, so that little is kept meanwhile. */
enum hpu_stop hpu_run(struct hpu *h, uint64_t until) {
    const struct hpu_code *code = h->code;
    const struct hpu_jit *jit = code->jit;
    uint64_t cycles = h->cycles, end = least(until, h->step_from);
    uint32_t pc = h->pc, offset = pc - code->base;
    if (__builtin_expect(!jit || cycles >= end || offset >= code->bytes || offset & 1, 0))
        return run_any(h, until, end);
    const struct jit_root *root = &jit->root[offset / 2];
    jit_function *run = atomic_load_explicit(&root->run, memory_order_acquire);
    if (__builtin_expect(!run || atomic_load_explicit(&root->calls, memory_order_relaxed), 0))
        return run_any(h, until, end);
    if (h->is_fresh && code->mode == HPU_FUNCTIONAL)
        h->generated = &root->run;
    h->is_fresh = false;
    h->began_at = pc;
    const struct jit_exit *taken = run_function(h, run, (int64_t)least(end - cycles, MOST_CYCLES));
    return __builtin_expect(!taken, 1) ? HPU_DONE : run_rest(h, until, end, taken);
}

enum hpu_stop hpu_run_rest(struct hpu *h, uint64_t returned) {
    h->began_at = h->entry;
    return run_rest(h, UINT64_MAX, h->step_from, jit_exit_of(returned));
}

void hpu_set_horizon(struct hpu *h) {
    h->horizon = h->cycles + least(h->step_from - h->cycles, MOST_CYCLES);
}
