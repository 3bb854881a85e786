/* A card: the host's side of its Portals process, and how it is made. */
#include "live/live_card_private.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "hpu/image_store.h"
#include "live/live_clock.h"
#include "live/live_auto.h"
#include "live/live_fabric.h"
#include "live/live_shm.h"
#include "live/live_udp.h"

/* On UDP. A process that has lost its processor answers late, which is no loss: one that is silent
 * is given up after 11 to 20 s. Where its system says that nobody has its port, because it has
 * ended, 3 to 7 s are enough; it may just begin anew. */
#define FIRST_RETRY_NS (20 * LIVE_MS)
#define LEAST_RETRY_NS (5 * LIVE_MS)
#define MOST_RETRY_NS  (500 * LIVE_MS)
#define RETRIES        12
#define SILENT_RETRIES 40
#define RECEIPT_NS     (LIVE_MS / 2)
#define WINDOW_PACKETS 256

/* Messages to one peer that the card keeps, 500 bytes each, before who sends more has to wait. */
#define PEER_REQUESTS 16384

/* With paging. What is larger than the lane takes at once travels in blocks, each of as many
 * packets as a block may have; what is smaller waits on the card for its pages. */
#define BLOCK_PACKETS      64
#define BLOCKS_OUTSTANDING 8
#define UNBLOCKED_BYTES    (64 * 1024)
#define PARKED_MOST        1024 /* moves; then nothing more is taken from the transport */

/* ---- the host's side ---- */

bool live_ready(struct live_card *card) {
    return card->transport->calls->ready(card->transport) &&
           (!card->pages || !card->pages->open || nic_parked(card->nic) < PARKED_MOST);
}

static void tell_paged(struct live_card *card) {
    atomic_store(&card->paged, false); /* before the look: what comes later sets it again */
    for (struct nic_pages pages; live_pages_next(card->pages, &pages);)
        nic_paged_in(card->nic, &pages, live_time(card));
}

/* By the pager's thread. */
static void on_paged(void *context) {
    struct live_card *card = context;
    atomic_store(&card->paged, true); /* before the bell: see live_wait.c */
    card->transport->calls->ring(card->transport);
}

void live_card_hold_pager(struct live_card *card, bool held) {
    live_pager_hold(card->pages->pager, held);
}

static __attribute__((noinline)) void work(struct live_card *card) {
    do {
        uint64_t now = live_time(card);
        if (live_paged(card))
            tell_paged(card);
        if (nic_deadline(card->nic) <= now)
            nic_tick(card->nic, now);
        nic_progress(card->nic, now);
        if (card->nowhere)
            live_lose_nowhere(card);
    } while (live_hpu_work(card) || card->nowhere);
}

void live_work(struct live_card *card) {
    if (nic_has_work(card->nic) || card->fresh || card->resumed || card->nowhere ||
        live_paged(card))
        work(card);
    if (card->transport->calls->flush)
        card->transport->calls->flush(card->transport);
}

static uint64_t length_of(const struct live_pending *p) {
    uint64_t length = 0;
    for (; p; p = p->next)
        length++;
    return length;
}

void live_show(struct live_card *card, uint64_t now_ns) {
    const struct nic_counts *n = nic_counts(card->nic);
    struct nic_address address = card->transport->calls->address(card->transport);
    card->seen.card.nid = address.nid;
    card->seen.card.pid = address.pid;
    card->seen.card.counts = (struct spin_live_counts){
        .packets_out = card->out.packets,
        .packets_in = card->in.packets,
        .bytes_out = card->out.bytes,
        .bytes_in = card->in.bytes,
        .messages_out = n->messages_out,
        .messages_in = n->messages_in,
        .retransmitted = n->retransmitted,
        .duplicates = n->duplicates + n->out_of_window,
        .malformed = n->malformed + card->transport->malformed,
        .strangers = card->transport->strangers,
        .dropped = portals_dropped(nic_portals(card->nic)),
        .given_up = n->given_up,
        .flow_control = n->flow_control,
        .page_faults = n->source_faults + n->destination_faults,
        .paged_in = card->pages ? live_pages_counts(card->pages)->paged_in : 0,
        .page_errors = card->lost_pages,
        .blocks_repeated = n->blocks_repeated,
        .waiting_packets = length_of(card->pending),
        .waiting_runs = live_hpu_waiting(card),
        .lent_packets = length_of(card->lent),
        .packets_in_memory = nic_pool_used(card->pool)};
    live_seen_show(&card->seen, now_ns);
    if (card->record)
        live_record_flush(card->record);
}

