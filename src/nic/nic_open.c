/* Messages of which packets are still to come. They stand in a list of their peer, the last one
 * that was looked for first; a card that has many at a time finds them by a table. Without memory
 * for the table they are found in the list. */
#include "nic/nic_private.h"

enum { MANY_OPEN = 16 };

static uint64_t open_key(const struct nic_peer *peer, uint32_t message_number) {
    return (uint64_t)peer->delivery.number << 32 | message_number;
}
static uint64_t key_of_open(const struct nic *nic, uint32_t record) {
    const struct nic_incoming *in = pool_at(&nic->incoming, record);
    return open_key(in->peer, in->message_number);
}
INDEX_TABLE(open, struct nic, key_of_open);

static void link_open(struct nic_incoming *in) {
    struct nic_peer *peer = in->peer;
    in->next_open = peer->open;
    in->link_open = &peer->open;
    if (peer->open)
        peer->open->link_open = &in->next_open;
    peer->open = in;
}

static void unlink_open(struct nic_incoming *in) {
    *in->link_open = in->next_open;
    if (in->next_open)
        in->next_open->link_open = in->link_open;
    in->link_open = NULL;
}

static void index_all(struct nic *nic) {
    for (uint32_t i = 0; i < nic->incoming.made; i++) {
        const struct nic_incoming *in = pool_find(&nic->incoming, i);
        if (in && in->link_open && !open_add(&nic->open, nic, i)) {
            hash_table_free(&nic->open);
            return;
        }
    }
}

void nic_open_begin(struct nic *nic, struct nic_incoming *in) {
    uint32_t opened = ++nic->opened;
    link_open(in);
    if (!nic->open.slots) {
        if (opened >= MANY_OPEN && (opened & (opened - 1)) == 0)
            index_all(nic);
    } else if (!open_add(&nic->open, nic, in->slot.index)) {
        hash_table_free(&nic->open);
    }
    delivery_expect(&nic->delivery, &in->peer->delivery);
}

void nic_open_end(struct nic *nic, struct nic_incoming *in) {
    if (!in->link_open)
        return;
    nic->opened--;
    unlink_open(in);
    if (nic->open.slots)
        open_remove(&nic->open, nic, in->slot.index);
    timers_stop(&nic->silences, &in->silence);
    delivery_expect_less(&in->peer->delivery);
}

static struct nic_incoming *find_open(struct nic *nic, const struct nic_peer *peer,
                                      uint32_t message_number) {
    struct nic_incoming *in = peer->open;
    if (!nic->open.slots || !in || in->message_number == message_number) {
        while (in && in->message_number != message_number)
            in = in->next_open;
        return in;
    }
    uint32_t record = open_find(&nic->open, nic, open_key(peer, message_number));
    return record == INDEX_NONE ? NULL : pool_at(&nic->incoming, record);
}

/* Messages take turns by packets: the next one is mostly of the same. */
struct nic_incoming *nic_open_find(struct nic *nic, const struct nic_peer *peer,
                                   uint32_t message_number) {
    struct nic_incoming *in = find_open(nic, peer, message_number);
    if (in && in != peer->open) {
        unlink_open(in);
        link_open(in);
    }
    return in;
}
