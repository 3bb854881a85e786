#include "base/fault_signal.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

#define TAKERS 4

static _Atomic(fault_taker) takers[TAKERS];
static atomic_bool left_to_program;

void fault_signal_add(fault_taker taker) {
    for (int i = 0; i < TAKERS; i++) {
        fault_taker none = NULL;
        if (atomic_compare_exchange_strong(&takers[i], &none, taker) || none == taker)
            return;
    }
}

bool fault_signal_handle(int number, siginfo_t *info, ucontext_t *context) {
    for (int i = 0; i < TAKERS; i++) {
        fault_taker taker = atomic_load(&takers[i]);
        if (taker && taker(number, info, context))
            return true;
    }
    return false;
}

/* ---- the handlers ---- */

/* What was there before ours; written once, before ours is. */
static struct before {
    int number;
    struct sigaction action;
    atomic_bool is_spent; /* SA_RESETHAND */
} befores[] = {{.number = SIGSEGV}, {.number = SIGBUS}};

static struct before *before_of(int number) {
    return number == SIGSEGV ? &befores[0] : &befores[1];
}

/* What happens without any handler: a fault is repeated when we return and ends the process there,
 * with the core that it would have left; what was sent is sent again. */
static void end_by_default(int number, siginfo_t *info) {
    struct sigaction none = {.sa_handler = SIG_DFL};
    sigaction(number, &none, NULL);
    if (info->si_code <= 0)
        syscall(SYS_rt_tgsigqueueinfo, getpid(), (pid_t)syscall(SYS_gettid), number, info);
}

/* Blocks what the kernel would have blocked for that handler. */
static void set_mask_of(const struct sigaction *action, int number, const ucontext_t *context) {
    sigset_t mask = context->uc_sigmask;
    sigorset(&mask, &mask, &action->sa_mask);
    if (!(action->sa_flags & SA_NODEFER))
        sigaddset(&mask, number);
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
}

static void pass_on(int number, siginfo_t *info, void *context) {
    struct before *before = before_of(number);
    const struct sigaction *action = &before->action;
    bool sent = info->si_code <= 0;
    bool is_default = action->sa_handler == SIG_DFL || atomic_load(&before->is_spent);
    if (!is_default && action->sa_handler == SIG_IGN) {
        if (sent)
            return;
        is_default = true; /* the kernel does not let a fault be ignored */
    }
    if (is_default) {
        end_by_default(number, info);
        return;
    }
    if (action->sa_flags & SA_RESETHAND)
        atomic_store(&before->is_spent, true);
    set_mask_of(action, number, context);
    if (action->sa_flags & SA_SIGINFO)
        action->sa_sigaction(number, info, context);
    else
        action->sa_handler(number);
}

static void on_fault(int number, siginfo_t *info, void *context) {
    if (!fault_signal_handle(number, info, context))
        pass_on(number, info, context);
}

/* On the stack that the handler before it wanted, so that this one still has it. */
static void install(struct before *before) {
    struct sigaction *was = &before->action;
    sigaction(before->number, NULL, was);
    bool ignored = !(was->sa_flags & SA_SIGINFO) && was->sa_handler == SIG_IGN;
    struct sigaction ours = {.sa_sigaction = on_fault,
                             .sa_flags = SA_SIGINFO | (was->sa_flags & (SA_ONSTACK | SA_RESTART)) |
                                         (ignored ? SA_RESTART : 0)};
    sigfillset(&ours.sa_mask);
    sigaction(before->number, &ours, NULL);
}

static void install_all(void) {
    install(&befores[0]);
    install(&befores[1]);
}

void fault_signal_leave_to_program(bool leave) {
    atomic_store(&left_to_program, leave);
}

bool fault_signal_is_ready(int number) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct sigaction now;
    sigset_t blocked;
    /* A fault while the signal is blocked ends the process. */
    if (pthread_sigmask(SIG_SETMASK, NULL, &blocked) || sigismember(&blocked, number))
        return false;
    if (atomic_load(&left_to_program))
        return true;
    pthread_once(&once, install_all);
    return sigaction(number, NULL, &now) == 0 && (now.sa_flags & SA_SIGINFO) &&
           now.sa_sigaction == on_fault;
}
