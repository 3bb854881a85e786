#include "live/live_fabric_port.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <pthread.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

#define LIBRARY "libfabric.so.1"
#define IN      512u /* frames that may arrive; the provider may allow fewer */
#define OUT     256u
#define BATCH   32u
#define VERSION FI_VERSION(1, 14)

#define FUNCTIONS(X)                                                                               \
    X(fi_getinfo)                                                                                  \
    X(fi_freeinfo)                                                                                 \
    X(fi_dupinfo)                                                                                  \
    X(fi_fabric)                                                                                   \
    X(fi_strerror)

/* What libfabric knows a frame by comes first. */
struct frame {
    struct fi_context2 context;
    struct live_fabric_slot slot;
    struct frame *next;
};

struct done {
    struct frame *frame;
    bool failed;
};

struct live_fabric_port {
    pthread_mutex_t lock;
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_av *peers;
    struct fid_cq *queue;
    struct fid_ep *endpoint;
    struct fid_mr *memory; /* where the provider wants to know it */
    int fd;
    uint32_t frame_bytes, in, sending;
    uint8_t *bytes; /* of all frames */
    struct frame *frame, *free, *unposted;
    struct done done[BATCH];
    uint32_t dones, turn;
    _Atomic bool has_done;
#define X(name) __typeof__(&name) name;
    FUNCTIONS(X)
#undef X
};

const char *fabric_port_provider(const struct live_fabric_port *p) {
    return p->info->fabric_attr->prov_name;
}

int fabric_port_fd(const struct live_fabric_port *p) {
    return p->fd;
}

uint32_t fabric_port_inject(const struct live_fabric_port *p) {
    return (uint32_t)p->info->tx_attr->inject_size;
}

uint32_t fabric_port_address(struct live_fabric_port *p, void *bytes, uint32_t room) {
    size_t length = room;
    return fi_getname(&p->endpoint->fid, bytes, &length) ? 0 : (uint32_t)length;
}

bool fabric_port_insert(struct live_fabric_port *p, const void *address, uint64_t *number) {
    fi_addr_t at;
    pthread_mutex_lock(&p->lock);
    int inserted = fi_av_insert(p->peers, address, 1, &at, 0, NULL);
    pthread_mutex_unlock(&p->lock);
    *number = at;
    return inserted == 1;
}

/* ---- out ---- */

static void give_back(struct live_fabric_port *p, struct frame *f) {
    f->next = p->free;
    p->free = f;
}

struct live_fabric_slot *fabric_port_slot(struct live_fabric_port *p) {
    pthread_mutex_lock(&p->lock);
    struct frame *f = p->free;
    if (f)
        p->free = f->next;
    pthread_mutex_unlock(&p->lock);
    return f ? &f->slot : NULL;
}

static struct frame *frame_of(struct live_fabric_slot *s) {
    return (struct frame *)(void *)((char *)s - offsetof(struct frame, slot));
}

static void *key_of(const struct live_fabric_port *p) {
    return p->memory ? fi_mr_desc(p->memory) : NULL;
}

enum fabric_sent fabric_port_send(struct live_fabric_port *p, struct live_fabric_slot *s,
                                  uint64_t number) {
    struct frame *f = frame_of(s);
    pthread_mutex_lock(&p->lock);
    bool copied = s->length <= fabric_port_inject(p);
    ssize_t sent = copied ? fi_inject(p->endpoint, s->bytes, s->length, number)
                          : fi_send(p->endpoint, s->bytes, s->length, key_of(p), number, f);
    if (copied || sent)
        give_back(p, f);
    else
        p->sending++;
    pthread_mutex_unlock(&p->lock);
    return !sent ? FABRIC_SENT : sent == -FI_EAGAIN ? FABRIC_AGAIN : FABRIC_FAILED;
}

bool fabric_port_sending(struct live_fabric_port *p) {
    pthread_mutex_lock(&p->lock);
    bool sending = p->sending;
    pthread_mutex_unlock(&p->lock);
    return sending;
}

/* ---- in ---- */

static void post(struct live_fabric_port *p, struct frame *f) {
    if (!fi_recv(p->endpoint, f->slot.bytes, p->frame_bytes, key_of(p), FI_ADDR_UNSPEC, f))
        return;
    f->next = p->unposted; /* the others still arrive */
    p->unposted = f;
}

static void post_again(struct live_fabric_port *p) {
    struct frame *f = p->unposted;
    p->unposted = NULL;
    for (struct frame *next; f; f = next) {
        next = f->next;
        post(p, f);
    }
}

void fabric_port_post(struct live_fabric_port *p, struct live_fabric_slot *s) {
    pthread_mutex_lock(&p->lock);
    post(p, frame_of(s));
    pthread_mutex_unlock(&p->lock);
}

/* What could not be sent without a completion of its own has no frame. */
static void note_failure(struct live_fabric_port *p) {
    struct fi_cq_err_entry e = {0};
    if (fi_cq_readerr(p->queue, &e, 0) != 1)
        return;
    struct frame *f = e.op_context;
    if (f && f->slot.incoming)
        post(p, f);
    else if (f)
        p->done[p->dones++] = (struct done){f, true};
}

