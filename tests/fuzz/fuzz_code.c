/* Any code on any packet. The input: a byte of choices, two bytes of entry, one of packet length,
 * one of quantum; then the packet, then up to 32 KiB of code.
 *
 * The code runs functional and timed, at once, in quanta, stepped and (when the choices say so:
 * compiling is slow) as generated code, on an HPU whose memory stands between canaries and has a
 * page that generated code may leave to page protection, and all must agree; then once more with a
 * whole card around it, whose memory outside what the handler was given must stay zero. */
#include "fuzz/fuzz.h"
#include "hpu/guard.h"
#include "hpu/image.h"
#include "hpu/interp.h"
#include "hpu/jit_private.h"
#include "hpu/rig.h"

#define HEAD        5
#define CODE_MOST   32768
#define STATE       0x10020000u
#define STATE_BYTES 4608u /* a page, and what is less than one */
#define STACK       0x1b000400u
#define STACK_BYTES 256u
#define FIXED       0x1c000000u
#define FIXED_BYTES 64u
#define PACKET      0x10004400u
#define CANARY      32u
#define CANARY_BYTE 0xd6
#define BUDGET      3000u

struct memory {
    uint8_t state[STATE_BYTES], canary1[CANARY], stack[STACK_BYTES], canary2[CANARY],
        fixed[FIXED_BYTES], canary3[CANARY], packet[256], canary4[CANARY];
};

/* One for all runs, at a page's beginning, and the view of the state. */
static struct memory *get_memory(uint8_t **view) {
    static struct memory *m;
    static uint8_t *made;
    if (!m) {
        spin_guard_pages(SPIN_GUARDS_INSTALL);
        m = (struct memory *)(void *)guard_memory_new(sizeof *m);
        FUZZ_CHECK(m);
        made = guard_view_new(m->state, STATE, STATE_BYTES, true);
    }
    *view = made;
    return m;
}

struct input {
    bool with_float, compiled;
    uint32_t entry, packet_bytes, quantum, code_bytes;
    const uint8_t *packet, *code;
};

struct outcome {
    enum hpu_stop stop;
    uint8_t fault;
    uint32_t fault_address, pc, x[32], f[32], fcsr;
    uint64_t cycles, instret;
    struct memory memory;
};

enum way { WHOLE, QUANTA, STEPS, WARM, JIT, JIT_QUANTA };

static bool reads_cycles(const struct hpu_code *code, uint32_t pc) {
    const struct hpu_slot *slot = hpu_code_find(code, pc);
    if (!slot)
        return false;
    const struct hpu_insn *in = &code->insn[slot - code->slot];
    return hpu_insn_info(in->id)->timing == HPU_TIME_CSR && (in->imm == 0xc00 || in->imm == 0xc80);
}

static void begin(const struct input *in, struct hpu *h, struct memory *m) {
    memset(m, CANARY_BYTE, sizeof *m);
    memset(m->state, 1, sizeof m->state);
    memset(m->stack, 2, sizeof m->stack);
    memset(m->fixed, 3, sizeof m->fixed);
    memcpy(m->packet, in->packet, in->packet_bytes);
    h->cycles = h->instret = 0;
    if (h->icache)
        hpu_icache_rewind(h->icache);
    hpu_start(h, MAP_PROGRAM + in->entry, STACK + STACK_BYTES, BUDGET);
    h->x[10] = PACKET;
    h->x[11] = STATE;
    h->x[12] = FIXED;
}

/* As hpu_run does it without generated code: to the cycle near the end of the budget. */
static enum hpu_stop interpret(struct hpu *h) {
    return h->cycles < h->step_from ? hpu_interpret(h, h->step_from) : hpu_step(h);
}

