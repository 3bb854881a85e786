/* Differential test: random programs here (functional and timed: interpreted, stepped, generated
 * code) and in qemu-riscv32, from the same registers and memory, at the same addresses. Everything
 * that they leave must be the same: registers, floats, flags, memory; and here also cycles and
 * instructions.
 *
 * usage: test-diff [--programs N] [--batch N] [--seed N | --seed random] [--qemu FILE] [--list N]
 * Prints TAP, one line a batch. A program depends on its seed and its address, so a failure names
 * the seed of its batch and how many programs to make to see it again. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

#include "diff/guest.h"
#include "hpu/guard.h"
#include "hpu/interp.h"
#include "hpu/jit_private.h"

/* The interpreter's run comes first, so that generated code knows which windows to expect; HOT is
 * what is compiled once it is known where calls lead, with other values; QUANTA is generated code
 * with a pause every few cycles. */
enum {
    FUNCTIONAL,
    TIMED,
    STEPPED_FUNCTIONAL,
    STEPPED_TIMED,
    JIT_FUNCTIONAL,
    JIT_TIMED,
    HOT_FUNCTIONAL,
    HOT_TIMED,
    QUANTA_FUNCTIONAL,
    QUANTA_TIMED,
    WAYS
};
static const char *const way_name[WAYS] = {
    "functional", "timed",   "stepped",       "stepped, timed", "JIT",
    "timed JIT",  "hot JIT", "timed hot JIT", "JIT in quanta",  "timed JIT in quanta"};
#define CALLS_TO_HOT 26 /* more than the calls of a draft and the lessons (jit.c) */

struct counts {
    uint64_t cycles, instret;
};

struct batch {
    int count;
    uint64_t seed;
    struct diff_program *programs;
    struct diff_outcome *expected;
    uint32_t *address;
    uint8_t *code;
    size_t code_bytes;
};

static void list_program(const struct batch *b, int i) {
    const struct diff_program *p = &b->programs[i];
    for (uint32_t at = 0; at < p->code.bytes;) {
        uint32_t word = 0;
        char text[64];
        memcpy(&word, p->code.byte + at, at + 4 <= p->code.bytes ? 4 : 2);
        struct hpu_insn in = hpu_decode(word, true);
        printf("#   %08x  %0*x%*s  %s\n", b->address[i] + at, in.length * 2,
               in.length == 2 ? word & 0xffff : word, 8 - in.length * 2, "",
               hpu_disassemble(&in, b->address[i] + at, text, sizeof text));
        at += in.length;
    }
    printf("# starts with:\n");
    for (int r = 4; r < 32; r++)
        printf("#   %s = 0x%08x, f%d = 0x%08x\n", hpu_register_name((unsigned)r), p->x[r], r,
               p->f[r]);
    printf("#   fcsr = 0x%x\n", p->fcsr);
}

/* The window is a page, for generated code that leaves its checks to page protection. */
#define WINDOW_BYTES 4096u
static uint8_t *data, *view;

static void begin(const struct diff_program *p, struct hpu *h, uint32_t address) {
    memset(data, 0xa7, WINDOW_BYTES);
    memcpy(data, p->data, DIFF_DATA_BYTES);
    h->cycles = h->instret = 0;
    if (h->icache)
        hpu_icache_rewind(h->icache);
    hpu_start(h, address, 0, 10000000);
    for (int r = 2; r < 32; r++)
        if (r != 3)
            h->x[r] = p->x[r];
    memcpy(h->f, p->f, sizeof h->f);
    h->fcsr = p->fcsr;
}

/* One program in one way. Returns what is wrong, NULL if nothing is. */
static const char *run_ours(const struct batch *b, int i, const struct hpu_code *code, int way,
                            struct diff_outcome *out, struct counts *counts) {
    static char why[120];
    struct hpu h;
    hpu_init(&h, code, 0);
    h.icache = way % 2 == TIMED ? hpu_icache_new(code, NULL, 0) : NULL;
    hpu_add_window(&h, DIFF_DATA, WINDOW_BYTES, data, true, HPU_REGION_L1);
    h.window[0].view = view;
    begin(&b->programs[i], &h, b->address[i]);
    /* Generated code runs blocks that were seen in the instruction cache: fetched once, found once.
     */
    for (int k = 0; k < 2 && h.icache && i % 4; k++) {
        hpu_interpret(&h, UINT64_MAX);
        begin(&b->programs[i], &h, b->address[i]);
    }
    for (int k = 0; k < CALLS_TO_HOT && (way == HOT_FUNCTIONAL || way == HOT_TIMED); k++) {
        begin(&b->programs[(i + 1) % b->count], &h, b->address[i]);
        hpu_run(&h, UINT64_MAX);
        if (h.icache && i % 4 == 0)
            hpu_icache_clear(h.icache);
        begin(&b->programs[i], &h, b->address[i]);
    }
    enum hpu_stop stop;
    do {
        if (way >= QUANTA_FUNCTIONAL)
            hpu_jit_compile(code, h.pc);
        stop = way < STEPPED_FUNCTIONAL  ? hpu_interpret(&h, UINT64_MAX)
               : way < JIT_FUNCTIONAL    ? hpu_step(&h)
               : way < QUANTA_FUNCTIONAL ? hpu_run(&h, UINT64_MAX)
                                         : hpu_run(&h, h.cycles + 20 + b->seed % 50);
    } while (stop == HPU_PAUSED);
    *counts = (struct counts){h.cycles, h.instret};
    hpu_icache_free(h.icache);
    memset(out, 0, sizeof *out);
    memcpy(out->x, h.x, sizeof out->x);
    memcpy(out->f, h.f, sizeof out->f);
    out->fcsr = h.fcsr;
    memcpy(out->data, data, DIFF_DATA_BYTES);
    if (stop != HPU_DONE) {
        snprintf(why, sizeof why, "faulted: %s at pc 0x%x, address 0x%x", hpu_fault_name(h.fault),
                 h.pc, h.fault_address);
        return why;
    }
    for (uint32_t k = DIFF_DATA_BYTES; k < WINDOW_BYTES; k++)
        if (data[k] != 0xa7)
            return "wrote past its memory";
    return NULL;
}

