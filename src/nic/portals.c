/* A process and its interfaces: handles, identity, limits, status. */
#include "nic/portals_private.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

#define MOST_HPU_MEMORIES 4096

void portals_config_default(struct portals_config *config, uint32_t mtu_bytes) {
    struct spin_limits card;
    spin_limits_default(&card);
    *config = (struct portals_config){
        .features = PTL_TARGET_BIND_INACCESSIBLE,
        .hpu_memory_bytes = card.handler_bytes,
        .hpu_limits = {.max_user_hdr_size = 256,
                       .max_payload_size = mtu_bytes,
                       .max_handler_mem = card.state_bytes,
                       .max_initial_state = card.state_bytes,
                       .min_fragmentation_limit = 64},
    };
}

int portals_new(struct portals **out, const struct portals_config *config,
                const struct portals_owner *owner, struct spin_error *err) {
    *out = NULL;
    struct portals *p = zone_take_clear(config->zone, sizeof *p);
    if (!p)
        return spin_fail(err, SPIN_ENOMEM, "no memory for a process of Portals");
    p->config = *config;
    p->owner = *owner;
    if (config->image_limits)
        p->image_limits = *config->image_limits;
    else
        spin_limits_default(&p->image_limits);
    pool_init(&p->operations, config->zone, sizeof(struct portals_operation), UINT32_MAX);
    *out = p;
    return SPIN_OK;
}

struct nic_address portals_address(const struct portals *p) {
    return p->config.address;
}

/* ---- Handles ---- */

const struct portals_object p4_nobody = {.handle = 0};

ptl_handle_any_t p4_handle_new(const struct portals_ni *ni, enum handle_kind kind, void *of) {
    const struct pool *pool = p4_pool_of((struct portals_ni *)(uintptr_t)ni, kind);
    struct portals_object *object = of;
    /* What the index leaves is the generation: never all ones, so that no handle is PTL_EQ_NONE. */
    uint32_t bits = 32u - (uint32_t)__builtin_clz(pool->mask), most = HANDLE_CODE_MASK >> bits;
    uint32_t generation = object->slot.generation;
    if (generation >= most) /* few live as often */
        generation = most ? generation % most : 0;
    object->handle = (uint32_t)kind << 29 | ni->number << HANDLE_CODE_BITS | generation << bits |
                     object->slot.index;
    return object->handle;
}

void p4_object_give(struct pool *pool, void *object) {
    ((struct portals_object *)object)->handle = HANDLE_NI; /* that of no object */
    pool_give(pool, object);
}

struct portals_ni *p4_ni_of(struct portals *p, ptl_handle_ni_t handle) {
    uint32_t number = handle >> HANDLE_CODE_BITS;
    return number < PORTALS_INTERFACES && !(handle & HANDLE_CODE_MASK) ? p->ni[number] : NULL;
}

int portals_ni_handle(struct portals *p, ptl_handle_any_t handle, ptl_handle_ni_t *out) {
    struct portals_ni *ni = p4_ni_of(p, handle);
    enum handle_kind kind = handle >> 29;
    if (!ni && kind >= HANDLE_EQ && kind <= HANDLE_HPU && !p4_object_of(p, kind, handle, &ni))
        ni = NULL;
    if (!ni || !out)
        return PTL_ARG_INVALID;
    *out = ni->number << HANDLE_CODE_BITS;
    return PTL_OK;
}

/* ---- Interfaces ---- */

static bool options_are_valid(unsigned options) {
    unsigned matching = options & (PTL_NI_MATCHING | PTL_NI_NO_MATCHING);
    unsigned addressing = options & (PTL_NI_LOGICAL | PTL_NI_PHYSICAL);
    return !(options & ~(unsigned)PTL_NI_INIT_OPTIONS_MASK) &&
           (matching == PTL_NI_MATCHING || matching == PTL_NI_NO_MATCHING) &&
           (addressing == PTL_NI_LOGICAL || addressing == PTL_NI_PHYSICAL);
}

