/* Runs the call of a file (bare.h) and writes into the file what came of it. Compiled for RV32
 * Linux, to be run by qemu-riscv32 with the code of the image itself, and for the host, with the
 * handlers linked in (native.sh). usage: bare FILE. Exit status 2: no file, or memory at the card's
 * addresses is not to be had; 3: no such handler. */
#include "bare.h"

#include "hpu/map.h"

#define PROT_ALL  7u        /* read, write, execute */
#define FIXED     0x100022u /* MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE */
#define SHARED    1u
#define READWRITE 3u

/* ---- What differs: system calls, copying, calling the handler on its own stack --------------- */

#ifdef __riscv
static long system_call(long number, long a, long b, long c, long d, long e, long f) {
    register long a0 __asm__("a0") = a, a1 __asm__("a1") = b, a2 __asm__("a2") = c;
    register long a3 __asm__("a3") = d, a4 __asm__("a4") = e, a5 __asm__("a5") = f;
    register long a7 __asm__("a7") = number;
    __asm__ volatile("ecall"
                     : "+r"(a0)
                     : "r"(a1), "r"(a2), "r"(a3), "r"(a4), "r"(a5), "r"(a7)
                     : "memory");
    return a0;
}

static __attribute__((noreturn)) void leave(int status) {
    system_call(93, status, 0, 0, 0, 0, 0);
    __builtin_unreachable();
}

static void *map(uintptr_t address, uint32_t bytes, unsigned rights, unsigned how, int file) {
    return (void *)system_call(222, (long)address, (long)bytes, (long)rights, (long)how, file, 0);
}

static int open_file(const char *path) {
    return (int)system_call(56, -100 /* from here */, (long)path, 2 /* read, write */, 0, 0, 0);
}

static uint64_t cpu_ns(void) {
    struct {
        int64_t seconds, ns;
    } now;
    system_call(403, 2 /* of the process */, (long)&now, 0, 0, 0, 0);
    return (uint64_t)now.seconds * 1000000000 + (uint64_t)now.ns;
}

static void copy(uint32_t to, const uint8_t *from, uint32_t bytes) {
    uint8_t *p = (uint8_t *)to;
    for (; bytes >= 4 && (((uintptr_t)p | (uintptr_t)from) & 3) == 0; p += 4, from += 4, bytes -= 4)
        *(uint32_t *)p = *(const uint32_t *)from;
    while (bytes--)
        *p++ = *from++;
}

struct entry {
    uint32_t at, stack, argument[3];
};

static void ready(const struct bare_case *c, struct entry *e) {
    *e = (struct entry){c->entry, c->stack, {c->argument[0], c->argument[1], c->argument[2]}};
}

static uint32_t call(const struct entry *e) {
    register uint32_t a0 __asm__("a0") = e->argument[0], a1 __asm__("a1") = e->argument[1],
                         a2 __asm__("a2") = e->argument[2];
    __asm__ volatile("mv s2, sp\n"
                     "mv sp, %[stack]\n"
                     "jalr %[at]\n"
                     "mv sp, s2\n"
                     : "+r"(a0), "+r"(a1), "+r"(a2)
                     : [stack] "r"(e->stack), [at] "r"(e->at)
                     : "s2", "ra", "a3", "a4", "a5", "a6", "a7", "t0", "t1", "t2", "t3", "t4", "t5",
                       "t6", "memory");
    return a0;
}
#else
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "hpu/call.h"
#include "openspin.h"

static __attribute__((noreturn)) void leave(int status) {
    exit(status);
}

static void *map(uintptr_t address, uint32_t bytes, unsigned rights, unsigned how, int file) {
    return mmap((void *)address, bytes, (int)rights, (int)how, file, 0);
}

static int open_file(const char *path) {
    return open(path, O_RDWR);
}

static uint64_t cpu_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void copy(uint32_t to, const uint8_t *from, uint32_t bytes) {
    memcpy((void *)(uintptr_t)to, from, bytes);
}

struct entry {
    uint64_t at, stack, argument[3];
    const void *header; /* of a header handler: it goes on the stack, as the ABI wants it */
};

static void ready(const struct bare_case *c, struct entry *e) {
    const uint32_t *a = c->argument;
    *e = (struct entry){(uintptr_t)dlsym(RTLD_DEFAULT, c->name), c->stack, {a[0], a[1], a[2]}, 0};
    if (!e->at)
        leave(3);
    if (c->kind == SPIN_HEADER_HANDLER) {
        e->stack -= (CALL_HEADER_BYTES + 15) & ~15u;
        e->header = (const void *)(uintptr_t)a[0];
        e->argument[0] = a[1];
    } else if (c->kind == SPIN_PAYLOAD_HANDLER) {
        memcpy(&e->argument[0], (const void *)(uintptr_t)a[0], 8); /* length and offset */
        e->argument[1] = a[0] + CALL_PAYLOAD_BYTES;
        e->argument[2] = a[1];
    }
}

