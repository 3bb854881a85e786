/* Included before a handler that is compiled for the host with 32-bit pointers (native.sh): the
 * headers of handlers as they are, but for what only RISC-V has. Unlike calls that no handler here
 * uses, these two need another body; whoever adds a handler that needs a third hears it from the
 * assembler. */
#ifdef BARE_PSPIN
#include <handler.h>

#define amo_add(address, value)  __atomic_fetch_add(address, value, __ATOMIC_RELAXED)
#define spin_lock_try_lock(lock) (__atomic_exchange_n(lock, 1, __ATOMIC_RELAXED) == 0)
#else
#include <spin/handler.h>

/* RISC-V passes the address of a payload's descriptor, which stands before the data. Here it comes
 * in two registers, so it says where the data is. */
typedef struct {
    ptl_size_t length, offset;
    const uint8_t *base;
    uint32_t reserved;
} bare_payload_t;
#define ptl_payload_t bare_payload_t
#endif
