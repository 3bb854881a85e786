/* Why a card refuses a command, in the words of whoever wrote the handler: the call and what is
 * wrong with it. Rig and cards refuse with these, so the same mistake has the same name and text on
 * all of them. */
#ifndef SPIN_HPU_REFUSAL_H
#define SPIN_HPU_REFUSAL_H

#include "hpu/hpu.h"
#include "openspin.h"

/* "PtlHandlerPutFromDevice", or the register's call for WAIT and TEST; for no command: "a command".
 */
const char *refusal_call(unsigned command);

void refusal_say(struct spin_refusal *r, unsigned command, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* "2,000 bytes, at most 1,024" */
void refusal_length(struct spin_refusal *r, unsigned command, uint64_t bytes, uint64_t most);
/* "16 bytes at offset 65,530 of the ME's host memory, which has 65,536" */
void refusal_host(struct spin_refusal *r, unsigned command, unsigned space, uint64_t offset,
                  uint64_t bytes, uint64_t has);
/* "16 bytes at host address 0x..., where the context's 65,536 begin at 0x..." */
void refusal_host_address(struct spin_refusal *r, unsigned command, uint64_t address,
                          uint64_t bytes, uint64_t base, uint64_t has);
/* "64 bytes at 0x10010440, which are not the handler's" */
void refusal_local(struct spin_refusal *r, unsigned command, uint32_t address, uint64_t bytes,
                   bool write);
void refusal_align(struct spin_refusal *r, unsigned command, uint64_t offset, uint32_t bytes);
void refusal_type(struct spin_refusal *r, unsigned command, uint32_t type);
void refusal_space(struct spin_refusal *r, unsigned command, uint32_t space);
/* "success 3 and failure 2: one of them must be 0", as for PtlCTInc. */
void refusal_increment(struct spin_refusal *r, unsigned command, const uint32_t *event);
void refusal_handle(struct spin_refusal *r, bool wait, uint32_t handle);
void refusal_unknown(struct spin_refusal *r, uint32_t command, const char *of);

/* For a device: the handler ends with this fault. `address`: what a SEGV names. */
static inline enum hpu_access hpu_refuse(struct hpu *h, enum hpu_fault fault, uint32_t address) {
    h->fault = (uint8_t)fault;
    h->fault_address = address;
    return HPU_ACCESS_FAULT;
}

#endif
