#include "spinlib/scan.h"

#include <stdlib.h>
#include <string.h>

#include "scan_layout.h"

/* Bytes per request: enough of them to keep all HPUs of the server busy, none so small that asking
 * is most of it. */
#define PIECES      32u
#define PIECE_LEAST (8u << 10)
#define PIECE_MOST  (128u << 10)
#define BATCH       (256u << 10) /* bytes per get; one is looked through while the next arrives */

/* What the host takes, in worlds: cycles to compare a row, and to copy 32 bytes. */
enum { COMPARE_CYCLES = 3, COPY_CYCLES = 1 };

struct spin_scan {
    ptl_handle_ni_t ni;
    ptl_pt_index_t pt;
    ptl_image_h image;
    struct spin_linked requests, table; /* of a server */
    uint64_t read;                      /* number of the last one */
    ptl_handle_ct_t answered, rows_here, done;
    uint64_t outcome; /* sum of what the pieces say */
};

/* ---- Opening ---- */

static int open_server(struct spin_scan *s, const void *table, uint64_t bytes) {
    const struct scan_state state = {.table_bytes = (uint32_t)bytes};
    struct spin_entry requests = {
        .start = (void *)(uintptr_t)table,
        .length = bytes,
        .bits = SCAN_BITS(SCAN_REQUEST, 0),
        .options = PTL_ME_OP_PUT | PTL_ME_EVENT_COMM_DISABLE,
        .header = "scan_header_handler",
        .user_hdr_bytes = sizeof(struct scan_request),
        .state = &state,
        .state_bytes = sizeof state,
    };
    const struct spin_entry gets = {
        .start = requests.start,
        .length = bytes,
        .bits = SCAN_BITS(SCAN_TABLE, 0),
        .options = PTL_ME_OP_GET | PTL_ME_NO_TRUNCATE | PTL_ME_EVENT_COMM_DISABLE,
    };
    int code = spin_handlers_load(s->ni, "scan_handler", &requests.image);
    if (code != PTL_OK)
        return code;
    s->image = requests.image;
    code = spin_entry_append(s->ni, s->pt, &requests, &s->requests);
    if (code == PTL_OK)
        code = spin_entry_append(s->ni, s->pt, &gets, &s->table);
    return code;
}

int spin_scan_open(ptl_handle_ni_t ni, const void *table, uint64_t bytes, struct spin_scan **out) {
    *out = NULL;
    if (bytes >= 1ull << 32)
        return PTL_ARG_INVALID;
    struct spin_scan *s = calloc(1, sizeof *s);
    if (!s)
        return PTL_NO_SPACE;
    s->ni = ni;
    int code = PtlPTAlloc(ni, 0, PTL_EQ_NONE, PTL_PT_ANY, &s->pt);
    if (code == PTL_OK)
        code = PtlCTAlloc(ni, &s->answered);
    if (code == PTL_OK)
        code = PtlCTAlloc(ni, &s->rows_here);
    if (code == PTL_OK)
        code = PtlCTAlloc(ni, &s->done);
    if (code == PTL_OK && table)
        code = open_server(s, table, bytes);
    if (code == PTL_OK)
        *out = s;
    else
        spin_scan_close(s);
    return code;
}

void spin_scan_close(struct spin_scan *s) {
    if (!s)
        return;
    spin_entry_remove(&s->requests);
    spin_entry_remove(&s->table);
    if (s->image)
        PtlImageUnload(s->image);
    const ptl_handle_ct_t counters[] = {s->answered, s->rows_here, s->done};
    for (int i = 0; i < 3; i++)
        if (counters[i])
            PtlCTFree(counters[i]);
    PtlPTFree(s->ni, s->pt);
    free(s);
}

static bool valid(const struct spin_scan_query *q) {
    return q->row_bytes && q->row_bytes % 4 == 0 && q->row_bytes <= SPIN_SCAN_ROW_BYTES &&
           q->column % 4 == 0 && q->column < q->row_bytes && q->offset % 4 == 0 &&
           q->offset < 1ull << 32 && q->rows < (1ull << 32) / q->row_bytes;
}

static int wait_for(ptl_handle_ct_t ct, uint64_t n) {
    ptl_ct_event_t event;
    int code = PtlCTWait(ct, n, &event);
    return code != PTL_OK ? code : event.failure ? PTL_FAIL : PTL_OK;
}

/* ---- By the server's card ---- */

