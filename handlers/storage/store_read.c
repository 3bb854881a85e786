/* Reads: from any copy, or from the data chunks; the next copy, or what the others add up to, where
 * a node is gone or a checksum is wrong. */
#include <stdlib.h>
#include <string.h>

#include "store_decode.h"
#include "store_private.h"

enum { TRIES = 100 };

/* ---- Pieces ---- */

/* Do bytes [from, to) of data chunk j have their checksums? Both are ends of pieces. */
static bool sums_agree(const struct store_layout *l, const uint32_t *sum, uint32_t j, uint32_t from,
                       uint32_t to, const uint8_t *data) {
    const uint32_t *of_chunk = sum + j * store_pieces(l->chunk, l->piece);
    spin_work((to - from) / 8 * 3, to - from);
    for (uint32_t at = from; at < to; at += l->piece) {
        uint32_t bytes = to - at < l->piece ? to - at : l->piece;
        if (store_crc32c_padded(data + (at - from), bytes, 0) != of_chunk[at / l->piece])
            return false;
    }
    return true;
}

/* A read of one place that is under way. */
struct piece_read {
    uint32_t place, from, to;
    uint8_t *data;
    struct store_flight *flight;
    bool ok;
};

/* All of them at a time; which came is said in each. */
static int read_places(struct spinstore *s, const struct store_layout *l, struct piece_read *read,
                       uint32_t count) {
    struct store_flight *flight[STORAGE_PLACES] = {0};
    uint32_t flights = 0, silent = 0;
    int code = PTL_OK;
    for (uint32_t i = 0; i < count && code == PTL_OK; i++) {
        struct piece_read *r = &read[i];
        r->ok = false;
        r->flight = flight[flights] = store_flight_new(s);
        if (!r->flight) {
            code = PTL_NO_SPACE;
            break;
        }
        flights++;
        code =
            store_flight_read(s, r->flight, &l->grant, r->place, r->from, r->data, r->to - r->from);
    }
    if (code == PTL_OK)
        code = store_flights_wait(s, flight, flights);
    for (uint32_t i = 0; i < flights; i++) {
        read[i].ok = code == PTL_OK && store_flight_ok(flight[i]);
        silent |= store_flight_silent(flight[i]);
        store_flight_leave(s, flight[i]);
    }
    bool died;
    if (code == PTL_OK && silent)
        code = store_client_suspect(s, &l->grant.capability, silent, &died);
    return code;
}

static uint8_t *scratch_of(struct spinstore *s, uint64_t bytes) {
    if (bytes > s->scratch_bytes) {
        uint8_t *grown = realloc(s->scratch, bytes);
        if (!grown)
            return NULL;
        s->scratch = grown;
        s->scratch_bytes = bytes;
    }
    return s->scratch;
}

/* ---- Replicas ---- */

/* Bytes [from, to) of any copy, straight to `data`. PTL_FAIL: there is none. */
static int read_copy(struct spinstore *s, const struct store_layout *l, const uint32_t *sum,
                     uint32_t from, uint32_t to, uint8_t *data) {
    uint32_t copies = storage_places(&l->grant.capability);
    for (uint32_t i = 0; i < copies; i++) {
        struct piece_read r = {
            .place = (s->rank + l->extent + i) % copies, .from = from, .to = to, .data = data};
        if (l->dead >> r.place & 1)
            continue;
        int code = read_places(s, l, &r, 1);
        if (code != PTL_OK)
            return code;
        if (r.ok && sums_agree(l, sum, 0, from, to, data))
            return PTL_OK;
        s->counts.wrong_sums += r.ok;
        s->counts.reads_again++;
    }
    return PTL_FAIL;
}

/* ---- RS(k,m) ---- */

/* Decodes with the data chunks `good` and that many of the parities that make k; which of them tell
 * the truth is seen at the sums of what comes out. */
static int decode(struct spinstore *s, const struct store_layout *l, const uint32_t *sum,
                  uint32_t good, uint32_t parities, uint8_t *chunk[STORE_PLACES], uint8_t *sink) {
    const struct storage_capability *c = &l->grant.capability;
    uint32_t need = c->k - (uint32_t)__builtin_popcount(good);
    struct spin_error err;
    for (uint32_t set = 0; set < 1u << c->m; set++) {
        uint32_t used = set << c->k;
        if ((uint32_t)__builtin_popcount(set) != need || (used & parities) != used)
            continue;
        uint8_t *with[STORE_PLACES];
        for (uint32_t i = 0; i < c->k + (uint32_t)c->m; i++)
            with[i] = (parities & ~used) >> i & 1 ? sink : chunk[i];
        spin_work((uint64_t)l->chunk * c->k / 8, (uint64_t)l->chunk * c->k);
        if (store_decode(c->k, c->m, good | used, with, l->chunk, &err))
            return PTL_FAIL;
        bool ok = true;
        for (uint32_t j = 0; j < c->k && ok; j++)
            ok = good >> j & 1 || sums_agree(l, sum, j, 0, l->chunk, chunk[j]);
        if (ok)
            return PTL_OK;
        s->counts.wrong_sums++;
    }
    return PTL_FAIL;
}

