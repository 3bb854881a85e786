#include "raid_inside.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "raid_layout.h"

enum { DATA = 4, UNIT = 64 << 10, EVENTS = 4096 };

/* Pieces that all clients have under way at a server of parity, and one client at most: a card has
 * room for so many messages. */
enum { UNDER_WAY = 512, WINDOW = 128 };

/* What a processor takes, in worlds: a load, an xor and a store per 8 bytes. */
enum { XOR_BYTES = 8, LOOK_CYCLES = 64 };

static bool is_server(const struct spin_raid *r) {
    return r->rank <= r->data;
}

void *spin_raid_memory(struct spin_raid *r) {
    return r->memory;
}

void spin_raid_avoid(struct spin_raid *r, uint32_t server) {
    r->avoided = server;
}

void raid_xor_into(void *to, const void *from, uint64_t bytes) {
    uint64_t *a = to;
    const uint64_t *b = from;
    for (uint64_t i = 0; i < bytes / 8; i++)
        a[i] ^= b[i];
    spin_work(bytes / XOR_BYTES, 3 * bytes);
}

int raid_wait_for(ptl_handle_ct_t ct, uint64_t n) {
    ptl_ct_event_t event;
    int code = PtlCTWait(ct, n, &event);
    while (code == PTL_OK && event.success + event.failure < n) {
        sched_yield();
        code = PtlCTGet(ct, &event);
    }
    return code != PTL_OK ? code : event.failure ? PTL_FAIL : PTL_OK;
}

/* ---- The processor of a server, if it does the cards' work ---- */

static int send_on(struct spin_raid *r, const void *what, uint64_t bytes, uint32_t to,
                   ptl_match_bits_t bits) {
    int code = PtlPut(r->md, (ptl_size_t)(uintptr_t)what, bytes, PTL_NO_ACK_REQ,
                      (ptl_process_t){.rank = to}, r->pt, bits, 0, NULL, 0);
    r->sends += code == PTL_OK;
    return code == PTL_OK ? raid_wait_for(r->sent, r->sends) : code;
}

static int tell_client(struct spin_raid *r, const struct raid_head *h) {
    return send_on(r, &h->write, sizeof h->write, h->client, RAID_DONE_BITS(h->write));
}

static int work(struct spin_raid *r, struct raid_head *h, const ptl_event_t *event) {
    uint64_t length = event->mlength, bytes = length - sizeof *h;
    spin_work(LOOK_CYCLES, sizeof *h);
    if (event->match_bits == RAID_STORED)
        return length == sizeof *h ? tell_client(r, h) : PTL_OK;
    if (!raid_is_piece(h, length, bytes, r->server_bytes))
        return PTL_OK;
    uint64_t *data = (uint64_t *)(h + 1), *mine = (uint64_t *)(void *)(r->memory + h->offset);
    bool alone =
        event->match_bits == RAID_PARITY ? h->server == RAID_NOBODY : h->parity == RAID_NOBODY;
    uint32_t other = event->match_bits == RAID_PARITY ? h->server : h->parity;
    if (!alone && (other > r->data || other == r->rank))
        return PTL_OK;
    if (event->match_bits == RAID_PARITY) {
        raid_xor_into(mine, data, bytes);
        return alone ? tell_client(r, h) : send_on(r, h, sizeof *h, other, RAID_STORED);
    }
    if (alone) {
        spin_copy(mine, data, bytes);
        return tell_client(r, h);
    }
    for (uint64_t i = 0; i < bytes / 8; i++) { /* the message becomes what changed */
        uint64_t new = data[i];
        data[i] ^= mine[i];
        mine[i] = new;
    }
    spin_work(bytes / XOR_BYTES, 4 * bytes);
    h->server = r->rank;
    return send_on(r, h, length, other, RAID_PARITY);
}

static int open_queue(struct spin_raid *r, int i) {
    const struct spin_entry entry = {
        .start = r->queue[i],
        .length = RAID_QUEUE_BYTES,
        .min_free = RAID_QUEUE_BYTES / 2,
        .bits = 0,
        .ignore = 3, /* RAID_WRITE, RAID_PARITY and RAID_STORED */
        .options = PTL_ME_OP_PUT | PTL_ME_MANAGE_LOCAL | PTL_ME_NO_TRUNCATE,
        .user_ptr = &r->queue[i],
    };
    return spin_entry_append(r->ni, r->pt, &entry, &r->queue_entry[i]);
}

