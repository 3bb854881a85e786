#include "spinlib/raid.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "raid_layout.h"

enum { DATA = 4, UNIT = 64 << 10, QUEUES = 2, EVENTS = 4096 };

/* Pieces that all clients have under way at a server of parity, and one client at most: a card has
 * room for so many messages. */
enum { UNDER_WAY = 512, WINDOW = 128 };
#define QUEUE_BYTES (8u << 20) /* of messages to a processor; there are two of them */

/* What a processor takes, in worlds: a load, an xor and a store per 8 bytes. */
enum { XOR_BYTES = 8, LOOK_CYCLES = 64 };

struct spin_raid {
    ptl_handle_ni_t ni;
    ptl_pt_index_t pt;
    ptl_handle_eq_t eq; /* of a server's processor */
    uint32_t rank, data, unit, avoided;
    uint64_t server_bytes;
    bool by_host;
    uint32_t chunk_bytes; /* of data in one message */
    uint32_t window;      /* messages of a write that are under way */
    ptl_handle_md_t md;   /* of all memory */
    /* A client. */
    ptl_handle_ct_t done, answered, here; /* pieces written, requests, replies of gets */
    ptl_handle_md_t ask_md, get_md;
    uint64_t write, done_number;
    /* A server. */
    uint8_t *memory;
    ptl_image_h image;
    struct spin_linked entry[3], read_entry, queue_entry[QUEUES];
    uint8_t *queue[QUEUES];
    ptl_handle_ct_t sent;
    uint64_t sends;
};

static bool is_server(const struct spin_raid *r) {
    return r->rank <= r->data;
}

void *spin_raid_memory(struct spin_raid *r) {
    return r->memory;
}

void spin_raid_avoid(struct spin_raid *r, uint32_t server) {
    r->avoided = server;
}

static void xor_into(void *to, const void *from, uint64_t bytes) {
    uint64_t *a = to;
    const uint64_t *b = from;
    for (uint64_t i = 0; i < bytes / 8; i++)
        a[i] ^= b[i];
    spin_work(bytes / XOR_BYTES, 3 * bytes);
}

/* Until all are over, well or not, so that nobody uses their memory any more. */
static int wait_for(ptl_handle_ct_t ct, uint64_t n) {
    ptl_ct_event_t event;
    int code = PtlCTWait(ct, n, &event);
    while (code == PTL_OK && event.success + event.failure < n) {
        sched_yield();
        code = PtlCTGet(ct, &event);
    }
    return code != PTL_OK ? code : event.failure ? PTL_FAIL : PTL_OK;
}

/* ---- Addresses ---- */

struct piece {
    uint32_t server;
    uint64_t offset, bytes; /* there */
};

/* What of [address, address + bytes) begins there and is in one stripe of one server. */
static struct piece piece_at(const struct spin_raid *r, uint64_t address, uint64_t bytes) {
    uint64_t unit = address / r->unit, in = address % r->unit, left = r->unit - in;
    return (struct piece){.server = (uint32_t)(unit % r->data),
                          .offset = unit / r->data * r->unit + in,
                          .bytes = bytes < left ? bytes : left};
}

static uint64_t chunks_of(const struct spin_raid *r, const struct piece *p) {
    return (p->offset + p->bytes - 1) / r->chunk_bytes - p->offset / r->chunk_bytes + 1;
}

/* Chunk i of a piece: cut where the server's memory has a multiple of the chunk's size. */
static struct piece chunk_at(const struct spin_raid *r, const struct piece *p, uint64_t i) {
    uint64_t first = (p->offset / r->chunk_bytes + i) * r->chunk_bytes;
    uint64_t end = first + r->chunk_bytes, last = p->offset + p->bytes;
    first = first < p->offset ? p->offset : first;
    end = end < last ? end : last;
    return (struct piece){.server = p->server, .offset = first, .bytes = end - first};
}

static bool in_range(const struct spin_raid *r, uint64_t address, uint64_t bytes) {
    uint64_t all = r->data * r->server_bytes;
    return address % 8 == 0 && bytes % 8 == 0 && address <= all && bytes <= all - address;
}

/* ---- Clients: writing ---- */

/* One message: head and data side by side in `staging`. */
static int send_chunk(struct spin_raid *r, const struct piece *p, uint8_t *staging,
                      const uint8_t *data) {
    struct raid_head head = {.offset = (uint32_t)p->offset,
                             .bytes = (uint32_t)p->bytes,
                             .client = r->rank,
                             .write = r->write};
    memcpy(staging, &head, sizeof head);
    memcpy(staging + sizeof head, data, p->bytes); /* no cost: a gather by the card does it too */
    return PtlPut(r->ask_md, (ptl_size_t)(uintptr_t)staging, sizeof head + p->bytes, PTL_CT_ACK_REQ,
                  (ptl_process_t){.rank = p->server}, r->pt, RAID_WRITE, 0, NULL, 0);
}

