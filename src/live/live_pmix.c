#include "live/live_pmix.h"

#include <dlfcn.h>
#include <pmix.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "live/live_clock.h"

#define LIBRARY  "libpmix.so.2"
#define RETRY_NS (2 * LIVE_MS)
#define LONG_NS  (10000 * LIVE_MS) /* then one is told what is waited for */

/* The functions of the library that we call. */
#define FUNCTIONS(X)                                                                               \
    X(PMIx_Init)                                                                                   \
    X(PMIx_Finalize)                                                                               \
    X(PMIx_Get_nb)                                                                                 \
    X(PMIx_Put)                                                                                    \
    X(PMIx_Commit)                                                                                 \
    X(PMIx_Fence_nb)                                                                               \
    X(PMIx_Register_event_handler)                                                                 \
    X(PMIx_Error_string)

struct live_pmix {
    pmix_proc_t self;
    uint32_t ranks, near_ranks, node;
    _Atomic uint32_t in_barrier; /* futex */
    struct look **looks;         /* per rank: on its way */
#define X(name) __typeof__(&name) name;
    FUNCTIONS(X)
#undef X
};

uint32_t live_pmix_rank(const struct live_pmix *p) {
    return p->self.rank;
}

uint32_t live_pmix_ranks(const struct live_pmix *p) {
    return p->ranks;
}

uint32_t live_pmix_near_ranks(const struct live_pmix *p) {
    return p->near_ranks;
}

uint32_t live_pmix_nid(const struct live_pmix *p) {
    uint32_t job = 0;
    for (const char *c = p->self.nspace; *c; c++)
        job = job * 31 + (uint8_t)*c;
    return 1 + ((job * 2654435761u) >> 17 << 16 | (p->node & 0xffff));
}

/* ---- values ---- */

/* What is asked for, and the answer. */
struct question {
    _Atomic uint32_t answered; /* futex */
    pmix_status_t status;
    void *bytes;
    uint32_t room, length;
    uint32_t number;
};

static void take_value(struct question *q, const pmix_value_t *value) {
    switch (value->type) {
    case PMIX_UINT32:
        q->number = value->data.uint32;
        break;
    case PMIX_INT:
        q->number = (uint32_t)value->data.integer;
        break;
    case PMIX_BYTE_OBJECT:
        if (value->data.bo.size > q->room) {
            q->status = PMIX_ERR_BAD_PARAM;
            break;
        }
        q->length = (uint32_t)value->data.bo.size;
        memcpy(q->bytes, value->data.bo.bytes, q->length);
        break;
    default:
        q->status = PMIX_ERR_BAD_PARAM;
    }
}

/* Called by PMIx's own thread. The question may be gone once it is answered. */
static void answer(pmix_status_t status, pmix_value_t *value, void *context) {
    struct question *q = context;
    q->status = status;
    if (status == PMIX_SUCCESS && value)
        take_value(q, value);
    _Atomic uint32_t *answered = &q->answered;
    atomic_store(answered, 1);
    live_futex_wake(answered, 1);
}

static pmix_status_t begin(struct live_pmix *p, uint32_t rank, const char *name,
                           struct question *q) {
    pmix_proc_t of = p->self;
    of.rank = rank;
    q->answered = 0;
    return p->PMIx_Get_nb(&of, name, NULL, 0, answer, q);
}

static pmix_status_t ask(struct live_pmix *p, uint32_t rank, const char *name, struct question *q) {
    pmix_status_t status = begin(p, rank, name, q);
    if (status != PMIX_SUCCESS)
        return status;
    while (!atomic_load(&q->answered))
        live_futex_wait(&q->answered, 0, UINT64_MAX);
    return q->status;
}

/* Of the whole job, or of a rank; `otherwise` if the launcher does not say it. */
static uint32_t number_of_job(struct live_pmix *p, uint32_t rank, const char *name,
                              uint32_t otherwise) {
    struct question q = {0};
    return ask(p, rank, name, &q) == PMIX_SUCCESS ? q.number : otherwise;
}

int live_pmix_put(struct live_pmix *p, const char *name, const void *bytes, uint32_t length,
                  struct spin_error *err) {
    char copy[LIVE_PMIX_BYTES];
    if (length > sizeof copy)
        return spin_fail(err, SPIN_ELIMIT, "PMIx: %s has %u bytes: at most %u", name, length,
                         LIVE_PMIX_BYTES);
    memcpy(copy, bytes, length);
    pmix_value_t value = {.type = PMIX_BYTE_OBJECT, .data.bo = {copy, length}};
    pmix_status_t status = p->PMIx_Put(PMIX_GLOBAL, name, &value);
    if (status == PMIX_SUCCESS)
        status = p->PMIx_Commit();
    return status == PMIX_SUCCESS ? 0
                                  : spin_fail(err, SPIN_EFILE, "PMIx does not take %s: %s", name,
                                              p->PMIx_Error_string(status));
}

/* Not yet: servers do not wait long, Open MPI's for 2 s, and a rank may begin later. */
static bool is_not_there(pmix_status_t status) {
    return status == PMIX_ERR_NOT_FOUND || status == PMIX_ERR_PROC_ENTRY_NOT_FOUND ||
           status == PMIX_ERR_TIMEOUT;
}

/* A question that outlasts the call. */
struct look {
    struct question q;
    uint8_t bytes[LIVE_PMIX_BYTES];
};

