/* Programs: each a fibre with its own clock. A call into Portals is done when the engine has come
 * to the program's time; a call that waits leaves the fibre until the card has raised something and
 * that is in host memory. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "portals/own_pages.h"
#include "sim/world_libc.h"
#include "sim/world_private.h"

/* ---- time -------------------------------------------------------------------------------------
 */

/* Threads take the cores of their host in turn. */
static uint32_t core_of(const struct world_thread *t) {
    return t->number % (uint32_t)t->rank->world->params.cores;
}

static void leave(struct world_thread *t) {
    fibre_leave(t->stacks);
}

static void wake_at(struct world_thread *t, uint64_t at_ps) {
    world_event(t->rank, at_ps, WORLD_THREAD_EVENT, t->rank->index, t->index, t->wait_number);
}

/* Leaves the fibre until the engine is at the thread's clock. */
static void catch_up(struct world_thread *t) {
    world_pump(t->rank); /* what the last call has started, before time passes */
    if (t->clock_ps <= t->rank->world->now_ps)
        return;
    t->state = THREAD_SLEEPING;
    wake_at(t, t->clock_ps);
    leave(t);
}

static void busy(struct world_thread *t, const char *what, uint64_t time_ps) {
    if (!time_ps)
        return;
    struct world_rank *r = t->rank;
    uint64_t start = t->clock_ps;
    uint64_t takes = time_ps < SIM_LATEST_PS ? time_ps : SIM_LATEST_PS;
    t->clock_ps = host_compute(r->world->hosts, r->index, core_of(t), start, takes);
    world_note(r->world, r->index, world_cpu_row(r->world, core_of(t)), what, start, t->clock_ps, 0,
               -1);
}

static uint64_t now(void *context) {
    return ((struct world_thread *)context)->clock_ps;
}

static void wait_in(struct world_thread *t, enum thread_state state, uint64_t deadline) {
    t->state = state;
    t->wait_number++;
    t->look_ps = 0;
    world_pump(t->rank); /* may raise what it waits for */
    if (deadline != UINT64_MAX)
        wake_at(t, world_later(deadline, t->rank->world->now_ps));
    leave(t);
}

void world_pause(struct world_thread *t, uint64_t time_ps) {
    const struct world_params *p = t->rank->params;
    uint64_t least = world_later(p->poll, p->cpu_cycle);
    catch_up(t);
    t->clock_ps += world_later(time_ps, least);
    catch_up(t);
}

void world_free_call(struct world_thread *t) {
    enum { AT_ONE_TIME = 64 }; /* more than a program needs to set itself up */
    if (t->rank->world->setting_up)
        return;
    if (t->free_calls_ps != t->clock_ps) {
        t->free_calls_ps = t->clock_ps;
        t->free_calls = 0;
    }
    if (++t->free_calls < AT_ONE_TIME)
        return;
    world_pause(t, 0);
    t->free_calls_ps =
        t->clock_ps; /* so the next one pauses too, unless something else cost time */
}

void world_block(struct world_thread *t, const char *in, uint64_t deadline_ps) {
    t->blocked_in = in;
    wait_in(t, THREAD_BLOCKED, deadline_ps);
}

void world_wake(struct world_thread *t) {
    if (t->state != THREAD_BLOCKED)
        return;
    t->state = THREAD_SLEEPING;
    t->wait_number++; /* its deadline is void */
    wake_at(t, t->rank->world->now_ps);
}

void world_catch_up(struct world_thread *t) {
    catch_up(t);
}

static void wait_until(void *context, uint64_t deadline) {
    wait_in(context, THREAD_WAITING, deadline);
}

enum cost { COSTS_CALL, COSTS_O, COSTS_POLL };

