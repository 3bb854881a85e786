#include "bare_case.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hpu/jit.h"
#include "hpu/rig.h"
#include "spin/driver.h"

#define BUDGET (1u << 30)
#define NEAR   32u /* pieces that are closer are one: a copy costs more to begin than to make */

extern char **environ;

static __attribute__((noreturn)) void die(const struct bare_case *c, const char *what) {
    fprintf(stderr, "bench: %s: %s\n", c ? c->name : "handlers", what);
    exit(1);
}

static void *memory_for(size_t bytes) {
    void *memory = calloc(1, bytes);
    if (!memory)
        die(NULL, "out of memory");
    return memory;
}

static uint8_t *content(struct bare_case *c, uint32_t window) {
    return (uint8_t *)c + c->window[window].at;
}

static const uint8_t *content_of(const struct bare_case *c, uint32_t window) {
    return (const uint8_t *)c + c->window[window].at;
}

static bool on_stack(const struct bare_case *c, uint32_t address) {
    return address - (MAP_L1_ALIAS + MAP_L1_RUNTIME) < MAP_L1_RUNTIME_SIZE &&
           address <= c->stack + 16;
}

/* ---- Taking ---------------------------------------------------------------------------------- */

static uint32_t add_window(struct bare_case *c, uint32_t address, uint32_t bytes) {
    c->window[c->windows] =
        (struct bare_window){.address = address, .bytes = bytes, .at = c->bytes};
    c->bytes += (bytes + 63) & ~63u;
    return c->windows++;
}

/* The task's registers as the rig has them. RESULT is a handle to those that only wait for it, and
 * scratch memory to those that ask for some. */
static uint32_t *driver_word(struct bare_case *c, uint32_t offset) {
    return (uint32_t *)(void *)(content(c, c->driver) + offset);
}

static void take_driver(struct bare_case *c, struct spin_rig *rig) {
    memcpy(driver_word(c, 0), &rig->hpu.task, sizeof rig->hpu.task);
    *driver_word(c, SPIN_REG_RESULT) = c->kind == SPIN_PSPIN_HANDLER ? 1 : rig->port.heap.address;
}

static void name_case(struct bare_case *c, const struct spin_rig *rig) {
    const char *slash = strrchr(rig->image->path, '/');
    const char *file = slash ? slash + 1 : rig->image->path;
    snprintf(c->name, sizeof c->name, "%.*s.%s", (int)strcspn(file, "."), file,
             spin_image_at(rig->image, c->entry)->name);
}

static struct bare_case *lay_out(const struct spin_rig *rig) {
    struct bare_case c = {.bytes = (sizeof c + 63) & ~63u};
    const struct hpu *h = &rig->hpu;
    for (uint32_t i = 0; i < h->windows; i++) {
        if (!h->window[i].read_room[0])
            continue;
        struct bare_window *w =
            &c.window[add_window(&c, h->window[i].base, h->window[i].read_room[0])];
        w->writable = h->window[i].write_room[0] != 0;
        w->region = h->window[i].region;
    }
    c.driver = add_window(&c, MAP_DRIVER, MAP_DRIVER_SIZE);
    c.code = add_window(&c, rig->image->code.address, rig->image->code.bytes);
    if (c.bytes > BARE_FILE_BYTES)
        die(NULL, "a handler has more memory than bare.h has room for");
    struct bare_case *made = aligned_alloc(64, c.bytes);
    if (!made)
        die(NULL, "out of memory");
    memset(made, 0, c.bytes);
    *made = c;
    return made;
}

static void find_pieces(struct bare_case *c);

struct bare_case *bare_take(struct spin_rig *rig, const struct spin_call *call) {
    struct spin_error err;
    struct hpu *h = &rig->hpu;
    if (rig_begin(rig, call, &err))
        die(NULL, err.text);
    struct bare_case *c = lay_out(rig);
    c->kind = call->kind;
    c->with_float = rig->code->with_float;
    c->entry = call->entry;
    c->stack = h->x[2];
    memcpy(c->argument, &h->x[10], sizeof c->argument);
    name_case(c, rig);
    take_driver(c, rig);
    memcpy(content(c, c->code), rig->image->code.content, rig->image->code.filled);
    for (uint32_t i = 0; i < c->driver; i++) {
        const struct bare_window *w = &c->window[i];
        memcpy(content(c, i), hpu_reach(h, w->address, w->bytes, false), w->bytes);
        if (c->stack - w->address < w->bytes) /* what earlier calls left there is nobody's */
            memset(content(c, i), 0, c->stack - w->address);
    }
    find_pieces(c);
    return c;
}