bool live_pmix_look(struct live_pmix *p, uint32_t rank, const char *name, void *bytes,
                    uint32_t room, uint32_t *length) {
    struct look *look = p->looks[rank];
    if (!look) {
        look = calloc(1, sizeof *look);
        if (!look)
            return false;
        look->q.bytes = look->bytes;
        look->q.room = sizeof look->bytes;
        if (begin(p, rank, name, &look->q) == PMIX_SUCCESS)
            p->looks[rank] = look;
        else
            free(look);
        return false;
    }
    if (!atomic_load(&look->q.answered))
        return false;
    p->looks[rank] = NULL;
    bool found = look->q.status == PMIX_SUCCESS && look->q.length && look->q.length <= room;
    *length = look->q.length;
    if (found)
        memcpy(bytes, look->bytes, look->q.length);
    free(look);
    return found;
}

/* PMIx waits for the first values of a rank, and no more once that has put others. */
int live_pmix_get(struct live_pmix *p, uint32_t rank, const char *name, void *bytes, uint32_t room,
                  uint32_t *length, struct spin_error *err) {
    struct question q = {.bytes = bytes, .room = room};
    uint64_t told_ns = live_now_ns() + LONG_NS;
    pmix_status_t status;
    while (is_not_there(status = ask(p, rank, name, &q))) {
        if (live_now_ns() > told_ns) {
            fprintf(stderr, "openspin: rank %u waits for rank %u, which has not told its %s yet\n",
                    p->self.rank, rank, name);
            told_ns = UINT64_MAX;
        }
        nanosleep(&(struct timespec){.tv_nsec = RETRY_NS}, NULL);
    }
    *length = q.length;
    return status == PMIX_SUCCESS && q.length
               ? 0
               : spin_fail(err, SPIN_EFILE, "PMIx does not tell %s of rank %u: %s", name, rank,
                           p->PMIx_Error_string(status));
}

/* ---- the barrier ---- */

static void pass(pmix_status_t status, void *context) {
    struct live_pmix *p = context;
    (void)status; /* a server that is gone ends us by itself */
    atomic_store(&p->in_barrier, 0);
    live_futex_wake(&p->in_barrier, INT_MAX);
}

int live_pmix_arrive(struct live_pmix *p, struct spin_error *err) {
    atomic_store(&p->in_barrier, 1);
    pmix_status_t status = p->PMIx_Fence_nb(NULL, 0, NULL, 0, pass, p);
    if (status == PMIX_SUCCESS)
        return 0;
    atomic_store(&p->in_barrier, 0);
    return status == PMIX_OPERATION_SUCCEEDED
               ? 0
               : spin_fail(err, SPIN_EFILE, "no barrier of PMIx: %s", p->PMIx_Error_string(status));
}

bool live_pmix_passed(struct live_pmix *p) {
    return !atomic_load_explicit(&p->in_barrier, memory_order_acquire);
}

void live_pmix_sleep(struct live_pmix *p) {
    live_futex_wait(&p->in_barrier, 1, UINT64_MAX);
}

/* ---- beginning and end ---- */

/* As the ranks of `openspin launch` end with it. */
static void launcher_gone(size_t id, pmix_status_t status, const pmix_proc_t *source,
                          pmix_info_t info[], size_t infos, pmix_info_t *results, size_t count,
                          pmix_event_notification_cbfunc_fn_t done, void *context) {
    static const char line[] = "openspin: the launcher (its PMIx server) is gone: this rank ends\n";
    (void)id, (void)status, (void)source, (void)info, (void)infos, (void)results, (void)count;
    (void)done, (void)context;
    (void)!write(2, line, sizeof line - 1);
    _exit(1);
}

static int load(struct live_pmix *p, struct spin_error *err) {
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_GLOBAL);
    if (!library)
        return spin_fail(err, SPIN_EFILE,
                         "a launcher with PMIx has started this rank, but: %.120s (Debian: "
                         "libpmix2); OPENSPIN_PMIX=off makes it a job of one",
                         dlerror());
#define X(name)                                                                                    \
    p->name = (__typeof__(p->name))dlsym(library, #name);                                          \
    if (!p->name)                                                                                  \
        return spin_fail(err, SPIN_EFILE, LIBRARY " has no " #name ": it is older than PMIx 4");
    FUNCTIONS(X)
#undef X
    return 0;
}

int live_pmix_open(struct live_pmix **out, struct spin_error *err) {
    struct live_pmix *p = calloc(1, sizeof *p);
    int code = p ? load(p, err) : spin_fail(err, SPIN_ENOMEM, "out of memory");
    pmix_status_t status = code ? PMIX_ERROR : p->PMIx_Init(&p->self, NULL, 0);
    if (!code && status != PMIX_SUCCESS)
        code = spin_fail(err, SPIN_EFILE,
                         "the launcher's PMIx server does not answer: %s; OPENSPIN_PMIX=off makes "
                         "this a job of one",
                         p->PMIx_Error_string(status));
    if (code) {
        free(p);
        return code;
    }
    pmix_status_t gone[] = {PMIX_ERR_LOST_CONNECTION, PMIX_ERR_LOST_CONNECTION_TO_SERVER};
    p->PMIx_Register_event_handler(gone, 2, NULL, 0, launcher_gone, NULL, NULL);
    p->ranks = number_of_job(p, PMIX_RANK_WILDCARD, PMIX_JOB_SIZE, 0);
    p->near_ranks = number_of_job(p, PMIX_RANK_WILDCARD, PMIX_LOCAL_SIZE, p->ranks);
    p->node = number_of_job(p, p->self.rank, PMIX_NODEID, 0);
    p->looks = p->ranks ? calloc(p->ranks, sizeof(struct look *)) : NULL;
    if (p->self.rank >= p->ranks || !p->looks) {
        live_pmix_close(p);
        return spin_fail(err, SPIN_EFILE,
                         "the launcher's PMIx server does not tell how many ranks "
                         "there are");
    }
    *out = p;
    return 0;
}

void live_pmix_close(struct live_pmix *p) {
    if (p)
        p->PMIx_Finalize(NULL, 0); /* what was asked and not answered stays allocated */
}