/* Sends a request per piece, from `requests`, which the caller keeps until all are answered. */
static int ask(struct spin_scan *s, uint32_t server, const struct spin_scan_query *q,
               struct scan_request *requests, uint64_t pieces, uint64_t rows_each,
               ptl_handle_md_t md) {
    for (uint64_t i = 0; i < pieces; i++) {
        uint64_t first = i * rows_each, left = q->rows - first;
        requests[i] = (struct scan_request){
            .read = s->read,
            .offset = (uint32_t)(q->offset + first * q->row_bytes),
            .rows = (uint32_t)(left < rows_each ? left : rows_each),
            .row_bytes = q->row_bytes,
            .column = q->column,
            .low = q->low,
            .range = q->high - q->low,
        };
        int code =
            PtlPut(md, i * sizeof *requests, sizeof *requests, PTL_CT_ACK_REQ,
                   (ptl_process_t){.rank = server}, s->pt, SCAN_BITS(SCAN_REQUEST, 0), 0, NULL, 0);
        if (code != PTL_OK)
            return code;
    }
    return PTL_OK;
}

/* Until all is here, or it is known that something will not come. */
static int collect(struct spin_scan *s, const struct spin_scan_query *q, uint64_t pieces,
                   uint64_t room, uint64_t *matching) {
    int code = wait_for(s->answered, pieces);
    if (code == PTL_OK)
        code = wait_for(s->done, pieces);
    if (code != PTL_OK)
        return code;
    if (s->outcome >= SCAN_REFUSED)
        return PTL_ARG_INVALID;
    *matching = s->outcome;
    if (*matching * q->row_bytes > room)
        return PTL_NO_SPACE;
    return wait_for(s->rows_here, *matching * q->row_bytes);
}

/* The two entries of one read. */
static int expect(struct spin_scan *s, void *into, uint64_t room, struct spin_linked entry[2]) {
    static const ptl_ct_event_t zero;
    s->read++;
    s->outcome = 0;
    PtlCTSet(s->answered, zero);
    PtlCTSet(s->rows_here, zero);
    PtlCTSet(s->done, zero);
    const struct spin_entry rows = {
        .start = into,
        .length = room,
        .bits = SCAN_BITS(SCAN_ROWS, s->read),
        .options = PTL_ME_OP_PUT | PTL_ME_MANAGE_LOCAL | PTL_ME_NO_TRUNCATE |
                   PTL_ME_EVENT_COMM_DISABLE | PTL_ME_EVENT_CT_COMM | PTL_ME_EVENT_CT_BYTES,
        .ct = s->rows_here,
    };
    const struct spin_entry done = {
        .start = &s->outcome,
        .length = sizeof s->outcome,
        .bits = SCAN_BITS(SCAN_DONE, s->read),
        .options = PTL_ME_OP_PUT | PTL_ME_EVENT_COMM_DISABLE | PTL_ME_EVENT_CT_COMM,
        .ct = s->done,
    };
    int code = spin_entry_append(s->ni, s->pt, &rows, &entry[0]);
    if (code != PTL_OK)
        return code;
    code = spin_entry_append(s->ni, s->pt, &done, &entry[1]);
    if (code != PTL_OK)
        spin_entry_remove(&entry[0]);
    return code;
}

int spin_scan_read(struct spin_scan *s, uint32_t server, const struct spin_scan_query *q,
                   void *into, uint64_t room, uint64_t *matching) {
    *matching = 0;
    if (!valid(q))
        return PTL_ARG_INVALID;
    uint64_t piece = q->rows * q->row_bytes / PIECES;
    piece = piece < PIECE_LEAST ? PIECE_LEAST : piece > PIECE_MOST ? PIECE_MOST : piece;
    uint64_t rows_each = piece / q->row_bytes;
    uint64_t pieces = q->rows ? (q->rows + rows_each - 1) / rows_each : 1;
    struct scan_request *requests = calloc(pieces, sizeof *requests);
    ptl_md_t memory = {.start = requests,
                       .length = pieces * sizeof *requests,
                       .options = PTL_MD_EVENT_CT_ACK,
                       .eq_handle = PTL_EQ_NONE,
                       .ct_handle = s->answered};
    ptl_handle_md_t md;
    struct spin_linked entry[2];
    int code = requests ? PtlMDBind(s->ni, &memory, &md) : PTL_NO_SPACE;
    if (code == PTL_OK) {
        code = expect(s, into, room, entry);
        if (code == PTL_OK) {
            code = ask(s, server, q, requests, pieces, rows_each, md);
            if (code == PTL_OK)
                code = collect(s, q, pieces, room, matching);
            spin_entry_remove(&entry[0]);
            spin_entry_remove(&entry[1]);
        }
        while (PtlMDRelease(md) == PTL_IN_USE)
            ;
    }
    free(requests);
    return code;
}

