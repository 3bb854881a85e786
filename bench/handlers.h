/* The part of bench-jit about handlers: native, generated code, qemu-riscv32, interpreter. */
#ifndef BENCH_HANDLERS_H
#define BENCH_HANDLERS_H

/* Measures and prints; ends the program where two ways do not leave the same. `build`: the build
 * folder, for images and programs. */
void handler_table(const char *build);

#endif
