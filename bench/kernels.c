/* The kernels that emulators are compared on, as plain C. The same object for RV32 runs on our HPU
 * and under qemu-riscv32, another on the host: each kernel takes how often to repeat, a source and
 * a destination of 2 KiB and 64 KiB of tables. */
#include <stdint.h>

#define BYTES       2048
#define KEEP(value) __asm__ volatile("" ::"r"(value) : "memory")

struct arena {
    uint32_t crc_table[256];
    uint8_t gf_low[16], gf_high[16];
    uint32_t source[BYTES / 4], destination[BYTES / 4];
    struct {
        uint32_t key, value;
    } hash[1024];
};

void kernel_setup(uint32_t repeat, struct arena *a);
uint32_t kernel_crc32(uint32_t repeat, struct arena *a);
uint32_t kernel_gf256(uint32_t repeat, struct arena *a);
uint32_t kernel_sum32(uint32_t repeat, struct arena *a);
uint32_t kernel_copy(uint32_t repeat, struct arena *a);
uint32_t kernel_hash(uint32_t repeat, struct arena *a);
uint32_t kernel_handler(uint32_t repeat, struct arena *a);
uint32_t call_empty(uint32_t repeat, struct arena *a);
uint32_t call_50(uint32_t repeat, struct arena *a);
uint32_t call_60(uint32_t repeat, struct arena *a);

static uint8_t gf_multiply(uint8_t a, uint8_t b) {
    uint8_t product = 0;
    for (; b; b >>= 1) {
        if (b & 1)
            product ^= a;
        a = (uint8_t)(a << 1 ^ (a & 0x80 ? 0x1d : 0));
    }
    return product;
}

void kernel_setup(uint32_t repeat, struct arena *a) {
    (void)repeat;
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;
        for (int k = 0; k < 8; k++)
            c = c & 1 ? c >> 1 ^ 0xedb88320u : c >> 1;
        a->crc_table[i] = c;
    }
    for (uint32_t i = 0; i < 16; i++) {
        a->gf_low[i] = gf_multiply((uint8_t)i, 0x8e);
        a->gf_high[i] = gf_multiply((uint8_t)(i << 4), 0x8e);
    }
    for (uint32_t i = 0; i < BYTES / 4; i++)
        a->source[i] = i * 2654435761u;
    for (uint32_t i = 0; i < 1024; i++)
        a->hash[i].key = 0;
    for (uint32_t i = 1; i <= 512; i++) {
        uint32_t slot = i * 2654435761u >> 22;
        while (a->hash[slot].key)
            slot = (slot + 1) & 1023;
        a->hash[slot].key = i;
        a->hash[slot].value = i * 3;
    }
}

uint32_t kernel_crc32(uint32_t repeat, struct arena *a) {
    uint32_t crc = 0;
    while (repeat--) {
        const uint8_t *p = (const uint8_t *)a->source;
        crc = ~0u;
        for (uint32_t i = 0; i < BYTES; i++)
            crc = a->crc_table[(crc ^ p[i]) & 255] ^ crc >> 8;
        KEEP(crc);
    }
    return ~crc;
}

uint32_t kernel_gf256(uint32_t repeat, struct arena *a) {
    while (repeat--) {
        const uint8_t *from = (const uint8_t *)a->source;
        uint8_t *to = (uint8_t *)a->destination;
        for (uint32_t i = 0; i < BYTES; i++)
            to[i] ^= a->gf_low[from[i] & 15] ^ a->gf_high[from[i] >> 4];
        KEEP(to);
    }
    return a->destination[5];
}

uint32_t kernel_sum32(uint32_t repeat, struct arena *a) {
    uint32_t sum = 0;
    while (repeat--) {
        for (uint32_t i = 0; i < BYTES / 4; i++)
            sum += a->source[i];
        KEEP(sum);
    }
    return sum;
}

uint32_t kernel_copy(uint32_t repeat, struct arena *a) {
    while (repeat--) {
        for (uint32_t i = 0; i < BYTES / 4; i += 4) {
            uint32_t w = a->source[i], x = a->source[i + 1], y = a->source[i + 2],
                     z = a->source[i + 3];
            a->destination[i] = w;
            a->destination[i + 1] = x;
            a->destination[i + 2] = y;
            a->destination[i + 3] = z;
        }
        KEEP(a);
    }
    return a->destination[5];
}

uint32_t kernel_hash(uint32_t repeat, struct arena *a) {
    uint32_t found = 0, key = 1;
    while (repeat--) {
        key = (key * 5 + 1) & 511;
        uint32_t slot = (key + 1) * 2654435761u >> 22;
        while (a->hash[slot].key != key + 1 && a->hash[slot].key)
            slot = (slot + 1) & 1023;
        found += a->hash[slot].value;
        KEEP(found);
    }
    return found;
}

/* A filter as handlers do it: parse a header, hash it, look it up, count. */
static __attribute__((noinline)) uint32_t small_handler(const uint32_t *packet, struct arena *a) {
    uint32_t source = packet[3], ports = packet[5], length = packet[0] >> 16;
    uint32_t h = source ^ (ports << 16 | ports >> 16);
    h ^= h >> 15;
    h *= 0x2c1b3c6du;
    h ^= h >> 12;
    h *= 0x297a2d39u;
    h ^= h >> 15;
    uint32_t slot = h & 1023;
    if (a->hash[slot].key == source)
        a->hash[slot].value += length;
    else if ((h & 15) == 0)
        a->destination[0]++;
    a->destination[1] += length;
    a->destination[2 + (h & 7)]++;
    return h & 1;
}

uint32_t kernel_handler(uint32_t repeat, struct arena *a) {
    uint32_t passed = 0;
    while (repeat--) {
        a->source[3] += 0x10001;
        passed += small_handler(a->source, a);
    }
    return passed;
}

/* For the cost of a call. */
uint32_t call_empty(uint32_t repeat, struct arena *a) {
    (void)repeat, (void)a;
    return 0;
}

static inline uint32_t mix(uint32_t x, const struct arena *a, uint32_t words) {
    for (uint32_t i = 0; i < words; i++) { /* 6 instructions each */
        x ^= a->source[i];
        x = x * 33 + (x >> 7);
    }
    return x;
}

uint32_t call_50(uint32_t repeat, struct arena *a) {
    return mix(repeat, a, 8);
}

uint32_t call_60(uint32_t repeat, struct arena *a) {
    return mix(repeat, a, 10);
}

#if defined __linux__ && defined __riscv
/* Under qemu: which kernel and how often come from the command line, in decimal. */
static struct arena arena;

static uint32_t number(const char *s) {
    uint32_t v = 0;
    while (*s)
        v = v * 10 + (uint32_t)(*s++ - '0');
    return v;
}

__attribute__((used)) void start(const long *stack);
void start(const long *stack) {
    char *const *argv = (char *const *)(stack + 1);
    static uint32_t (*const kernel[])(uint32_t, struct arena *) = {
        kernel_crc32, kernel_gf256, kernel_sum32, kernel_copy, kernel_hash, kernel_handler};
    kernel_setup(0, &arena);
    uint32_t result = kernel[number(argv[1])](number(argv[2]), &arena);
    register long code __asm__("a0") = result & 127, call __asm__("a7") = 93; /* exit */
    __asm__ volatile("ecall" ::"r"(code), "r"(call));
    __builtin_unreachable();
}
__asm__(".globl _start\n_start: mv a0, sp\n j start\n");
#endif
