/* Handlers to be debugged: tests/cli/gdb.sh stops in them by function and by the marks at the
 * lines' ends. */
#include <spin/handler.h>

typedef struct {
    uint32_t sum, words, last;
} sum_t;

static const uint32_t scale[4] = {1, 2, 3, 4};
uint32_t calls = 5;

__attribute__((noinline)) static uint32_t weigh(uint32_t word, uint32_t index) {
    uint32_t weight = scale[index % 4];
    return word * weight;
}

__attribute__((noinline)) static void add(sum_t *s, uint32_t word) {
    uint32_t weighed = weigh(word, s->words);
    s->sum += weighed;
    s->words++; /* mark: counted */
    s->last = word;
}

__handler int good_payload_handler(const ptl_payload_t p, void *state) {
    sum_t *s = state;
    const uint32_t *word = (const uint32_t *)p.base;
    calls++;
    for (ptl_size_t i = 0; i < p.length / 4; i++)
        add(s, word[i]); /* mark: loop */
    if (s->words == 0)
        return FAIL;
    return DROP; /* mark: end */
}

__handler int wild_payload_handler(const ptl_payload_t p, void *state) {
    sum_t *s = state;
    s->words = p.length;
    *(volatile uint32_t *)(0x20000000 + s->words) = 1; /* mark: wild */
    return SUCCESS;
}

__handler int illegal_payload_handler(const ptl_payload_t p, void *state) {
    ((sum_t *)state)->words = p.length;
    __asm__ volatile("unimp"); /* mark: illegal */
    return SUCCESS;
}

__handler int check_payload_handler(const ptl_payload_t p, void *state) {
    ((sum_t *)state)->words = p.length;
    __asm__ volatile("ebreak"); /* mark: check */
    return SUCCESS;
}

__handler int odd_payload_handler(const ptl_payload_t p, void *state) {
    uint32_t old;
    char *at = (char *)state + 1;
    __asm__ volatile("amoadd.w %0, x0, (%1)" : "=r"(old) : "r"(at)); /* mark: odd */
    return (int)(old + p.length);
}

__handler int endless_payload_handler(const ptl_payload_t p, void *state) {
    volatile sum_t *s = state;
    while (p.length) /* mark: endless */
        s->words++;
    return SUCCESS;
}

__handler int atomic_payload_handler(const ptl_payload_t p, void *state) {
    sum_t *s = state;
    uint32_t before = __atomic_load_n(&s->sum, __ATOMIC_RELAXED);
    __atomic_fetch_add(&s->sum, p.length, __ATOMIC_RELAXED);
    return (int)before; /* mark: added */
}

#ifdef __riscv_flen
__attribute__((noinline)) static float halve(float value) {
    return value * 0.5f;
}

__handler int float_payload_handler(const ptl_payload_t p, void *state) {
    float *result = state;
    *result = halve((float)p.length);
    return SUCCESS; /* mark: halved */
}
#endif