/* The servers tell about this write, and about no earlier one. */
static int expect_done(struct spin_raid *r, struct spin_linked *entry) {
    static const ptl_ct_event_t zero;
    r->write++;
    PtlCTSet(r->done, zero);
    PtlCTSet(r->answered, zero);
    const struct spin_entry done = {
        .start = &r->done_number,
        .length = sizeof r->done_number,
        .bits = RAID_DONE_BITS(r->write),
        .options = PTL_ME_OP_PUT | PTL_ME_EVENT_CT_COMM | PTL_ME_EVENT_COMM_DISABLE,
        .ct = r->done,
    };
    return spin_entry_append(r->ni, r->pt, &done, entry);
}

/* A card that has no place for a message drops it, and a message of a card to a card is not sent
 * again; so a client has only so many pieces under way. */
static int wait_for_window(struct spin_raid *r, ptl_size_t done) {
    const ptl_handle_ct_t counters[] = {r->done, r->answered};
    const ptl_size_t tests[] = {done, PTL_SIZE_MAX}; /* of the second: a failure */
    ptl_ct_event_t event;
    unsigned int which;
    int code = PtlCTPoll(counters, tests, 2, PTL_TIME_FOREVER, &event, &which);
    return code != PTL_OK ? code : event.failure ? PTL_FAIL : PTL_OK;
}

/* Chunk `turn` of each piece, before chunk `turn + 1` of any, and the servers of data begin at
 * different places: so all of them work at the same time, and seldom two of them on the same
 * parity. *most is how many turns there are. */
static int send_turn(struct spin_raid *r, uint64_t address, const uint8_t *data, uint64_t bytes,
                     uint64_t turn, uint64_t *most, uint8_t **staging, uint64_t *messages) {
    uint64_t half = r->window / 2; /* looked at that seldom */
    for (uint64_t at = 0; at < bytes;) {
        struct piece p = piece_at(r, address + at, bytes - at);
        uint64_t chunks = chunks_of(r, &p);
        if (turn < chunks) {
            struct piece c = chunk_at(r, &p, (turn + p.server * chunks / r->data) % chunks);
            int code = c.server == r->avoided
                           ? PTL_FAIL
                           : send_chunk(r, &c, *staging, data + at + (c.offset - p.offset));
            *messages += code == PTL_OK;
            if (code == PTL_OK && *messages % half == 0 && *messages > half)
                code = wait_for_window(r, *messages - half);
            if (code != PTL_OK)
                return code;
            *staging += sizeof(struct raid_head) + c.bytes;
        }
        *most = chunks > *most ? chunks : *most;
        at += p.bytes;
    }
    return PTL_OK;
}

int spin_raid_write(struct spin_raid *r, uint64_t address, const void *data, uint64_t bytes) {
    if (!in_range(r, address, bytes))
        return PTL_ARG_INVALID;
    uint64_t messages = 0, most = (bytes / r->unit + 2) * (r->unit / r->chunk_bytes + 2);
    uint8_t *staging = malloc(bytes + most * sizeof(struct raid_head));
    struct spin_linked entry;
    int code = staging ? expect_done(r, &entry) : PTL_NO_SPACE;
    if (code == PTL_OK) {
        uint8_t *next = staging;
        for (uint64_t turn = 0, turns = 1; turn < turns && code == PTL_OK; turn++)
            code = send_turn(r, address, data, bytes, turn, &turns, &next, &messages);
        int answered = wait_for(r->answered, messages);
        if (code == PTL_OK)
            code = answered;
        if (code == PTL_OK)
            code = wait_for(r->done, messages);
        spin_entry_remove(&entry);
    }
    free(staging);
    return code;
}

/* ---- Clients: reading ---- */

static int get(struct spin_raid *r, uint32_t server, uint64_t offset, void *to, uint64_t bytes) {
    return PtlGet(r->get_md, (ptl_size_t)(uintptr_t)to, bytes, (ptl_process_t){.rank = server},
                  r->pt, RAID_READ, offset, NULL);
}

/* The xor of [offset, offset + bytes) of all servers but one, of parity too. */
static int reconstruct(struct spin_raid *r, uint32_t without, uint64_t offset, void *to,
                       uint64_t bytes) {
    static const ptl_ct_event_t zero;
    uint8_t *parts = malloc(r->data * bytes);
    if (!parts)
        return PTL_NO_SPACE;
    int code = PTL_OK;
    uint64_t n = 0;
    PtlCTSet(r->here, zero);
    for (uint32_t server = 0; server <= r->data && code == PTL_OK; server++)
        if (server != without) {
            code = get(r, server, offset, parts + n * bytes, bytes);
            n += code == PTL_OK;
        }
    int answered = wait_for(r->here, n);
    if (code == PTL_OK)
        code = answered;
    memset(to, 0, bytes);
    for (uint64_t i = 0; i < n && code == PTL_OK; i++)
        xor_into(to, parts + i * bytes, bytes);
    free(parts);
    return code;
}