/* Prints the differences; returns how many there are. */
static int compare(const struct diff_outcome *ours, const struct diff_outcome *qemu) {
    int differences = 0;
    for (unsigned r = 1; r < 32; r++)
        if (r != 3 && ours->x[r] != qemu->x[r]) {
            printf("#   %s: 0x%08x, qemu 0x%08x\n", hpu_register_name(r), ours->x[r], qemu->x[r]);
            differences++;
        }
    for (unsigned r = 0; r < 32; r++)
        if (ours->f[r] != qemu->f[r]) {
            printf("#   f%u: 0x%08x, qemu 0x%08x\n", r, ours->f[r], qemu->f[r]);
            differences++;
        }
    if (ours->fcsr != qemu->fcsr) {
        printf("#   fcsr: 0x%02x, qemu 0x%02x\n", ours->fcsr, qemu->fcsr);
        differences++;
    }
    for (unsigned k = 0; k < DIFF_DATA_BYTES; k++)
        if (ours->data[k] != qemu->data[k]) {
            printf("#   byte 0x%08x: 0x%02x, qemu 0x%02x\n", DIFF_DATA + k, ours->data[k],
                   qemu->data[k]);
            differences++;
        }
    return differences;
}

static bool check_program(const struct batch *b, int i, struct hpu_code *const code[2]) {
    struct counts counts[WAYS];
    /* A whole program is much to compile, a root wherever a quantum ends more: some programs do. */
    int ways = !code[0]->jit  ? JIT_FUNCTIONAL
               : i % 100 == 0 ? WAYS
               : i % 20 == 10 ? QUANTA_FUNCTIONAL
                              : HOT_FUNCTIONAL;
    for (int way = 0; way < ways; way++) {
        struct diff_outcome ours;
        const char *why = run_ours(b, i, code[way % 2], way, &ours, &counts[way]);
        if (!why && memcmp(&counts[way], &counts[way % 2], sizeof counts[way]) != 0)
            why = "not the cycles and instructions of the interpreter";
        int differences = 0;
        if (!why) {
            differences = memcmp(ours.data, b->expected[i].data, DIFF_DATA_BYTES) != 0;
            for (int r = 1; r < 32; r++)
                differences += r != 3 && ours.x[r] != b->expected[i].x[r];
            differences += memcmp(ours.f, b->expected[i].f, sizeof ours.f) != 0;
            differences += ours.fcsr != b->expected[i].fcsr;
        }
        if (!why && !differences)
            continue;
        printf("# program %d, %s: %s\n", i, way_name[way], why ? why : "differs from qemu:");
        if (!why)
            compare(&ours, &b->expected[i]);
        printf("# again: test-diff --seed %" PRIu64 " --programs %d --batch %d\n", b->seed, i + 1,
               i + 1);
        list_program(b, i);
        return false;
    }
    return true;
}

static bool lay_out(struct batch *b) {
    size_t room = (size_t)b->count * 4096;
    b->programs = calloc((size_t)b->count, sizeof *b->programs);
    b->expected = calloc((size_t)b->count, sizeof *b->expected);
    b->address = calloc((size_t)b->count, sizeof *b->address);
    b->code = calloc(1, room);
    if (!b->programs || !b->expected || !b->address || !b->code)
        return false;
    for (int i = 0; i < b->count; i++) {
        struct diff_program *p = &b->programs[i];
        diff_generate(p, b->seed + (uint64_t)i);
        if (b->code_bytes + p->code.bytes > room) {
            uint8_t *more = realloc(b->code, room = room * 2 + p->code.bytes);
            if (!more)
                return false;
            b->code = more;
        }
        b->address[i] = DIFF_CODE + (uint32_t)b->code_bytes;
        memcpy(b->code + b->code_bytes, p->code.byte, p->code.bytes);
        b->code_bytes += p->code.bytes;
    }
    return true;
}

