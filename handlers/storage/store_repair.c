/* Repair, by a client: each part of an extent that was on a dead node is made again from the others
 * and written to a node that has none of it. Extents never change, so nobody has to stop. */
#include "store_private.h"

/* One part. PTL_OK and not *done: its node, or another, has gone meanwhile. */
static int repair_part(struct spinstore *s, bool *done) {
    const struct store_layout *from = &s->plan->layout[0], *to = &s->plan->layout[1];
    const uint32_t *sum = s->plan->sum + from->first_sum;
    struct store_message *report;
    bool coded = from->grant.capability.strategy == STORAGE_RS;
    uint8_t *chunk[STORE_PLACES];
    *done = false;
    if (s->plan->index >= storage_places(&from->grant.capability) || !from->sums)
        return PTL_FAIL;
    int code = store_read_chunks(s, from, sum, chunk);
    if (code != PTL_OK)
        return code == PTL_FAIL ? PTL_OK : code;
    struct store_flight *f = store_flight_new(s);
    if (!f)
        return PTL_NO_SPACE;
    code =
        store_flight_write(s, f, &to->grant, 0, chunk[coded ? s->plan->index : 0], to->chunk, 0, 1);
    if (code == PTL_OK)
        code = store_flights_wait(s, &f, 1);
    bool ok = code == PTL_OK && store_flight_ok(f);
    uint32_t silent = store_flight_silent(f);
    store_flight_leave(s, f);
    bool died;
    if (code == PTL_OK && !ok && silent)
        code = store_client_suspect(s, &to->grant.capability, silent, &died);
    if (code != PTL_OK || !ok)
        return code;
    code = store_client_begin(s, STORE_KIND_REPAIRED, &report);
    report->extent = from->extent;
    report->index = s->plan->index;
    report->target = to->extent;
    if (code == PTL_OK)
        code = store_client_ask(s);
    *done = code == PTL_OK && s->port.in->status == STORE_OK;
    return code;
}

int spinstore_repair(struct spinstore *s, struct spinstore_repaired *repaired) {
    enum { TRIES = 8 };
    uint32_t from = 0, tried = 0;
    *repaired = (struct spinstore_repaired){0};
    for (;;) {
        struct store_message *question;
        int code = store_client_begin(s, STORE_KIND_REPAIR, &question);
        question->extent = from;
        if (code == PTL_OK)
            code = store_client_ask(s);
        enum store_status status = s->port.in->status;
        if (code != PTL_OK || status == STORE_NOTHING)
            return code;
        if (status == STORE_LOST) {
            repaired->lost++;
            from = s->port.in->extent + 1;
            tried = 0;
            continue;
        }
        if (status != STORE_OK)
            return store_client_code(status);
        bool done;
        store_client_keep(s);
        tried = from == s->plan->layout[0].extent ? tried + 1 : 1;
        from = s->plan->layout[0].extent;
        if (tried > TRIES * STORE_PLACES)
            return PTL_FAIL;
        code = repair_part(s, &done);
        if (code != PTL_OK)
            return code;
        repaired->parts += done;
        repaired->bytes += done ? s->plan->layout[1].chunk : 0;
    }
}
