/* Transactions: a client's reads, writes and commits. */
#include <stdlib.h>
#include <string.h>

#include "tx_private.h"

enum { RECORD_BYTES = 64, MOST_RECORD = 1024, PACKET_MOST = 4096 };

/* ---- Events ---- */

static void take_reply(struct spin_tx *tx, const ptl_event_t *e) {
    struct tx_peer *p = &tx->peer[e->initiator.rank % tx->owners];
    if (p->state != TX_ASKED || e->hdr_data >> 1 != tx->serial)
        return;
    p->state = e->hdr_data & 1 ? TX_YES : TX_NO;
    tx->asked--;
}

/* A request is known by its peer, a read by the record that it fills. */
static void take_end(struct spin_tx *tx, const ptl_event_t *e) {
    bool bad = e->ni_fail_type != PTL_NI_OK;
    if (e->user_ptr == tx->got) {
        tx->has_got = true;
        tx->failed = bad;
    } else if (bad && ((struct tx_peer *)e->user_ptr)->state == TX_ASKED) {
        ((struct tx_peer *)e->user_ptr)->state = TX_LOST;
        tx->asked--;
    }
}

static int take_event(struct spin_tx *tx, const ptl_event_t *e) {
    if (e->type == PTL_EVENT_ACK || e->type == PTL_EVENT_REPLY)
        take_end(tx, e);
    else if (e->type == PTL_EVENT_AUTO_UNLINK)
        return tx_owner_reopen(tx, e->user_ptr);
    else if (e->type == PTL_EVENT_PUT && e->user_ptr == tx)
        take_reply(tx, e);
    else if (e->type == PTL_EVENT_PUT && e->ni_fail_type == PTL_NI_OK)
        return tx_owner_work(tx, e->start, e->mlength);
    return PTL_OK;
}

int spin_tx_work(struct spin_tx *tx, ptl_time_t timeout_ms) {
    ptl_event_t event;
    unsigned int which;
    int code = PtlEQPoll(&tx->eq, 1, timeout_ms, &event, &which);
    while (code == PTL_OK && (code = take_event(tx, &event)) == PTL_OK)
        code = PtlEQGet(tx->eq, &event);
    return code == PTL_EQ_EMPTY ? PTL_OK : code;
}

static int wait_event(struct spin_tx *tx) {
    ptl_event_t event;
    int code = PtlEQWait(tx->eq, &event);
    return code == PTL_OK ? take_event(tx, &event) : code;
}

/* ---- The transaction ---- */

int spin_tx_begin(struct spin_tx *tx) {
    for (uint32_t i = 0; i < tx->touched_count; i++) {
        struct tx_peer *p = &tx->peer[tx->touched[i]];
        p->state = TX_IDLE;
        p->reads = p->writes = 0;
    }
    tx->touched_count = tx->read_count = tx->write_count = 0;
    tx->serial = (tx->serial + 1) & TX_SERIAL_MASK;
    return PTL_OK;
}

static struct tx_peer *touch(struct spin_tx *tx, uint32_t owner) {
    struct tx_peer *p = &tx->peer[owner];
    if (!p->reads && !p->writes)
        tx->touched[tx->touched_count++] = owner;
    return p;
}

static struct tx_write *find_write(const struct spin_tx *tx, uint32_t record) {
    for (uint32_t i = 0; i < tx->write_count; i++)
        if (tx->write[i].record == record)
            return &tx->write[i];
    return NULL;
}

int spin_tx_read(struct spin_tx *tx, uint32_t record, void *data) {
    if (record >= tx->records)
        return PTL_ARG_INVALID;
    const struct tx_write *own = find_write(tx, record);
    if (own) {
        memcpy(data, own->data, tx->record_bytes);
        return PTL_OK;
    }
    uint32_t owner = record % tx->owners, number = record / tx->owners;
    uint32_t head = tx->by_host ? TX_HEAD : 0, stride = tx->record_bytes + head;
    if (tx->peer[owner].reads == TX_LOG)
        return PTL_NO_SPACE;
    touch(tx, owner)->reads++;
    tx->has_got = false;
    int code =
        PtlGet(tx->md, (ptl_size_t)(uintptr_t)tx->got, stride, (ptl_process_t){.rank = owner},
               tx->pt, TX_READ_BITS(tx->serial), (uint64_t)number * stride, tx->got);
    while (code == PTL_OK && !tx->has_got)
        code = wait_event(tx);
    if (code != PTL_OK || tx->failed)
        return code != PTL_OK ? code : PTL_FAIL;
    memcpy(data, tx->got + head, tx->record_bytes);
    if (tx->by_host) {
        tx->read[tx->read_count] = (struct tx_access){.record = record};
        memcpy(&tx->read[tx->read_count++].version, tx->got, 4);
    }
    return PTL_OK;
}

