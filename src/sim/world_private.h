/* Inside a simulated world: ranks that run programs, each behind a card of its own, on one network
 * and one clock.
 *   world.c          set-up, the run, and what is said of it
 *   world_rank.c     programs: fibres, their time, what they wait for, crashes
 *   world_nic.c      driver of the card's logic: packets, matching, DMA, retransmission
 *   world_hpu.c      HPUs: handlers in slices, their commands
 *   world_pspin.c    the same on PsPIN's datapath
 *   world_paging.c   pages of ranks that may be absent
 *   world_trace.c    what was busy when: Perfetto and SVG
 *   world_params.c   constants
 *   world_cards.c    which of them each rank has
 *   world_setup.c    ranks without a program
 *   world_program.c  programs from shared objects (object.c reads them, link.c links them)
 *   world_process.h  ranks that are processes
 *   world_stacks.c   threads that programs make: where they run
 *   world_libc.h     the C library as a rank has it
 *   world_watch.c    ^C, and programs that make no calls
 *   world_where.c    where in its source a program is
 *
 * Design notes. The card's logic (nic/nic.h) knows no time: it hands out actions, and this driver
 * says when each is done. Everything with a duration is a resource that is free again at some time
 * (sim/host.h does it so too), so an action costs one or two events. A program's clock may be ahead
 * of the engine's while it computes; whatever others can see of it (a Portals call) is done when
 * the engine has come to that time, so there is one total order. HPUs run ahead likewise and stop
 * at each access to the HPU driver. Events hold indices, and pools grow but never shrink. */
#ifndef SPIN_SIM_WORLD_PRIVATE_H
#define SPIN_SIM_WORLD_PRIVATE_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "base/pool.h"
#include "base/zone.h"
#include "hpu/hpu_invoke.h"
#include "hpu/hpu.h"
#include "hpu/image.h"
#include "hpu/image_store.h"
#include "nic/nic.h"
#include "openspin.h"
#include "portals/process.h"
#include "sim/card.h"
#include "sim/engine.h"
#include "sim/fibre.h"
#include "sim/host.h"
#include "sim/network.h"
#include "sim/noise.h"
#include "sim/paging.h"
#include "sim/timeline.h"
#include "sim/world_cards.h"

#define WORLD_NONE       UINT32_MAX
#define WORLD_MOST_RANKS 65536u

/* ---- what is under way, in pools --------------------------------------------------------------
 */

struct world_flight { /* a packet on its way to the wire, over it, or being matched */
    struct pool_slot slot;
    uint32_t rank;       /* of its sender */
    uint32_t references; /* until it has left, and one for each copy on its way */
    uint64_t sent_ps;    /* when it left */
    struct nic_packet *packet;
    struct nic_departed how;
    uint32_t next;  /* behind it, of those that wait for room on a PsPIN card, */
    uint32_t place; /* and where it is there */
};

struct world_dma {
    struct pool_slot slot;
    struct nic_move move;
    uint32_t rank;
    uint32_t next;                   /* behind it, of those that are ordered */
    bool ordered;                    /* a small write of the same bytes waits for it */
    struct world_executor *executor; /* whose memory it uses, or NULL */
    uint64_t done_ps;
};

struct world_paged { /* to be told to a card */
    struct pool_slot slot;
    struct paging_report what;
};

/* ---- ranks ------------------------------------------------------------------------------------
 */

enum thread_state {
    THREAD_RUNNING,
    THREAD_SLEEPING, /* until its clock's time */
    THREAD_WAITING,  /* until the card raises something, or a deadline */
    THREAD_BLOCKED,  /* until another thread wakes it, or a deadline */
    THREAD_AT_BARRIER,
    THREAD_ENDED
};

/* A thread of a rank's program: a fibre with a clock. A rank has one, which runs main, and those
 * that its program makes. */