static void run(const struct input *in, struct hpu_code *code, enum way way, struct outcome *out,
                bool *cycles_were_read) {
    uint8_t *view;
    struct memory *m = get_memory(&view);
    struct hpu h;
    hpu_init(&h, code, 5);
    h.icache = code->mode == HPU_TIMED ? hpu_icache_new(code, NULL, 0) : NULL;
    hpu_add_window(&h, STATE, STATE_BYTES, m->state, true, HPU_REGION_L1);
    h.window[0].view = view;
    hpu_add_window(&h, STACK, STACK_BYTES, m->stack, true, HPU_REGION_L1);
    hpu_add_window(&h, FIXED, FIXED_BYTES, m->fixed, false, HPU_REGION_L2_HANDLER);
    hpu_add_window(&h, PACKET, in->packet_bytes, m->packet, true, HPU_REGION_L1);
    begin(in, &h, m);
    if (way >= WARM) {
        hpu_interpret(&h, UINT64_MAX);
        begin(in, &h, m);
    }
    enum hpu_stop stop;
    do {
        if (way == STEPS)
            *cycles_were_read |= reads_cycles(code, h.pc);
        stop = way == STEPS                 ? hpu_step(&h)
               : way == WARM                ? interpret(&h)
               : way == WHOLE || way == JIT ? hpu_run(&h, UINT64_MAX)
                                            : hpu_run(&h, h.cycles + in->quantum);
    } while (stop == HPU_PAUSED);
    hpu_icache_free(h.icache);
    for (uint32_t i = 0; i < CANARY; i++)
        FUZZ_CHECK(m->canary1[i] == CANARY_BYTE && m->canary2[i] == CANARY_BYTE &&
                   m->canary3[i] == CANARY_BYTE && m->canary4[i] == CANARY_BYTE);
    for (uint32_t i = 0; i < FIXED_BYTES; i++)
        FUZZ_CHECK(m->fixed[i] == 3);
    for (uint32_t i = in->packet_bytes; i < sizeof m->packet; i++)
        FUZZ_CHECK(m->packet[i] == CANARY_BYTE);
    memset(out, 0, sizeof *out);
    out->stop = stop;
    out->fault = h.fault;
    out->fault_address = h.fault_address;
    out->pc = h.pc;
    memcpy(out->x, h.x, sizeof out->x);
    memcpy(out->f, h.f, sizeof out->f);
    out->fcsr = h.fcsr;
    out->cycles = h.cycles;
    out->instret = h.instret;
    out->memory = *m;
    FUZZ_CHECK(stop == HPU_DONE || stop == HPU_FAULTED);
    FUZZ_CHECK(h.x[0] == 0);
    /* One block, cold and with the dearest instructions, is the most that it can be late. */
    FUZZ_CHECK(h.cycles < BUDGET + 60ull * (in->code_bytes + 64));
}

/* From a warm instruction cache, so that generated code has something to do. */
static void run_compiled(const struct input *in, struct hpu_code *code) {
    static struct outcome warm, other;
    struct spin_error err;
    bool ignored;
    if (hpu_jit_enable(code, SPIN_JIT_FORCE, &err) != SPIN_OK)
        return; /* built without */
    uint32_t effort = (in->quantum ^ in->packet_bytes) % 5;
    if (effort <= JIT_WELL)
        jit_set_effort(code, (enum jit_effort)effort);
    run(in, code, WARM, &warm, &ignored);
    run(in, code, JIT, &other, &ignored);
    FUZZ_CHECK(memcmp(&warm, &other, sizeof other) == 0);
    run(in, code, JIT_QUANTA, &other, &ignored);
    FUZZ_CHECK(memcmp(&warm, &other, sizeof other) == 0);
}

static void run_every_way(const struct input *in) {
    static struct outcome whole[2], other;
    bool cycles_were_read = false;
    for (int mode = 0; mode < 2; mode++) {
        struct hpu_code *code =
            hpu_code_new(in->code, MAP_PROGRAM, in->code_bytes, mode ? HPU_TIMED : HPU_FUNCTIONAL,
                         &hpu_timing_ri5cy, in->with_float);
        FUZZ_CHECK(code);
        code->is_alone = in->code_bytes / 2 % 2;
        run(in, code, WHOLE, &whole[mode], &cycles_were_read);
        run(in, code, QUANTA, &other, &cycles_were_read);
        FUZZ_CHECK(memcmp(&whole[mode], &other, sizeof other) == 0);
        run(in, code, STEPS, &other, &cycles_were_read);
        FUZZ_CHECK(memcmp(&whole[mode], &other, sizeof other) == 0);
        if (in->compiled)
            run_compiled(in, code);
        hpu_code_free(code);
    }
    FUZZ_CHECK(whole[0].cycles == whole[0].instret);
    if (cycles_were_read || whole[0].fault == HPU_FAULT_BUDGET ||
        whole[1].fault == HPU_FAULT_BUDGET)
        return; /* then they may part ways */
    whole[1].cycles = whole[0].cycles;
    FUZZ_CHECK(memcmp(&whole[0], &whole[1], sizeof whole[0]) == 0);
}

