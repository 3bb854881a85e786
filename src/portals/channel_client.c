/* A rank's side of the channel. The library is loaded before the program (LD_PRELOAD), so that its
 * calls are found before those of libportals.so. */
#include "portals/channel_client.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <threads.h>

#include "live/live_clock.h"

#define SPINS 50u /* before a thread sleeps: some microseconds */

/* One per process, as that is what a rank is. */
static struct {
    struct channel *channel;
    struct channel_rank *own;
    struct channel_place place;
    int bell;
    pid_t world, pid;
    bool is_none; /* this process is no rank, and will be none */
    pthread_once_t once;
    pthread_key_t key; /* its destructor tells that a thread has ended */
} self = {.once = PTHREAD_ONCE_INIT};

static _Thread_local struct channel_slot *slot;
/* The world waits for the new thread, so that what the C library itself asks for meanwhile (an
 * allocator its clock) is not for the world to answer. */
static _Thread_local bool makes_thread;

/* ---- a process becomes a rank ---- */

static void release(struct channel_slot *s) {
    atomic_store(&s->thread, 0);
    atomic_store(&s->state, CHANNEL_FREE);
}

static void end_thread(void *own) {
    slot = own; /* destructors of others may have cleared it */
    channel_post(CHANNEL_THREAD_END, NULL, 0, NULL);
    release(slot);
    slot = NULL;
}

/* A child of a rank is none. */
static void in_child(void) {
    self.is_none = true;
    slot = NULL;
}

/* The last thing before the process is gone. */
static void end_process(int status, void *argument) {
    (void)argument;
    if (!channel_is_attached())
        return;
    fflush(NULL);
    CHANNEL_CALL(CHANNEL_EXIT, (uint64_t)(status & 0xff));
    self.is_none = true;
}

/* Who was the rank until now makes no calls any more. */
static void take_over(struct channel_rank *own) {
    for (uint32_t i = 0; i < CHANNEL_SLOTS; i++)
        if (atomic_load(&own->slot[i].state) == CHANNEL_RUNNING)
            release(&own->slot[i]);
}

static void attach(void) {
    const char *text = getenv(CHANNEL_VARIABLE);
    int version, fd, world;
    unsigned rank, ranks;
    if (!text ||
        sscanf(text, "%d %d %d %d %u %u", &version, &fd, &self.bell, &world, &rank, &ranks) != 6)
        return;
    if (version != CHANNEL_VERSION) {
        fprintf(stderr, "openspin: this libportals-world.so is of another version than the command "
                        "that started the program\n");
        _exit(1);
    }
    size_t bytes = sizeof(struct channel) + ranks * sizeof(struct channel_rank);
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED)
        return;
    self.place = (struct channel_place){rank, ranks};
    self.world = world;
    self.channel = memory;
    struct channel_rank *own = &self.channel->rank[rank];
    /* Not below a rank that makes calls itself; of a script's children the last is it. */
    if (getppid() != world) {
        if (atomic_load(&own->portals))
            return;
        atomic_store(&own->threads, 1);
    }
    if (atomic_load(&own->pid)) /* of a script, before its exec or in its child: it may ask for */
        take_over(own);         /* the time, too */
    self.pid = getpid();
    atomic_store(&own->pid, self.pid);
    if (dlsym(RTLD_NEXT, "PtlInit"))
        atomic_store(&own->portals, 1);
    self.own = own;
    pthread_key_create(&self.key, end_thread);
    pthread_atfork(NULL, NULL, in_child);
    on_exit(end_process, NULL);
}

/* A child of the world is a rank from its first instruction on, so that it sees virtual time. */
__attribute__((constructor)) static void begin(void) {
    const char *text = getenv(CHANNEL_VARIABLE);
    int world = 0;
    if (text && sscanf(text, "%*d %*d %*d %d", &world) == 1 && getppid() == world)
        pthread_once(&self.once, attach);
}

bool channel_is_attached(void) {
    return self.own && !self.is_none && !makes_thread &&
           atomic_load_explicit(&self.own->pid, memory_order_relaxed) == self.pid;
}

bool channel_is_rank(struct channel_place *place) {
    pthread_once(&self.once, attach);
    if (place)
        *place = self.place;
    return channel_is_attached();
}

/* ---- calls ---- */

/* A slot for somebody; NULL: all are taken. */
static struct channel_slot *reserve(void) {
    for (uint32_t i = 0; i < CHANNEL_SLOTS; i++) {
        struct channel_slot *s = &self.own->slot[i];
        uint32_t expected = CHANNEL_FREE;
        if (atomic_compare_exchange_strong(&s->state, &expected, CHANNEL_RUNNING))
            return s;
    }
    return NULL;
}

/* It is this thread's from now on. */
static void take(struct channel_slot *s) {
    int32_t thread = (int32_t)syscall(SYS_gettid);
    atomic_store(&s->thread, thread);
    if (thread != getpid()) /* the process ends with its main thread */
        pthread_setspecific(self.key, s);
    slot = s;
}