struct world_thread {
    struct world_rank *rank;
    uint64_t clock_ps;    /* its own, ahead of the engine's while it computes */
    uint64_t wait_number; /* of its waits: a wake-up for an older one is void */
    uint64_t look_ps;     /* while it waits: when it looks next, if that is later than now, */
    bool looks;           /* with an event */
    enum thread_state state;
    struct portals_process process; /* as this thread sees it: the call that it is in */
    struct fibres *stacks;          /* its fibre is one of them */
    uint32_t fibre, index;          /* index: 0 for main, else 1 + its place in the world's table */
    uint32_t number;                /* in its rank, from 0 */
    int error;                      /* errno, while it does not run */
    uint64_t free_calls_ps;         /* at that time it made */
    uint32_t free_calls;            /* calls that took none */
    uint64_t clock_read_ps;         /* when its program last read a clock, + 1 */
    void *tls;                      /* its thread-local variables, once it has used one */
    struct world_pthread *posix;    /* what pthread.h keeps of it (world_thread.c), or NULL */
    uint64_t exceptions[2];         /* that it handles now, while it does not run (C++) */
    const char *blocked_in;         /* while BLOCKED: the call */
    const void *waits_for;          /* while BLOCKED: handed over when NULL */
    uint64_t order;                 /* of all who wait in its rank */
    bool wants_to_write;            /* who waits for a lock of readers and writers */
    bool detached;                  /* nobody will ask how it ended */
    struct world_thread *next;      /* of its rank's other threads */
};

struct world_rank_data { /* of an image, as this rank's card has it: writable data, or a scratchpad
                          */
    const void *of;      /* its segment, or the image */
    uint8_t *data;
    struct world_rank_data *next;
};

/* Nothing of it is in the cache when its turn comes, where ranks are many: its card's events need
 * the first two lines. */
#define RANK_LINE 64
struct world_rank {
    _Alignas(RANK_LINE) struct spin_world *world;
    const struct world_params *params; /* of its host and its card */
    struct nic *nic;
    struct card *card;             /* its datapath: PsPIN's; NULL: that of SC'17 */
    struct world_process *process; /* its program is an executable */
    struct paging *paging;         /* of its host; NULL: all its memory is there */
    uint32_t index, host;
    uint64_t send_free_ps; /* its card's port */
    uint64_t match_free_ps;
    uint64_t tick_ps;                     /* the earliest tick that is in the queue */
    uint64_t hpus_busy;                   /* bits */
    uint32_t queue_first, queue_last;     /* tasks that wait for an HPU: pool entries */
    uint32_t ordered_first, ordered_last; /* moves that others wait for: pool entries */
    uint64_t visible_ps;             /* what the card raised last is in host memory from then on */
    struct world_thread *others;     /* threads that its program has made, the youngest first */
    bool raised;                     /* something, by its card: world_pump tells */
    bool at_barrier, leaving, ended; /* leaving: it ends with the thread that runs */
    bool exited;                     /* by exit, not by returning from main */
    bool alone;                      /* it has no program, only a card */
    struct world_rank_data *data;
    struct world_thread main;
    uint64_t start_ps;        /* what its card sends with data leaves from then on, with `paging` */
    uint64_t found, found_at; /* with `paging`: a page that could be used, at world.watch.entries */
    struct nic_pool *card_packets;  /* that are in its L2 */
    uint32_t wait_first, wait_last; /* flights that wait for room there */
    uint64_t orders;                /* that were given out to waiting threads */
    uint32_t live, made;            /* threads that have not ended; that there ever were */
    int status;                     /* what its program returned, or gave to exit */
    uint32_t copy;                  /* which copy of */
    struct world_program *program;  /* a shared object; NULL: the world's `main`, or `process` */
    struct world_memory *memory;    /* that the world has given it, if it is alone */
    struct world_libc *libc;        /* what its C library remembers (world_libc.h), or NULL */
};

/* ---- HPUs -------------------------------------------------------------------------------------
 */

struct world_code { /* of an image; shared by all with the same content */
    struct hpu_code *code;
    uint8_t *constants;
    const uint8_t *content; /* owned copy of the code's bytes */
    uint32_t bytes, constant_bytes;
    bool writes; /* a handler of it wrote to its packet */
};

struct world_task { /* waits for an HPU */
    struct pool_slot slot;
    struct nic_task *task;
    uint32_t next;
};

/* A handler that has run to its end, ahead of the engine, until that is there: its executor is
 * another handler's by then, and still in the cache. */