/* The chunks that are there, those of data checked. */
static int read_all(struct spinstore *s, const struct store_layout *l, const uint32_t *sum,
                    uint8_t *chunk[STORE_PLACES], uint32_t *good) {
    struct piece_read read[STORE_PLACES];
    uint32_t count = 0, k = l->grant.capability.k;
    for (uint32_t i = 0; i < storage_places(&l->grant.capability); i++)
        if (!(l->dead >> i & 1))
            read[count++] = (struct piece_read){.place = i, .to = l->chunk, .data = chunk[i]};
    int code = read_places(s, l, read, count);
    *good = 0;
    for (uint32_t i = 0; i < count && code == PTL_OK; i++) {
        bool right = read[i].ok && (read[i].place >= k ||
                                    sums_agree(l, sum, read[i].place, 0, l->chunk, read[i].data));
        s->counts.wrong_sums += read[i].ok && !right;
        *good |= (uint32_t)right << read[i].place;
    }
    return code;
}

int store_read_chunks(struct spinstore *s, const struct store_layout *l, const uint32_t *sum,
                      uint8_t *chunk[STORE_PLACES]) {
    const struct storage_capability *c = &l->grant.capability;
    bool coded = c->strategy == STORAGE_RS;
    uint32_t places = coded ? storage_places(c) : 1, good;
    uint8_t *at = scratch_of(s, (uint64_t)l->chunk * (places + 1));
    if (!at)
        return PTL_NO_SPACE;
    for (uint32_t i = 0; i < places; i++)
        chunk[i] = at + (uint64_t)i * l->chunk;
    if (!coded)
        return read_copy(s, l, sum, 0, l->chunk, chunk[0]);
    int code = read_all(s, l, sum, chunk, &good);
    if (code != PTL_OK)
        return code;
    uint32_t data = good & ((1u << c->k) - 1);
    s->counts.reconstructed++;
    return decode(s, l, sum, data, good & ~data, chunk, at + (uint64_t)places * l->chunk);
}

/* ---- A part of an object ---- */

/* Bytes [from, to) of one place, checked; `place` is also the number of its data chunk. Pieces are
 * read whole. */
static bool use_range(const struct store_layout *l, const uint32_t *sum, struct piece_read *r,
                      uint32_t from, uint32_t to, uint8_t *data) {
    if (!r->ok || !sums_agree(l, sum, r->place, r->from, r->to, r->data))
        return false;
    if (r->data != data)
        spin_copy(data, r->data + (from - r->from), to - from);
    return true;
}

/* Whole pieces around [from, to) of a chunk. */
static void round_out(const struct store_layout *l, uint32_t from, uint32_t to, uint32_t *first,
                      uint32_t *end) {
    *first = from / l->piece * l->piece;
    uint64_t rounded = ((uint64_t)to + l->piece - 1) / l->piece * l->piece;
    *end = rounded < l->chunk ? (uint32_t)rounded : l->chunk;
}

static int read_replicated(struct spinstore *s, const struct store_layout *l, const uint32_t *sum,
                           uint32_t from, uint32_t to, uint8_t *data) {
    uint32_t first, end;
    round_out(l, from, to, &first, &end);
    bool straight = first == from && end == to;
    uint8_t *where = straight ? data : scratch_of(s, end - first);
    if (!where)
        return PTL_NO_SPACE;
    int code = read_copy(s, l, sum, first, end, where);
    if (code == PTL_OK && !straight)
        spin_copy(data, where + (from - first), to - from);
    return code;
}