/* Completions of frames that have left end here. With the lock. */
static bool refill(struct live_fabric_port *p) {
    struct fi_cq_msg_entry entry[BATCH];
    if (p->turn != p->dones)
        return true;
    p->turn = p->dones = 0;
    if (p->unposted)
        post_again(p);
    ssize_t got = fi_cq_read(p->queue, entry, BATCH);
    if (got == -FI_EAVAIL)
        note_failure(p);
    for (ssize_t i = 0; i < got; i++) {
        struct frame *f = entry[i].op_context;
        if (f && f->slot.incoming) {
            f->slot.length = (uint32_t)entry[i].len;
            p->done[p->dones++] = (struct done){f, false};
        } else if (f) {
            p->sending--;
            give_back(p, f);
        }
    }
    atomic_store_explicit(&p->has_done, p->dones != 0, memory_order_relaxed);
    return p->dones != 0;
}

struct live_fabric_slot *fabric_port_take(struct live_fabric_port *p) {
    struct live_fabric_slot *taken = NULL;
    pthread_mutex_lock(&p->lock);
    if (refill(p)) {
        struct done d = p->done[p->turn++];
        taken = &d.frame->slot;
        if (d.failed) {
            p->sending--;
            give_back(p, d.frame); /* nobody writes into it before the caller has looked */
        }
        if (p->turn == p->dones)
            atomic_store_explicit(&p->has_done, false, memory_order_relaxed);
    }
    pthread_mutex_unlock(&p->lock);
    return taken;
}

bool fabric_port_ready(struct live_fabric_port *p) {
    if (atomic_load_explicit(&p->has_done, memory_order_relaxed))
        return true;
    if (pthread_mutex_trylock(&p->lock))
        return false;
    bool ready = refill(p);
    pthread_mutex_unlock(&p->lock);
    return ready;
}

bool fabric_port_arm(struct live_fabric_port *p) {
    struct fid *waited[] = {&p->queue->fid};
    pthread_mutex_lock(&p->lock);
    bool armed = !refill(p) && (p->fd < 0 || fi_trywait(p->fabric, waited, 1) == FI_SUCCESS);
    pthread_mutex_unlock(&p->lock);
    return armed;
}

/* ---- making one ---- */

