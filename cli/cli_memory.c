#include "memory.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/units.h"

#define MOST_INPUT (1ull << 32)

static const struct {
    const char *name;
    enum spin_space space;
} regions[] = {{"state", SPIN_STATE},
               {"data", SPIN_DATA},
               {"host", SPIN_ME_HOST},
               {"handler-host", SPIN_HANDLER_HOST},
               {"scratchpad", SPIN_SCRATCHPAD},
               {"scratchpad0", SPIN_SCRATCHPAD},
               {"scratchpad1", SPIN_SCRATCHPAD + 1},
               {"scratchpad2", SPIN_SCRATCHPAD + 2},
               {"scratchpad3", SPIN_SCRATCHPAD + 3}};

struct spec {
    uint32_t context;
    enum spin_space space;
    uint64_t offset, length; /* length UINT64_MAX: to the end */
    const char *path;
};

static bool find_region(const char *name, enum spin_space *space) {
    for (size_t i = 0; i < sizeof regions / sizeof regions[0]; i++)
        if (strcmp(regions[i].name, name) == 0) {
            *space = regions[i].space;
            return true;
        }
    return false;
}

static bool parse(const char *text, struct spec *s) {
    char head[80];
    const char *equals = strchr(text, '=');
    uint64_t number;
    *s = (struct spec){.length = UINT64_MAX};
    if (!equals || !equals[1] || (size_t)(equals - text) >= sizeof head)
        return false;
    memcpy(head, text, (size_t)(equals - text));
    head[equals - text] = 0;
    s->path = equals + 1;
    char *name = head, *colon = strchr(head, ':');
    if (colon) {
        *colon = 0;
        if (strncmp(head, "ctx", 3) != 0 || !units_u64(head + 3, &number) || number > UINT32_MAX)
            return false;
        s->context = (uint32_t)number;
        name = colon + 1;
    }
    char *plus = strchr(name, '+'), *comma = plus ? strchr(plus, ',') : NULL;
    if (plus)
        *plus = 0;
    if (comma)
        *comma = 0;
    return find_region(name, &s->space) && (!plus || units_size(plus + 1, &s->offset)) &&
           (!comma || (units_size(comma + 1, &s->length) && s->length));
}

static int bad_spec(const struct cli_command *command, const char *shown, const char *text) {
    return cli_error(command, CLI_USAGE,
                     "%s: '%.80s' is not [ctxN:]REGION[+OFFSET%s]=FILE with a REGION of state, "
                     "data, host, handler-host, scratchpad or scratchpad0 to 3",
                     shown, text, strcmp(shown, "--dump") == 0 ? "[,LENGTH]" : "");
}

int memory_check(const struct cli_command *command, const char *shown, const struct cli_list *specs,
                 uint32_t contexts) {
    struct spec s;
    for (int i = 0; i < specs->count; i++) {
        if (!parse(specs->items[i], &s))
            return bad_spec(command, shown, specs->items[i]);
        if (s.context >= contexts)
            return cli_error(command, CLI_USAGE,
                             "%s: '%.80s': ctx%u does not exist: there %s %u context%s, from ctx0",
                             shown, specs->items[i], s.context, contexts == 1 ? "is" : "are",
                             contexts, contexts == 1 ? "" : "s");
    }
    return 0;
}

/* The bytes of a region that a spec means; NULL after the error. */
static uint8_t *reach(const struct cli_command *command, const char *shown, const char *text,
                      const struct spec *s, uint64_t length, const struct memory_view *view,
                      uint64_t *bytes) {
    uint64_t room = 0;
    uint8_t *at = view->reach(view->user, s->context, s->space, 0, &room);
    *bytes = length != UINT64_MAX ? length : s->offset < room ? room - s->offset : 0;
    if (!at || !room)
        cli_error(command, CLI_FAILED, "%s %.80s: there is no such memory", shown, text);
    else if (s->offset > room || *bytes > room - s->offset || !*bytes)
        cli_error(command, CLI_FAILED, "%s %.80s: %llu bytes from %llu on, the memory has %llu",
                  shown, text, (unsigned long long)*bytes, (unsigned long long)s->offset,
                  (unsigned long long)room);
    else
        return at + s->offset;
    return NULL;
}

static int fill(const struct cli_command *command, const char *shown, const char *text,
                const struct spec *s, const struct memory_view *view) {
    struct spin_error err;
    uint8_t *content;
    size_t length;
    uint64_t bytes, room;
    if (file_read(s->path, "memory", MOST_INPUT, &content, &length, &err))
        return cli_report(command, &err);
    uint8_t *to = reach(command, shown, text, s, length, view, &bytes);
    for (unsigned copy = 0; to; copy++) {
        uint8_t *at = view->reach(view->user, s->context, s->space, copy, &room);
        if (!at)
            break;
        memcpy(at + s->offset, content, length);
    }
    free(content);
    return to ? 0 : CLI_FAILED;
}

int memory_fill(const struct cli_command *command, const struct cli_list *specs,
                const struct memory_view *view) {
    struct spec s;
    int status = memory_check(command, "--fill", specs, view->contexts);
    for (int i = 0; i < specs->count && !status; i++) {
        parse(specs->items[i], &s);
        status = fill(command, "--fill", specs->items[i], &s, view);
    }
    return status;
}

int memory_fill_one(const struct cli_command *command, const char *shown, uint32_t context,
                    enum spin_space space, const char *path, const struct memory_view *view) {
    return fill(command, shown, path,
                &(struct spec){.context = context, .space = space, .path = path}, view);
}

int memory_dump(const struct cli_command *command, const struct cli_list *specs,
                const struct memory_view *view) {
    struct spec s;
    struct spin_error err;
    int status = memory_check(command, "--dump", specs, view->contexts);
    for (int i = 0; i < specs->count && !status; i++) {
        struct file_out out;
        uint64_t bytes;
        parse(specs->items[i], &s);
        const uint8_t *from = reach(command, "--dump", specs->items[i], &s, s.length, view, &bytes);
        if (!from)
            return CLI_FAILED;
        if (file_out_open(&out, s.path, &err))
            return cli_report(command, &err);
        fwrite(from, 1, bytes, out.stream); /* a failure shows when it is committed */
        if (file_out_commit(&out, &err))
            return cli_report(command, &err);
    }
    return status;
}