static struct portals_ni *ni_new(struct portals *p, unsigned options,
                                 const ptl_ni_limits_t *desired, const ptl_ni_limits_t *usual) {
    struct zone *zone = p->config.zone;
    struct portals_ni *ni = zone_take_clear(zone, sizeof *ni);
    if (!ni)
        return NULL;
    ni->p = p;
    ni->options = options;
    ni->number = p4_interface_number(options);
    ni->rank = PTL_RANK_ANY;
    ptl_ni_limits_t own;
    if (!usual)
        portals_limits_default(&own, NULL, NULL);
    if (desired)
        ni->limits = *desired;
    const ptl_size_t wish = ni->limits.max_volatile_size;
    portals_limits_fill(&ni->limits, usual ? usual : &own);
    portals_limits_clamp(&ni->limits);
    ni->volatile_is_limited = wish > 0 && wish == ni->limits.max_volatile_size;
    ni->limits.features &= p->config.features;
    const ptl_ni_limits_t *limits = &ni->limits;
    pool_init(&ni->eqs, zone, sizeof(struct portals_event_queue), (uint32_t)limits->max_eqs);
    pool_init(&ni->cts, zone, sizeof(struct portals_counter), (uint32_t)limits->max_cts);
    pool_init(&ni->mds, zone, sizeof(struct portals_descriptor), (uint32_t)limits->max_mds);
    pool_init(&ni->entries, zone, sizeof(struct portals_entry), (uint32_t)limits->max_entries);
    pool_init(&ni->headers, zone, sizeof(struct portals_header),
              (uint32_t)limits->max_unexpected_headers);
    pool_init(&ni->triggers, zone, sizeof(struct portals_trigger),
              (uint32_t)limits->max_triggered_ops);
    pool_init(&ni->hpus, zone, sizeof(struct portals_hpu_memory), MOST_HPU_MEMORIES);
    return ni;
}

/* Calls for each object in use. */
static void each(struct pool *pool, void (*with)(void *object)) {
    for (uint32_t i = 0; i < pool->made; i++) {
        struct pool_slot *slot = pool_at(pool, i);
        if (slot->used)
            with(slot);
    }
}

static void clear_eqs(struct portals_ni *ni) {
    for (uint32_t i = 0; i < ni->eqs.made; i++) {
        struct portals_event_queue *q = pool_find(&ni->eqs, i);
        if (!q)
            continue;
        p4_queue_unshare(ni->p, q);
        p4_ring_free(ni->p, q);
    }
}

static void clear_md(void *object) {
    p4_memory_clear(&((struct portals_descriptor *)object)->memory);
}

static void clear_entry(void *object) {
    struct portals_entry *e = object;
    p4_memory_clear(&e->memory);
    p4_spin_entry_clear(e);
}

static void clear_ct(void *object) {
    struct portals_counter *ct = object;
    p4_cell_give(ct->cell);
    ct->ready = false;
}

/* Counters that are to be looked at, but belong to an interface that goes away. */
static void forget_ready(struct portals *p, const struct portals_ni *ni) {
    struct portals_counter *next, *ct = p->ready_first;
    p->ready_first = p->ready_last = NULL;
    for (; ct; ct = next) {
        next = ct->next_ready;
        ct->next_ready = NULL;
        if (ct->ni == ni)
            continue;
        if (p->ready_last)
            p->ready_last->next_ready = ct;
        else
            p->ready_first = ct;
        p->ready_last = ct;
    }
}

static void ni_free(struct portals_ni *ni) {
    struct portals *p = ni->p;
    p4_arrival_forget(ni);
    p4_operation_forget(ni);
    forget_ready(p, ni);
    each(&ni->entries, clear_entry);
    clear_eqs(ni);
    each(&ni->mds, clear_md);
    each(&ni->cts, clear_ct);
    p4_spin_ni_clear(ni);
    struct pool *pools[] = {&ni->eqs,     &ni->cts,      &ni->mds, &ni->entries,
                            &ni->headers, &ni->triggers, &ni->hpus};
    for (size_t i = 0; i < sizeof pools / sizeof *pools; i++)
        pool_clear(pools[i]);
    for (uint32_t i = 0; i < ni->table_size; i++)
        p4_table_free(ni, ni->table[i]);
    p4_table_release(ni);
    zone_give(p->config.zone, ni->entry_bucket, ni->entry_buckets * sizeof(struct portals_bucket));
    zone_give(p->config.zone, ni->header_bucket,
              ni->header_buckets * sizeof(struct portals_bucket));
    free(ni->own_map);
    p->ni[ni->number] = NULL;
    p->changes++;
    zone_give(p->config.zone, ni, sizeof *ni);
    p->owner.raised(p->owner.context);
}

