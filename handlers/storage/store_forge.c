/* Requests that a live card has to refuse: forged, expired, sent once more, cut off, for other
 * ranges, rights or clients, under a key that is no more. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "store_live.h"
#include "store_private.h"

enum { BYTES = 5000, OTHER = 4096 };

struct forger {
    struct spinstore *store;
    struct spinstore_object *object;
    struct store_grant grant; /* genuine, for an extent of BYTES */
    uint8_t *data;
    uint32_t refused, wrong;
};

static int new_grant(struct forger *f) {
    struct store_message *question;
    int code = store_client_begin(f->store, STORE_KIND_ALLOCATE, &question);
    question->object = f->object->id;
    question->write = ++f->store->next_write;
    question->length = BYTES;
    if (code == PTL_OK)
        code = store_client_ask(f->store);
    if (code != PTL_OK || f->store->port.in->status != STORE_OK)
        return PTL_FAIL;
    f->grant = f->store->port.in->layout[0].grant;
    return PTL_OK;
}

static void judge(struct forger *f, const char *what, struct store_flight *flight, int code,
                  enum storage_status expected) {
    bool ok = code == PTL_OK && flight->worst == expected && !flight->done;
    f->refused += ok;
    f->wrong += !ok;
    if (!ok)
        printf("WRONG: %s: status %d, not %d (%s)\n", what, (int)flight->worst, (int)expected,
               PtlToStr(code, PTL_STR_ERROR));
    store_flight_leave(f->store, flight);
}

/* A write, or read, of so many bytes with this grant. */
static void attack(struct forger *f, const char *what, const struct store_grant *g, uint32_t bytes,
                   bool reads, enum storage_status expected) {
    struct store_flight *flight = store_flight_new(f->store);
    int code = !flight ? PTL_NO_SPACE
               : reads ? store_flight_read(f->store, flight, g, 0, 0, f->data, bytes)
                       : store_flight_write(f->store, flight, g, 0, f->data, bytes, 0, 1);
    if (code == PTL_OK)
        code = store_flights_wait(f->store, &flight, 1);
    if (flight)
        judge(f, what, flight, code, expected);
}

/* A head that is not followed by what it says, or is changed itself. */
static void send_head(struct forger *f, const char *what, uint8_t version, uint64_t bytes,
                      enum storage_status expected) {
    struct spinstore *s = f->store;
    struct store_flight *flight = store_flight_new(s);
    uint8_t *message = calloc(1, STORAGE_HEAD + BYTES);
    if (!flight || !message)
        return;
    struct storage_head *head = &flight->put[0].head;
    store_head(head, &f->grant,
               &(struct store_ask){.operation = STORAGE_WRITE,
                                   .trust = store_trust(s),
                                   .length = BYTES,
                                   .packet = s->mtu,
                                   .request = flight->request});
    flight->places = 1;
    store_message_fill(message, head, f->grant.session, f->data);
    message[0] = version;
    int code = PtlPut(s->port.md, (ptl_size_t)(uintptr_t)message, bytes, PTL_ACK_REQ,
                      (ptl_process_t){.rank = head->capability.place[0].node}, s->port.pt,
                      STORAGE_REQUEST, 0, NULL, 0);
    if (code == PTL_OK)
        code = store_flights_wait(s, &flight, 1);
    judge(f, what, flight, code, expected);
    free(message);
}

/* Every field that the MAC covers, and the MAC. */
static void change_fields(struct forger *f) {
    for (uint32_t i = 0; i < 8; i++) {
        struct store_grant g = f->grant;
        struct storage_capability *c = &g.capability;
        static const char *const names[] = {"MAC",          "MAC, other half", "object's bytes",
                                            "expiry",       "first block",     "object",
                                            "rights added", "serial number"};
        g.mac[0] ^= i == 0;
        g.mac[1] ^= i == 1 ? 1u << 31 : 0;
        c->bytes += i == 2 ? OTHER : 0;
        c->expires += i == 3 ? 1000 : 0;
        c->place[0].block += i == 4;
        c->object += i == 5;
        c->rights |= i == 6 ? STORAGE_MAY_READ : 0;
        c->serial ^= i == 7;
        attack(f, names[i], &g, BYTES, false, STORAGE_BAD_CAPABILITY);
    }
}

