/* Commands in the layout of PsPIN's registers, for handlers that write them by hand: words, then
 * CMD_INFO, then a load of CMD_ISSUE, which gives the handle. */
#ifndef SPIN_HPU_PSPIN_REGISTERS_H
#define SPIN_HPU_PSPIN_REGISTERS_H

#include "hpu/hpu.h"

/* Gives the device's `issue` the command that the words are, as spin/driver.h has it. The words
 * stay as they were written: the next command may change only some of them. */
enum hpu_access pspin_issue(struct hpu *h, enum hpu_access (*issue)(struct hpu *h, uint32_t number),
                            uint32_t *handle);

#endif