int spin_raid_work(struct spin_raid *r, ptl_time_t timeout_ms) {
    ptl_event_t event;
    unsigned int which;
    int code = PtlEQPoll(&r->eq, 1, timeout_ms, &event, &which);
    while (code == PTL_OK) {
        if (event.type == PTL_EVENT_AUTO_UNLINK) {
            int i = (int)((uint8_t **)event.user_ptr - r->queue);
            r->queue_entry[i] = (struct spin_linked){0};
            code = open_queue(r, i);
        } else if (event.type == PTL_EVENT_PUT && event.mlength >= sizeof(struct raid_head)) {
            code = work(r, event.start, &event);
        }
        if (code == PTL_OK)
            code = PtlEQGet(r->eq, &event);
    }
    return code == PTL_EQ_EMPTY ? PTL_OK : code;
}

/* ---- Opening ---- */

static int open_card(struct spin_raid *r) {
    static const char *const handlers[] = {
        "raid_write_payload_handler", "raid_parity_payload_handler", "raid_stored_payload_handler"};
    struct raid_state state = {
        .rank = r->rank, .servers = r->data + 1, .server_bytes = (uint32_t)r->server_bytes};
    int code = spin_handlers_load(r->ni, "raid_handler", &r->image);
    for (int i = 0; i < 3 && code == PTL_OK; i++) {
        if (!r->rotates && (r->rank == r->data) != (i == 1))
            continue; /* of the two that are not this server's */
        const struct spin_entry entry = {
            .start = r->memory,
            .length = r->server_bytes + RAID_MOST + sizeof(struct raid_head), /* as it has */
            .bits = (ptl_match_bits_t)(RAID_WRITE + i),
            .options = PTL_ME_OP_PUT | PTL_ME_EVENT_COMM_DISABLE,
            .image = r->image,
            .payload = handlers[i],
            .state = &state,
            .state_bytes = sizeof state,
        };
        code = spin_entry_append(r->ni, r->pt, &entry, &r->entry[i]);
    }
    return code;
}

static int open_server(struct spin_raid *r) {
    /* an entry that is shorter than a message would have it cut off */
    uint64_t room = r->server_bytes + RAID_MOST + sizeof(struct raid_head);
    r->memory = calloc(1, room);
    r->stripe_lock = calloc(RAID_STRIPE_LOCKS, sizeof *r->stripe_lock);
    if (!r->memory || !r->stripe_lock)
        return PTL_NO_SPACE;
    const struct spin_entry reads = {
        .start = r->memory,
        .length = r->server_bytes,
        .bits = RAID_READ,
        .options = PTL_ME_OP_GET | PTL_ME_NO_TRUNCATE | PTL_ME_EVENT_COMM_DISABLE,
    };
    const struct spin_entry locks = {
        .start = r->stripe_lock,
        .length = RAID_STRIPE_LOCKS * sizeof *r->stripe_lock,
        .bits = RAID_LOCK,
        .options = PTL_ME_OP_PUT | PTL_ME_OP_GET | PTL_ME_NO_TRUNCATE | PTL_ME_EVENT_COMM_DISABLE,
    };
    int code = spin_entry_append(r->ni, r->pt, &reads, &r->read_entry);
    if (code == PTL_OK)
        code = spin_entry_append(r->ni, r->pt, &locks, &r->lock_entry);
    if (code != PTL_OK || !r->by_host)
        return code == PTL_OK ? open_card(r) : code;
    for (int i = 0; i < RAID_QUEUES && code == PTL_OK; i++) {
        r->queue[i] = malloc(RAID_QUEUE_BYTES);
        code = r->queue[i] ? open_queue(r, i) : PTL_NO_SPACE;
    }
    return code;
}