/* Calls that hand something to the card cost o; those that look for completions, a look. */
static enum cost cost_of(enum portals_call call) {
    switch (call) {
    case PORTALS_CALL_PtlPut:
    case PORTALS_CALL_PtlGet:
    case PORTALS_CALL_PtlAtomic:
    case PORTALS_CALL_PtlFetchAtomic:
    case PORTALS_CALL_PtlSwap:
    case PORTALS_CALL_PtlTriggeredPut:
    case PORTALS_CALL_PtlTriggeredGet:
    case PORTALS_CALL_PtlTriggeredAtomic:
    case PORTALS_CALL_PtlTriggeredFetchAtomic:
    case PORTALS_CALL_PtlTriggeredSwap:
    case PORTALS_CALL_PtlTriggeredCTInc:
    case PORTALS_CALL_PtlTriggeredCTSet:
    case PORTALS_CALL_PtlTriggeredMEAppend:
    case PORTALS_CALL_PtlTriggeredMEUnlink:
    case PORTALS_CALL_PtlMEAppend:
    case PORTALS_CALL_PtlMEUnlink:
    case PORTALS_CALL_PtlMESearch:
    case PORTALS_CALL_PtlLEAppend:
    case PORTALS_CALL_PtlLEUnlink:
    case PORTALS_CALL_PtlLESearch:
    case PORTALS_CALL_PtlCTSet:
    case PORTALS_CALL_PtlCTInc:
        return COSTS_O;
    case PORTALS_CALL_PtlEQGet:
    case PORTALS_CALL_PtlEQWait:
    case PORTALS_CALL_PtlEQPoll:
    case PORTALS_CALL_PtlCTGet:
    case PORTALS_CALL_PtlCTWait:
    case PORTALS_CALL_PtlCTPoll:
        return COSTS_POLL;
    default:
        return COSTS_CALL;
    }
}

static void charge(void *context, enum portals_call call, uint64_t bytes) {
    struct world_thread *t = context;
    struct world_rank *r = t->rank;
    struct spin_world *w = r->world;
    const struct world_params *p = r->params;
    enum cost cost = cost_of(call);
    if (w->setting_up)
        return;
    catch_up(t);
    uint64_t start = t->clock_ps;
    /* What the card has raised is on its way to host memory: a look takes until it is there. */
    if (cost == COSTS_POLL)
        t->clock_ps = world_later(t->clock_ps, r->visible_ps);
    busy(t, portals_call_name(call),
         cost == COSTS_O      ? p->o
         : cost == COSTS_POLL ? p->poll
                              : p->call);
    if (bytes)
        t->clock_ps = host_copy(w->hosts, r->index, core_of(t), t->clock_ps, bytes);
    catch_up(t);
    if (cost == COSTS_POLL && t->clock_ps < r->visible_ps) { /* raised during the look */
        t->clock_ps = r->visible_ps;
        catch_up(t);
    }
    if (t->clock_ps == start)
        world_free_call(t);
}

/* A thread looks when what was raised is in its memory. It goes on if what it waits for has come
 * until then; if that is one counter which is not there yet, that look is only remembered, and the
 * thread is not switched to. */
static void tell_waiting(struct world_thread *t, uint64_t at_ps) {
    if (t->state != THREAD_WAITING)
        return;
    if (t->look_ps <= t->rank->world->now_ps) {
        t->look_ps = at_ps;
        t->looks = false;
    }
    if (t->looks)
        return;
    t->looks = portals_raised(&t->process);
    if (t->looks)
        wake_at(t, t->look_ps);
    else
        t->clock_ps = world_later(t->clock_ps, t->look_ps);
}

void world_raised(struct world_rank *r) {
    r->visible_ps = r->world->now_ps + r->params->network.dma_latency_ps;
    tell_waiting(&r->main, r->visible_ps);
    for (struct world_thread *t = r->others; t; t = t->next)
        tell_waiting(t, r->visible_ps);
}

/* ---- what a program may ask -------------------------------------------------------------------
 */

static const struct portals_host host = {
    .now = now, .per_millisecond = 1000000000, .wait = wait_until, .charge = charge};

struct world_thread *world_current(void) {
    struct portals_process *process = portals_current();
    return process && process->host == &host ? process->context : NULL;
}

void world_idle(uint64_t until_ps) {
    struct world_thread *t = world_current();
    if (!t)
        return;
    catch_up(t);
    wait_in(t, THREAD_WAITING, until_ps);
}

static uint32_t ask_rank(void *context) {
    return ((const struct world_thread *)context)->rank->index;
}

static uint32_t ask_ranks(void *context) {
    return ((const struct world_thread *)context)->rank->world->ranks;
}