/* A number that was used: of a write that was carried out. */
static int send_again(struct forger *f) {
    struct store_flight *flight = store_flight_new(f->store);
    int code = flight ? store_flight_write(f->store, flight, &f->grant, 0, f->data, BYTES, 0, 1)
                      : PTL_NO_SPACE;
    if (code == PTL_OK)
        code = store_flights_wait(f->store, &flight, 1);
    if (code != PTL_OK || !store_flight_ok(flight))
        return PTL_FAIL;
    store_flight_leave(f->store, flight);
    for (int i = 0; flight->request && i < 1000 && code == PTL_OK; i++)
        code = store_client_events(f->store, 1); /* its number is free then */
    f->store->next_request--;
    attack(f, "a number that was used", &f->grant, BYTES, false, STORAGE_REPLAY);
    return PTL_OK;
}

/* Until the nodes' clock says so; then with the grant of before two keys. */
static int grow_old(struct forger *f) {
    uint32_t generation;
    nanosleep(&(struct timespec){.tv_sec = f->store->o.lifetime_s + 1 + STORE_SLACK_S}, NULL);
    attack(f, "expired", &f->grant, BYTES, false, STORAGE_EXPIRED);
    for (int i = 0; i < 2; i++)
        if (spinstore_rotate(f->store, &generation) != PTL_OK)
            return PTL_FAIL;
    attack(f, "a key of before the last two", &f->grant, BYTES, false, STORAGE_BAD_CAPABILITY);
    return PTL_OK;
}

static int forge_all(struct forger *f) {
    uint8_t *back = calloc(1, BYTES);
    uint64_t got = 0;
    store_live_fill(f->data, BYTES + OTHER, 1, 1);
    int code = back ? spinstore_write(f->object, 0, f->data, BYTES) : PTL_NO_SPACE;
    if (code == PTL_OK)
        code = new_grant(f);
    if (code == PTL_OK) {
        store_live_fill(f->data, BYTES + OTHER, 2, 1);
        change_fields(f);
        struct store_grant other = f->grant;
        other.capability.client--; /* a node */
        attack(f, "another client", &other, BYTES, false, STORAGE_BAD_CAPABILITY);
        code = new_grant(f); /* they do not live long */
        attack(f, "more than the extent", &f->grant, BYTES + OTHER, false, STORAGE_RANGE);
        attack(f, "a read with the right to write", &f->grant, BYTES, true, STORAGE_RIGHTS);
        send_head(f, "half of the data", STORAGE_VERSION, STORAGE_HEAD + BYTES / 2,
                  STORAGE_MALFORMED);
        send_head(f, "another version", STORAGE_VERSION + 1, STORAGE_HEAD + BYTES,
                  STORAGE_BAD_VERSION);
    }
    if (code == PTL_OK)
        code = new_grant(f);
    if (code == PTL_OK)
        code = send_again(f);
    if (code == PTL_OK)
        code = grow_old(f);
    /* the cards live, and what was there is as it was */
    if (code == PTL_OK)
        code = spinstore_read(f->object, 0, back, BYTES, &got);
    store_live_fill(f->data, BYTES, 1, 1);
    f->wrong += code != PTL_OK || got != BYTES || memcmp(back, f->data, BYTES) != 0;
    if (code == PTL_OK)
        code = spinstore_write(f->object, 0, f->data, BYTES);
    free(back);
    return code;
}

int store_live_forge(struct store_live *live) {
    static const struct spinstore_policy plain = {SPINSTORE_PLAIN, 0, 0};
    struct forger f = {.store = live->store, .data = malloc(BYTES + OTHER)};
    int code = f.data ? spinstore_open(live->store, "forged", &plain, &f.object) : PTL_NO_SPACE;
    if (code == PTL_OK)
        code = forge_all(&f);
    printf("%u requests were refused, %u were not%s%s\n", f.refused, f.wrong,
           code == PTL_OK ? "" : ": ", code == PTL_OK ? "" : PtlToStr(code, PTL_STR_ERROR));
    spinstore_close(f.object);
    free(f.data);
    return code != PTL_OK || f.wrong;
}