struct world_end {
    struct pool_slot slot;
    const struct nic_task *task;
    uint64_t task_number;
    struct world_executor *executor; /* that still has something to say, or NULL */
    uint64_t start_ps, instructions;
    uint32_t rank;
    uint8_t hpu_number, fault; /* enum hpu_fault */
    int32_t code;              /* what it returned */
};

struct world_executor {
    struct hpu hpu; /* first: the port's card finds its executor through it */
    struct port port;
    struct spin_world *world;
    const struct nic_task *task;
    uint64_t task_number;
    uint32_t index, rank, hpu_number;
    uint32_t next;    /* of those that are free */
    uint64_t base_ps; /* local time is base_ps + cycles */
    uint64_t start_ps;
    bool blocked;
    bool resumed;       /* before it was blocked */
    bool ended;         /* but its memory is in use by */
    uint32_t transfers; /* of its own that are under way */
    struct invoke_context context;
    struct invoke_core core;
    int before;             /* window of the arguments of a packet that is only read; -1: none */
    uint8_t *packet, *heap; /* packet: NULL as long as none was copied */
    _Alignas(8) uint8_t no_packet[CALL_HEADROOM];
    _Alignas(16) uint8_t stack[MAP_STACK_SIZE]; /* atomics need what the handler sees */
};

/* ---- the world --------------------------------------------------------------------------------
 */

/* Packets that leave are written to a file that world_run completes. */
int world_capture(struct spin_world *w, const char *path, struct spin_error *err);
void world_capture_packet(struct spin_world *w, const struct nic_packet *packet);
int world_capture_end(struct spin_world *w, struct spin_error *err);
void world_capture_free(struct spin_world *w);

/* Rows of a rank in pictures; HPU i is ROW_HPU + i, and behind them are the cores of threads. */
enum { ROW_CPU, ROW_NIC_OUT, ROW_NIC_IN, ROW_DMA, ROW_HPU };

/* ---- what stops a program ----------------------------------------------------------------------
 */

enum watch_reason {
    WATCH_NOTHING,
    WATCH_REPEATS,
    WATCH_COMPUTES,
    WATCH_INTERRUPTED,
    WATCH_ENDED, /* by a rank, for all */
};

struct world_watch {
    bool running;
    uintptr_t code_from, code_to; /* of the object that has the world's `main` */
    timer_t own, real;            /* of its thread's processor time; of real time, after ^C */
    struct sigaction before_tick, before_int;
    uint64_t entries; /* of programs, until now */
    uint64_t entry;   /* the one that the rest is about */
    uint32_t ticks, known, repeated;
    uint64_t state[256];
    bool interrupted;
    uint32_t late; /* ticks since ^C */
    /* What ended the run. */
    enum watch_reason reason;
    const void *at;
    struct world_thread *thread;
};

enum world_kind {
    WORLD_THREAD_EVENT,
    WORLD_DEPART_EVENT,
    WORLD_LEFT_EVENT,
    WORLD_MATCHED_EVENT,
    WORLD_DMA_EVENT,
    WORLD_HPU_EVENT,
    WORLD_END_EVENT,
    WORLD_TICK_EVENT,
    WORLD_LAUNCH_EVENT,
    WORLD_TASKLET_EVENT,
    WORLD_PAGED_EVENT,
    WORLD_KINDS
};

