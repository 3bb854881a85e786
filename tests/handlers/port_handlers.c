/* What a handler sees of its card through the HPU driver: the same on a rig, on a PsPIN card and in
 * a world (cli/port.sh). One handler prints, each of the others makes one mistake. */
#include <spin/handler.h>
#include <stdio.h>

#define REG(offset) (*(volatile uint32_t *)(SPIN_DRIVER_BASE + (offset)))

static uint64_t word[4];

static uint32_t command(uint32_t number, uint32_t w0, uint32_t w1, uint32_t w2, uint32_t w3,
                        uint32_t w4) {
    const uint32_t words[] = {w0, w1, w2, w3, w4};
    for (uint32_t i = 0; i < 5; i++)
        REG(SPIN_REG_WORD + 4 * i) = words[i];
    REG(SPIN_REG_ISSUE) = number;
    return REG(SPIN_REG_RESULT);
}

static uint32_t tell(uint32_t register_offset, uint32_t value) {
    REG(register_offset) = value;
    return REG(SPIN_REG_RESULT);
}

int results_payload_handler(const ptl_payload_t p, void *state) {
    const uint32_t at = (uint32_t)&word[0], to = (uint32_t)p.base;
    (void)state;
    printf("nothing yet: %u\n", (unsigned)REG(SPIN_REG_RESULT));
    printf("handles %u", (unsigned)command(SPIN_COMMAND_DMA_TO_HOST, to, 0, 8, 0, 0));
    printf(" %u", (unsigned)command(SPIN_COMMAND_DMA_FROM_HOST, 0, at, 8, 0, 0));
    printf(" %u\n", (unsigned)command(SPIN_COMMAND_DMA_TO_HOST, 0, 0, 0, 0, 0)); /* nothing */
    printf("waits %u", (unsigned)tell(SPIN_REG_WAIT, 1));
    printf(" %u", (unsigned)tell(SPIN_REG_WAIT, 2));
    printf(" %u, test %u\n", (unsigned)tell(SPIN_REG_WAIT, 3), (unsigned)tell(SPIN_REG_TEST, 2));
    printf("counter %u", (unsigned)command(SPIN_COMMAND_CT_INC, 1, 0, 0, 0, 0));
    printf(" %u\n", (unsigned)command(SPIN_COMMAND_CT_GET, (uint32_t)&word[3], 0, 0, 0, 0));
    word[0] = 5;
    printf("swaps %u", (unsigned)command(SPIN_COMMAND_CAS, at, 5, 0, 7, 0));
    printf(" %u\n", (unsigned)command(SPIN_COMMAND_CAS, at, 5, 0, 9, 0));
    printf("adds %u", (unsigned)command(SPIN_COMMAND_FETCH_ADD, at, at + 8, 3, 0, 0));
    printf(" to %u from %u\n", (unsigned)word[0], (unsigned)word[1]);
    printf("still handle %u\n", (unsigned)command(SPIN_COMMAND_DMA_TO_HOST, to, 0, 8, 0, 0));
    uint32_t first = tell(SPIN_REG_ALLOCATE, 12), next = tell(SPIN_REG_ALLOCATE, 1);
    printf("heap %u, aligned %u, ALLOCATE reads %u, ", (unsigned)(next - first),
           (unsigned)(first % 8), REG(SPIN_REG_ALLOCATE) == next);
    printf("the rest %u %u\n", tell(SPIN_REG_ALLOCATE, 16384 - 24) != 0,
           (unsigned)tell(SPIN_REG_ALLOCATE, 1));
    printf("task: %u %u %u %u\n", REG(SPIN_REG_PACKET_SIZE) == p.length,
           REG(SPIN_REG_PACKET_ADDRESS) == to, (unsigned)REG(SPIN_REG_MEMORY_SIZE),
           *(volatile uint8_t *)(SPIN_DRIVER_BASE + SPIN_REG_PACKET_SIZE) == (p.length & 0xff));
    REG(SPIN_REG_PACKET_SIZE) = 1; /* is ignored */
    printf("handler of %u bytes: %u\n", REG(SPIN_REG_HANDLER_SIZE) > 100,
           REG(SPIN_REG_PACKET_SIZE) == p.length);
    return SUCCESS;
}

