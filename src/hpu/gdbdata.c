/* What gdb sees of a handler: registers, memory, and the description of the processor. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "hpu/gdb.h"
#include "hpu/interp.h"

/* As target.xml numbers them. */
enum { REG_PC = 32, REG_F = 33, REG_FFLAGS = 65, REG_FRM, REG_FCSR, REG_END };

/* ---- Registers */

static unsigned registers(const struct gdb *g) {
    return g->target.hpu->code->with_float ? REG_END : REG_F;
}

static uint32_t get_register(const struct hpu *h, unsigned number) {
    if (number < REG_PC)
        return h->x[number];
    if (number == REG_PC)
        return h->pc;
    if (number < REG_FFLAGS)
        return h->f[number - REG_F];
    return number == REG_FFLAGS ? h->fcsr & 0x1f : number == REG_FRM ? h->fcsr >> 5 : h->fcsr;
}

void gdb_set_pc(struct hpu *h, uint32_t pc) {
    if (pc == h->pc)
        return; /* else a write of all registers would move the watchdog's next look */
    h->pc = pc;
    h->mid_block = false;
}

static void set_register(struct hpu *h, unsigned number, uint32_t value) {
    if (number == 0)
        return;
    if (number < REG_PC)
        h->x[number] = value;
    else if (number == REG_PC)
        gdb_set_pc(h, value);
    else if (number < REG_FFLAGS)
        h->f[number - REG_F] = value;
    else if (number == REG_FFLAGS)
        h->fcsr = (h->fcsr & 0xe0) | (value & 0x1f);
    else if (number == REG_FRM)
        h->fcsr = (h->fcsr & 0x1f) | (value & 7) << 5;
    else
        h->fcsr = value & 0xff;
}

void gdb_read_registers(struct gdb *g) {
    rsp_begin(&g->rsp);
    for (unsigned i = 0; i < registers(g); i++) {
        uint32_t value = get_register(g->target.hpu, i);
        rsp_hex(&g->rsp, &value, 4); /* little-endian hosts only, as everywhere */
    }
    rsp_send(&g->rsp);
}

void gdb_write_registers(struct gdb *g, const char *at) {
    uint32_t value[REG_END];
    unsigned count = registers(g);
    if (!rsp_take_bytes(&at, (uint8_t *)value, 4 * count) || *at) {
        rsp_say(&g->rsp, GDB_BAD_PACKET);
        return;
    }
    for (unsigned i = 0; i < count; i++)
        set_register(g->target.hpu, i, value[i]);
    rsp_say(&g->rsp, "OK");
}

/* p N and P N=VALUE */
void gdb_one_register(struct gdb *g, const char *at, bool write) {
    uint64_t number;
    uint32_t value;
    bool good = rsp_take_number(&at, registers(g) - 1, &number);
    if (good && write)
        good = rsp_take_char(&at, '=') && rsp_take_bytes(&at, (uint8_t *)&value, 4);
    if (!good || *at) {
        rsp_say(&g->rsp, GDB_BAD_PACKET);
        return;
    }
    if (write) {
        set_register(g->target.hpu, (unsigned)number, value);
        rsp_say(&g->rsp, "OK");
        return;
    }
    value = get_register(g->target.hpu, (unsigned)number);
    rsp_begin(&g->rsp);
    rsp_hex(&g->rsp, &value, 4);
    rsp_send(&g->rsp);
}

/* ---- Memory */

static bool read_byte(struct gdb *g, uint32_t address, uint8_t *byte) {
    const struct image_segment *code = &g->image->code;
    const uint8_t *there = hpu_reach(g->target.hpu, address, 1, false);
    if (!there && address - code->address < code->bytes)
        there = code->content + (address - code->address);
    if (!there && (there = hpu_own_register(g->target.hpu, address & ~3u, 4, false)))
        there += address & 3;
    if (there)
        *byte = *there;
    return there;
}

bool gdb_take_range(const char **at, uint64_t *address, uint64_t *length, uint64_t most) {
    return rsp_take_number(at, UINT32_MAX, address) && rsp_take_char(at, ',') &&
           rsp_take_number(at, most, length) && *address + *length <= (uint64_t)UINT32_MAX + 1;
}