static uint64_t ask_now(void *context) {
    struct world_thread *t = context;
    world_free_call(t);
    return t->clock_ps;
}

static void compute(void *context, uint64_t time_ps) {
    struct world_thread *t = context;
    catch_up(t);
    if (time_ps)
        busy(t, "compute", time_ps);
    else
        world_free_call(t);
    catch_up(t); /* memory is then as others have left it by that time */
}

/* Not beyond the end of time, where the run ends. */
static uint64_t takes_ps(uint64_t times, uint64_t each, uint64_t per_ps) {
    unsigned __int128 ps = (unsigned __int128)times * each / per_ps;
    return ps < SIM_LATEST_PS ? (uint64_t)ps : SIM_LATEST_PS;
}

static void do_work(void *context, uint64_t cycles, uint64_t memory_bytes) {
    struct world_thread *t = context;
    struct spin_world *w = t->rank->world;
    uint32_t rank = t->rank->index;
    catch_up(t); /* others use that memory too */
    const struct world_params *p = t->rank->params;
    uint64_t start = t->clock_ps, work_ps = takes_ps(cycles, p->cpu_cycle, 1);
    uint64_t memory_ps = takes_ps(memory_bytes, p->network.memory_fs, 1000);
    if (memory_ps >= UINT64_MAX / 1000 - 1) { /* hours: more than a host counts at once */
        work_ps = work_ps > memory_ps ? work_ps : memory_ps;
        memory_bytes = 0;
    }
    t->clock_ps = host_work(w->hosts, rank, core_of(t), start, work_ps, memory_bytes);
    world_note(w, rank, world_cpu_row(w, core_of(t)), "compute", start, t->clock_ps, memory_bytes,
               -1);
    if (t->clock_ps == start)
        world_free_call(t);
    catch_up(t);
}

int world_use_memory(struct world_thread *t, enum portals_memory how, const void *at,
                     uint64_t bytes) {
    static const char *const names[] = {
        [PORTALS_TOUCH] = "touch", [PORTALS_PIN] = "pin", [PORTALS_DISCARD] = "discard"};
    if (how > PORTALS_DISCARD)
        return SPIN_EARG;
    catch_up(t);
    uint64_t start = t->clock_ps;
    busy(t, names[how], world_paging_ask(t->rank, how, (uintptr_t)at, bytes, start) - start);
    if (t->clock_ps == start)
        world_free_call(t);
    catch_up(t);
    return SPIN_OK;
}

/* Ranks share a process: what one would pin, all would have to. */
static int use_memory(void *context, enum portals_memory how, const void *at, uint64_t bytes) {
    int code = how == PORTALS_PIN ? SPIN_OK : own_pages_use(how, at, bytes);
    return code ? code : world_use_memory(context, how, at, bytes);
}

static void meet(void *context) {
    struct world_thread *t = context;
    struct spin_world *w = t->rank->world;
    catch_up(t);
    world_free_call(t);
    t->state = THREAD_AT_BARRIER;
    t->wait_number++;
    if (!t->rank->at_barrier)
        w->at_barrier++;
    t->rank->at_barrier = true;
    world_open_barrier(w);
    leave(t);
}

static int map_all(void *context, uint32_t ni_handle) {
    struct world_thread *t = context;
    struct spin_world *w = t->rank->world;
    return portals_share_map(t->process.portals, ni_handle, w->ranks, w->map, t->rank->index);
}

static const struct portals_job job = {.rank = ask_rank,
                                       .ranks = ask_ranks,
                                       .now_ps = ask_now,
                                       .compute = compute,
                                       .work = do_work,
                                       .barrier = meet,
                                       .map = map_all,
                                       .memory = use_memory};

/* ---- running ----------------------------------------------------------------------------------
 */

static void pass_barrier(struct world_thread *t) {
    if (t->state != THREAD_AT_BARRIER)
        return;
    t->state = THREAD_SLEEPING;
    wake_at(t, t->rank->world->now_ps);
}

