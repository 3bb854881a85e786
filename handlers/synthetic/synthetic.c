/* Executes as many instructions as the first word of the payload says, its own 13 included, at
 * about one per cycle. In assembly, so that the count does not depend on a compiler: a loop of 32,
 * then a jump into a row of 31 for what is left. */
#include <handler.h>

__attribute__((naked)) __handler__ void synthetic_ph(handler_args_t *args __attribute__((unused))) {
    __asm__ volatile("lw t0, 0(a0)\n" /* task */
                     "lw t0, 8(t0)\n" /* pkt_mem */
                     "lw t0, 28(t0)\n"
                     "addi t0, t0, -13\n"
                     "srli t1, t0, 5\n"
                     "beqz t1, 2f\n"
                     "1: addi t1, t1, -1\n"
                     ".rept 30\n"
                     "c.nop\n"
                     ".endr\n"
                     "bnez t1, 1b\n"
                     "2: andi t0, t0, 31\n"
                     "la t1, 3f\n" /* two instructions */
                     "slli t0, t0, 1\n"
                     "sub t1, t1, t0\n"
                     "jr t1\n"
                     ".rept 31\n"
                     "c.nop\n"
                     ".endr\n"
                     "3: ret\n");
}
