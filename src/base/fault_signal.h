/* SIGSEGV and SIGBUS of our own instructions, and only those.
 *
 * A part of the library that may fault takes part by a function that looks at a fault and, if it is
 * its own, has the thread go on elsewhere. Everything else is the application's: its handler is
 * called as the kernel would have called it, or what it had set happens. */
#ifndef SPIN_BASE_FAULT_SIGNAL_H
#define SPIN_BASE_FAULT_SIGNAL_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <ucontext.h>

/* True: it was its own. Called in a signal handler that blocks all signals. */
typedef bool (*fault_taker)(int number, const siginfo_t *info, ucontext_t *context);

/* Once for each taker; before any of its faults. */
void fault_signal_add(fault_taker taker);
/* By any handler of the two signals: was the fault ours? Then it returns. */
bool fault_signal_handle(int number, siginfo_t *info, ucontext_t *context);

/* The program calls fault_signal_handle from its own handlers: none is installed from now on. */
void fault_signal_leave_to_program(bool leave);
/* Whether a fault of this number in this thread comes to us, as far as can be told. Installs the
 * handlers if that has not been done. */
bool fault_signal_is_ready(int number);

#endif