static uint32_t call(const struct entry *e) {
    uint64_t value, first = e->argument[0], second = e->argument[1], third = e->argument[2];
    if (e->header)
        memcpy((void *)e->stack, e->header, CALL_HEADER_BYTES);
    __asm__ volatile("mov %%rsp, %%rbx\n"
                     "mov %[stack], %%rsp\n"
                     "call *%[at]\n"
                     "mov %%rbx, %%rsp\n"
                     : "=a"(value), "+D"(first), "+S"(second), "+d"(third)
                     : [stack] "r"(e->stack), [at] "r"(e->at)
                     : "rbx", "rcx", "r8", "r9", "r10", "r11", "xmm0", "xmm1", "xmm2", "xmm3",
                       "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12",
                       "xmm13", "xmm14", "xmm15", "cc", "memory");
    return (uint32_t)value;
}
#endif

/* ---- The same everywhere --------------------------------------------------------------------- */

static struct bare_case *open_case(const char *path) {
    int file = open_file(path);
    struct bare_case *c = map(0, BARE_FILE_BYTES, READWRITE, SHARED, file);
    if (file < 0 || (uintptr_t)c >= (uintptr_t)-4095) /* an error, from a bare system call too */
        leave(2);
    return c;
}

/* All at once and not only the windows: several share a page. */
static void map_card(void) {
    static const struct {
        uint32_t address, bytes;
    } part[] = {{MAP_L1_BASE, MAP_L1_SIZE},
                {MAP_L1_BASE + MAP_L1_STRIDE, MAP_L1_SIZE},
                {MAP_L1_BASE + 2 * MAP_L1_STRIDE, MAP_L1_SIZE},
                {MAP_L1_BASE + 3 * MAP_L1_STRIDE, MAP_L1_SIZE},
                {MAP_L1_ALIAS, MAP_L1_SIZE},
                {MAP_DRIVER, 4096},
                {MAP_L2_HANDLER, MAP_L2_HANDLER_SIZE},
                {MAP_L2_PACKETS, MAP_L2_PACKETS_SIZE},
                {MAP_PROGRAM, MAP_PROGRAM_SIZE}};
    for (unsigned i = 0; i < sizeof part / sizeof part[0]; i++)
        if (map(part[i].address, part[i].bytes, PROT_ALL, FIXED, -1) !=
            (void *)(uintptr_t)part[i].address)
            leave(2);
}

static const uint8_t *content(const struct bare_case *c, uint32_t at) {
    return (const uint8_t *)c + at;
}

static void fill(const struct bare_case *c) {
    for (uint32_t i = 0; i < c->windows; i++)
        copy(c->window[i].address, content(c, c->window[i].at), c->window[i].bytes);
}

static inline void put_back(const struct bare_case *c) {
    for (uint32_t i = 0; i < c->pieces; i++)
        copy(c->piece[i].address, content(c, c->piece[i].at), c->piece[i].bytes);
}

static void keep(struct bare_case *c) {
    for (uint32_t i = 0; i < c->windows; i++) {
        uint8_t *to = (uint8_t *)c + c->window[i].at;
        const volatile uint8_t *from = (const uint8_t *)(uintptr_t)c->window[i].address;
        for (uint32_t n = 0; n < c->window[i].bytes; n++)
            to[n] = from[n];
    }
}

static void time_calls(struct bare_case *c, const struct entry *e) {
    for (uint32_t i = 0; i < c->calls / 8; i++) { /* and warm up */
        put_back(c);
        call(e);
    }
    uint64_t start = cpu_ns();
    for (uint32_t i = 0; i < c->calls; i++) {
        put_back(c);
        call(e);
    }
    c->ns = cpu_ns() - start;
    start = cpu_ns();
    for (uint32_t i = 0; i < c->calls && c->pieces; i++) {
        put_back(c);
        __asm__ volatile("" ::: "memory");
    }
    c->back_ns = cpu_ns() - start;
}

static void run(const char *path) {
    struct bare_case *c = open_case(path);
    struct entry e;
    map_card();
    fill(c);
    ready(c, &e);
    if (c->calls)
        time_calls(c, &e);
    fill(c);
    c->value = call(&e);
    keep(c);
    c->is_done = 1;
    leave(0);
}

#ifdef __riscv
__attribute__((used)) void start(const long *stack);
void start(const long *stack) {
    run(((char *const *)(stack + 1))[1]);
}
__asm__(".globl _start\n_start: mv a0, sp\n j start\n");
#else
int main(int argc, char **argv) {
    if (argc != 2)
        leave(2);
    run(argv[1]);
}
#endif
