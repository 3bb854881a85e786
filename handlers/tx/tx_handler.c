/* Transactions on the owner's card (SC'17 section 5.4). The header handler of a read sees which
 * records it is for and logs their versions, while the card sends the data as it sends any get's.
 * The payload handler of a request evaluates the log: see tx_layout.h. */
#include "spin/handler.h"

#include "tx_layout.h"

/* The version is logged before the data is read, and an install makes a new version after its data
 * is written. So a log never has a version that is newer than the data. */
__handler int tx_read_header_handler(const ptl_header_t h, void *state) {
    struct tx_state *s = state;
    uint32_t first = h.offset >> s->record_shift;
    uint32_t last = (h.offset + h.length - 1) >> s->record_shift;
    uint32_t serial = (uint32_t)(h.match_bits >> 8) & TX_SERIAL_MASK;
    if (h.source_id >= s->clients || !h.length || last >= s->records)
        return FAIL;
    struct tx_log *log = tx_log_of(s, h.source_id);
    uint32_t before = __atomic_load_n(&log->reads, __ATOMIC_RELAXED), at, count = last - first + 1;
    do
        at = before >> 12 == serial ? before & 0xfff : 0; /* or a new transaction */
    while (at + count <= TX_LOG &&
           !__atomic_compare_exchange_n(&log->reads, &before, serial << 12 | (at + count), 0,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    if (at + count > TX_LOG)
        return FAIL;
    for (uint32_t i = first; i <= last; i++)
        log->access[at++] =
            (struct tx_access){i, __atomic_load_n(&s->record[i].version, __ATOMIC_ACQUIRE)};
    return PROCEED;
}

enum { UNDER_WAY = 4 }; /* DMA writes of an install */

/* Data first, then the versions; the locks come last. */
static void install(struct tx_state *s, const struct tx_request *q) {
    const uint8_t *data = (const uint8_t *)&q->record[q->writes];
    uint32_t bytes = 1u << s->record_shift;
    ptl_dma_h h[UNDER_WAY];
    for (uint32_t i = 0; i < q->writes + UNDER_WAY; i++) {
        if (i >= UNDER_WAY && i - UNDER_WAY < q->writes)
            PtlHandlerDMAWait(h[i % UNDER_WAY]);
        if (i < q->writes)
            PtlHandlerDMAToHostNB(data + i * bytes, q->record[i] << s->record_shift, bytes,
                                  PTL_ME_HOST_MEM, &h[i % UNDER_WAY]);
    }
    for (uint32_t i = 0; i < q->writes; i++)
        __atomic_fetch_add(&s->record[q->record[i]].version, 1, __ATOMIC_RELEASE);
}

static int is_request(const struct tx_state *s, const struct tx_request *q, uint32_t length) {
    if (length < sizeof *q || q->kind >= TX_KINDS || q->client >= s->clients ||
        q->writes > length / 4)
        return 0;
    uint32_t with_data = q->kind == TX_INSTALL || q->kind == TX_WHOLE;
    return length == sizeof *q + 4 * q->writes + with_data * (q->writes << s->record_shift);
}

static int serve(struct tx_state *s, const struct tx_request *q) {
    struct tx_log *log = tx_log_of(s, q->client);
    uint32_t logged = log->reads >> 12 == q->serial ? log->reads & 0xfff : 0;
    const struct tx_set set = {.table = s->record,
                               .records = s->records,
                               .client = q->client,
                               .write = q->record,
                               .read = log->access,
                               .writes = q->writes,
                               .reads = logged,
                               .planted_bug = s->planted_bug};
    if (q->kind == TX_PREPARE || q->kind == TX_WHOLE) {
        if (log->held || logged != q->reads || !tx_lock(&set))
            return 0;
    } else if (log->held != q->serial + 1) {
        return 0;
    }
    if (q->kind == TX_PREPARE) {
        log->held = q->serial + 1;
        return 1;
    }
    if (q->kind != TX_ABORT)
        install(s, q);
    log->held = 0;
    tx_unlock(&set, set.writes, set.reads);
    return 1;
}

__handler int tx_request_payload_handler(const ptl_payload_t p, void *state) {
    const struct tx_request *q = (const struct tx_request *)p.base;
    if (!is_request(state, q, p.length))
        return FAIL;
    uint32_t yes = (uint32_t)serve(state, q);
    PtlHandlerPutFromDevice(q, 0, PTL_NO_CT, PTL_NO_ACK_REQ, q->client, TX_REPLY, 0, NULL,
                            TX_ANSWER(q->serial, yes));
    return SUCCESS;
}