static int make_room(struct spin_tx *tx) {
    if (tx->write_count < tx->write_room)
        return PTL_OK;
    uint32_t room = tx->write_room ? 2 * tx->write_room : 16;
    struct tx_write *writes = realloc(tx->write, room * sizeof *writes);
    if (!writes)
        return PTL_NO_SPACE;
    tx->write = writes;
    for (; tx->write_room < room; tx->write_room++) {
        writes[tx->write_room].data = malloc(tx->record_bytes);
        if (!writes[tx->write_room].data)
            return tx->write_count < tx->write_room ? PTL_OK : PTL_NO_SPACE;
    }
    return PTL_OK;
}

int spin_tx_write(struct spin_tx *tx, uint32_t record, const void *data) {
    if (record >= tx->records)
        return PTL_ARG_INVALID;
    struct tx_write *w = find_write(tx, record);
    if (!w) {
        struct tx_peer *p = &tx->peer[record % tx->owners];
        int code = p->writes == tx->most_writes ? PTL_NO_SPACE : make_room(tx);
        if (code != PTL_OK)
            return code;
        touch(tx, record % tx->owners)->writes++;
        w = &tx->write[tx->write_count++];
        w->record = record;
    }
    memcpy(w->data, data, tx->record_bytes);
    return PTL_OK;
}

/* ---- Commit ---- */

static uint32_t make_request(struct spin_tx *tx, uint32_t owner, enum tx_kind kind) {
    struct tx_peer *p = &tx->peer[owner];
    struct tx_request *q = p->request;
    uint32_t *record = q->record;
    *q = (struct tx_request){kind, tx->rank, tx->serial, p->reads, p->writes};
    for (uint32_t i = 0; i < tx->write_count; i++)
        if (tx->write[i].record % tx->owners == owner)
            *record++ = tx->write[i].record / tx->owners;
    struct tx_access *read = (struct tx_access *)record;
    for (uint32_t i = 0; i < tx->read_count; i++)
        if (tx->read[i].record % tx->owners == owner)
            *read++ = (struct tx_access){tx->read[i].record / tx->owners, tx->read[i].version};
    uint8_t *data = (uint8_t *)read;
    for (uint32_t i = 0; i < tx->write_count && (kind == TX_INSTALL || kind == TX_WHOLE); i++)
        if (tx->write[i].record % tx->owners == owner) {
            memcpy(data, tx->write[i].data, tx->record_bytes);
            data += tx->record_bytes;
        }
    return (uint32_t)(data - (uint8_t *)q);
}

/* The same to all owners that are in this state, and their answers. */
static int ask(struct spin_tx *tx, enum tx_peer_state which, enum tx_kind kind) {
    int code = PTL_OK;
    tx->asked = 0;
    for (uint32_t i = 0; code == PTL_OK && i < tx->touched_count; i++) {
        uint32_t owner = tx->touched[i];
        struct tx_peer *p = &tx->peer[owner];
        if (p->state != which)
            continue;
        uint32_t bytes = make_request(tx, owner, kind);
        code = PtlPut(tx->md, (ptl_size_t)(uintptr_t)p->request, bytes, PTL_ACK_REQ,
                      (ptl_process_t){.rank = owner}, tx->pt, tx->by_host ? TX_WORK : TX_REQUEST, 0,
                      p, 0);
        if (code == PTL_OK) {
            p->state = TX_ASKED;
            tx->asked++;
        }
    }
    while (code == PTL_OK && tx->asked)
        code = wait_event(tx);
    return code;
}

static uint32_t count_state(const struct spin_tx *tx, enum tx_peer_state state) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < tx->touched_count; i++)
        count += tx->peer[tx->touched[i]].state == state;
    return count;
}

int spin_tx_commit(struct spin_tx *tx, bool *committed) {
    bool one = tx->touched_count == 1;
    *committed = false;
    int code = ask(tx, TX_IDLE, one ? TX_WHOLE : TX_PREPARE);
    bool yes = code == PTL_OK && count_state(tx, TX_YES) == tx->touched_count;
    bool lost = count_state(tx, TX_LOST) > 0;
    if (code == PTL_OK && !one)
        code = ask(tx, TX_YES, yes ? TX_INSTALL : TX_ABORT);
    lost |= count_state(tx, TX_LOST) > 0;
    *committed = yes;
    spin_tx_begin(tx); /* what was done is over */
    return code == PTL_OK && lost ? PTL_FAIL : code;
}

