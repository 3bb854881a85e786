/* Conditional reads (SC'17 section 5.4): the card reads the rows of a request from host memory and
 * sends those that match. One HPU works on a request; several requests of a client keep all busy.
 */
#include "spin/handler.h"

#include "scan_layout.h"

typedef struct scan_request ptl_user_header_t;

#define BUFFER 4096u /* of rows; of two one is filled while the other is looked through */

/* Rows from here on are sent from where they are, runs of neighbours together; copying shorter ones
 * to where a packet is filled takes an HPU less than a message each. */
#define LONG_ROW 128u

struct sender {
    ptl_process_t client;
    ptl_match_bits_t bits;
    uint32_t *rows; /* BUFFER of them, `used` bytes filled */
    uint32_t used, matching;
};

static void send_rows(const struct sender *s, const void *rows, uint32_t bytes) {
    PtlHandlerPutFromDevice(rows, bytes, PTL_NO_CT, PTL_NO_ACK_REQ, s->client, s->bits, 0, NULL, 0);
}

static void send_copied(struct sender *s) {
    if (s->used)
        send_rows(s, s->rows, s->used);
    s->used = 0;
}

static void copy_row(struct sender *s, const uint32_t *row, uint32_t bytes) {
    if (s->used + bytes > BUFFER)
        send_copied(s);
    uint32_t *to = s->rows + s->used / 4, words = bytes / 4;
    s->used += bytes;
    for (; words >= 4; words -= 4, to += 4, row += 4) {
        uint32_t a = row[0], b = row[1], c = row[2], d = row[3];
        to[0] = a, to[1] = b, to[2] = c, to[3] = d;
    }
    while (words--)
        *to++ = *row++;
}

#define MATCHES(row) (*(const uint32_t *)((row) + q->column) - q->low <= q->range)

static void filter_short(struct sender *s, const uint8_t *rows, uint32_t bytes,
                         const struct scan_request *q) {
    for (const uint8_t *row = rows; row < rows + bytes; row += q->row_bytes)
        if (MATCHES(row)) {
            copy_row(s, (const uint32_t *)row, q->row_bytes);
            s->matching++;
        }
}

static void filter_long(struct sender *s, const uint8_t *rows, uint32_t bytes,
                        const struct scan_request *q) {
    uint32_t run = 0; /* bytes before `row` that match */
    const uint8_t *row = rows;
    for (; row < rows + bytes; row += q->row_bytes) {
        if (MATCHES(row)) {
            s->matching++;
            run += q->row_bytes;
        } else if (run) {
            send_rows(s, row - run, run);
            run = 0;
        }
    }
    if (run)
        send_rows(s, row - run, run);
}

static void filter(struct sender *s, const uint8_t *rows, uint32_t bytes,
                   const struct scan_request *q) {
    if (q->row_bytes < LONG_ROW)
        filter_short(s, rows, bytes, q);
    else
        filter_long(s, rows, bytes, q);
}

/* While one buffer is looked through the other is filled. */
static void scan(struct sender *s, uint8_t *buffers, const struct scan_request *q) {
    uint32_t each = BUFFER / q->row_bytes * q->row_bytes;
    uint32_t at = q->offset, end = at + q->rows * q->row_bytes;
    uint32_t length = end - at < each ? end - at : each;
    ptl_dma_h coming;
    PtlHandlerDMAFromHostNB(at, buffers, length, PTL_ME_HOST_MEM, &coming);
    for (uint32_t turn = 0; length; turn ^= 1) {
        uint32_t next = at + length, more = end - next < each ? end - next : each;
        PtlHandlerDMAWait(coming);
        if (more)
            PtlHandlerDMAFromHostNB(next, buffers + (turn ^ 1) * BUFFER, more, PTL_ME_HOST_MEM,
                                    &coming);
        filter(s, buffers + turn * BUFFER, length, q);
        at = next;
        length = more;
    }
    send_copied(s);
}

static int in_table(const struct scan_request *q, const struct scan_state *state) {
    uint32_t bytes = state->table_bytes;
    return q->row_bytes && q->row_bytes % 4 == 0 && q->row_bytes <= BUFFER / 2 &&
           q->column % 4 == 0 && q->column < q->row_bytes && q->offset % 4 == 0 &&
           q->offset <= bytes && q->rows <= (bytes - q->offset) / q->row_bytes;
}

__handler int scan_header_handler(const ptl_header_t h, void *state) {
    const struct scan_request *q = &h.user_hdr;
    struct sender s = {.client = h.source_id, .bits = SCAN_BITS(SCAN_ROWS, q->read)};
    uint8_t *memory = malloc(3 * BUFFER);
    uint64_t outcome = SCAN_REFUSED;
    if (memory && in_table(q, state)) {
        s.rows = (uint32_t *)(memory + 2 * BUFFER);
        if (q->rows)
            scan(&s, memory, q);
        outcome = s.matching;
    }
    PtlHandlerAtomicFromDevice(&outcome, sizeof outcome, PTL_NO_CT, PTL_NO_ACK_REQ, s.client,
                               SCAN_BITS(SCAN_DONE, q->read), 0, NULL, 0, PTL_SUM, PTL_UINT64_T);
    if (memory)
        free(memory);
    return DROP;
}