/* ---- By this host ---- */

struct reading {
    const struct spin_scan_query *query;
    ptl_handle_md_t md[2]; /* of the same memory; one counts the batches with an odd number */
    ptl_handle_ct_t ct[2];
    uint8_t *range;
    uint64_t each, batches; /* rows of a batch */
    uint8_t *into;
    uint64_t room, matching;
};

static uint64_t rows_of(const struct reading *r, uint64_t batch) {
    uint64_t left = r->query->rows - batch * r->each;
    return left < r->each ? left : r->each;
}

static void look_through(struct reading *r, uint64_t batch) {
    const struct spin_scan_query *q = r->query;
    const uint8_t *row = r->range + batch * r->each * q->row_bytes;
    uint64_t rows = rows_of(r, batch), before = r->matching;
    for (uint64_t i = 0; i < rows; i++, row += q->row_bytes) {
        uint32_t column;
        memcpy(&column, row + q->column, sizeof column);
        if (column - q->low > q->high - q->low)
            continue;
        if ((r->matching + 1) * q->row_bytes <= r->room)
            memcpy(r->into + r->matching * q->row_bytes, row, q->row_bytes);
        r->matching++;
    }
    uint64_t copied = (r->matching - before) * q->row_bytes;
    spin_work(rows * COMPARE_CYCLES + copied / 32 * COPY_CYCLES, rows * q->row_bytes + copied);
}

static int get_batch(struct spin_scan *s, struct reading *r, uint32_t server, uint64_t batch) {
    uint64_t at = batch * r->each * r->query->row_bytes;
    return PtlGet(r->md[batch % 2], at, rows_of(r, batch) * r->query->row_bytes,
                  (ptl_process_t){.rank = server}, s->pt, SCAN_BITS(SCAN_TABLE, 0),
                  r->query->offset + at, NULL);
}

static int read_batches(struct spin_scan *s, struct reading *r, uint32_t server) {
    int code = r->batches ? get_batch(s, r, server, 0) : PTL_OK;
    for (uint64_t i = 0; i < r->batches && code == PTL_OK; i++) {
        if (i + 1 < r->batches)
            code = get_batch(s, r, server, i + 1);
        if (code == PTL_OK)
            code = wait_for(r->ct[i % 2], (i / 2 + 1));
        if (code == PTL_OK)
            look_through(r, i);
    }
    return code;
}

int spin_scan_read_all(struct spin_scan *s, uint32_t server, const struct spin_scan_query *q,
                       void *into, uint64_t room, uint64_t *matching) {
    static const ptl_ct_event_t zero;
    *matching = 0;
    if (!valid(q))
        return PTL_ARG_INVALID;
    uint64_t bytes = q->rows * q->row_bytes;
    struct reading r = {.query = q,
                        .ct = {s->rows_here, s->done},
                        .range = malloc(bytes ? bytes : 1),
                        .each = BATCH / q->row_bytes,
                        .into = into,
                        .room = room};
    r.batches = (q->rows + r.each - 1) / r.each;
    ptl_md_t memory = {.start = r.range,
                       .length = bytes,
                       .options = PTL_MD_EVENT_CT_REPLY,
                       .eq_handle = PTL_EQ_NONE};
    int code = r.range ? PTL_OK : PTL_NO_SPACE, bound = 0;
    for (; bound < 2 && code == PTL_OK; bound += code == PTL_OK) {
        PtlCTSet(r.ct[bound], zero);
        memory.ct_handle = r.ct[bound];
        code = PtlMDBind(s->ni, &memory, &r.md[bound]);
    }
    if (code == PTL_OK)
        code = read_batches(s, &r, server);
    while (bound)
        if (PtlMDRelease(r.md[bound - 1]) != PTL_IN_USE)
            bound--;
    free(r.range);
    *matching = r.matching;
    return code == PTL_OK && r.matching * q->row_bytes > room ? PTL_NO_SPACE : code;
}