static int bind_all(struct spin_raid *r, ptl_handle_ct_t *ct, unsigned int options,
                    ptl_handle_md_t *md) {
    ptl_md_t memory = {.length = PTL_SIZE_MAX, .options = options, .eq_handle = PTL_EQ_NONE};
    int code = PtlCTAlloc(r->ni, ct);
    memory.ct_handle = *ct;
    return code == PTL_OK ? PtlMDBind(r->ni, &memory, md) : code;
}

static int open_client(struct spin_raid *r) {
    int code = bind_all(r, &r->answered, PTL_MD_EVENT_CT_ACK, &r->ask_md);
    if (code == PTL_OK)
        code = bind_all(r, &r->here, PTL_MD_EVENT_CT_REPLY, &r->get_md);
    if (code == PTL_OK)
        code = bind_all(r, &r->sent, PTL_MD_EVENT_CT_SEND, &r->md);
    return code == PTL_OK ? PtlCTAlloc(r->ni, &r->done) : code;
}

/* By cards a message is a packet. */
static int choose_chunk(struct spin_raid *r) {
    ptl_hpu_limits_t limits;
    int code = PtlHPULimits(r->ni, &limits);
    if (code != PTL_OK)
        return code;
    uint32_t clients = spin_ranks() - r->data - 1;
    r->window = clients * WINDOW <= UNDER_WAY ? WINDOW : UNDER_WAY / clients + 2;
    if (r->by_host) {
        r->chunk_bytes = RAID_QUEUE_BYTES / 4;
        return PTL_OK;
    }
    r->chunk_bytes = RAID_MOST;
    while (r->chunk_bytes + sizeof(struct raid_head) > limits.max_payload_size)
        r->chunk_bytes /= 2;
    return r->chunk_bytes < 64 ? PTL_NO_SPACE : PTL_OK;
}

int spin_raid_open(ptl_handle_ni_t ni, const struct spin_raid_options *o, struct spin_raid **out) {
    struct spin_raid *r = calloc(1, sizeof *r);
    *out = NULL;
    if (!r)
        return PTL_NO_SPACE;
    *r = (struct spin_raid){
        .ni = ni,
        .eq = PTL_EQ_NONE,
        .rank = spin_rank(),
        .data = o->data ? o->data : DATA,
        .unit = o->unit ? o->unit : UNIT,
        .avoided = SPIN_RAID_ALL,
        .server_bytes = o->server_bytes,
        .by_host = o->by_host,
        .rotates = o->rotate,
    };
    int code = r->data >= spin_ranks() || r->unit % 64 || !r->server_bytes ||
                       r->server_bytes % r->unit || r->server_bytes >= 1ull << 31
                   ? PTL_ARG_INVALID
                   : choose_chunk(r);
    if (code == PTL_OK && r->by_host)
        code = PtlEQAlloc(ni, EVENTS, &r->eq);
    if (code == PTL_OK)
        code = PtlPTAlloc(ni, 0, r->eq, PTL_PT_ANY, &r->pt);
    if (code == PTL_OK)
        code = open_client(r);
    if (code == PTL_OK && is_server(r))
        code = open_server(r);
    if (code == PTL_OK)
        *out = r;
    else
        spin_raid_close(r);
    return code;
}

void spin_raid_close(struct spin_raid *r) {
    if (!r)
        return;
    for (int i = 0; i < 3; i++)
        spin_entry_remove(&r->entry[i]);
    spin_entry_remove(&r->read_entry);
    spin_entry_remove(&r->lock_entry);
    for (int i = 0; i < RAID_QUEUES; i++) {
        spin_entry_remove(&r->queue_entry[i]);
        free(r->queue[i]);
    }
    const ptl_handle_md_t mds[] = {r->md, r->ask_md, r->get_md};
    for (int i = 0; i < 3; i++)
        while (mds[i] && PtlMDRelease(mds[i]) == PTL_IN_USE)
            ;
    const ptl_handle_ct_t counters[] = {r->done, r->answered, r->here, r->sent};
    for (int i = 0; i < 4; i++)
        if (counters[i])
            PtlCTFree(counters[i]);
    PtlPTFree(r->ni, r->pt);
    if (r->eq != PTL_EQ_NONE)
        PtlEQFree(r->eq);
    if (r->image)
        PtlImageUnload(r->image);
    free(r->memory);
    free(r->stripe_lock);
    free(r);
}