/* With one of the efforts of jit_private.h, or, by any other number, as it comes. */
static bool enable_jit(struct hpu_code *code, uint32_t effort) {
#ifdef OPENSPIN_JIT
    struct spin_error err;
    if (hpu_jit_enable(code, SPIN_JIT_FORCE, &err) == SPIN_OK) {
        if (effort <= JIT_WELL)
            jit_set_effort(code, (enum jit_effort)effort);
        return true;
    }
    printf("# %s\n", err.text);
    return false;
#else
    (void)code, (void)effort;
    return true;
#endif
}

/* False: something differs, or nothing could be run; it has been said. */
static bool run_batch(struct batch *b, const char *qemu) {
    struct hpu_code *code[2] = {NULL, NULL};
    char why[200] = "";
    bool good = lay_out(b);
    if (!good)
        printf("# out of memory\n");
    if (good) {
        int done = diff_guest_run(qemu, b->programs, b->address, b->count, b->code, b->code_bytes,
                                  b->expected, why, sizeof why);
        if (done < b->count) {
            printf("# %s%s", why, done < 0 ? "\n" : ", in the program:\n");
            if (done >= 0) {
                printf("# again: test-diff --seed %" PRIu64 " --programs %d --batch %d\n", b->seed,
                       done + 1, done + 1);
                list_program(b, done);
            }
            good = false;
        }
    }
    for (int mode = 0; good && mode < 2; mode++) {
        code[mode] = hpu_code_new(b->code, DIFF_CODE, (uint32_t)b->code_bytes,
                                  mode ? HPU_TIMED : HPU_FUNCTIONAL, &hpu_timing_ri5cy, true);
        if (code[mode])
            code[mode]->is_alone = (b->seed + (unsigned)mode) % 2;
        good = code[mode] != NULL &&
               enable_jit(code[mode], (uint32_t)((b->seed * 0x9e3779b97f4a7c15u >> 32) % 5));
    }
    for (int i = 0; good && i < b->count; i++)
        good = check_program(b, i, code);
    for (int mode = 0; good && mode < 2 && code[mode]->jit; mode++)
        if (hpu_jit_stats(code[mode]).functions < (uint32_t)b->count) {
            printf("# only %u of %d programs were compiled\n", hpu_jit_stats(code[mode]).functions,
                   b->count);
            good = false;
        }
    hpu_code_free(code[0]);
    hpu_code_free(code[1]);
    free(b->programs);
    free(b->expected);
    free(b->address);
    free(b->code);
    return good;
}

static bool is_there(const char *program) {
    char command[300];
    snprintf(command, sizeof command, "%s --version >/dev/null 2>&1", program);
    return system(command) == 0;
}

int main(int argc, char **argv) {
    const char *qemu = "qemu-riscv32";
    int programs = 300, batch_size = 100, failed = 0, batches = 0;
    uint64_t seed = 1;
    spin_guard_pages(SPIN_GUARDS_INSTALL);
    data = guard_memory_new(WINDOW_BYTES);
    view = data ? guard_view_new(data, DIFF_DATA, WINDOW_BYTES, true) : NULL;
    if (!data)
        return 1;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--programs") == 0)
            programs = atoi(argv[i + 1]);
        else if (strcmp(argv[i], "--batch") == 0)
            batch_size = atoi(argv[i + 1]);
        else if (strcmp(argv[i], "--qemu") == 0)
            qemu = argv[i + 1];
        else if (strcmp(argv[i], "--seed") == 0) {
            if (strcmp(argv[i + 1], "random") != 0)
                seed = strtoull(argv[i + 1], NULL, 0);
            else if (getrandom(&seed, sizeof seed, 0) == sizeof seed)
                seed >>= 16; /* room for the programs' numbers, and short enough to type */
        }
    }
    if (programs < 1 || batch_size < 1 || batch_size > 2000) {
        fprintf(stderr, "usage: test-diff [--programs N] [--batch N] [--seed N|random]\n");
        return 2;
    }
    if (!is_there(qemu)) {
        printf("1..0 # SKIP %s is not installed\n", qemu);
        return 0;
    }
    printf("# seed %" PRIu64 "\n", seed);
    for (int first = 0; first < programs; first += batch_size) {
        struct batch b = {.seed = seed + (uint64_t)first,
                          .count = programs - first < batch_size ? programs - first : batch_size};
        bool good = run_batch(&b, qemu);
        failed += !good;
        printf("%sok %d - %d programs from seed %" PRIu64 "\n", good ? "" : "not ", ++batches,
               b.count, b.seed);
        fflush(stdout);
    }
    printf("1..%d\n", batches);
    return failed ? 1 : 0;
}