/* A thread that is cancelled ends where it calls the system. In the card it would leave the lock
 * taken and what it was doing half done; so no call of Portals is such a place. It takes 10 ns to
 * say so, which main, that hardly anybody cancels, does without but where it sleeps. */
static _Thread_local bool is_never_cancelled __attribute__((tls_model("initial-exec")));
static _Thread_local int cancel_state __attribute__((tls_model("initial-exec")));

void live_card_never_cancelled(void) {
    is_never_cancelled = true;
}

static void begin_uncancelled(void) {
    if (!is_never_cancelled)
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
}

static void end_uncancelled(void) {
    if (!is_never_cancelled)
        pthread_setcancelstate(cancel_state, NULL);
}

static void card_lock(void *context) {
    struct live_card *card = context;
    begin_uncancelled();
    live_lock_take(&card->lock);
    live_called(card, 1);
    card->rested = false;
    card->process.flooded = false; /* what a peer or a handler had done since the last call */
}

/* What a call has made is sent first; then it looks what has come. Who waited has done both. */
static void card_unlock(void *context) {
    struct live_card *card = context;
    if (!card->rested) {
        live_work(card);
        if (live_ready(card)) {
            card->transport->calls->poll(card->transport);
            live_work(card);
        }
    }
    live_tell(card);
    if (card->unwatched)
        live_watch(card);
    live_lock_give(&card->lock);
    end_uncancelled();
}

/* Something has come, of packets or of pages; any thread may ask. */
static bool has_something(const struct live_card *card) {
    return card->transport->calls->ready(card->transport) || live_paged(card);
}

static void card_look(void *context) {
    struct live_card *card = context;
    live_called(card, LIVE_LOOK);
    begin_uncancelled();
    if (!has_something(card) || !live_lock_try(&card->lock)) {
        end_uncancelled();
        return;
    }
    card->rested = false;
    card_unlock(card);
}

static uint64_t card_now(void *context) {
    (void)context;
    return live_now_ns();
}

static void card_wait(void *context, uint64_t until_ns) {
    live_wait(context, until_ns);
}

/* It drives the card meanwhile, so that two who flood each other both go on. */
static void card_calm(void *context) {
    struct live_card *card = context;
    const struct nic_address peer = card->flooded;
    while (nic_is_full(card->nic, peer))
        live_wait(card, UINT64_MAX);
}

void live_card_poll(struct live_card *card) {
    begin_uncancelled();
    bool some = has_something(card);
    end_uncancelled();
    if (!some)
        return;
    card_lock(card);
    card_unlock(card);
}

void live_card_flush(struct live_card *card) {
    if (card->record)
        live_record_flush(card->record);
}

void live_card_leave(struct live_card *card, uint64_t within_ns) {
    uint64_t until_ns = live_now_ns() + within_ns;
    card_lock(card);
    while ((card->pending || card->lent || !nic_settled(card->nic)) && live_now_ns() < until_ns) {
        card->transport->calls->check(card->transport, live_now_ns());
        nic_hurry(card->nic);
        card_unlock(card);
        usleep(50);
        card_lock(card);
    }
    nic_hurry(card->nic); /* peers do not wait for receipts of who has gone */
    live_work(card);
    card->transport->calls->leave(card->transport);
    live_seen_leave(&card->seen);
    card_unlock(card);
    if (card->record)
        live_record_close(card->record);
}

/* ---- making one ---- */

