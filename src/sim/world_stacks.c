/* Threads that programs make. Their stacks are sets of fibres, each twice as large as the one
 * before, and a thread that has ended leaves its place and its stack to the next. */
#include <stdlib.h>

#include "base/error.h"
#include "sim/world_libc.h"
#include "sim/world_private.h"

#define FIRST_SET    16u
#define MOST_THREADS (1u << 20)

static int more_stacks(struct spin_world *w, struct spin_error *err) {
    uint32_t count = w->threads ? w->threads : FIRST_SET;
    if (w->threads + count > MOST_THREADS)
        return spin_fail(err, SPIN_ELIMIT, "more than %u threads in a world", MOST_THREADS);
    struct fibres **sets = realloc(w->stacks, (w->stack_sets + 1) * sizeof(struct fibres *));
    w->stacks = sets ? sets : w->stacks;
    struct world_thread **table = realloc(w->thread, (w->threads + count) * sizeof *table);
    w->thread = table ? table : w->thread;
    struct world_thread *threads = calloc(count, sizeof *threads);
    int code = sets && table && threads
                   ? fibres_new(&w->stacks[w->stack_sets], count, w->params.stack, err)
                   : spin_fail(err, SPIN_ENOMEM, "out of memory for threads");
    if (code) {
        free(threads);
        return code;
    }
    for (uint32_t i = count; i-- > 0;) { /* the first is taken first */
        threads[i].stacks = w->stacks[w->stack_sets];
        threads[i].fibre = i;
        threads[i].index = w->threads + i + 1;
        threads[i].state = THREAD_ENDED;
        threads[i].next = w->free_threads;
        w->free_threads = w->thread[w->threads + i] = &threads[i];
    }
    w->threads += count;
    w->stack_sets++;
    return SPIN_OK;
}

struct world_thread *world_thread_start(struct world_rank *r, void (*run)(void *), void *argument,
                                        struct spin_error *err) {
    struct spin_world *w = r->world;
    if (!w->free_threads && more_stacks(w, err))
        return NULL;
    struct world_thread *t = w->free_threads;
    uint32_t index = t->index;
    uint64_t wait_number = t->wait_number; /* events for the one before stay void */
    w->free_threads = t->next;
    struct fibres *stacks = t->stacks;
    uint32_t fibre = t->fibre;
    *t = (struct world_thread){.index = index, .wait_number = wait_number + 1};
    world_thread_new(t, r, stacks, fibre);
    t->next = r->others;
    r->others = t;
    fibre_start(stacks, fibre, run, argument);
    t->clock_ps = w->now_ps;
    t->state = THREAD_BLOCKED;
    world_wake(t);
    return t;
}

void world_thread_forget(struct world_thread *t) {
    struct spin_world *w = t->rank->world;
    t->state = THREAD_ENDED;
    t->wait_number++;
    world_libc_end(t);
    t->next = w->free_threads;
    w->free_threads = t;
}

void world_thread_leave(struct world_thread *t) {
    struct world_thread **link = &t->rank->others;
    while (*link && *link != t)
        link = &(*link)->next;
    if (!*link)
        return; /* main stays with its rank */
    *link = t->next;
    world_thread_forget(t);
}

void world_threads_free(struct spin_world *w) {
    for (uint32_t i = 0; i < w->threads; i++)
        world_libc_end(w->thread[i]);
    /* Sets double: their threads begin at 0, 16, 32, 64, ... */
    for (uint32_t i = 0, first = 0; i < w->stack_sets; i++) {
        fibres_free(w->stacks[i]);
        free(w->thread[first]);
        first = first ? 2 * first : FIRST_SET;
    }
    free(w->thread);
    free(w->stacks);
}