/* ---- On an HPU ------------------------------------------------------------------------------- */

static enum hpu_access store(struct hpu *h, uint32_t offset, uint32_t value) {
    struct bare_machine *m = (struct bare_machine *)h;
    memcpy(m->driver + offset, &value, 4);
    return HPU_ACCESS_OK;
}

static const struct hpu_device plain_memory = {.store = store};

struct bare_machine *bare_machine_new(const struct bare_case *c, bool functional,
                                      enum spin_jit jit) {
    struct spin_error err;
    const struct hpu_timing *timing = hpu_timing_find("ri5cy");
    struct bare_machine *m = aligned_alloc(64, (sizeof *m + 63) & ~(size_t)63);
    struct bare_case *memory = aligned_alloc(64, c->bytes);
    struct hpu_code *code =
        hpu_code_new(content_of(c, c->code), c->window[c->code].address, c->window[c->code].bytes,
                     functional ? HPU_FUNCTIONAL : HPU_TIMED, timing, c->with_float);
    if (!m || !memory || !code)
        die(c, "out of memory");
    code->is_alone = true;
    memset(m, 0, sizeof *m);
    memcpy(memory, c, c->bytes);
    m->of = c, m->memory = memory, m->code = code;
    m->driver = content(memory, c->driver);
    if (hpu_jit_enable(code, jit, &err)) {
        bare_machine_free(m);
        return NULL;
    }
    hpu_init(&m->hpu, code, 0);
    m->hpu.device = &plain_memory;
    memcpy(&m->hpu.task, driver_word(memory, 0), sizeof m->hpu.task);
    m->hpu.result = driver_word(memory, SPIN_REG_RESULT)[0];
    m->hpu.icache = code->timing->icache_bytes ? hpu_icache_new(code, NULL, 0) : NULL;
    for (uint32_t i = 0; i < c->driver; i++)
        hpu_add_window(&m->hpu, c->window[i].address, c->window[i].bytes, content(memory, i),
                       c->window[i].writable, (enum hpu_region)c->window[i].region);
    return m;
}

void bare_machine_free(struct bare_machine *m) {
    if (!m)
        return;
    hpu_icache_free(m->hpu.icache);
    hpu_code_free(m->code);
    free(m->memory);
    free(m);
}

void bare_put_back(struct bare_machine *m) {
    const struct bare_case *c = m->of;
    for (uint32_t i = 0; i < c->pieces; i++)
        memcpy((uint8_t *)m->memory + c->piece[i].at, (const uint8_t *)c + c->piece[i].at,
               c->piece[i].bytes);
}

void bare_call(struct bare_machine *m) {
    const struct bare_case *c = m->of;
    struct hpu *h = &m->hpu;
    hpu_size_window(&h->window[0], c->window[0].bytes, true);
    hpu_start(h, c->entry, c->stack, BUDGET);
    memcpy(&h->x[10], c->argument, sizeof c->argument);
    if (hpu_run(h, UINT64_MAX) != HPU_DONE)
        die(c, hpu_fault_name(h->fault));
}

void bare_call_first(struct bare_machine *m) {
    memcpy(m->memory, m->of, m->of->bytes);
    memset(m->hpu.word, 0, sizeof m->hpu.word);
    bare_call(m);
    memcpy(driver_word(m->memory, SPIN_REG_WORD), m->hpu.word, sizeof m->hpu.word);
    m->memory->value = m->hpu.x[10];
    m->memory->is_done = 1;
}

/* ---- What must be put back ------------------------------------------------------------------- */

static void add_piece(struct bare_case *c, const struct bare_window *w, uint32_t byte) {
    struct bare_piece *last = c->pieces ? &c->piece[c->pieces - 1] : NULL;
    uint32_t at = w->at + byte;
    if (last && at >= last->at && at - last->at < last->bytes + NEAR &&
        w->address + byte - last->address == at - last->at) {
        last->bytes = at - last->at + 1;
        return;
    }
    if (c->pieces == BARE_PIECES)
        die(c, "changes too many places to put them back");
    c->piece[c->pieces++] = (struct bare_piece){.address = w->address + byte, .bytes = 1, .at = at};
}