static int make_transport(struct live_card *card, struct spin_error *err) {
    const struct live_card_options *o = &card->options;
    const struct live_receiver receiver = live_receiver(card);
    const struct live_udp_options udp = {.key = o->folder->key,
                                         .interface = o->of_udp.interface,
                                         .faults = o->of_udp.faults,
                                         .port = o->of_udp.port,
                                         .auth = o->of_udp.auth,
                                         .buffer_bytes = o->of_udp.buffer_bytes,
                                         .pid = o->pid,
                                         .pool = card->pool,
                                         .guarded = &card->guarded,
                                         .mtu_bytes = LIVE_MTU_BYTES,
                                         .receiver = receiver};
    const struct live_shm_options shm = {.folder = o->folder,
                                         .nid = o->nid,
                                         .pid = o->pid,
                                         .pool = card->pool,
                                         .mtu_bytes = LIVE_MTU_BYTES,
                                         .guarded = &card->guarded,
                                         .untouched = o->paging || card->limit,
                                         .crowded = o->crowded,
                                         .receiver = receiver};
    struct live_fabric_options fabric = {.provider = o->provider,
                                         .interface = o->of_udp.interface,
                                         .nid = o->nid,
                                         .pid = o->pid,
                                         .pool = card->pool,
                                         .mtu_bytes = LIVE_MTU_BYTES,
                                         .guarded = &card->guarded,
                                         .receiver = receiver};
    live_book_open(&fabric.book, o->folder, o->pmix);
    /* Between nodes only PMIx can tell the addresses of libfabric. */
    const struct live_far far = {&udp, o->provider && o->pmix ? &fabric : NULL};
    switch (o->transport) {
    case LIVE_FABRIC:
        return live_fabric_new(&card->transport, &fabric, err);
    case LIVE_UDP:
        return live_udp_new(&card->transport, &udp, err);
    case LIVE_AUTO:
        return live_auto_new(&card->transport, &shm, &far, err);
    default:
        return live_shm_new(&card->transport, &shm, err);
    }
}

/* Higher in each life of a process: the time. It goes round once in half a year. */
static uint32_t first_stream(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint32_t)((uint64_t)now.tv_sec << 8 | (uint64_t)(now.tv_nsec >> 22)) | 1;
}

static int make_parts(struct live_card *card, struct spin_error *err) {
    const struct live_card_options *o = &card->options;
    struct portals_config portals;
    struct spin_limits limits;
    int code = nic_pool_new(&card->pool, LIVE_MTU_BYTES, err);
    if (code)
        return code;
    card->guarded = guarded_way();
    if (card->guarded == GUARDED_BY_SYSTEM && !o->paging)
        card->guarded = GUARDED_NOT; /* too slow for memory that is expected to be there */
    card->limit = live_limit_new();
    code = make_transport(card, err);
    if (code)
        return code;
    if (o->paging && !(card->pages = live_pages_new(on_paged, card, &card->guarded, card->limit)))
        return spin_fail(err, SPIN_ENOMEM, "out of memory");
    uint32_t mtu_bytes = o->mtu_bytes                  ? o->mtu_bytes
                         : o->transport == LIVE_UDP    ? live_udp_mtu(card->transport)
                         : o->transport == LIVE_FABRIC ? live_fabric_mtu(card->transport)
                                                       : LIVE_MTU_BYTES;
    card->mtu_bytes = mtu_bytes;
    portals_config_default(&portals, mtu_bytes);
    spin_limits_default(&limits);
    limits.with_float = true;
    portals.image_limits = &limits;
    portals.uid = (uint32_t)getuid();
    portals.cells = &card->cells;
    portals.images = card->images = image_store_new();
    if (!card->images)
        return spin_fail(err, SPIN_ENOMEM, "out of memory");
    portals.features |= PTL_COHERENT_ATOMICS; /* memory is the process's own */
    card->driver = live_driver(card);
    const struct nic_config config = {.driver = &card->driver,
                                      .context = card,
                                      .gather_bytes = mtu_bytes,
                                      .address = card->transport->calls->address(card->transport),
                                      .pool = card->pool,
                                      .mtu_bytes = mtu_bytes,
                                      .own_packets = true,
                                      .retry_time = FIRST_RETRY_NS,
                                      .least_retry_time = LEAST_RETRY_NS,
                                      .most_retry_time = MOST_RETRY_NS,
                                      .receipt_time = RECEIPT_NS,
                                      .credit_packets = card->transport->credit_packets,
                                      .retries = o->of_udp.retries ? o->of_udp.retries : RETRIES,
                                      .silent_retries = o->of_udp.retries ? o->of_udp.silent_retries
                                                                          : SILENT_RETRIES,
                                      .window_packets = WINDOW_PACKETS,
                                      .stream = first_stream(),
                                      .peer_requests = PEER_REQUESTS,
                                      .send_packets = UINT32_MAX,
                                      .turn_packets = 16,
                                      .contexts = 4096,
                                      .handler_packets = 256,
                                      .handler_messages = 1024,
                                      .block_bytes = o->paging ? BLOCK_PACKETS * mtu_bytes : 0,
                                      .blocks_outstanding = BLOCKS_OUTSTANDING,
                                      .unblocked_bytes = UNBLOCKED_BYTES,
                                      .err_policy = NIC_ERR_PER_BLOCK,
                                      .portals = &portals};
    return nic_new(&card->nic, &config, err);
}