static int load(struct live_fabric_port *p, struct spin_error *err) {
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return spin_fail(err, SPIN_EFILE, "OPENSPIN_TRANSPORT=fabric: %.200s (Debian: libfabric1)",
                         dlerror());
#define X(name)                                                                                    \
    p->name = (__typeof__(p->name))dlsym(library, #name);                                          \
    if (!p->name)                                                                                  \
        return spin_fail(err, SPIN_EFILE, LIBRARY " has no " #name);
    FUNCTIONS(X)
#undef X
    return 0;
}

static int refuse(const struct live_fabric_port *p, const char *what, int code,
                  struct spin_error *err) {
    return spin_fail(err, SPIN_EARG, "libfabric: %s: %s", what, p->fi_strerror(abs(code)));
}

static int find(struct live_fabric_port *p, const struct live_fabric_port_options *o,
                struct spin_error *err) {
    struct fi_info *wanted = p->fi_dupinfo(NULL);
    struct in_addr address;
    bool is_address = o->interface && inet_pton(AF_INET, o->interface, &address) == 1;
    if (!wanted)
        return spin_fail(err, SPIN_ENOMEM, "out of memory");
    wanted->caps = FI_MSG;
    wanted->mode = FI_CONTEXT | FI_CONTEXT2;
    wanted->ep_attr->type = FI_EP_RDM;
    wanted->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_VIRT_ADDR;
    wanted->domain_attr->threading = FI_THREAD_DOMAIN;
    wanted->domain_attr->resource_mgmt = FI_RM_ENABLED;
    wanted->tx_attr->msg_order = wanted->rx_attr->msg_order = FI_ORDER_SAS;
    if (o->provider)
        wanted->fabric_attr->prov_name = strdup(o->provider);
    if (o->interface && !is_address)
        wanted->domain_attr->name = strdup(o->interface);
    int code = p->fi_getinfo(VERSION, is_address ? o->interface : NULL, NULL,
                             is_address ? FI_SOURCE : 0, wanted, &p->info);
    p->fi_freeinfo(wanted);
    if (!code && (!o->interface || is_address || !strcmp(p->info->domain_attr->name, o->interface)))
        return 0;
    return spin_fail(err, SPIN_EARG,
                     "OPENSPIN_FABRIC_PROVIDER: libfabric has no reliable endpoint of %.60s%s%.60s "
                     "(%s); `fi_info -t FI_EP_RDM` shows those it has",
                     o->provider ? o->provider : "any provider", o->interface ? " at " : "",
                     o->interface ? o->interface : "",
                     code ? p->fi_strerror(-code) : "not this domain");
}

/* Timers that nobody drives while all sleep: there is no sleeping on these. */
static bool has_timers(const struct live_fabric_port *p) {
    return strstr(fabric_port_provider(p), "rxd");
}

static int open_queue(struct live_fabric_port *p, struct spin_error *err) {
    struct fi_cq_attr attr = {.size = IN + OUT, .format = FI_CQ_FORMAT_MSG, .wait_obj = FI_WAIT_FD};
    int code = has_timers(p) ? -FI_ENOSYS : fi_cq_open(p->domain, &attr, &p->queue, NULL);
    if (!code)
        return fi_control(&p->queue->fid, FI_GETWAIT, &p->fd)
                   ? spin_fail(err, SPIN_EARG, "libfabric: nothing to wait for")
                   : 0;
    attr.wait_obj = FI_WAIT_NONE;
    code = fi_cq_open(p->domain, &attr, &p->queue, NULL);
    return code ? refuse(p, "completions", code, err) : 0;
}

static int open_endpoint(struct live_fabric_port *p, struct spin_error *err) {
    struct fi_av_attr peers = {.type = FI_AV_TABLE};
    int code = p->fi_fabric(p->info->fabric_attr, &p->fabric, NULL);
    if (!code)
        code = fi_domain(p->fabric, p->info, &p->domain, NULL);
    if (!code)
        code = fi_av_open(p->domain, &peers, &p->peers, NULL);
    if (code)
        return refuse(p, fabric_port_provider(p), code, err);
    code = open_queue(p, err);
    if (code)
        return code;
    code = fi_endpoint(p->domain, p->info, &p->endpoint, NULL);
    if (!code)
        code = fi_ep_bind(p->endpoint, &p->peers->fid, 0);
    if (!code)
        code = fi_ep_bind(p->endpoint, &p->queue->fid, FI_TRANSMIT | FI_RECV);
    if (!code)
        code = fi_enable(p->endpoint);
    return code ? refuse(p, "endpoint", code, err) : 0;
}

static int make_frames(struct live_fabric_port *p, struct spin_error *err) {
    size_t room = (p->frame_bytes + 63) / 64 * 64;
    p->in = p->info->rx_attr->size < IN ? (uint32_t)p->info->rx_attr->size : IN;
    p->frame = calloc(p->in + OUT, sizeof *p->frame);
    p->bytes = aligned_alloc(4096, ((p->in + OUT) * room + 4095) / 4096 * 4096);
    if (!p->frame || !p->bytes)
        return spin_fail(err, SPIN_ENOMEM, "out of memory");
    int code = p->info->domain_attr->mr_mode & FI_MR_LOCAL
                   ? fi_mr_reg(p->domain, p->bytes, (p->in + OUT) * room, FI_SEND | FI_RECV, 0, 0,
                               0, &p->memory, NULL)
                   : 0;
    if (code)
        return refuse(p, "memory", code, err);
    for (uint32_t i = 0; i < p->in + OUT; i++) {
        p->frame[i].slot =
            (struct live_fabric_slot){.bytes = p->bytes + i * room, .incoming = i < p->in};
        if (i < p->in)
            post(p, &p->frame[i]);
        else
            give_back(p, &p->frame[i]);
    }
    return 0;
}

/* libfabric's parts take signals for themselves; those are the program's. */
static void keep_signals(struct sigaction *kept, bool back) {
    for (int i = 1; i < NSIG; i++)
        if (i != SIGKILL && i != SIGSTOP)
            sigaction(i, back ? &kept[i] : NULL, back ? NULL : &kept[i]);
}

int fabric_port_open(struct live_fabric_port **out, const struct live_fabric_port_options *options,
                     struct spin_error *err) {
    struct sigaction kept[NSIG];
    struct live_fabric_port *p = calloc(1, sizeof *p);
    if (!p)
        return spin_fail(err, SPIN_ENOMEM, "out of memory");
    p->fd = -1;
    p->frame_bytes = options->frame_bytes;
    pthread_mutex_init(&p->lock, NULL);
    keep_signals(kept, false);
    int code = load(p, err);
    if (!code)
        code = find(p, options, err);
    if (!code)
        code = open_endpoint(p, err);
    if (!code)
        code = make_frames(p, err);
    keep_signals(kept, true);
    if (code)
        fabric_port_close(p);
    else
        *out = p;
    return code;
}

static void close_part(struct fid *part) {
    if (part)
        fi_close(part);
}

void fabric_port_close(struct live_fabric_port *p) {
    if (!p)
        return;
    close_part(p->endpoint ? &p->endpoint->fid : NULL);
    close_part(p->memory ? &p->memory->fid : NULL);
    close_part(p->queue ? &p->queue->fid : NULL);
    close_part(p->peers ? &p->peers->fid : NULL);
    close_part(p->domain ? &p->domain->fid : NULL);
    close_part(p->fabric ? &p->fabric->fid : NULL);
    if (p->info)
        p->fi_freeinfo(p->info);
    pthread_mutex_destroy(&p->lock);
    free(p->frame);
    free(p->bytes);
    free(p);
}