static uint64_t instructions_of_next(struct bare_machine *m) {
    uint64_t before = m->hpu.instret;
    bare_call(m);
    return m->hpu.instret - before;
}

/* Nothing, where the next calls take as many instructions as the first. */
static void find_pieces(struct bare_case *c) {
    struct bare_machine *m = bare_machine_new(c, true, SPIN_JIT_OFF);
    uint64_t first = instructions_of_next(m);
    if (instructions_of_next(m) != first || instructions_of_next(m) != first) {
        bare_call_first(m);
        for (uint32_t i = 0; i < c->driver; i++)
            for (uint32_t b = 0; b < c->window[i].bytes; b++)
                if (content(c, i)[b] != content(m->memory, i)[b] &&
                    !on_stack(c, c->window[i].address + b))
                    add_piece(c, &c->window[i], b);
    }
    bare_machine_free(m);
}

/* ---- As a program ---------------------------------------------------------------------------- */

bool bare_has_native(const struct bare_case *c) {
    return strcmp(c->name, "synthetic.synthetic_ph") != 0;
}

static void write_case(const struct bare_case *c, int file) {
    if (pwrite(file, c, c->bytes, 0) != (ssize_t)c->bytes)
        die(c, "cannot write a file to hand it over");
}

/* Exit status, or -1: there is no such program. */
static int spawn(const struct bare_case *c, char *const *argv) {
    pid_t child;
    int status;
    if (posix_spawnp(&child, argv[0], NULL, NULL, argv, environ) != 0)
        return -1;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            die(c, "waiting for a program failed");
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

struct bare_case *bare_apart(const struct bare_case *c, enum bare_program program,
                             const char *build, uint32_t calls, const char **why) {
    char path[] = "/tmp/openspin-bare-XXXXXX", runner[4096];
    snprintf(runner, sizeof runner, "%s/bench/bare.%s", build,
             program == BARE_QEMU ? "linux" : "native");
    char *const argv[] = {"qemu-riscv32", runner, path, NULL};
    *why = program == BARE_QEMU ? "no qemu-riscv32" : "gcc for this machine has no -mx32";
    if (access(runner, X_OK) != 0)
        return NULL;
    int file = mkstemp(path);
    if (file < 0)
        die(c, "cannot make a file in /tmp");
    struct bare_case *result = memory_for(c->bytes);
    memcpy(result, c, c->bytes);
    result->calls = calls;
    write_case(result, file);
    int status = spawn(c, program == BARE_QEMU ? argv : argv + 1);
    if (pread(file, result, c->bytes, 0) != (ssize_t)c->bytes)
        die(c, "cannot read the file back");
    close(file);
    unlink(path);
    if (status > 0 || (status == 0 && !result->is_done)) {
        fprintf(stderr, "bench: %s: %s ended with status %d\n", c->name, runner, status);
        exit(1);
    }
    if (status == 0)
        return result;
    free(result);
    return NULL;
}

/* ---- Comparing ------------------------------------------------------------------------------- */

/* A command may name something on the stack, which other code keeps elsewhere on it. */
static bool same_word(const struct bare_case *a, const struct bare_case *b, uint32_t byte) {
    uint32_t x, y;
    memcpy(&x, content_of(a, a->driver) + (byte & ~3u), 4);
    memcpy(&y, content_of(b, b->driver) + (byte & ~3u), 4);
    return x == y || (on_stack(a, x) && on_stack(b, y));
}

bool bare_differs(const struct bare_case *a, const struct bare_case *b, bool exact, char *where,
                  size_t room) {
    if (a->value != b->value && (exact || a->kind != SPIN_PSPIN_HANDLER)) {
        snprintf(where, room, "%s returned 0x%x and 0x%x", a->name, a->value, b->value);
        return true;
    }
    for (uint32_t i = 0; i < a->code; i++) {
        const uint8_t *x = content_of(a, i), *y = content_of(b, i);
        for (uint32_t n = 0; n < a->window[i].bytes; n++) {
            uint32_t address = a->window[i].address + n;
            if (x[n] == y[n] || (!exact && on_stack(a, address)) ||
                (!exact && i == a->driver && same_word(a, b, n)))
                continue;
            snprintf(where, room, "%s left 0x%02x and 0x%02x at 0x%08x", a->name, x[n], y[n],
                     address);
            return true;
        }
    }
    return false;
}