#define MISTAKE(name, ...)                                                                         \
    int name##_payload_handler(const ptl_payload_t p, void *state) {                               \
        const uint32_t to = (uint32_t)p.base;                                                      \
        (void)state, (void)to;                                                                     \
        __VA_ARGS__;                                                                               \
        return SUCCESS;                                                                            \
    }

MISTAKE(unknown, command(99, 0, 0, 0, 0, 0))
MISTAKE(never, tell(SPIN_REG_WAIT, 7))
MISTAKE(zero, tell(SPIN_REG_TEST, 0))
MISTAKE(outside, command(SPIN_COMMAND_DMA_TO_HOST, to, 60, 8, 0, 0))
MISTAKE(space, command(SPIN_COMMAND_DMA_TO_HOST, to, 0, 8, 2, 0))
MISTAKE(local, command(SPIN_COMMAND_DMA_TO_HOST, 0x20000000, 0, 8, 0, 0))
MISTAKE(constant, command(SPIN_COMMAND_DMA_FROM_HOST, 0, 0x1d000000, 8, 0, 0))
MISTAKE(odd, command(SPIN_COMMAND_CAS, (uint32_t)&word[0] + 4, 0, 0, 0, 0))
MISTAKE(wild, command(SPIN_COMMAND_FETCH_ADD, (uint32_t)&word[0], 64, 0, 0, 0))
MISTAKE(both, command(SPIN_COMMAND_CT_INC, 1, 2, 0, 0, 0))
MISTAKE(event, command(SPIN_COMMAND_CT_GET, 12, 0, 0, 0, 0))
MISTAKE(large, command(SPIN_COMMAND_PUT_FROM_DEVICE, to, 5000, 0, 0, 0))
MISTAKE(counts, command(SPIN_COMMAND_PUT_FROM_DEVICE, to, 8, 7, 0, 0))
MISTAKE(acknowledges, command(SPIN_COMMAND_PUT_FROM_HOST, 0, 8, 0, 9, 0))
MISTAKE(puts_beyond, command(SPIN_COMMAND_PUT_FROM_HOST, 60, 8, 0, 0, 0))
MISTAKE(gets_beyond, command(SPIN_COMMAND_GET_TO_HOST, 60, 8, 0, 0, 0))
MISTAKE(gets_into_code, command(SPIN_COMMAND_GET_TO_DEVICE, 0x1d000000, 8, 0, 0, 0))
MISTAKE(swaps_beyond, command(SPIN_COMMAND_DMA_CAS, 64, (uint32_t)&word[0], 0, 0, 0))
MISTAKE(swaps_nowhere, command(SPIN_COMMAND_DMA_CAS, 0, 64, 0, 0, 0))
MISTAKE(swaps_in_none, command(SPIN_COMMAND_DMA_CAS, 0, (uint32_t)&word[0], 0, 0, 2))
MISTAKE(shifted, command(SPIN_COMMAND_DMA_CAS, 4, (uint32_t)&word[0], 0, 0, 0))
MISTAKE(typeless, {
    REG(SPIN_REG_WORD + 20) = 99;
    command(SPIN_COMMAND_DMA_FETCH_ADD, 0, 1, 0, (uint32_t)&word[0], 8);
})
MISTAKE(reads_word, (void)REG(SPIN_REG_WORD))
MISTAKE(reads_issue, (void)REG(SPIN_REG_ISSUE))
MISTAKE(reads_none, (void)REG(0x60))
MISTAKE(writes_none, REG(0xc0) = 1)
MISTAKE(half, *(volatile uint16_t *)(SPIN_DRIVER_BASE + SPIN_REG_ISSUE) = 1)