struct spin_world {
    struct world_params params; /* of all ranks, but for what `cards` says of some */
    struct world_cards cards;
    char preset[16];
    uint32_t ranks;
    struct sim_engine *engine;
    struct topology *topology;
    struct network *net;
    struct hosts *hosts;
    struct noise *noise;
    struct zone *zone; /* of the records of all ranks */
    struct nic_pool *packets;
    struct image_store *images;
    struct fibres *fibres; /* of main threads, by rank */
    struct world_rank *rank;
    uint32_t *rank_of;  /* host -> rank */
    ptl_process_t *map; /* of logical interfaces: rank -> process */
    uint64_t now_ps;
    struct world_thread *current; /* that runs, or NULL */
    uint32_t moving;              /* rank whose memory a card reads or writes, or WORLD_NONE */
    uint32_t ended, at_barrier;
    struct sim_instance sim;
    struct pool flights, dmas, tasks, ends, paged;
    /* HPUs */
    const struct hpu_timing *timing;
    uint32_t most_hpus; /* of any card */
    struct world_executor **executor;
    uint32_t executors, executor_room, executor_free;
    struct world_code *code;
    uint32_t codes, code_room;
    struct spin_world_counts counts;
    char first_fault[600];
    void (*fault)(void *user, const char *text);
    void (*progress)(void *user, uint64_t now_ps);
    void *user;
    bool check;
    struct gdb_many *gdb; /* for the handlers of one rank, or NULL */
    uint32_t gdb_rank;
    /* What ended the run early. */
    int failure;
    struct spin_error why;
    /* Programs */
    int (*main)(void *argument);
    void *argument;
    int (*setup)(void *argument); /* of ranks without a program, or NULL */
    void *setup_argument;
    bool setting_up; /* before time begins: calls cost none */
    struct world_program **programs;
    uint32_t program_count;
    struct world_processes *processes; /* or NULL */
    uint64_t *exceptions; /* of the thread that runs: two words of C++'s run-time, or NULL */
    struct world_watch watch;
    struct world_thread **thread; /* all that programs have made, by index - 1 */
    uint32_t threads;
    struct world_thread *free_threads; /* ended, with their stacks */
    struct fibres **stacks;            /* of threads: larger and larger sets of them */
    uint32_t stack_sets;
    uint32_t cores_used; /* of any rank, by its threads */
    bool catch_crashes, ran;
    uint64_t until_ps;
    enum spin_jit jit;
    /* Pictures */
    char *trace_path, *picture_path;
    struct timeline timeline;
    char *links_path;
    struct wire_capture *pcap; /* NULL: none */
};

static inline uint32_t world_cpu_row(const struct spin_world *w, uint32_t core) {
    return core ? ROW_HPU + w->most_hpus + core - 1 : ROW_CPU;
}

/* The operating system's, behind all cores. */
static inline uint32_t world_kernel_row(const struct spin_world *w) {
    return world_cpu_row(w, (uint32_t)w->params.cores);
}