/* Everybody who still runs is there: they go on at the time the last one came, which is now. */
void world_open_barrier(struct spin_world *w) {
    if (!w->at_barrier || w->at_barrier < w->ranks - w->ended)
        return;
    w->at_barrier = 0;
    for (uint32_t i = 0; i < w->ranks; i++) {
        struct world_rank *r = &w->rank[i];
        if (!r->at_barrier)
            continue;
        r->at_barrier = false;
        pass_barrier(&r->main);
        for (struct world_thread *t = r->others; t; t = t->next)
            pass_barrier(t);
    }
}

void world_thread_end(struct world_thread *t) {
    catch_up(t); /* it ends at its own time */
    fibre_end(t->stacks);
}

static void run_program(void *argument) {
    struct world_thread *t = argument;
    struct world_rank *r = t->rank;
    if (r->process)
        world_process_main(t);
    if (r->program)
        world_exit(t, world_program_main(r->program, r->copy), true);
    r->status = r->alone ? world_set_up(r) : r->world->main(r->world->argument);
    r->leaving = true;
    catch_up(t);
}

/* All its threads are forgotten where they stand. */
static void end_rank(struct world_rank *r, uint64_t clock_ps) {
    struct spin_world *w = r->world;
    r->ended = true;
    r->live = 0;
    r->main.clock_ps = clock_ps;
    r->main.state = THREAD_ENDED;
    r->main.wait_number++;
    if (r->at_barrier)
        w->at_barrier--;
    r->at_barrier = false;
    for (struct world_thread *t = r->others; t; t = r->others) {
        r->others = t->next;
        world_thread_forget(t);
    }
    w->ended++;
    world_open_barrier(w); /* nobody waits for one who has gone */
}

void world_rank_end(struct world_rank *r, int status) {
    r->status = status;
    r->exited = true;
    end_rank(r, world_later(r->main.clock_ps, r->world->now_ps));
}

static void exchange(uint64_t a[2], uint64_t b[2]) {
    for (int i = 0; i < 2; i++) {
        uint64_t word = a[i];
        a[i] = b[i];
        b[i] = word;
    }
}

static void run_thread(struct world_thread *t) {
    struct spin_world *w = t->rank->world;
    struct portals_process *before = portals_enter(&t->process);
    struct world_thread *outer = w->current;
    w->current = t;
    t->clock_ps = world_later(t->clock_ps, w->now_ps);
    t->state = THREAD_RUNNING;
    w->watch.entries++;
    if (w->exceptions)
        exchange(w->exceptions, t->exceptions);
    errno = t->error;
    enum fibre_return how = fibre_enter(t->stacks, t->fibre);
    t->error = errno;
    if (w->exceptions)
        exchange(w->exceptions, t->exceptions);
    w->current = outer;
    portals_enter(before);
    if (how == FIBRE_OVERFLOWED)
        world_fail(w, SPIN_ELIMIT,
                   "rank %u: its stack of %llu bytes is not enough; set a larger one, such as "
                   "stack=1MiB",
                   t->rank->index, (unsigned long long)w->params.stack);
    if (how != FIBRE_ENDED)
        return;
    t->state = THREAD_ENDED;
    t->wait_number++;
    if (--t->rank->live == 0 || t->rank->leaving)
        end_rank(t->rank, t->clock_ps);
    else if (t->detached)
        world_thread_leave(t);
}

void world_on_thread(void *context, const struct sim_event *event) {
    struct spin_world *w = context;
    uint32_t index = event->with.u32[1];
    struct world_thread *t = index ? w->thread[index - 1] : &w->rank[event->with.u32[0]].main;
    w->now_ps = event->at_ps;
    if (t->state == THREAD_ENDED || event->with.u64[1] != t->wait_number)
        return; /* for a wait that is over */
    if (t->state == THREAD_WAITING || t->state == THREAD_BLOCKED)
        t->wait_number++;
    run_thread(t);
}

/* Before time begins: its card has what it serves with. */
static void set_up(struct world_thread *t) {
    struct spin_world *w = t->rank->world;
    w->setting_up = true;
    run_thread(t);
    w->setting_up = false;
    if (t->state != THREAD_ENDED)
        world_fail(w, SPIN_EARG,
                   "rank %u has no program, and its set-up waits in %s: nothing can come before "
                   "time begins",
                   t->rank->index,
                   t->state == THREAD_AT_BARRIER ? "spin_barrier"
                   : t->process.call             ? portals_call_name(t->process.call)
                                                 : "a call");
    else if (t->rank->status)
        world_fail(w, SPIN_EARG, "rank %u has no program, and its set-up returned %d",
                   t->rank->index, t->rank->status);
}

