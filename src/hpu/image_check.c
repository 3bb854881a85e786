/* Whether the code of an image is code of the card. Checked is everything that a function with a
 * size holds, and everything to which branches, jumps and returns lead from a function, with or
 * without a size: hand-written code has often none. What is neither is data, or reached through a
 * register alone; should that be no instruction, it faults when it runs. Nor are bytes checked that
 * the assembler has marked as data ($d). */
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "hpu/image.h"
#include "hpu/isa.h"

struct check {
    struct spin_image *im;
    struct spin_error *err;
    uint8_t *is_data;  /* [halfword] */
    uint8_t *is_known; /* [halfword]: an instruction that begins here was checked, or will be */
    uint32_t *ahead;   /* those that will be, as offsets */
    uint32_t ahead_count;
};

static enum spin_insn_class class_of(const struct hpu_insn_info *info, unsigned id) {
    if (info->extension == HPU_EXT_F)
        return SPIN_INSN_FLOAT;
    switch (info->timing) {
    case HPU_TIME_MUL:
    case HPU_TIME_MULH:
        return SPIN_INSN_MULTIPLY;
    case HPU_TIME_DIV:
    case HPU_TIME_DIVU:
        return SPIN_INSN_DIVIDE;
    case HPU_TIME_LOAD:
        return SPIN_INSN_LOAD;
    case HPU_TIME_STORE:
        return SPIN_INSN_STORE;
    case HPU_TIME_BRANCH:
        return SPIN_INSN_BRANCH;
    case HPU_TIME_JUMP:
        return SPIN_INSN_JUMP;
    case HPU_TIME_AMO:
        return SPIN_INSN_ATOMIC;
    case HPU_TIME_CSR:
        return SPIN_INSN_SYSTEM;
    }
    bool system = info->operands == OPERANDS_N || id == HPU_ILLEGAL;
    return system ? SPIN_INSN_SYSTEM : SPIN_INSN_ALU;
}

const char *spin_insn_class_name(enum spin_insn_class c) {
    static const char *const names[] = {"alu",    "multiply", "divide", "load",  "store",
                                        "branch", "jump",     "atomic", "float", "system"};
    return names[c];
}

