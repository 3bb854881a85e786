/* The processes of lib/test_wire.h on live cards of one process, over shared memory. Messages go
 * their way by themselves: wire_run waits until nothing is under way. */
#ifndef TESTS_LIVE_WIRE_H
#define TESTS_LIVE_WIRE_H

#include "lib/test.h"

#include <unistd.h>

#include "base/rng.h"
#include "live/live_card.h"
#include "live/live_card_private.h"
#include "nic/nic.h"
#include "nic/portals.h"
#include "portals/process.h"

#define LIVE_USER __attribute__((unused))

#define WIRE_PROCESSES    4
#define WIRE_NID(i)       1u
#define WIRE_PID(i)       (i)
#define WIRE_UID(i)       ((uint32_t)getuid())
#define WIRE_OTHER_PID(i) (((i) + 1) % WIRE_PROCESSES) /* that process i cannot have */
#define WIRE_FEATURES     (PTL_TARGET_BIND_INACCESSIBLE | PTL_COHERENT_ATOMICS)
#define WIRE_HOLDS        false /* messages until wire_run */

/* Not here: it compiles, and is in no list. */
#define STEP_TEST(name) __attribute__((unused)) static void step_##name(void)

struct wire {
    struct live_folder folder;
    struct wire_process {
        struct live_card *card;
        struct portals *portals;
        uint64_t raised, charged;
    } process[WIRE_PROCESSES];
    /* For what is not here. */
    struct wire_message {
        struct nic_message message;
        uint8_t *data;
    } queue[8];
    uint32_t queued;
    uint64_t now, carried;
    void (*on_wait)(struct wire *w);
    void (*on_send)(struct wire *w, const struct nic_message *m);
    enum portals_sending at_once;
};

struct wire_transit {
    struct wire_message m;
    struct portals_arrival *arrival;
};

LIVE_USER static struct wire_transit wire_begin(struct wire *w, uint32_t i) {
    TEST_FAIL("%p %u: messages are not held here", (void *)w, i);
}
LIVE_USER static void wire_end(struct wire *w, struct wire_transit *t, struct portals_ending how) {
    TEST_FAIL("%p %p %d: messages are not held here", (void *)w, (void *)t, how.fail);
}
LIVE_USER static struct wire_message wire_take(struct wire *w, uint32_t i) {
    TEST_FAIL("%p %u: messages are not held here", (void *)w, i);
}
LIVE_USER static void wire_carry(struct wire *w, uint32_t i) {
    TEST_FAIL("%p %u: messages are not held here", (void *)w, i);
}

LIVE_USER static struct wire *wire_new(void) {
    struct wire *w = calloc(1, sizeof *w);
    struct spin_error err;
    char name[64];
    alarm(120); /* nothing here waits so long */
    CHECK_EQ(live_folder_make(&w->folder, name, sizeof name, &err), 0);
    for (uint32_t i = 0; i < WIRE_PROCESSES; i++) {
        const struct live_card_options options = {.folder = &w->folder, .nid = 1, .pid = i};
        CHECK_EQ(live_card_new(&w->process[i].card, &options, &err), 0);
        w->process[i].portals = nic_portals(live_card_nic(w->process[i].card));
    }
    return w;
}

LIVE_USER static void wire_free(struct wire *w) {
    for (uint32_t i = 0; i < WIRE_PROCESSES; i++)
        live_card_free(w->process[i].card);
    portals_enter(NULL);
    live_folder_remove(&w->folder);
    free(w);
}

/* Calls are process i's from now on. */
LIVE_USER static void wire_as(struct wire *w, uint32_t i) {
    portals_enter(live_card_process(w->process[i].card));
}

LIVE_USER static bool wire_is_quiet(struct live_card *card) {
    live_lock_take(&card->lock);
    bool quiet = nic_quiet(card->nic) && !nic_has_work(card->nic) && !card->pending &&
                 !card->transport->calls->ready(card->transport);
    live_lock_give(&card->lock);
    return quiet;
}

LIVE_USER static void wire_run(struct wire *w) {
    uint32_t quiet = 0;
    for (uint32_t round = 0; quiet < 2 * WIRE_PROCESSES; round++) {
        struct live_card *card = w->process[round % WIRE_PROCESSES].card;
        live_card_poll(card);
        quiet = wire_is_quiet(card) ? quiet + 1 : 0;
        CHECK(round < 10000000);
    }
    for (uint32_t i = 0; i < WIRE_PROCESSES; i++) {
        const char *what = portals_check(w->process[i].portals);
        if (what)
            TEST_FAIL("process %u: %s", i, what);
    }
}

/* As it comes. */
LIVE_USER static void wire_run_shuffled(struct wire *w, const struct rng *r) {
    (void)r;
    wire_run(w);
}

#endif