int spin_raid_read(struct spin_raid *r, uint64_t address, void *data, uint64_t bytes) {
    static const ptl_ct_event_t zero;
    if (!in_range(r, address, bytes))
        return PTL_ARG_INVALID;
    uint64_t gets = 0;
    int code = PTL_OK;
    PtlCTSet(r->here, zero);
    for (int lost = 0; lost < 2; lost++) { /* first what is there, all at once */
        for (uint64_t at = 0; at < bytes && code == PTL_OK;) {
            struct piece p = piece_at(r, address + at, bytes - at);
            void *to = (uint8_t *)data + at;
            if (!lost && p.server != r->avoided) {
                code = get(r, p.server, p.offset, to, p.bytes);
                gets += code == PTL_OK;
            } else if (lost && p.server == r->avoided) {
                code = reconstruct(r, p.server, p.offset, to, p.bytes);
            }
            at += p.bytes;
        }
        if (!lost) {
            int answered = wait_for(r->here, gets);
            if (code == PTL_OK)
                code = answered;
        }
    }
    return code;
}

int spin_raid_rebuild(struct spin_raid *r) {
    int code = is_server(r) ? PTL_OK : PTL_ARG_INVALID;
    for (uint64_t at = 0; at < r->server_bytes && code == PTL_OK; at += r->unit)
        code = reconstruct(r, r->rank, at, r->memory + at, r->unit);
    return code;
}

/* ---- The processor of a server, if it does the cards' work ---- */

static int send_on(struct spin_raid *r, const void *what, uint64_t bytes, uint32_t to,
                   ptl_match_bits_t bits) {
    int code = PtlPut(r->md, (ptl_size_t)(uintptr_t)what, bytes, PTL_NO_ACK_REQ,
                      (ptl_process_t){.rank = to}, r->pt, bits, 0, NULL, 0);
    r->sends += code == PTL_OK;
    return code == PTL_OK ? wait_for(r->sent, r->sends) : code;
}

static int work(struct spin_raid *r, struct raid_head *h, const ptl_event_t *event) {
    uint64_t length = event->mlength, bytes = length - sizeof *h;
    spin_work(LOOK_CYCLES, sizeof *h);
    if (event->match_bits == RAID_STORED)
        return length == sizeof *h
                   ? send_on(r, &h->write, sizeof h->write, h->client, RAID_DONE_BITS(h->write))
                   : PTL_OK;
    if (!raid_is_piece(h, length, bytes, r->server_bytes))
        return PTL_OK;
    uint64_t *data = (uint64_t *)(h + 1), *mine = (uint64_t *)(void *)(r->memory + h->offset);
    if (event->match_bits == RAID_PARITY) {
        xor_into(mine, data, bytes);
        return send_on(r, h, sizeof *h, h->server, RAID_STORED);
    }
    for (uint64_t i = 0; i < bytes / 8; i++) { /* the message becomes what changed */
        uint64_t new = data[i];
        data[i] ^= mine[i];
        mine[i] = new;
    }
    spin_work(bytes / XOR_BYTES, 4 * bytes);
    h->server = r->rank;
    return send_on(r, h, length, r->data, RAID_PARITY);
}

static int open_queue(struct spin_raid *r, int i) {
    const struct spin_entry entry = {
        .start = r->queue[i],
        .length = QUEUE_BYTES,
        .min_free = QUEUE_BYTES / 2,
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
        .rank = r->rank, .parity = r->data, .server_bytes = (uint32_t)r->server_bytes};
    int code = spin_handlers_load(r->ni, "raid_handler", &r->image);
    for (int i = 0; i < 3 && code == PTL_OK; i++) {
        if ((r->rank == r->data) != (i == 1))
            continue; /* of the two that are not this server's */
        const struct spin_entry entry = {
            .start = r->memory,
            .length = r->server_bytes + RAID_LOCKED + sizeof(struct raid_head), /* as it has */
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
    uint64_t room = r->server_bytes + RAID_LOCKED + sizeof(struct raid_head);
    r->memory = calloc(1, room);
    if (!r->memory)
        return PTL_NO_SPACE;
    const struct spin_entry reads = {
        .start = r->memory,
        .length = r->server_bytes,
        .bits = RAID_READ,
        .options = PTL_ME_OP_GET | PTL_ME_NO_TRUNCATE | PTL_ME_EVENT_COMM_DISABLE,
    };
    int code = spin_entry_append(r->ni, r->pt, &reads, &r->read_entry);
    if (code != PTL_OK || !r->by_host)
        return code == PTL_OK ? open_card(r) : code;
    for (int i = 0; i < QUEUES && code == PTL_OK; i++) {
        r->queue[i] = malloc(QUEUE_BYTES);
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
        r->chunk_bytes = QUEUE_BYTES / 4;
        return PTL_OK;
    }
    r->chunk_bytes = RAID_LOCKED;
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
    for (int i = 0; i < QUEUES; i++) {
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
    free(r);
}