/* ---- Opening ---- */

static int open_client(struct spin_tx *tx) {
    const ptl_md_t md = {.length = PTL_SIZE_MAX,
                         .options = PTL_MD_EVENT_SEND_DISABLE,
                         .eq_handle = tx->eq,
                         .ct_handle = PTL_CT_NONE};
    const struct spin_entry entry = {
        .start = tx->got, .bits = TX_REPLY, .options = PTL_ME_OP_PUT, .user_ptr = tx};
    int code = PtlMDBind(tx->ni, &md, &tx->md);
    return code == PTL_OK ? spin_entry_append(tx->ni, tx->pt, &entry, &tx->reply_entry) : code;
}

static int make_memory(struct spin_tx *tx) {
    ptl_hpu_limits_t limits;
    int code = PtlHPULimits(tx->ni, &limits);
    if (code != PTL_OK)
        return code;
    uint32_t packet = limits.max_payload_size && limits.max_payload_size < PACKET_MOST
                          ? (uint32_t)limits.max_payload_size
                          : PACKET_MOST;
    tx->most_writes = (packet - (uint32_t)sizeof(struct tx_request)) / (4 + tx->record_bytes);
    tx->most_request = packet + TX_LOG * (uint32_t)sizeof(struct tx_access);
    tx->peer = calloc(tx->owners, sizeof *tx->peer);
    tx->touched = calloc(tx->owners, sizeof *tx->touched);
    tx->read = calloc((uint64_t)tx->owners * TX_LOG, sizeof *tx->read);
    tx->got = malloc(TX_HEAD + tx->record_bytes);
    if (!tx->peer || !tx->touched || !tx->read || !tx->got)
        return PTL_NO_SPACE;
    for (uint32_t i = 0; i < tx->owners; i++) {
        tx->peer[i].request = malloc(tx->most_request);
        if (!tx->peer[i].request)
            return PTL_NO_SPACE;
    }
    return tx->most_writes ? PTL_OK : PTL_ARG_INVALID;
}

static uint64_t most_events(const struct spin_tx *tx) {
    return 64 + 4ull * tx->owners + (tx->by_host ? 4ull * spin_ranks() : 0);
}

int spin_tx_open(ptl_handle_ni_t ni, const struct spin_tx_options *o, struct spin_tx **out) {
    struct spin_tx *tx = calloc(1, sizeof *tx);
    *out = NULL;
    if (!tx)
        return PTL_NO_SPACE;
    *tx = (struct spin_tx){
        .ni = ni,
        .eq = PTL_EQ_NONE,
        .md = PTL_INVALID_HANDLE,
        .rank = spin_rank(),
        .owners = o->owners ? o->owners : spin_ranks(),
        .records = o->records,
        .record_bytes = o->record_bytes ? o->record_bytes : RECORD_BYTES,
        .by_host = o->by_host,
        .planted_bug = o->planted_bug,
    };
    uint32_t bytes = tx->record_bytes;
    tx->record_shift = (uint32_t)__builtin_ctz(bytes);
    int code = tx->owners > spin_ranks() || bytes & (bytes - 1) || bytes < 4 || bytes > MOST_RECORD
                   ? PTL_ARG_INVALID
                   : make_memory(tx);
    if (code == PTL_OK)
        code = PtlEQAlloc(ni, most_events(tx), &tx->eq);
    if (code == PTL_OK)
        code = PtlPTAlloc(ni, 0, tx->eq, PTL_PT_ANY, &tx->pt);
    if (code == PTL_OK)
        code = open_client(tx);
    if (code == PTL_OK && tx->rank < tx->owners)
        code = tx_owner_open(tx);
    if (code == PTL_OK)
        *out = tx;
    else
        spin_tx_close(tx);
    return code;
}

void spin_tx_close(struct spin_tx *tx) {
    if (!tx)
        return;
    tx_owner_close(tx);
    spin_entry_remove(&tx->reply_entry);
    while (tx->md != PTL_INVALID_HANDLE && PtlMDRelease(tx->md) == PTL_IN_USE)
        ;
    if (tx->eq != PTL_EQ_NONE) {
        PtlPTFree(tx->ni, tx->pt);
        PtlEQFree(tx->eq);
    }
    for (uint32_t i = 0; tx->peer && i < tx->owners; i++)
        free(tx->peer[i].request);
    for (uint32_t i = 0; i < tx->write_room; i++)
        free(tx->write[i].data);
    free(tx->write);
    free(tx->peer);
    free(tx->touched);
    free(tx->read);
    free(tx->got);
    free(tx);
}
