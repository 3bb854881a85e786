/* The paper's six workloads (ISCA'21 section IV-C, B15) as plain functions on a packet, so that one
 * source is compiled for the HPU and for the machine at hand. State is the same bytes on both: only
 * 32-bit words, and every update of shared state is atomic, as handlers of one message run at once.
 *
 * kernel_X(packet, bytes, state, host): packet and state as below, host where data is written. */
#ifndef OPENSPIN_EXPERIMENTS_KERNELS_H
#define OPENSPIN_EXPERIMENTS_KERNELS_H

#include <stdint.h>

#define KERNEL_WORDS   512    /* reduce: of the vector */
#define KERNEL_BINS    1025   /* histogram: values 0 to 1024 */
#define KERNEL_RULES   65536u /* filtering: a power of 2 */
#define KERNEL_SETS    125u   /* kvstore: 500 entries, 4 ways */
#define KERNEL_WAYS    4u
#define KERNEL_IP_SRC  12u /* filtering: bytes of an IPv4 header before the source address */
#define KERNEL_UDP_DST 22u /* and before the UDP destination port */

struct kernel_rule {
    uint32_t address, port; /* address 0: none */
};
struct kernel_entry {
    uint32_t key, value, used; /* key 0: empty; used: when it was touched last */
};
struct kernel_request {
    uint32_t write, key, value;
};
struct kernel_layout {
    uint32_t block, stride; /* of strided_ddt, in bytes */
};

union kernel_state {
    uint32_t vector[KERNEL_WORDS];
    uint32_t sum;
    uint32_t bin[KERNEL_BINS];
    struct kernel_rule rule[KERNEL_RULES];
    struct {
        uint32_t clock, hits;
        struct kernel_entry entry[KERNEL_SETS][KERNEL_WAYS];
    } cache;
    struct kernel_layout layout;
};

#define KERNELS(X)                                                                                 \
    X(aggregate)                                                                                   \
    X(filtering)                                                                                   \
    X(histogram)                                                                                   \
    X(kvstore)                                                                                     \
    X(reduce)                                                                                      \
    X(strided_ddt)
#define KERNEL_DECLARE(name)                                                                       \
    void kernel_##name(uint8_t *packet, uint32_t bytes, union kernel_state *state, uint8_t *host);
KERNELS(KERNEL_DECLARE)
#undef KERNEL_DECLARE

/* Where an address is looked for first; the host side fills the table by it too. */
static inline uint32_t kernel_hash(uint32_t address) {
    /* 64-bit, as the paper's hash of an 8-byte value is: some ten instructions on RV32. */
    uint64_t h = (uint64_t)address * 0x9e3779b97f4a7c15ull;
    h ^= h >> 32;
    h *= 0xd6e8feb86659fd93ull;
    return (uint32_t)(h >> 40) & (KERNEL_RULES - 1);
}

#endif
