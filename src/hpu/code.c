#include "hpu/code.h"

#include <stdlib.h>
#include <string.h>

#include "hpu/interp.h"
#include "hpu/jit.h"

/* Position in the fusion lists plus one, 0 for an instruction that is in none. */
static const uint8_t fuse_first[HPU_INSN_COUNT] = {
#define ROW(id, shape, dummy) [HPU_##id] = 1 + HPU_FUSE_FIRST_##id,
    FUSE_FIRST(ROW, 0)
#undef ROW
};
static const uint8_t fuse_second[HPU_INSN_COUNT] = {
#define ROW(id, shape, dummy) [HPU_##id] = 1 + HPU_FUSE_SECOND_##id,
    FUSE_SECOND(ROW, 0)
#undef ROW
};

#define NO_SLOT UINT32_MAX

static bool is_static_jump(const struct hpu_insn *in) {
    unsigned operands = hpu_insn_info(in->id)->operands;
    return operands == OPERANDS_B || operands == OPERANDS_J;
}

static uint32_t halfwords(const struct hpu_code *code) {
    return code->bytes / 2;
}

static struct hpu_insn decode_at(const struct hpu_code *code, const uint8_t *program, uint32_t h) {
    const uint8_t *p = program + 2 * h;
    uint32_t word = p[0] | (uint32_t)p[1] << 8;
    if (h + 1 < halfwords(code))
        word |= (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
    return hpu_decode(word, code->with_float);
}

/* Follows the instructions from halfword `h` until one has its slot already, or the program ends.
 */
static void add_chain(struct hpu_code *code, const uint8_t *program, uint32_t h) {
    while (h < halfwords(code) && code->slot_at[h] == NO_SLOT) {
        struct hpu_insn in = decode_at(code, program, h);
        uint32_t s = code->slots++;
        if (h + in.length / 2 > halfwords(code)) { /* its second half is not there */
            in = (struct hpu_insn){.id = HPU_ILLEGAL, .length = 2};
            code->slot[s].run = hpu_label(code->mode, HPU_LABEL_OFF_END);
        }
        code->slot_at[h] = s;
        code->halfword_of[s] = h;
        code->insn[s] = in;
        h += in.length / 2;
    }
    /* Where the chain goes on: another chain, or nowhere. */
    uint32_t s = code->slots++;
    code->halfword_of[s] = h;
    code->insn[s] = (struct hpu_insn){.id = HPU_ILLEGAL, .length = 2};
    bool inside = h < halfwords(code);
    code->slot[s].run = hpu_label(code->mode, inside ? HPU_LABEL_LINK : HPU_LABEL_OFF_END);
    code->slot[s].count = inside ? 0 : 1;
}

static int32_t distance(const struct hpu_code *code, uint32_t from, uint32_t to_halfword) {
    return ((int32_t)code->slot_at[to_halfword] - (int32_t)from) * (int32_t)sizeof(struct hpu_slot);
}

/* Static branches and jumps become distances between slots. False: the target is outside. */
static bool resolve_target(const struct hpu_code *code, uint32_t s, uint32_t *halfword) {
    int64_t target = (int64_t)code->halfword_of[s] + code->insn[s].imm / 2;
    *halfword = (uint32_t)target;
    return target >= 0 && target < halfwords(code);
}

static void fill_operand(const struct hpu_code *code, uint32_t s, struct hpu_operand *to) {
    const struct hpu_insn *in = &code->insn[s];
    bool integer = hpu_insn_info(in->id)->extension != HPU_EXT_F || hpu_insn_writes(in);
    to->rd = in->rd == 0 && integer ? 32 : in->rd;
    to->rs1 = in->rs1;
    to->rs2 = in->rs2;
    to->imm = in->imm;
    if (in->id == HPU_AUIPC)
        to->imm = (int32_t)(code->base + 2 * code->halfword_of[s] + (uint32_t)in->imm);
}

static void fill_slot(struct hpu_code *code, uint32_t s) {
    struct hpu_slot *slot = &code->slot[s];
    const struct hpu_insn *in = &code->insn[s];
    fill_operand(code, s, &slot->a);
    unsigned label = in->id;
    uint32_t target;
    if (is_static_jump(in)) {
        if (resolve_target(code, s, &target))
            slot->a.imm = distance(code, s, target);
        else
            label = in->id == HPU_JAL ? HPU_LABEL_JAL_OUT : HPU_LABEL_BRANCH_OUT;
    }
    if (hpu_insn_info(in->id)->timing == HPU_TIME_JUMP)
        slot->link = code->base + 2 * code->halfword_of[s] + in->length;
    slot->run = hpu_label(code->mode, label);
}

/* Instructions and cycles to the end of the block. The next slot's are known already. */
static void fill_sums(struct hpu_code *code, uint32_t s) {
    struct hpu_slot *slot = &code->slot[s];
    const struct hpu_insn *in = &code->insn[s], *after = &code->insn[s + 1];
    const struct hpu_timing *t = code->timing;
    unsigned class = hpu_insn_info(in->id)->timing;
    slot->count = 1;
    slot->cycles = t->cycles[class];
    if (hpu_insn_ends_block(in))
        return;
    slot->count += slot[1].count;
    slot->cycles += slot[1].cycles;
    if (slot[1].run == hpu_label(code->mode, HPU_LABEL_LINK))
        after = &code->insn[code->slot_at[code->halfword_of[s + 1]]];
    if ((class == HPU_TIME_LOAD || class == HPU_TIME_AMO) &&
        hpu_insn_reads(after, hpu_insn_writes(in)))
        slot->cycles += t->load_use;
}

static bool commutes(unsigned id) {
    return id == HPU_ADD || id == HPU_XOR || id == HPU_OR || id == HPU_AND || id == HPU_MUL ||
           id == HPU_BEQ || id == HPU_BNE;
}

/* Puts the register that the instruction before writes first, where that makes no difference. */
static void turn_operands(const struct hpu_code *code, uint32_t s) {
    const struct hpu_insn *in = &code->insn[s];
    unsigned written = s ? hpu_insn_writes(&code->insn[s - 1]) : 0;
    struct hpu_operand *o = &code->slot[s].a;
    if (written && commutes(in->id) && in->rs1 != written && in->rs2 == written) {
        o->rs1 = in->rs2;
        o->rs2 = in->rs1;
    }
}

/* Whether the instruction at s runs by its plain label: no link, no end, no jump that leads out. */
static bool is_plain(const struct hpu_code *code, uint32_t s) {
    return s < code->slots && code->slot[s].run == hpu_label(code->mode, code->insn[s].id);
}

/* Whether the instruction at s finds in rs1 what the one before has just written. */
static bool is_carried(const struct hpu_code *code, uint32_t s) {
    unsigned written = hpu_insn_writes(&code->insn[s - 1]);
    return written && hpu_insn_reads(&code->insn[s], written) && code->slot[s].a.rs1 == written;
}

/* The label that runs the pair or triple at s, 0 if there is none. */
static unsigned pair_label(const struct hpu_code *code, uint32_t s) {
    const struct hpu_insn *in = &code->insn[s];
    unsigned first = fuse_first[in[0].id], second = fuse_second[in[1].id];
    if (!first || !second || (in[1].id == HPU_JAL && in[1].rd != 0))
        return 0; /* a group does not write return addresses */
    return HPU_LABEL_OF_PAIR(first - 1, second - 1, is_carried(code, s + 1));
}

static unsigned triple_label(const struct hpu_code *code, uint32_t s) {
    static const struct {
        uint8_t id[3];
        bool carried[2];
    } triples[] = {
#define LEFT                             0
#define CARRIED                          1
#define ROW(a, sa, ca, b, sb, cb, c, sc) {{HPU_##a, HPU_##b, HPU_##c}, {ca, cb}},
        FUSE_TRIPLES(ROW)
#undef ROW
#undef LEFT
#undef CARRIED
    };
    const struct hpu_insn *in = &code->insn[s];
    bool first = is_carried(code, s + 1), second = is_carried(code, s + 2);
    for (unsigned i = 0; i < sizeof triples / sizeof triples[0]; i++)
        if (in[0].id == triples[i].id[0] && in[1].id == triples[i].id[1] &&
            in[2].id == triples[i].id[2] && (first || !triples[i].carried[0]) &&
            (second || !triples[i].carried[1]))
            return HPU_LABEL_TRIPLES + i;
    return 0;
}

/* Chooses the groups: from every slot on, the way to the block's end that costs the host least. A
 * dispatch counts 5, an instruction 2; a value that is carried saves 2. */
static bool fuse_all(struct hpu_code *code) {
    uint32_t *cost = calloc(code->slots + 4, sizeof *cost);
    const void **run = calloc(code->slots + 1, sizeof *run);
    if (cost && run) {
        for (uint32_t s = code->slots; s-- > 0;) {
            const struct hpu_insn *in = &code->insn[s];
            bool pair = is_plain(code, s) && is_plain(code, s + 1) && !hpu_insn_ends_block(in);
            bool triple = pair && is_plain(code, s + 2) && !hpu_insn_ends_block(in + 1);
            unsigned label[3] = {0, pair ? pair_label(code, s) : 0,
                                 triple ? triple_label(code, s) : 0};
            run[s] = code->slot[s].run;
            cost[s] = UINT32_MAX;
            for (uint32_t n = 0; n < 3; n++) { /* groups of n + 1 */
                if (n && !label[n])
                    continue;
                uint32_t all = 5 + 2 * (n + 1);
                for (uint32_t i = 1; i <= n; i++)
                    all -= is_carried(code, s + i) ? 2 : 0;
                if (!hpu_insn_ends_block(&code->insn[s + n]))
                    all += cost[s + n + 1];
                if (all < cost[s]) {
                    cost[s] = all;
                    if (n)
                        run[s] = hpu_label(code->mode, label[n]);
                }
            }
        }
        for (uint32_t s = 0; s < code->slots; s++)
            code->slot[s].run = run[s];
    }
    bool done = cost && run;
    free(cost);
    free(run);
    return done;
}

/* More than so many instructions in a row take: each a division, say, in the farthest memory, and
 * every line of code missing in the cache. */
static uint64_t most_cycles(const struct hpu_timing *t, uint64_t instructions) {
    uint64_t extra = 0, lines = t->icache_line ? instructions * 4 / t->icache_line + 2 : 0;
    for (int i = 0; i < HPU_REGION_COUNT; i++)
        extra = t->load_extra[i] > extra ? t->load_extra[i] : extra;
    return instructions * (40 + extra) + lines * t->icache_miss;
}

/* Chains are finished in the order in which they were found: a link leads to an earlier one. */
static void finish(struct hpu_code *code, const uint32_t *chain_end, uint32_t chains) {
    const void *link = hpu_label(code->mode, HPU_LABEL_LINK);
    uint32_t first = 0;
    for (uint32_t c = 0; c < chains; first = chain_end[c++]) {
        uint32_t last = chain_end[c] - 1;
        struct hpu_slot *end = &code->slot[last];
        if (end->run == link) {
            const struct hpu_slot *to = &code->slot[code->slot_at[code->halfword_of[last]]];
            end->a.imm = (int32_t)((to - end) * (int)sizeof *end);
            end->count = to->count;
            end->cycles = to->cycles;
        } else {
            end->count = end->cycles = 0; /* running off the end is no instruction */
        }
        for (uint32_t s = last; s-- > first;) {
            if (!code->slot[s].run)
                fill_slot(code, s);
            if (s > first)
                turn_operands(code, s);
            fill_sums(code, s);
            uint64_t most = most_cycles(code->timing, code->slot[s].count);
            code->longest_cycles = most > code->longest_cycles ? most : code->longest_cycles;
        }
    }
}

struct hpu_code *hpu_code_new(const uint8_t *program, uint32_t base, uint32_t bytes,
                              enum hpu_mode mode, const struct hpu_timing *timing,
                              bool with_float) {
    struct hpu_code *code = calloc(1, sizeof *code);
    if (!code)
        return NULL;
    *code = (struct hpu_code){.mode = mode,
                              .timing = &code->timing_copy,
                              .base = base,
                              .bytes = bytes & ~1u,
                              .with_float = with_float};
    memcpy(&code->timing_copy, mode == HPU_TIMED ? timing : &hpu_timing_unit, sizeof *timing);
    /* A chain per halfword with one instruction and its link is the most there can be. */
    uint32_t n = halfwords(code), most = 2 * n + 1, chains = 0;
    size_t slot_bytes = ((size_t)most * sizeof *code->slot + 63) & ~(size_t)63;
    code->slot = aligned_alloc(64, slot_bytes);
    code->slot_at = malloc((n + 1) * sizeof *code->slot_at);
    code->halfword_of = malloc(most * sizeof *code->halfword_of);
    code->insn = malloc(most * sizeof *code->insn);
    uint32_t *chain_end = malloc((n + 1) * sizeof *chain_end);
    if (!code->slot || !code->slot_at || !code->halfword_of || !code->insn || !chain_end) {
        free(chain_end);
        hpu_code_free(code);
        return NULL;
    }
    memset(code->slot, 0, slot_bytes);
    memset(code->slot_at, 0xff, (n + 1) * sizeof *code->slot_at);
    for (uint32_t h = 0; h < n; h++)
        if (code->slot_at[h] == NO_SLOT) {
            add_chain(code, program, h);
            chain_end[chains++] = code->slots;
        }
    finish(code, chain_end, chains);
    free(chain_end);
    for (uint32_t i = 0; i < code->slots; i++)
        code->has_float |= hpu_insn_info(code->insn[i].id)->extension == HPU_EXT_F;
    if (!fuse_all(code)) {
        hpu_code_free(code);
        return NULL;
    }
    return code;
}

void hpu_code_free(struct hpu_code *code) {
    if (!code)
        return;
    hpu_jit_free(code->jit);
    free(code->slot);
    free(code->slot_at);
    free(code->halfword_of);
    free(code->insn);
    free(code);
}