/* Out of memory and the like: the run ends with it. */
void world_fail(struct spin_world *w, enum spin_code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* NULL: no memory, and the run ends. */
void *world_take(struct spin_world *w, struct pool *pool);
/* A rank, its host and its card make their events as one object. */
static inline void world_event(struct world_rank *r, uint64_t at_ps, enum world_kind kind,
                               uint32_t a, uint32_t b, uint64_t c) {
    union sim_payload with;
    with.u32[0] = a;
    with.u32[1] = b;
    with.u64[1] = c;
    sim_schedule(&r->world->sim, at_ps, r->index, kind, with);
}
static inline uint64_t world_later(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

/* world.c */
int world_run(struct spin_world *w, struct spin_error *err);

/* world_rank.c */
int world_ranks_new(struct spin_world *w, struct spin_error *err);
void world_ranks_free(struct spin_world *w);
/* A thread of r on that fibre; not yet in its list. */
void world_thread_new(struct world_thread *t, struct world_rank *r, struct fibres *stacks,
                      uint32_t fibre);
/* The thread whose program runs here; NULL outside of ranks. */
struct world_thread *world_current(void);
/* From the thread's program: until world_wake, or a deadline. `in` names the call. */
void world_block(struct world_thread *t, const char *in, uint64_t deadline_ps);
/* A thread that is blocked goes on now. */
void world_wake(struct world_thread *t);
/* From the thread's program: at its own time. */
void world_catch_up(struct world_thread *t);
/* From the thread's program: it ends here, and its rank too if that is `leaving`. */
_Noreturn void world_thread_end(struct world_thread *t);
/* Puts a thread of r on a stack of its own; NULL: no memory. */
struct world_thread *world_thread_start(struct world_rank *r, void (*run)(void *), void *argument,
                                        struct spin_error *err);
/* A thread that has ended, or whose rank has, is forgotten: its place is another's. */
void world_thread_forget(struct world_thread *t);
/* The same, and it leaves its rank's list. */
void world_thread_leave(struct world_thread *t);
void world_threads_free(struct spin_world *w);
void world_start_ranks(struct spin_world *w);
/* A rank whose process has ended while all its threads wait. */
void world_rank_end(struct world_rank *r, int status);
void world_on_thread(void *context, const struct sim_event *event);
void world_raised(struct world_rank *r);
/* From the thread's program: others run while its clock moves on by time_ps, at least by a look
 * (`poll`; a cycle, if that is 0). */
void world_pause(struct world_thread *t, uint64_t time_ps);
/* From the thread's program: what it does to its pages takes its time; a code of enum spin_code. */
int world_use_memory(struct world_thread *t, enum portals_memory how, const void *at,
                     uint64_t bytes);
/* From inside a rank: its processor idles until its card has raised something, or until then. */
void world_idle(uint64_t until_ps);
/* For every call that takes no time: a loop of such calls would hold the world at one instant for
 * ever, so the 64th in a row, and every further one, pauses. */
void world_free_call(struct world_thread *t);
void world_open_barrier(struct spin_world *w);
/* After the engine has run dry. */
int world_verdict(struct spin_world *w, struct spin_error *err);
void world_crashes(struct spin_world *w, bool catch_them);

/* world_nic.c */
void world_pump(struct world_rank *r);
void world_on_packet(void *context, const struct net_arrival *arrival);
void world_on_copy(void *context, uint64_t cookie);
extern const struct nic_driver world_driver;
/* A packet of a rank's is on its way to the wire; from now on, in its turn. */
void world_launch(struct world_rank *r, uint32_t flight);
uint32_t world_flight_new(struct world_rank *r, struct nic_packet *packet,
                          const struct nic_departed *how); /* WORLD_NONE: no memory */
void world_flight_less(struct spin_world *w, uint32_t flight);
struct world_executor;
enum nic_status world_move_until(struct world_rank *r, struct nic_move *m, struct world_executor *e,
                                 uint64_t done_ps);
void world_copy(struct world_rank *r, struct nic_move *m);
void world_raise(void *rank);
struct nic_packet *world_slot(void *rank, struct nic_address target);
void world_flights_free(struct spin_world *w); /* before the ranks, whose packets they have */
void world_dmas_free(struct spin_world *w);    /* likewise */
void world_on_depart(void *context, const struct sim_event *event);
void world_on_left(void *context, const struct sim_event *event);
void world_on_matched(void *context, const struct sim_event *event);
void world_on_dma(void *context, const struct sim_event *event);
void world_on_tick(void *context, const struct sim_event *event);

/* world_pspin.c: ranks whose cards have PsPIN's datapath (card.h). */
extern const struct nic_driver world_pspin_driver;
int world_pspin_new(struct world_rank *r, struct spin_error *err); /* before its nic */
void world_pspin_count(const struct world_rank *r, struct spin_world_counts *counts);
void world_pspin_tell(const struct world_rank *r, struct spin_world_card *card);
void world_pspin_free(struct world_rank *r);                    /* after it */
void world_pspin_packet(struct world_rank *r, uint32_t flight); /* has arrived */
void world_on_launch(void *context, const struct sim_event *event);

/* world_paging.c: ranks whose memory may be absent; the first two where there are none do nothing.
 */
int world_paging_new(struct world_rank *r, struct spin_error *err); /* before its nic */
/* Whether no program has run since the page of a move was last used in the same way. */
bool world_found(const struct world_rank *r, const struct nic_move *m);
void world_find(struct world_rank *r, const struct nic_move *m); /* it was used now */
/* Bytes of a program's memory, wherever it runs; false: it has no such memory. */
bool world_reach(const struct world_rank *r, uint64_t address, void *here, uint64_t bytes,
                 bool write);
void world_paging_config(const struct world_params *p, struct nic_config *config);
void world_paging_count(const struct world_rank *r, struct spin_world_counts *counts);
/* Only with r->paging. NIC_DONE: the move may begin then. */
enum nic_status world_paging_move(struct world_rank *r, const struct nic_move *m,
                                  uint64_t *ready_ps);
/* When a packet may leave: the card's own processor begins messages and blocks. */
uint64_t world_paging_start(struct world_rank *r, const struct nic_packet *packet);
/* Returns when it is over. */
uint64_t world_paging_ask(struct world_rank *r, enum portals_memory how, uint64_t address,
                          uint64_t bytes, uint64_t at_ps);
void world_on_tasklet(void *context, const struct sim_event *event);
void world_on_paged(void *context, const struct sim_event *event);

/* world_hpu.c */
void world_tell_fault(struct world_rank *r, uint32_t hpu, const struct spin_image *image,
                      uint32_t entry, uint64_t at_ps, enum spin_ending how, uint32_t pc,
                      uint32_t address, const struct spin_refusal *refusal);
void world_run_task(struct world_rank *r, struct nic_task *task);
void world_resume_task(struct world_rank *r, const struct nic_task *task);
void world_on_hpu(void *context, const struct sim_event *event);
void world_on_end(void *context, const struct sim_event *event);
/* What a handler had there is gone when its executor is another's. */
bool world_is_memory_of(const struct world_executor *e, const uint8_t *at);
void world_transferred(struct world_executor *e);
void world_hpus_free(struct spin_world *w);

/* world_trace.c: nothing is noted unless a picture was asked for. */
void world_note(struct spin_world *w, uint32_t rank, uint32_t row, const char *name,
                uint64_t start_ps, uint64_t end_ps, uint64_t bytes, int64_t peer);
/* A packet with data has come: when it left there, and when it is looked at here. */
void world_note_packet(struct spin_world *w, uint32_t from, uint64_t sent_ps, uint32_t to,
                       uint64_t taken_ps);
/* The same of a handler, and the fault that ended it, or NULL. */
void world_note_fault(struct spin_world *w, uint32_t rank, uint32_t row, const char *name,
                      uint64_t start_ps, uint64_t end_ps, uint64_t bytes, const char *fault);
int world_draw(struct spin_world *w, struct spin_error *err);

/* world_watch.c: for programs from shared objects; of functions only what makes no calls. */
void world_watch_start(struct spin_world *w);
void world_watch_stop(struct spin_world *w); /* watch.reason says whether it ended the run */

/* world_where.c */
/* "watch (ring.c:17)"; false: the object has no lines, and the text says so. */
bool world_where(const struct spin_world *w, const void *address, char *text, size_t room);

/* world_program.c */
struct world_program;
/* By the copy that a rank has of it. */
int world_program_main(struct world_program *program, uint32_t copy);
void world_program_end(struct world_program *program, uint32_t copy); /* its destructors */
/* Its block of the C library's variables (struct world_own). */
void *world_program_own(const struct world_program *program, uint32_t copy);
/* The exceptions that this thread handles now, two words; NULL: it is not C++. */
uint64_t *world_program_exceptions(const struct world_program *program);
/* A new thread's block of thread-local variables, to be freed, or NULL; and where in it an object's
 * begin. */
void *world_program_tls(const struct world_program *program, uint32_t copy);
uint64_t world_program_tls_at(const struct world_program *program, uint64_t object);
/* Is that address in a copy? Then in this file at this offset, in this function ("": not known). */
bool world_program_where(const struct spin_world *w, const void *address, const char **path,
                         uint64_t *offset, const char **function);
/* Those that the file of cards names. */
int world_programs_load(struct spin_world *w, struct spin_error *err);
void world_programs_free(struct spin_world *w);

/* world_process.c: ranks that are processes. */
bool world_is_executable(const char *path); /* or a script */
/* argv[0] is the path; of all ranks of which that is true. */
int world_processes_start(struct spin_world *w, const char *path, char **argv,
                          bool (*is_its)(const void *context, uint32_t rank), const void *context,
                          struct spin_error *err);
void world_process_main(struct world_thread *t); /* on the rank's fibre; does not return */
/* No events are left: waits for processes that may still make calls. False: there are none. */
bool world_processes_wait(struct spin_world *w);
void world_processes_end(struct spin_world *w); /* those that still run */
void world_processes_free(struct spin_world *w);

/* world_setup.c: of a rank without a program, on its fibre. Not 0: the run is to end. */
int world_set_up(struct world_rank *r);
void world_memory_free(struct world_rank *r);

#endif