void world_start_ranks(struct spin_world *w) {
    for (uint32_t i = 0; i < w->ranks && !w->failure; i++) {
        struct world_thread *t = &w->rank[i].main;
        fibre_start(t->stacks, t->fibre, run_program, t);
        t->state = THREAD_SLEEPING;
        if (w->rank[i].alone)
            set_up(t);
        else
            wake_at(t, 0);
    }
}

/* ---- set-up -----------------------------------------------------------------------------------
 */

static bool is_reliable(const struct spin_packet *p) {
    return !p->loss && !p->corruption && !p->duplication && p->queue != SPIN_QUEUE_DROPTAIL;
}

void world_thread_new(struct world_thread *t, struct world_rank *r, struct fibres *stacks,
                      uint32_t fibre) {
    t->rank = r;
    t->stacks = stacks;
    t->fibre = fibre;
    t->number = r->made++;
    r->live++;
    if (core_of(t) >= r->world->cores_used)
        r->world->cores_used = core_of(t) + 1;
    t->process = (struct portals_process){
        .portals = nic_portals(r->nic),
        .context = t,
        .host = &host,
        .job = &job,
    };
}

static int rank_new(struct spin_world *w, uint32_t i, struct spin_error *err) {
    const struct world_params *p = &w->cards.card[w->cards.of[i]]->params;
    struct world_rank *r = &w->rank[i];
    struct spin_limits limits;
    spin_limits_default(&limits);
    limits.with_float = true; /* an A15 has it */
    limits.hpus = world_params_hpus(p);
    limits.state_bytes = (uint32_t)p->hpu_memory;
    struct portals_config portals;
    portals_config_default(&portals, (uint32_t)p->network.mtu_bytes);
    portals.features |= PTL_COHERENT_ATOMICS; /* memory is the rank's own, and one runs at a time */
    portals.hpu_memory_bytes = p->hpu_memory;
    portals.hpu_limits.max_handler_mem = p->hpu_memory;
    if (!limits.hpus)
        portals.hpu_limits = (ptl_hpu_limits_t){0}; /* it runs no handlers */
    portals.image_limits = &limits;
    portals.images = w->images;
    portals.zone = w->zone;
    struct nic_config config = {
        .driver = p->is_pspin ? &world_pspin_driver : &world_driver,
        .context = r,
        .address = {.nid = i},
        .pool = w->packets,
        .zone = w->zone,
        .mtu_bytes = (uint32_t)p->network.mtu_bytes,
        .reliable = is_reliable(&p->network),
        .ordered = is_reliable(&p->network) && !p->network.reordering,
        .units_per_ns = 1000,
        .retry_time = p->network.retry_ps,
        .retries = (uint32_t)p->network.retries,
        .window_packets = (uint32_t)p->window,
        .turn_packets = (uint32_t)p->turn_packets,
        .contexts = (uint32_t)p->contexts,
        .handler_packets = (uint32_t)p->handler_packets,
        .portals = &portals,
    };
    world_paging_config(p, &config);
    r->world = w;
    r->params = p;
    r->alone = w->cards.card[w->cards.of[i]]->no_program;
    r->index = i;
    r->tick_ps = SIM_FOREVER;
    r->queue_first = r->queue_last = WORLD_NONE;
    r->ordered_first = r->ordered_last = WORLD_NONE;
    int code = p->is_pspin ? world_pspin_new(r, err) : SPIN_OK;
    if (!code)
        code = world_paging_new(r, err);
    if (!code)
        code = nic_new(&r->nic, &config, err);
    if (code)
        return code;
    world_thread_new(&r->main, r, w->fibres, i);
    return SPIN_OK;
}

int world_ranks_new(struct spin_world *w, struct spin_error *err) {
    w->map = calloc(w->ranks, sizeof *w->map);
    w->images = image_store_new();
    if (!w->map || !w->images)
        return spin_fail(err, SPIN_ENOMEM, "out of memory for %u ranks", w->ranks);
    for (uint32_t i = 0; i < w->ranks; i++)
        w->map[i].phys.nid = i;
    int code = fibres_new(&w->fibres, w->ranks, w->params.stack, err);
    for (uint32_t i = 0; i < w->ranks && !code; i++)
        code = rank_new(w, i, err);
    return code;
}