/* Stops at the first byte that is not the handler's: gdb asks for whole lines of its cache. */
void gdb_read_memory(struct gdb *g, const char *at) {
    uint64_t address, length;
    uint8_t bytes[RSP_BYTES / 2];
    size_t count = 0;
    if (!gdb_take_range(&at, &address, &length, sizeof bytes) || *at || !length) {
        rsp_say(&g->rsp, GDB_BAD_PACKET); /* an empty reply would mean: no such packet */
        return;
    }
    while (count < length && read_byte(g, (uint32_t)(address + count), &bytes[count]))
        count++;
    if (!count) {
        rsp_say(&g->rsp, GDB_BAD_MEMORY);
        return;
    }
    rsp_begin(&g->rsp);
    rsp_hex(&g->rsp, bytes, count);
    rsp_send(&g->rsp);
}

/* M in hexadecimal, X in binary. All of it or nothing, and only what the handler may write. The
 * registers of the HPU driver are out: a store there is a command to the card. */
void gdb_write_memory(struct gdb *g, const char *at, bool binary) {
    const char *end = g->rsp.packet + g->rsp.length;
    struct hpu *h = g->target.hpu;
    uint64_t address, length;
    uint8_t bytes[RSP_BYTES];
    bool good = gdb_take_range(&at, &address, &length, sizeof bytes) && rsp_take_char(&at, ':');
    if (good && binary) {
        good = (uint64_t)(end - at) == length;
        if (good)
            memcpy(bytes, at, length);
    } else if (good) {
        good = rsp_take_bytes(&at, bytes, length) && at == end;
    }
    if (!good) {
        rsp_say(&g->rsp, GDB_BAD_PACKET);
        return;
    }
    for (uint64_t i = 0; i < length; i++)
        if (!hpu_reach(h, (uint32_t)(address + i), 1, true)) {
            rsp_say(&g->rsp, GDB_BAD_MEMORY);
            return;
        }
    for (uint64_t i = 0; i < length; i++)
        *hpu_reach(h, (uint32_t)(address + i), 1, true) = bytes[i];
    rsp_say(&g->rsp, "OK");
}

/* ---- What the processor is */

struct text {
    char bytes[8192];
    size_t used;
};

static __attribute__((format(printf, 2, 3))) void append(struct text *t, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int length = vsnprintf(t->bytes + t->used, sizeof t->bytes - t->used, format, args);
    va_end(args);
    if (length > 0 && (size_t)length < sizeof t->bytes - t->used)
        t->used += (size_t)length;
}

static void add_register(struct text *t, const char *name, int number, const char *type) {
    append(t, "<reg name=\"%s", name);
    if (number >= 0)
        append(t, "%d", number);
    append(t, "\" bitsize=\"32\" type=\"%s\"/>\n", type);
}

/* No character in it needs escaping in a packet. The order is that of the numbers REG_*. */
static void describe_target(struct text *t, bool with_float) {
    append(t, "<?xml version=\"1.0\"?>\n<!DOCTYPE target SYSTEM \"gdb-target.dtd\">\n"
              "<target version=\"1.0\">\n<architecture>riscv:rv32</architecture>\n"
              "<feature name=\"org.gnu.gdb.riscv.cpu\">\n");
    for (int i = 0; i < REG_PC; i++)
        add_register(t, "x", i, i == 1 ? "code_ptr" : i >= 2 && i <= 4 ? "data_ptr" : "int");
    add_register(t, "pc", -1, "code_ptr");
    append(t, "</feature>\n");
    if (with_float) {
        append(t, "<feature name=\"org.gnu.gdb.riscv.fpu\">\n");
        for (int i = 0; i < 32; i++)
            add_register(t, "f", i, "ieee_single");
        add_register(t, "fflags", -1, "int");
        add_register(t, "frm", -1, "int");
        add_register(t, "fcsr", -1, "int");
        append(t, "</feature>\n");
    }
    append(t, "</target>\n");
}

/* qXfer:features:read:target.xml:OFFSET,LENGTH */
void gdb_read_features(struct gdb *g, const char *at) {
    struct text text = {.used = 0};
    uint64_t offset, length;
    if (!rsp_take_word(&at, "target.xml:") || !rsp_take_number(&at, UINT32_MAX, &offset) ||
        !rsp_take_char(&at, ',') || !rsp_take_number(&at, UINT32_MAX, &length) || *at) {
        rsp_say(&g->rsp, GDB_BAD_PACKET);
        return;
    }
    describe_target(&text, g->target.hpu->code->with_float);
    uint64_t from = offset < text.used ? offset : text.used, left = text.used - from;
    uint64_t most = length < RSP_BYTES - 1 ? length : RSP_BYTES - 1;
    rsp_begin(&g->rsp);
    rsp_text(&g->rsp, "%c%.*s", left > most ? 'm' : 'l', (int)(left > most ? most : left),
             text.bytes + from);
    rsp_send(&g->rsp);
}