/* From the data chunks, each of which has a part of it. */
static int read_coded(struct spinstore *s, const struct store_layout *l, const uint32_t *sum,
                      uint32_t from, uint32_t to, uint8_t *data) {
    uint32_t first = from / l->chunk, last = (to - 1) / l->chunk, count = 0;
    struct piece_read read[STORE_PLACES];
    uint32_t begin[STORE_PLACES], end[STORE_PLACES];
    uint8_t *at = scratch_of(s, (uint64_t)l->chunk * (last - first + 1)), *chunk[STORE_PLACES];
    bool all = at;
    if (!at)
        return PTL_NO_SPACE;
    for (uint32_t j = first; j <= last; j++, count++) {
        struct piece_read *r = &read[count];
        begin[count] = j == first ? from - j * l->chunk : 0;
        end[count] = j == last ? to - j * l->chunk : l->chunk;
        *r = (struct piece_read){.place = j};
        round_out(l, begin[count], end[count], &r->from, &r->to);
        r->data = r->from == begin[count] && r->to == end[count]
                      ? data + ((uint64_t)j * l->chunk + begin[count] - from)
                      : at + (uint64_t)count * l->chunk;
        all &= !(l->dead >> j & 1);
    }
    int code = all ? read_places(s, l, read, count) : PTL_OK;
    for (uint32_t i = 0; i < count && code == PTL_OK && all; i++)
        all = use_range(l, sum, &read[i], begin[i], end[i],
                        data + ((uint64_t)read[i].place * l->chunk + begin[i] - from));
    if (code != PTL_OK || all)
        return code;
    s->counts.reads_again++;
    code = store_read_chunks(s, l, sum, chunk);
    for (uint32_t i = 0; i < count && code == PTL_OK; i++)
        spin_copy(data + ((uint64_t)read[i].place * l->chunk + begin[i] - from),
                  chunk[read[i].place] + begin[i], end[i] - begin[i]);
    return code;
}

/* ---- Objects ---- */

/* What the layouts of one answer have of [offset, end); `data` begins at `offset`. */
static int read_layouts(struct spinstore *s, uint64_t offset, uint64_t end, uint8_t *data) {
    for (uint32_t i = 0; i < s->plan->layouts; i++) {
        const struct store_layout *l = &s->plan->layout[i];
        uint64_t from = l->offset > offset ? l->offset : offset;
        uint64_t to = l->offset + l->part < end ? l->offset + l->part : end;
        if (from >= to)
            continue;
        uint32_t in = l->from + (uint32_t)(from - l->offset), bytes = (uint32_t)(to - from);
        const uint32_t *sum = s->plan->sum + l->first_sum;
        if (!l->sums)
            return PTL_FAIL;
        int code = l->grant.capability.strategy == STORAGE_RS
                       ? read_coded(s, l, sum, in, in + bytes, data + (from - offset))
                       : read_replicated(s, l, sum, in, in + bytes, data + (from - offset));
        if (code != PTL_OK)
            return code;
    }
    return PTL_OK;
}

/* All of it as of one version. *again: there is a newer one, or nothing could be read. */
static int read_once(struct spinstore_object *o, uint64_t offset, uint8_t *data, uint64_t bytes,
                     uint64_t *got, bool *again) {
    struct spinstore *s = o->store;
    uint64_t at = 0, end = bytes, version = 0;
    *again = false;
    *got = 0;
    do {
        struct store_message *question;
        int code = store_client_begin(s, STORE_KIND_LAYOUT, &question);
        question->object = o->id;
        question->offset = offset + at;
        question->bytes = end - at;
        if (code == PTL_OK)
            code = store_client_ask(s);
        if (code != PTL_OK || s->port.in->status != STORE_OK)
            return code == PTL_OK ? store_client_code(s->port.in->status) : code;
        store_client_keep(s);
        *again = at && s->plan->version != version;
        if (*again)
            return PTL_OK;
        version = s->plan->version;
        o->size = s->plan->size;
        end = offset >= o->size ? 0 : o->size - offset < bytes ? o->size - offset : bytes;
        uint64_t here = s->plan->bytes;
        if (end && (here == 0 || here > end - at))
            return PTL_FAIL;
        if (end) {
            memset(data + at, 0, here);
            code = read_layouts(s, offset + at, offset + at + here, data + at);
        }
        if (code == PTL_FAIL) {
            *again = true;
            return PTL_OK;
        }
        if (code != PTL_OK)
            return code;
        at += here;
    } while (at < end);
    o->version = version;
    *got = end;
    return PTL_OK;
}

/* What cannot be read may have been repaired, or freed because of a newer version: it is asked for
 * again. */
int spinstore_read(struct spinstore_object *o, uint64_t offset, void *data, uint64_t bytes,
                   uint64_t *got) {
    uint32_t failed = 0;
    *got = 0;
    if (bytes == 0)
        return PTL_OK;
    if (offset > INT64_MAX - bytes)
        return PTL_ARG_INVALID;
    uint64_t version = 0;
    for (int i = 0; i < TRIES && failed < 3; i++) {
        bool again;
        int code = read_once(o, offset, data, bytes, got, &again);
        if (code != PTL_OK || !again)
            return code;
        failed = o->store->plan->version == version ? failed + 1 : 0;
        version = o->store->plan->version;
    }
    return PTL_FAIL;
}