int portals_ni_init(struct portals *p, ptl_interface_t iface, unsigned options, ptl_pid_t pid,
                    const ptl_ni_limits_t *desired, const ptl_ni_limits_t *usual,
                    ptl_ni_limits_t *actual, ptl_handle_ni_t *handle) {
    if ((iface != PTL_IFACE_DEFAULT && iface != 0) || !options_are_valid(options) || !handle ||
        (pid != PTL_PID_ANY && pid >= PTL_PID_MAX))
        return PTL_ARG_INVALID;
    if (pid != PTL_PID_ANY && pid != p->config.address.pid) {
        for (int i = 0; i < PORTALS_INTERFACES; i++)
            if (p->ni[i]) /* messages know the process by the pid that it has */
                return PTL_PID_IN_USE;
        if (!p->owner.take_pid || !p->owner.take_pid(p->owner.context, pid))
            return PTL_PID_IN_USE;
        p->config.address.pid = pid;
    }
    struct portals_ni **ni = &p->ni[p4_interface_number(options)];
    if (*ni && (*ni)->closing)
        return PTL_NO_SPACE; /* the old one is still in use */
    if (!*ni)
        *ni = ni_new(p, options, desired, usual);
    if (!*ni)
        return PTL_NO_SPACE;
    (*ni)->references++;
    if (actual) {
        const ptl_hpu_limits_t *hpu = &p->config.hpu_limits;
        *actual = (*ni)->limits;
        actual->max_user_hdr_size = hpu->max_user_hdr_size;
        actual->max_payload_size = hpu->max_payload_size;
        actual->max_handler_mem = hpu->max_handler_mem;
        actual->max_initial_state = hpu->max_initial_state;
        actual->min_fragmentation_limit = hpu->min_fragmentation_limit;
        actual->max_cycles_per_byte = hpu->max_cycles_per_byte;
    }
    *handle = (*ni)->number << HANDLE_CODE_BITS;
    return PTL_OK;
}

static bool ni_moves(struct portals_ni *ni) {
    return ni->arrivals || p4_operation_moves(ni);
}

/* Images outlive interfaces, but not the process's use of Portals. */
static void unload_images(struct portals *p) {
    for (int i = 0; i < PORTALS_INTERFACES; i++)
        if (p->ni[i] || p->initialised)
            return;
    while (p->images)
        portals_image_unload(p, p->images);
}

void p4_closing_go_on(struct portals *p, struct portals_ni *ni) {
    if (!ni->abandoned) {
        p->owner.raised(p->owner.context);
    } else if (!ni_moves(ni)) {
        ni_free(ni);
        unload_images(p);
    }
}

int portals_ni_fini(struct portals *p, ptl_handle_ni_t handle) {
    struct portals_ni *ni = p4_ni_of(p, handle);
    if (!ni)
        return PTL_ARG_INVALID;
    if (ni->references > 1) {
        ni->references--;
        return PTL_OK;
    }
    ni->closing = true;
    p->changes++;
    if (ni_moves(ni))
        return PTL_IN_USE;
    ni_free(ni);
    return PTL_OK;
}

int portals_init(struct portals *p) {
    p->initialised++;
    return PTL_OK;
}

bool portals_is_closing(const struct portals_arrival *arrival) {
    return !arrival->ni || arrival->ni->closing;
}

/* What the card still uses goes when it has done with it: p4_closing_progress. */
void portals_fini(struct portals *p) {
    if (!p->initialised || --p->initialised)
        return;
    for (int i = 0; i < PORTALS_INTERFACES; i++)
        if (p->ni[i]) {
            p->ni[i]->closing = p->ni[i]->abandoned = true;
            p->changes++;
            p4_closing_progress(p, p->ni[i]);
        }
    unload_images(p);
    p->owner.raised(p->owner.context); /* whoever waits is interrupted */
}

bool portals_is_initialised(const struct portals *p) {
    return p->initialised > 0;
}

void portals_free(struct portals *p) {
    if (!p)
        return;
    for (int i = 0; i < PORTALS_INTERFACES; i++)
        if (p->ni[i])
            ni_free(p->ni[i]);
    p->initialised = 0;
    unload_images(p);
    p4_operations_clear(p);
    p4_queue_clear(p);
    free(p->image_error);
    zone_give(p->config.zone, p, sizeof *p);
}

/* ---- Status and identity ---- */

int portals_ni_status(struct portals *p, ptl_handle_ni_t handle, ptl_sr_index_t index,
                      ptl_sr_value_t *status) {
    const struct portals_ni *ni = p4_ni_of(p, handle);
    bool refused = index == PTL_SR_REFUSED_PACKETS, failed = index == PTL_SR_FAILED_MESSAGES;
    if (!ni || !status || (!refused && !failed && (unsigned)index >= PTL_SR_LAST))
        return PTL_ARG_INVALID;
    uint64_t count = failed             ? ni->failed
                     : !refused         ? (uint64_t)ni->status[index]
                     : p->owner.refused ? p->owner.refused(p->owner.context)
                                        : 0;
    *status = count < INT_MAX ? (ptl_sr_value_t)count : INT_MAX;
    return PTL_OK;
}