static int open_record(struct live_card *card, struct spin_error *err) {
    const struct live_card_options *o = &card->options;
    const struct live_record_options record = {
        .pcap = o->pcap,
        .trace = o->trace,
        .rank = o->ranks ? o->rank : card->transport->calls->address(card->transport).pid,
        .ranks = o->ranks,
        .port = o->of_udp.port,
        .mtu_bytes = LIVE_MTU_BYTES,
        .start_ns = o->start_ns ? o->start_ns : live_now_ns()};
    return live_record_open(&card->record, &record, err);
}

const char *const live_transport_names[] = {[LIVE_SHM] = "shm",
                                            [LIVE_UDP] = "udp",
                                            [LIVE_AUTO] = "auto",
                                            [LIVE_FABRIC] = "fabric",
                                            [LIVE_TRANSPORTS] = NULL};

static void open_seen(struct live_card *card) {
    struct spin_live_card seen = {.rank = card->options.rank, .ranks = card->options.ranks};
    snprintf(seen.program, sizeof seen.program, "%s", program_invocation_short_name);
    snprintf(seen.transport, sizeof seen.transport, "%s",
             live_transport_names[card->options.transport]);
    live_seen_open(&card->seen, card->options.folder, &seen);
    live_show(card, live_now_ns());
}

int live_card_new(struct live_card **out, const struct live_card_options *options,
                  struct spin_error *err) {
    struct live_card *card = calloc(1, sizeof *card);
    if (!card)
        return spin_fail(err, SPIN_ENOMEM, "out of memory");
    card->options = *options;
    card->pending_end = &card->pending;
    card->lent_end = &card->lent;
    live_hpu_init(card);
    int code = make_parts(card, err);
    if (!code)
        code = open_record(card, err);
    if (!code) {
        card->plain = !card->record;
        card->host = (struct portals_host){.now = card_now,
                                           .per_millisecond = LIVE_MS,
                                           .wait = card_wait,
                                           .image = live_hpu_prepare,
                                           .look = card_look,
                                           .cells = &card->cells,
                                           .calm = card_calm,
                                           .lock = card_lock,
                                           .unlock = card_unlock};
        card->process = (struct portals_process){
            .portals = nic_portals(card->nic), .context = card, .host = &card->host};
        open_seen(card);
        live_spares_make(card);
        code = options->hpus ? live_workers_start(card, options->hpus, err) : 0;
        if (!code && options->progress)
            code = live_progress_start(card, err);
    }
    if (code)
        live_card_free(card);
    else
        *out = card;
    return code;
}

void live_card_free(struct live_card *card) {
    if (!card)
        return;
    live_progress_stop(card);
    live_workers_stop(card);
    live_pages_free(card->pages);
    card->pages = NULL;
    live_limit_free(card->limit);
    live_pending_clear(card);
    nic_free(card->nic);
    live_hpu_clear(card);
    image_store_free(card->images);
    if (card->transport)
        card->transport->calls->close(card->transport);
    nic_pool_free(card->pool);
    live_seen_close(&card->seen);
    live_record_free(card->record);
    free(card);
}

struct portals_process *live_card_process(struct live_card *card) {
    return &card->process;
}

struct nic *live_card_nic(struct live_card *card) {
    return card->nic;
}

uint64_t live_card_strangers(struct live_card *card) {
    live_lock_take(&card->lock);
    uint64_t count = card->transport->strangers;
    live_lock_give(&card->lock);
    return count;
}

uint64_t live_card_malformed(struct live_card *card) {
    live_lock_take(&card->lock);
    uint64_t count = card->transport->malformed + nic_counts(card->nic)->malformed;
    live_lock_give(&card->lock);
    return count;
}