uint32_t image_word(const struct spin_image *im, uint32_t offset) {
    const uint8_t *p = im->code.content + offset;
    uint32_t word = p[0] | (uint32_t)p[1] << 8;
    if (offset + 4 <= im->code.bytes)
        word |= (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
    return word;
}

/* `unimp`: what compilers put where control must not come; it is meant to be illegal. */
static bool is_deliberate_trap(uint32_t word) {
    return (word & 0xffff) == 0 || word == 0xc0001073;
}

/* "in 'sum_handler'", or behind it. */
static char *place_of(const struct spin_image *im, uint32_t pc, char *text, size_t room) {
    const struct spin_function *best = NULL;
    for (uint32_t i = 0; i < im->info.functions && im->functions[i].address <= pc; i++)
        best = &im->functions[i];
    if (best)
        snprintf(text, room, "%s '%s'",
                 !best->bytes || pc - best->address < best->bytes ? "in" : "after", best->name);
    else
        snprintf(text, room, "before any function");
    return text;
}

/* Checks and counts the instruction at an offset, which must end before `end`. */
static int check_one(struct check *c, uint32_t offset, uint32_t end, struct hpu_insn *in) {
    struct spin_image *im = c->im;
    uint32_t word = image_word(im, offset), pc = im->code.address + offset;
    char place[200];
    *in = hpu_decode(word, true);
    if (offset + in->length > end)
        return spin_fail(c->err, SPIN_EFORMAT, "%s: instruction at 0x%x %s runs past the end",
                         im->path, pc, place_of(im, pc, place, sizeof place));
    const struct hpu_insn_info *info = hpu_insn_info(in->id);
    if (in->id == HPU_ILLEGAL && !is_deliberate_trap(word))
        return spin_fail(c->err, SPIN_EFORMAT,
                         "%s: 0x%0*x at 0x%x %s is no instruction of the card (RV32IMAC%s)",
                         im->path, in->length * 2, in->length == 2 ? word & 0xffff : word, pc,
                         place_of(im, pc, place, sizeof place), im->limits.with_float ? "F" : "");
    if (info->extension == HPU_EXT_F) {
        im->info.uses_float = true;
        if (!im->limits.with_float)
            return spin_fail(c->err, SPIN_EFORMAT,
                             "%s: %s at 0x%x %s: this card has no F; compile without --float or "
                             "give the card one",
                             im->path, info->name, pc, place_of(im, pc, place, sizeof place));
    }
    im->info.instructions[class_of(info, in->id)]++;
    im->info.compressed += in->length == 2;
    return SPIN_OK;
}

/* Something may go on at an offset. */
static void want(struct check *c, uint32_t offset) {
    if (offset >= c->im->code.bytes || offset & 1 || c->is_known[offset / 2] ||
        c->is_data[offset / 2])
        return;
    c->is_known[offset / 2] = true;
    c->ahead[c->ahead_count++] = offset;
}

/* Where it goes on after an instruction, but for places that a register names. */
static void want_next(struct check *c, uint32_t offset, const struct hpu_insn *in) {
    unsigned timing = hpu_insn_info(in->id)->timing;
    bool jump = timing == HPU_TIME_JUMP, direct = in->id != HPU_JALR;
    bool ends = in->id == HPU_ILLEGAL || in->id == HPU_ECALL || in->id == HPU_EBREAK;
    if (timing == HPU_TIME_BRANCH || (jump && direct))
        want(c, offset + (uint32_t)in->imm);
    if (!ends && !(jump && in->rd == 0)) /* a call comes back */
        want(c, offset + in->length);
}

static int check_function(struct check *c, const struct spin_function *f) {
    uint32_t offset = f->address - c->im->code.address, end = offset + f->bytes;
    while (offset < end) {
        struct hpu_insn in = {.length = 2};
        if (!c->is_data[offset / 2]) {
            int code = check_one(c, offset, end, &in);
            if (code)
                return code;
            c->is_known[offset / 2] = true;
        }
        offset += in.length;
    }
    return SPIN_OK;
}

static int check_all(struct check *c) {
    const struct spin_image *im = c->im;
    uint32_t done = 0; /* aliases name the same code twice: count it once */
    int code = SPIN_OK;
    for (uint32_t i = 0; !code && i < im->info.functions; i++) {
        const struct spin_function *f = &im->functions[i];
        if (f->address < done)
            continue;
        code = check_function(c, f);
        done = f->address + f->bytes;
    }
    for (uint32_t i = 0; i < im->info.functions; i++)
        want(c, im->functions[i].address - im->code.address);
    for (uint32_t offset = 0; !code && offset < im->code.bytes; offset += 2)
        if (c->is_known[offset / 2]) {
            struct hpu_insn in = hpu_decode(image_word(im, offset), true);
            want_next(c, offset, &in);
        }
    while (!code && c->ahead_count) {
        uint32_t offset = c->ahead[--c->ahead_count];
        struct hpu_insn in;
        code = check_one(c, offset, im->code.bytes, &in);
        want_next(c, offset, &in);
    }
    return code;
}

static int by_place(const void *a, const void *b) {
    const struct image_mark *p = a, *q = b;
    return p->address < q->address ? -1 : p->address > q->address;
}

static void mark_data(struct check *c) {
    struct spin_image *im = c->im;
    if (im->mark_count)
        qsort(im->marks, im->mark_count, sizeof *im->marks, by_place);
    for (uint32_t i = 0; i < im->mark_count; i++) {
        uint64_t from = im->marks[i].address, to = im->code.address + (uint64_t)im->code.bytes;
        if (i + 1 < im->mark_count && im->marks[i + 1].address < to)
            to = im->marks[i + 1].address;
        for (uint64_t at = from; im->marks[i].is_data && from >= im->code.address && at < to;
             at += 2)
            c->is_data[(at - im->code.address) / 2] = true;
    }
}

int image_check_code(struct spin_image *im, struct spin_error *err) {
    struct check c = {.im = im, .err = err};
    size_t places = im->code.bytes / 2 + 1;
    c.is_data = calloc(places, 1);
    c.is_known = calloc(places, 1);
    c.ahead = malloc(places * sizeof *c.ahead);
    int code;
    if (c.is_data && c.is_known && c.ahead) {
        mark_data(&c);
        code = check_all(&c);
    } else {
        code = spin_fail(err, SPIN_ENOMEM, "%s: out of memory", im->path);
    }
    free(c.is_data);
    free(c.is_known);
    free(c.ahead);
    return code;
}