int portals_share_map(struct portals *p, ptl_handle_ni_t handle, ptl_size_t size,
                      const ptl_process_t *map, ptl_rank_t rank) {
    struct portals_ni *ni = p4_ni_of(p, handle);
    if (!ni || !(ni->options & PTL_NI_LOGICAL) || !size || !map || size >= PTL_RANK_ANY)
        return PTL_ARG_INVALID;
    if (ni->map)
        return PTL_IGNORED;
    ni->map = map;
    ni->map_size = size;
    ni->rank = rank;
    return PTL_OK;
}

int portals_set_map(struct portals *p, ptl_handle_ni_t handle, ptl_size_t size,
                    const ptl_process_t *map) {
    struct portals_ni *ni = p4_ni_of(p, handle);
    if (!ni || !size || !map || size >= PTL_RANK_ANY)
        return PTL_ARG_INVALID;
    ptl_process_t *copy = malloc(size * sizeof *map);
    if (!copy)
        return PTL_NO_SPACE;
    memcpy(copy, map, size * sizeof *map);
    ptl_rank_t rank = PTL_RANK_ANY;
    for (uint64_t i = 0; i < size && rank == PTL_RANK_ANY; i++)
        if (map[i].phys.nid == p->config.address.nid && map[i].phys.pid == p->config.address.pid)
            rank = (uint32_t)i;
    int code = portals_share_map(p, handle, size, copy, rank);
    if (code == PTL_OK)
        ni->own_map = copy;
    else
        free(copy);
    return code;
}

int portals_get_map(struct portals *p, ptl_handle_ni_t handle, ptl_size_t size, ptl_process_t *map,
                    ptl_size_t *actual) {
    const struct portals_ni *ni = p4_ni_of(p, handle);
    if (!ni || !(ni->options & PTL_NI_LOGICAL) || (size && !map) || (!size && !actual))
        return PTL_ARG_INVALID;
    if (!ni->map) /* as in the reference implementation */
        return PTL_NO_SPACE;
    if (size > ni->map_size)
        size = ni->map_size;
    if (size)
        memcpy(map, ni->map, size * sizeof *map);
    if (actual)
        *actual = ni->map_size;
    return PTL_OK;
}

int portals_get_uid(struct portals *p, ptl_handle_ni_t handle, ptl_uid_t *uid) {
    if (!p4_ni_of(p, handle) || !uid)
        return PTL_ARG_INVALID;
    *uid = p->config.uid;
    return PTL_OK;
}

int portals_get_phys_id(struct portals *p, ptl_handle_ni_t handle, ptl_process_t *id) {
    if (!p4_ni_of(p, handle) || !id)
        return PTL_ARG_INVALID;
    id->phys.nid = p->config.address.nid;
    id->phys.pid = p->config.address.pid;
    return PTL_OK;
}

int portals_get_id(struct portals *p, ptl_handle_ni_t handle, ptl_process_t *id) {
    const struct portals_ni *ni = p4_ni_of(p, handle);
    if (!ni || !id)
        return PTL_ARG_INVALID;
    if (!(ni->options & PTL_NI_LOGICAL))
        return portals_get_phys_id(p, handle, id);
    if (ni->rank == PTL_RANK_ANY) /* no map yet, or one without this process */
        return PTL_ARG_INVALID;
    id->phys.pid = 0;
    id->rank = ni->rank;
    return PTL_OK;
}

int portals_bundle(struct portals *p, ptl_handle_ni_t handle, bool start) {
    struct portals_ni *ni = p4_ni_of(p, handle);
    if (!ni || (!start && !ni->bundles))
        return PTL_ARG_INVALID;
    ni->bundles += start ? 1 : -1;
    return PTL_OK;
}

const char *portals_check(struct portals *p) {
    for (int n = 0; n < PORTALS_INTERFACES; n++)
        for (uint32_t i = 0; p->ni[n] && i < p->ni[n]->table_size; i++) {
            const char *what =
                p->ni[n]->table[i] ? p4_match_check(p->ni[n], p->ni[n]->table[i]) : NULL;
            if (what)
                return what;
        }
    return NULL;
}

uint64_t portals_no_memory(const struct portals *p) {
    return p->no_memory;
}

uint64_t portals_dropped(const struct portals *p) {
    uint64_t dropped = 0;
    for (uint32_t i = 0; i < PORTALS_INTERFACES; i++)
        if (p->ni[i])
            dropped += (uint64_t)p->ni[i]->status[PTL_SR_DROP_COUNT];
    return dropped;
}
