/* The machine and the compiler, which stand beside every figure that was timed. */
#ifndef SPIN_BASE_MACHINE_H
#define SPIN_BASE_MACHINE_H

#include <stddef.h>
#include <stdint.h>

/* "AMD EPYC 9B14, 2 cpus, 15.6 GiB; compiler gcc 12.2.0" */
void machine_name(char *text, size_t room);

/* Bytes that this process can still have without pushing others out: what the kernel calls
 * available, less where a limit of the shell (ulimit -v) or of a control group is lower. */
uint64_t machine_memory(void);

#endif
