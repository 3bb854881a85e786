/* libFuzzer target: the check of requests to storage nodes, as cards and hosts make it. The first
 * two bytes say which trust model the node has and whether the request is signed correctly (the
 * fuzzer will not find a signature); the rest is the message. What is accepted stays within the
 * node's medium and within the message. */
#include "../../handlers/storage/store_request.h"
#include "fuzz.h"

enum { RANK = 3, BLOCKS = 1000, SOURCE = 9 };

static void sign(uint8_t *message, const struct storage_key *key, uint32_t trust) {
    struct storage_head h;
    memcpy(&h, message, sizeof h);
    struct store_grant g = {.capability = h.capability};
    if (!storage_places(&g.capability))
        return;
    store_grant_sign(&g, key, (enum storage_trust)trust);
    h.capability = g.capability;
    memcpy(h.mac, g.mac, sizeof h.mac);
    if (trust == STORAGE_AUTHENTICATED)
        storage_head_tag(g.session, &h, h.tag);
    memcpy(message, &h, sizeof h);
}

/* Its data, packet by packet, is in the message and as long as it says. */
static void look_at_data(const struct storage_head *h, uint64_t bytes) {
    uint64_t at = STORAGE_HEAD, data = 0, packet = h->packet ? h->packet : bytes;
    while (at < bytes) {
        uint64_t end = (at / packet + 1) * packet, tag = h->packet ? STORAGE_TAG_BYTES : 0;
        end = end < bytes ? end : bytes;
        FUZZ_HOLDS(end - at > tag || (end - at == tag && !tag), "a packet has data before its tag");
        FUZZ_HOLDS(storage_data_offset((uint32_t)at, h->packet) == data, "data is in order");
        data += end - at - tag;
        at = end;
    }
    FUZZ_HOLDS(data == h->length, "data is as long as it says");
}

static void look_at_children(const struct storage_head *h) {
    uint32_t first, places = storage_places(&h->capability);
    uint32_t count = storage_children(&h->capability, h->virtual_rank, &first);
    FUZZ_HOLDS(count <= STORAGE_PARITIES && (!count || first + count <= places),
               "children have places");
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t length) {
    if (length < 2 || length > 100000)
        return 0;
    uint32_t trust = 1 + input[0] % 3, session[2] = {0};
    const struct storage_key key = store_key(1, UINT32_MAX, 5);
    const struct storage_node node = {
        .rank = RANK, .trust = trust, .blocks = BLOCKS, .now = 100, .key = {[1] = key}};
    uint64_t bytes = length - 2;
    uint8_t *message = malloc(bytes ? bytes : 1); /* no longer than it is */
    memcpy(message, input + 2, bytes);
    if (input[1] & 1 && bytes >= STORAGE_HEAD)
        sign(message, &key, trust);
    const struct storage_head *h = (const struct storage_head *)(const void *)message;
    enum storage_status status = storage_check(h, bytes, SOURCE, &node, NULL, session);
    FUZZ_HOLDS(status < STORAGE_STATUSES, "a status");
    static struct storage_known place[STORAGE_KNOWN];
    uint32_t learnt = 0;
    const struct storage_known_table known = {place, 1, &learnt};
    memset(place, 0, sizeof place);
    for (int i = 0; i < 2; i++) /* not known, and then perhaps */
        FUZZ_HOLDS(storage_check(h, bytes, SOURCE, &node, &known, session) == status,
                   "a capability that is known changes nothing");
    FUZZ_HOLDS(learnt <= 1, "it is learnt once");
    if (status == STORAGE_DONE) {
        FUZZ_HOLDS(bytes >= STORAGE_HEAD, "there is a head");
        const struct storage_place *place = &h->capability.place[h->virtual_rank];
        FUZZ_HOLDS(h->virtual_rank < STORAGE_PLACES && place->node == RANK, "it is this node");
        FUZZ_HOLDS((uint64_t)place->block * STORAGE_BLOCK + h->offset + h->length <=
                       (uint64_t)BLOCKS * STORAGE_BLOCK,
                   "it is within the medium");
        FUZZ_HOLDS(h->capability.expires >= node.now, "it has not expired");
        FUZZ_HOLDS(storage_sender(h) == SOURCE, "it is the sender's");
        look_at_children(h);
        if (h->operation == STORAGE_READ)
            FUZZ_HOLDS(bytes == STORAGE_HEAD, "a read has no data");
        else
            look_at_data(h, bytes);
    }
    free(message);
    return 0;
}
