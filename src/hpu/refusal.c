#include "hpu/refusal.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "hpu/image.h"

static const struct {
    const char *name, *labels, *call;
    uint8_t words;
} commands[] = {
#define ROW(number, name, words, labels, call) [number] = {#name, labels, call, words},
    SPIN_COMMANDS(ROW)
#undef ROW
};
#define COMMANDS (sizeof commands / sizeof commands[0])

const char *spin_command_name(unsigned number, unsigned *words, const char **labels) {
    if (number >= COMMANDS || !commands[number].name)
        return NULL;
    *words = commands[number].words;
    *labels = commands[number].labels;
    return commands[number].name;
}

const char *refusal_call(unsigned command) {
    return command < COMMANDS && commands[command].call ? commands[command].call : "a command";
}

void refusal_say(struct spin_refusal *r, unsigned command, const char *format, ...) {
    va_list list;
    *r = (struct spin_refusal){.call = refusal_call(command)};
    va_start(list, format);
    vsnprintf(r->why, sizeof r->why, format, list);
    va_end(list);
}

struct count {
    char text[27];
};
static struct count count(uint64_t value) {
    struct count c;
    units_count(c.text, sizeof c.text, value);
    return c;
}

static const char *plural(uint64_t bytes) {
    return bytes == 1 ? "" : "s";
}

void refusal_length(struct spin_refusal *r, unsigned command, uint64_t bytes, uint64_t most) {
    refusal_say(r, command, "%s byte%s, at most %s", count(bytes).text, plural(bytes),
                count(most).text);
}

void refusal_host(struct spin_refusal *r, unsigned command, unsigned space, uint64_t offset,
                  uint64_t bytes, uint64_t has) {
    refusal_say(r, command, "%s byte%s at offset %s of the %s host memory, which has %s",
                count(bytes).text, plural(bytes), count(offset).text, space ? "handler's" : "ME's",
                count(has).text);
}

void refusal_host_address(struct spin_refusal *r, unsigned command, uint64_t address,
                          uint64_t bytes, uint64_t base, uint64_t has) {
    refusal_say(r, command, "%s byte%s at host address 0x%llx, host memory is %s at 0x%llx",
                count(bytes).text, plural(bytes), (unsigned long long)address, count(has).text,
                (unsigned long long)base);
}

void refusal_local(struct spin_refusal *r, unsigned command, uint32_t address, uint64_t bytes,
                   bool write) {
    refusal_say(r, command, "%s byte%s at 0x%08x, which the handler may not %s", count(bytes).text,
                plural(bytes), address, write ? "write" : "read");
}

void refusal_align(struct spin_refusal *r, unsigned command, uint64_t offset, uint32_t bytes) {
    refusal_say(r, command, "offset %s is no multiple of %u", count(offset).text, bytes);
}

void refusal_type(struct spin_refusal *r, unsigned command, uint32_t type) {
    refusal_say(r, command, "type %u is no integer", type);
}

void refusal_space(struct spin_refusal *r, unsigned command, uint32_t space) {
    refusal_say(r, command, "options %u: neither PTL_ME_HOST_MEM nor PTL_HANDLER_HOST_MEM", space);
}

void refusal_increment(struct spin_refusal *r, unsigned command, const uint32_t *event) {
    refusal_say(r, command, "success %u and failure %u: one of them must be 0", event[0], event[1]);
}

void refusal_handle(struct spin_refusal *r, bool wait, uint32_t handle) {
    refusal_say(r, 0, "handle %u was never given out", handle);
    r->call = wait ? "PtlHandlerDMAWait" : "PtlHandlerDMATest";
}

void refusal_unknown(struct spin_refusal *r, uint32_t command, const char *of) {
    refusal_say(r, command, "%s has no command %u", of, command);
}

/* ---- for people ------------------------------------------------------------------------------ */

static void append(char *text, size_t room, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void append(char *text, size_t room, const char *format, ...) {
    size_t used = strlen(text);
    va_list list;
    va_start(list, format);
    vsnprintf(text + used, room - used, format, list);
    va_end(list);
}

void spin_ending_text(const struct spin_image *image, enum spin_ending ending, uint32_t pc,
                      uint32_t address, const struct spin_refusal *refusal, char *text,
                      size_t room) {
    const char *file, *call = NULL;
    int line;
    const struct spin_function *f = image ? spin_image_at(image, pc) : NULL;
    snprintf(text, room, "%s at pc 0x%08x", spin_ending_name(ending), pc);
    if (f)
        append(text, room, " (%s+0x%x)", f->name, pc - f->address);
    if (image && spin_image_caller(image, pc, &file, &line, &call)) {
        const char *slash = strrchr(file, '/');
        append(text, room, ", %s:%d", slash ? slash + 1 : file, line);
    }
    if (refusal && refusal->call)
        append(text, room, ": %s: %s", call ? call : refusal->call, refusal->why);
    else if (ending == SPIN_ENDED_SEGV || ending == SPIN_ENDED_MISALIGNED)
        append(text, room, ", address 0x%08x", address);
}
