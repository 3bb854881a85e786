/* A cache of a key-value store on the card. The store is in host memory: eight bytes per key, of
 * which four are the value. A write goes to the cache and through to the store; a read is answered
 * from the cache, or from the store and then kept. The set of a key is its remainder, so a request
 * touches one set, and evicts within it what was used longest ago.
 *
 * The cache is in L2, where a load takes 21 cycles and all HPUs share a port. So what is asked for
 * most is found first (a set keeps its ways in the order of use), and a read that finds its key
 * takes no lock: it reads the way's tag again after the value, and the tag counts how often the way
 * was given up. Everything else changes a set under its lock. Two reads at once may each put their
 * own way first, and one of them is then not remembered: the order is a hint.
 *
 * Writes to the host are issued under the lock and not waited for: HostDirect carries them out in
 * the order of issue, and a read of host memory does not pass them. */
#include <handler.h>
#include <packets.h>

#include "kvstore.h"

/* The way that has the key, with its tag. KVSTORE_WAYS: none, and the tag is of the way used
 * longest ago. */
static uint32_t find_way(const kvstore_set_t *set, uint32_t order, uint32_t key, uint32_t *tag) {
    for (uint32_t i = 0; i < KVSTORE_WAYS; i++, order >>= 8) {
        uint32_t way = order & 0xff;
        *tag = set->way[way].tag;
        if ((*tag & KVSTORE_KEY) == key + 1)
            return way;
    }
    return KVSTORE_WAYS;
}

/* Puts a way first in the order. */
static void use_way(kvstore_set_t *set, uint32_t order, uint32_t way) {
    uint32_t shift = 0, before;
    if ((order & 0xff) == way)
        return;
    while ((order >> shift & 0xff) != way)
        shift += 8;
    before = order & ((1u << shift) - 1); /* those that were used after it */
    set->order = (order & ~(0xffu << shift) & ~((1u << shift) - 1)) | before << 8 | way;
}

/* Under the set's lock: the key comes into the way used longest ago, whose tag was `tag`. Meanwhile
 * the way is empty. */
static uint32_t bring_in(kvstore_set_t *set, const kvstore_request_t *request, uint64_t host,
                         uint32_t way, uint32_t tag, uint32_t *from_host) {
    uint32_t value = request->value;
    tag = ((tag >> KVSTORE_KEY_BITS) + 1) << KVSTORE_KEY_BITS;
    set->way[way].tag = tag;
    if (request->operation != KVSTORE_WRITE) {
        spin_cmd_t reading;
        spin_dma_from_host(host, (uint32_t)from_host, sizeof *from_host, false, &reading);
        spin_cmd_wait(reading);
        value = *from_host;
    }
    set->way[way].value = value;
    set->way[way].tag = tag | (request->key + 1);
    return value;
}

/* All but a read that finds its key. What was found before the lock may be gone, or have come. */
static uint32_t change_set(kvstore_set_t *set, kvstore_request_t *request, uint64_t host,
                           uint32_t order, uint32_t way, uint32_t tag, bool *hit) {
    uint32_t value;
    while (!spin_lock_try_lock(&set->lock)) {
        /* by atomics alone: waiting by loads first would take as long again */
    }
    if (way == KVSTORE_WAYS || set->way[way].tag != tag)
        way = find_way(set, order, request->key, &tag);
    *hit = way != KVSTORE_WAYS;
    if (!*hit) {
        way = order >> 24;
        value = bring_in(set, request, host, way, tag, &request->value);
    } else if (request->operation == KVSTORE_WRITE) {
        set->way[way].value = value = request->value;
    } else {
        value = set->way[way].value;
    }
    if (request->operation == KVSTORE_WRITE) {
        spin_cmd_t writing;
        spin_write_to_host(host, value, &writing);
    }
    use_way(set, order, way);
    spin_lock_unlock(&set->lock);
    return value;
}

static void reply(ip_hdr_t *ip, kvstore_request_t *request, uint32_t value) {
    uint32_t peer = ip->source_id;
    spin_cmd_t command;
    ip->source_id = ip->dest_id;
    ip->dest_id = peer;
    request->value = value;
    spin_send_packet(ip, ip->length, &command);
}

__handler__ void kvstore_ph(handler_args_t *args) {
    task_t *task = args->task;
    kvstore_state_t *state = (kvstore_state_t *)task->handler_mem;
    kvstore_pad_t *pad = (kvstore_pad_t *)task->scratchpad[args->cluster_id];
    ip_hdr_t *ip = (ip_hdr_t *)task->pkt_mem;
    uint8_t *payload;
    uint32_t bytes;
    GET_IP_UDP_PLD(ip, payload, bytes);
    kvstore_request_t *request = (kvstore_request_t *)payload;
    uint32_t key = request->key;
    if (bytes < sizeof *request || key >= task->host_mem_size / 8)
        return;
    uint64_t host = ((uint64_t)task->host_mem_high << 32 | task->host_mem_low) + key * 8;
    kvstore_set_t *set = &state->set[key % KVSTORE_SETS];
    uint32_t order = set->order, tag, value = 0;
    uint32_t way = find_way(set, order, key, &tag);
    bool reads = request->operation == KVSTORE_READ, hit = reads && way != KVSTORE_WAYS;
    if (hit) {
        value = set->way[way].value;
        hit = set->way[way].tag == tag;
    }
    if (hit)
        use_way(set, order, way);
    else
        value = change_set(set, request, host, order, way, tag, &hit);
    amo_add(hit ? &pad->hits : &pad->misses, 1);
    if (reads)
        reply(ip, request, value);
}
