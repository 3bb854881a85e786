/* The handler of a storage node that validates a client's write request before anything is stored
 * (DFS'22 section IV): for clients that are trusted a ticket, for others a signed capability. A
 * request that is accepted has an entry in the table of requests; others are counted. */
#include <handler.h>

#include "validate.h"

/* Extent, rights and time. */
static bool is_allowed(const struct validate_request *r, uint32_t now) {
    const struct validate_capability *c = &r->capability;
    uint32_t from = r->offset - c->first;
    return c->rights & VALIDATE_WRITE && now < c->expires && from <= c->bytes &&
           r->length <= c->bytes - from;
}

static void enter(const task_t *task, const struct validate_request *r) {
    struct validate_table *table = task->scratchpad[task->home_cluster_id];
    uint32_t i = __atomic_fetch_add(&table->accepted, 1, __ATOMIC_RELAXED) % VALIDATE_TABLE;
    table->entry[i].client = r->capability.client;
    table->entry[i].object = r->capability.object;
    table->entry[i].offset = r->offset;
    table->entry[i].length = r->length;
    table->entry[i].received = 0;
}

static void deny(struct validate_node *node) {
    __atomic_fetch_add(&node->denied, 1, __ATOMIC_RELAXED);
}

__handler__ void validate_ticket(handler_args_t *args) {
    const task_t *task = args->task;
    const struct validate_request *r = task->pkt_mem;
    struct validate_node *node = task->handler_mem;
    if (r->signature == node->ticket && is_allowed(r, node->now))
        enter(task, r);
    else
        deny(node);
}

static bool is_signed(const struct validate_request *r, const struct validate_node *node) {
    return r->signature == validate_sign(&r->capability, node->key[0], node->key[1]);
}

static bool is_known(const struct validate_request *r, const struct validate_table *table) {
    uint32_t at = r->signature % VALIDATE_KNOWN;
    const uint32_t *was = (const uint32_t *)&table->known[at].capability;
    const uint32_t *is = (const uint32_t *)&r->capability;
    if (!r->signature || table->known[at].signature != r->signature)
        return false;
    for (uint32_t i = 0; i < sizeof r->capability / 4; i++)
        if (was[i] != is[i])
            return false;
    return true;
}

__handler__ void validate_capability(handler_args_t *args) {
    const task_t *task = args->task;
    const struct validate_request *r = task->pkt_mem;
    struct validate_node *node = task->handler_mem;
    if (is_signed(r, node) && is_allowed(r, node->now))
        enter(task, r);
    else
        deny(node);
}

/* The same, but a capability that was right before is compared with what it was. */
__handler__ void validate_known(handler_args_t *args) {
    const task_t *task = args->task;
    const struct validate_request *r = task->pkt_mem;
    struct validate_node *node = task->handler_mem;
    struct validate_table *table = task->scratchpad[task->home_cluster_id];
    bool known = is_known(r, table);
    if (!known && is_signed(r, node)) {
        known = true;
        table->known[r->signature % VALIDATE_KNOWN].capability = r->capability;
        table->known[r->signature % VALIDATE_KNOWN].signature = r->signature;
    }
    if (known && is_allowed(r, node->now))
        enter(task, r);
    else
        deny(node);
}