static void nothing(void *context, const struct spin_step *step) {
    ++*(uint64_t *)context;
    FUZZ_CHECK(step->after[0] == 0);
}

static bool is_zero(const uint8_t *from, const uint8_t *to) {
    for (; from < to; from++)
        if (*from)
            return false;
    return true;
}

/* The whole card, with its driver: an image of nothing but this code. */
static void run_on_a_card(const struct input *in) {
    struct spin_image image = {
        .path = "fuzz",
        .code = {MAP_PROGRAM, in->code_bytes, in->code_bytes, in->code},
    };
    spin_limits_default(&image.limits);
    image.limits.handler_bytes = 4096;
    image.limits.with_float = in->with_float;
    struct spin_rig_options options = {
        .budget = BUDGET, .state_bytes = STATE_BYTES, .host_bytes = 4096, .hpu = 9};
    struct spin_call call = {.entry = MAP_PROGRAM + in->entry,
                             .kind = SPIN_PAYLOAD_HANDLER,
                             .packet = in->packet,
                             .packet_bytes = in->packet_bytes};
    struct spin_outcome seen[2];
    uint8_t command[2][RIG_COMMANDS] = {{0}};
    for (int traced = 0; traced < 2; traced++) {
        struct spin_rig *rig;
        struct spin_error err;
        uint64_t steps = 0;
        FUZZ_CHECK(spin_rig_new(&rig, &image, &options, &err) == 0);
        if (traced)
            spin_rig_trace(rig, nothing, &steps);
        FUZZ_CHECK(spin_rig_call(rig, &call, &seen[traced], &err) == 0);
        FUZZ_CHECK(!traced || steps == seen[1].instructions);
        for (uint32_t i = 0; i < seen[traced].commands; i++)
            command[traced][i] = seen[traced].command[i].number;
        uint32_t core = options.hpu % MAP_CLUSTER_HPUS;
        uint8_t *l1 = rig->l1, *stack = l1 + MAP_L1_RUNTIME + core * MAP_STACK_SIZE;
        FUZZ_CHECK(is_zero(l1, stack));
        FUZZ_CHECK(is_zero(stack + MAP_STACK_SIZE, l1 + MAP_L1_PACKETS));
        FUZZ_CHECK(is_zero(rig->packet + in->packet_bytes, l1 + MAP_L1_SCRATCH));
        FUZZ_CHECK(is_zero(rig->state + STATE_BYTES, rig->state + STATE_BYTES + 65536));
        spin_rig_free(rig);
    }
    seen[0].command = seen[1].command = NULL;
    FUZZ_CHECK(seen[0].ending == seen[1].ending && seen[0].value == seen[1].value);
    FUZZ_CHECK(seen[0].instructions == seen[1].instructions && seen[0].cycles == seen[1].cycles);
    FUZZ_CHECK(seen[0].pc == seen[1].pc && seen[0].icache_misses == seen[1].icache_misses);
    FUZZ_CHECK(seen[0].commands == seen[1].commands);
    FUZZ_CHECK(memcmp(seen[0].loads, seen[1].loads, sizeof seen[0].loads) == 0);
    FUZZ_CHECK(memcmp(seen[0].stores, seen[1].stores, sizeof seen[0].stores) == 0);
    FUZZ_CHECK(memcmp(command[0], command[1], sizeof command[0]) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
    if (length < HEAD)
        return 0;
    struct input in = {.with_float = bytes[0] & 1,
                       .compiled = bytes[0] & 2,
                       .entry = bytes[1] | (uint32_t)bytes[2] << 8,
                       .packet_bytes = bytes[3],
                       .quantum = 1 + bytes[4]};
    bytes += HEAD;
    length -= HEAD;
    if (in.packet_bytes > length)
        in.packet_bytes = (uint32_t)length;
    in.packet = bytes;
    in.code = bytes + in.packet_bytes;
    size_t rest = length - in.packet_bytes;
    in.code_bytes = (uint32_t)(rest < CODE_MOST ? rest : CODE_MOST) & ~1u;
    run_every_way(&in);
    run_on_a_card(&in);
    return 0;
}