void world_ranks_free(struct spin_world *w) {
    free(w->map);
    fibres_free(w->fibres);
    world_threads_free(w);
    for (uint32_t i = 0; w->rank && i < w->ranks; i++) {
        struct world_rank *r = &w->rank[i];
        nic_free(r->nic);
        paging_free(r->paging);
        world_pspin_free(r); /* before the images */
        world_libc_free(r);
        world_memory_free(r);
        while (r->data) {
            struct world_rank_data *next = r->data->next;
            free(r->data->data);
            free(r->data);
            r->data = next;
        }
    }
    image_store_free(w->images);
}

/* ---- what went wrong --------------------------------------------------------------------------
 */

/* "PtlCTWait (counter 2 of 4), called by main (ring.c:74)"; the line only if the program has it. */
static void name_caller(const struct world_thread *t, char *text, size_t room) {
    const struct portals_process *p = &t->process;
    char source[200];
    /* what is known is where it returns to: the call is before that */
    if (t->rank->program && p->call && p->caller &&
        world_where(t->rank->world, (const char *)p->caller - 1, source, sizeof source))
        snprintf(text, room, ", called by %s,", source);
}

/* "rank 3 in PtlCTWait (counter 2 of 4) since 120.500 ns". With lines it reads files: not after a
 * crash. */
static size_t describe(const struct world_thread *t, const char *since, bool with_lines, char *text,
                       size_t room) {
    const struct spin_world *w = t->rank->world;
    char source[200], caller[240] = "";
    if (t == w->watch.thread)
        world_where(w, w->watch.at, source, sizeof source);
    else if (with_lines)
        name_caller(t, caller, sizeof caller);
    const char *where = t == w->watch.thread            ? source
                        : t->state == THREAD_AT_BARRIER ? "spin_barrier"
                        : t->state == THREAD_BLOCKED    ? t->blocked_in
                        : t->process.call               ? portals_call_name(t->process.call)
                                                        : "its program";
    char what[64], which[24] = "";
    portals_waits_for(&t->process, what, sizeof what);
    if (t->number)
        snprintf(which, sizeof which, " thread %u", t->number);
    int length = snprintf(text, room, "rank %u%s in %s%s%s%s%s %s %llu.%03llu ns", t->rank->index,
                          which, where, *what ? " (" : "", what, *what ? ")" : "", caller, since,
                          (unsigned long long)(t->clock_ps / 1000),
                          (unsigned long long)(t->clock_ps % 1000));
    return (size_t)length < room ? (size_t)length : room - 1;
}

bool spin_world_where(const struct spin_world *w, uint32_t rank, char *text, size_t room) {
    if (rank >= w->ranks || w->rank[rank].ended || !room)
        return false;
    const struct world_rank *r = &w->rank[rank];
    const struct world_thread *t = &r->main;
    size_t used = 0;
    for (; t; t = t == &r->main ? r->others : t->next)
        if (t->state != THREAD_ENDED && used + 2 < room) {
            if (used)
                used += (size_t)snprintf(text + used, room - used, ", ");
            used += describe(t, "since", true, text + used, room - used);
        }
    return true;
}

/* Those that wait may do so for ranks that have failed: ", after rank 1 ended with status 7". */
static void tell_failed(const struct spin_world *w, char *text, size_t room) {
    const struct world_rank *first = NULL;
    uint32_t count = 0;
    for (const struct world_rank *r = w->rank; r < w->rank + w->ranks; r++) {
        if (!r->ended || !r->status)
            continue;
        count++;
        if (!first || r->main.clock_ps < first->main.clock_ps)
            first = r;
    }
    *text = 0;
    if (count == 1)
        snprintf(text, room, ", after rank %u ended with status %d", first->index, first->status);
    else if (count)
        snprintf(text, room, ", after %u ranks failed, the first of them rank %u with status %d",
                 count, first->index, first->status);
}

