/* A cache of a key-value store on the card. The store is in host memory: eight bytes a key, of
 * which four are the value. A write goes to the cache and through to the store; a read is answered
 * from the cache, or from the store and then kept. The set of a key is its remainder, so a request
 * touches one set, under that set's lock, and evicts within it what was used longest ago. */
#include <handler.h>
#include <packets.h>

#include "kvstore.h"

/* The way that has the key, or the one to give up for it. */
static uint32_t find_way(const kvstore_set_t *set, uint32_t key, bool *hit) {
    uint32_t oldest = 0;
    for (uint32_t i = 0; i < KVSTORE_WAYS; i++) {
        if (set->way[i].key == key + 1) {
            *hit = true;
            return i;
        }
        if (set->way[i].used < set->way[oldest].used)
            oldest = i;
    }
    *hit = false;
    return oldest;
}

__handler__ void kvstore_ph(handler_args_t *args) {
    task_t *task = args->task;
    kvstore_state_t *state = (kvstore_state_t *)task->handler_mem;
    ip_hdr_t *ip = (ip_hdr_t *)task->pkt_mem;
    uint8_t *payload;
    uint32_t bytes;
    GET_IP_UDP_PLD(ip, payload, bytes);
    kvstore_request_t *request = (kvstore_request_t *)payload;
    if (bytes < sizeof *request || request->key >= task->host_mem_size / 8)
        return;
    uint64_t host = ((uint64_t)task->host_mem_high << 32 | task->host_mem_low) + request->key * 8;
    kvstore_set_t *set = &state->set[request->key % KVSTORE_SETS];
    spin_cmd_t command;
    bool hit;

    spin_lock_lock(&set->lock);
    uint32_t way = find_way(set, request->key, &hit);
    if (request->operation == KVSTORE_WRITE) {
        set->way[way].value = request->value;
        spin_write_to_host(host, request->value, &command);
        spin_cmd_wait(command); /* before the lock is free: the next write must come after it */
    } else if (!hit) {
        uint32_t *value = &set->way[way].value;
        spin_dma_from_host(host, (uint32_t)value, sizeof *value, false, &command);
        spin_cmd_wait(command);
    }
    set->way[way].key = request->key + 1;
    set->way[way].used = ++set->clock;
    uint32_t value = set->way[way].value;
    spin_lock_unlock(&set->lock);
    amo_add(hit ? &state->hits : &state->misses, 1);

    if (request->operation == KVSTORE_READ) {
        uint32_t peer = ip->source_id;
        ip->source_id = ip->dest_id;
        ip->dest_id = peer;
        request->value = value;
        spin_send_packet(ip, ip->length, &command);
    }
}