static struct channel_slot *own_slot(void) {
    if (slot)
        return slot;
    struct channel_slot *s = reserve();
    if (!s) {
        fprintf(stderr, "openspin: a rank of a world has at most %d threads that call Portals\n",
                CHANNEL_SLOTS);
        _exit(1);
    }
    take(s);
    return s;
}

/* The world is gone: so is its rank. */
static void look_around(void) {
    if (atomic_load(&self.channel->over) || (kill(self.world, 0) && errno == ESRCH))
        _exit(1);
}

static void wait_for_answer(struct channel_slot *s) {
    for (uint32_t i = 0; i < SPINS; i++) {
        if (atomic_load_explicit(&s->state, memory_order_acquire) == CHANNEL_RUNNING)
            return;
        live_pause();
    }
    uint32_t posted = CHANNEL_POSTED;
    if (!atomic_compare_exchange_strong(&s->state, &posted, CHANNEL_ASLEEP))
        return;
    while (atomic_load(&s->state) == CHANNEL_ASLEEP) {
        /* sometimes it looks whether the world is still there; clocks are the world's own */
        const struct timespec second = {.tv_sec = 1};
        if (syscall(SYS_futex, &s->state, FUTEX_WAIT, CHANNEL_ASLEEP, &second, NULL, 0))
            look_around();
    }
}

/* A pointer of the program's that leads nowhere is followed here, where it crashes as ever. */
static void follow(const struct channel_slot *s) {
    volatile char *at = (volatile char *)(uintptr_t)s->fault;
    if (s->fault_writes)
        *at = *at;
    else
        (void)*at;
}

static void wake_world(struct channel_slot *s) {
    uint64_t one = 1;
    uint32_t where = atomic_load(&self.channel->asleep);
    if (where == CHANNEL_AT_SLOT)
        live_futex_wake(&s->state, 1);
    else if (where == CHANNEL_AT_BELL)
        (void)!write(self.bell, &one, sizeof one);
}

int channel_post(uint32_t call, const uint64_t *words, uint32_t count, uint64_t *back) {
    if (!channel_is_rank(NULL))
        return PTL_NO_INIT;
    int error = errno;
    struct channel_slot *s = own_slot();
    if (call < CHANNEL_CLOCK)
        atomic_store_explicit(&self.own->portals, 1, memory_order_relaxed);
    s->call = call;
    s->fault = 0;
    if (count)
        memcpy(s->word, words, count * sizeof *words);
    atomic_store(&s->state, CHANNEL_POSTED);
    wake_world(s);
    wait_for_answer(s);
    if (s->fault)
        follow(s);
    if (back)
        memcpy(back, s->back, sizeof s->back);
    errno = error;
    return s->code;
}

bool channel_finds_same(uint32_t call, uint64_t handle, uint64_t *counts) {
    struct channel_looks *l = slot && channel_is_attached() ? &slot->looks : NULL;
    if (!l || !l->left || l->call != call || l->handle != handle)
        return false;
    l->left--;
    l->made++;
    memcpy(counts, l->counts, sizeof l->counts);
    return true;
}

const char *channel_text(void) {
    return slot ? slot->text : "";
}

/* ---- threads ---- */

/* Threads of a rank run at its virtual time in the order of their slots, so a new one gets its slot
 * from its creator and begins with a call: what it does first does not depend on when the system
 * lets it run. */
struct beginning {
    void *(*run)(void *);
    int (*run_c11)(void *);
    void *argument;
    struct channel_slot *slot; /* NULL: there is none left; it gets one when it needs it */
};

static void *begin_thread(void *argument) {
    struct beginning b = *(struct beginning *)argument;
    free(argument);
    if (b.slot) {
        take(b.slot);
        channel_post(CHANNEL_THREAD_BEGIN, NULL, 0, NULL);
    }
    return b.run ? b.run(b.argument) : (void *)(intptr_t)b.run_c11(b.argument);
}

static int create(pthread_t *id, const pthread_attr_t *how, struct beginning b) {
    static int (*_Atomic real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
    struct beginning *kept = malloc(sizeof *kept);
    if (!kept)
        return EAGAIN;
    if (channel_is_attached()) {
        if (own_slot()->looks.made) /* before the new one's: the main thread has the first slot */
            channel_post(CHANNEL_NOW, NULL, 0, NULL);
        b.slot = reserve();
        atomic_store(&self.own->threads, 1); /* the world looks at all of them */
    }
    *kept = b;
    makes_thread = true;
    int code = real(id, how, begin_thread, kept);
    makes_thread = false;
    if (code) {
        if (b.slot)
            release(b.slot);
        free(kept);
    }
    return code;
}

int pthread_create(pthread_t *id, const pthread_attr_t *how, void *(*run)(void *), void *argument) {
    return create(id, how, (struct beginning){.run = run, .argument = argument});
}

int thrd_create(thrd_t *id, int (*run)(void *), void *argument) {
    int code = create(id, NULL, (struct beginning){.run_c11 = run, .argument = argument});
    return code == 0 ? thrd_success : code == EAGAIN ? thrd_nomem : thrd_error;
}