int world_verdict(struct spin_world *w, struct spin_error *err) {
    enum { SHOWN = 4 };
    char waiting[600] = "";
    size_t used = 0;
    uint32_t count = 0, shown = 0;
    bool stopped = sim_engine_counts(w->engine).pending > 0; /* by until_ps */
    for (uint32_t i = 0; i < w->ranks; i++) {
        const struct world_thread *t = &w->rank[i].main;
        if (w->rank[i].ended)
            continue;
        for (count++; t && shown < SHOWN; t = t == &w->rank[i].main ? w->rank[i].others : t->next) {
            if (t->state == THREAD_ENDED)
                continue;
            if (shown++ && used + 2 < sizeof waiting)
                used += (size_t)snprintf(waiting + used, sizeof waiting - used, ", ");
            used +=
                describe(t, stopped ? "at" : "since", true, waiting + used, sizeof waiting - used);
        }
    }
    if (!count)
        return SPIN_OK;
    const char *rest = count > shown ? ", ..." : "";
    if (w->watch.reason == WATCH_INTERRUPTED)
        return spin_fail(err, SPIN_EINTERRUPTED,
                         "interrupted at %llu ns with %u of %u ranks not done",
                         (unsigned long long)(w->now_ps / 1000), count, w->ranks);
    if (stopped)
        return spin_fail(err, SPIN_ELIMIT, "stopped at %llu ns with %u of %u ranks not done: %s%s",
                         (unsigned long long)(w->until_ps / 1000), count, w->ranks, waiting, rest);
    char failed[96];
    tell_failed(w, failed, sizeof failed);
    return spin_fail(err, SPIN_EDEADLOCK,
                     "deadlock: %u of %u ranks wait for what will not come%s: %s%s", count,
                     w->ranks, failed, waiting, rest);
}

/* A crash of a program is told by rank and call; there is no way on from there. One world at a time
 * asks for it in a process: the handlers are the process's. */
static struct spin_world *crashing;

static void say(const char *text) {
    ssize_t ignored = write(STDERR_FILENO, text, strlen(text));
    (void)ignored;
}

static void say_where(const struct world_thread *t) {
    char text[160];
    size_t length = describe(t, "at", false, text, sizeof text - 1);
    text[length] = 0;
    say(text);
}

static void on_signal(int number, siginfo_t *info, void *context) {
    (void)context;
    struct spin_world *w = crashing;
    if (w && w->moving != WORLD_NONE) {
        char text[160];
        snprintf(text, sizeof text,
                 "openspin: rank %u: its card was told to read or write memory at %p, which the "
                 "program does not have\n",
                 w->moving, info->si_addr);
        say(text);
        _exit(1);
    }
    if (!w || !w->current) {
        signal(number, SIG_DFL); /* ours, not a rank's: as ever */
        raise(number);
        return;
    }
    say("openspin: ");
    say_where(w->current);
    if (fibre_in_guard(w->current->stacks, w->current->fibre, info->si_addr))
        say(": stack overflow; set a larger one, such as stack=1MiB\n");
    else
        say(number == SIGSEGV  ? ": crashed: segmentation fault\n"
            : number == SIGBUS ? ": crashed: bus error\n"
            : number == SIGFPE ? ": crashed: arithmetic exception\n"
            : number == SIGILL ? ": crashed: illegal instruction\n"
                               : ": aborted\n");
    _exit(1);
}

static void on_exit_of_rank(void) {
    struct spin_world *w = crashing;
    if (!w || !w->current)
        return;
    say("openspin: ");
    say_where(w->current);
    say(": called exit(), which ends the whole world; return from main instead\n");
    fflush(NULL);
    _exit(1);
}

void world_crashes(struct spin_world *w, bool catch_them) {
    static const int numbers[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    static bool registered;
    if (catch_them) {
        static _Alignas(16) char stack[64 << 10];
        const stack_t alternative = {.ss_sp = stack, .ss_size = sizeof stack};
        struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_ONSTACK};
        sigaltstack(&alternative, NULL);
        for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
            sigaction(numbers[i], &action, NULL);
        crashing = w;
        if (!registered)
            atexit(on_exit_of_rank);
        registered = true;
    } else if (crashing == w) {
        for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
            signal(numbers[i], SIG_DFL);
        crashing = NULL;
    }
}
