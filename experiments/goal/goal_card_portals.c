/* GOAL's Portals dialect: puts, gets, entries and tests on a portal table entry that all ranks
 * have, with counters by number. A put counts when it has left, a get when its data is there, an
 * entry when a message has come to it (or had come before it, to the overflow list). As in
 * LogGOPSim a put with tag -1 sends nothing and counts once. */
#include <stdlib.h>
#include <string.h>

#include "goal_card_private.h"

/* ---- counters ---- */

static int counter_order(const void *a, const void *b) {
    const struct card_counter *x = a, *y = b;
    return x->name < y->name ? -1 : x->name > y->name;
}

static struct card_counter *counter_of(const struct card_rank *r, uint32_t name) {
    const struct card_counter key = {.name = name};
    return name == GOAL_NONE ? NULL
                             : bsearch(&key, r->counter, r->counters, sizeof key, counter_order);
}

/* The names of all counters that its operations have, each once. */
static bool name_counters(struct card_rank *r) {
    const struct spin_goal *goal = r->all->goal;
    uint32_t count = 0;
    r->counter = calloc(2 * (size_t)r->ops + 1, sizeof *r->counter);
    if (!r->counter)
        return false;
    for (uint32_t op = r->first_op; op < r->first_op + r->ops; op++) {
        const struct goal_portals *x = goal_portals_of(goal, op);
        if (x && x->ct != GOAL_NONE)
            r->counter[count++].name = x->ct;
        if (x && x->oct != GOAL_NONE)
            r->counter[count++].name = x->oct;
    }
    qsort(r->counter, count, sizeof *r->counter, counter_order);
    for (uint32_t i = 0; i < count; i++)
        if (!r->counters || r->counter[r->counters - 1].name != r->counter[i].name)
            r->counter[r->counters++] = r->counter[i];
    return true;
}

static int bind_one(struct card_rank *r, void *start, ptl_handle_ct_t ct, unsigned int options,
                    ptl_handle_md_t *md) {
    const ptl_md_t of = {.start = start,
                         .length = r->all->most_bytes,
                         .options = options,
                         .eq_handle = PTL_EQ_NONE,
                         .ct_handle = ct};
    return PtlMDBind(r->job.ni, &of, md);
}

static int bind_both(struct card_rank *r, ptl_handle_ct_t ct, ptl_handle_md_t *put,
                     ptl_handle_md_t *get) {
    bool counts = ct != PTL_CT_NONE;
    int code = bind_one(r, r->all->out, ct, counts ? PTL_MD_EVENT_CT_SEND : 0, put);
    return code == PTL_OK ? bind_one(r, r->all->in, ct, counts ? PTL_MD_EVENT_CT_REPLY : 0, get)
                          : code;
}

int card_portals_open(struct card_rank *r) {
    const char *handlers = r->all->options->handlers;
    const char *what = "PtlPTAlloc";
    r->first_test = GOAL_ANY;
    int code = PtlPTAlloc(r->job.ni, 0, PTL_EQ_NONE, PTL_PT_ANY, &r->pt);
    if (code == PTL_OK && !name_counters(r))
        code = PTL_NO_SPACE;
    if (code == PTL_OK && handlers) {
        code = PtlImageLoad(r->job.ni, handlers, &r->image);
        what = PtlImageError();
    }
    if (code == PTL_OK) {
        what = "PtlMDBind";
        code = bind_both(r, PTL_CT_NONE, &r->put, &r->get);
    }
    for (uint32_t i = 0; code == PTL_OK && i < r->counters; i++) {
        what = "PtlCTAlloc";
        code = PtlCTAlloc(r->job.ni, &r->counter[i].ct);
        if (code == PTL_OK)
            code = bind_both(r, r->counter[i].ct, &r->counter[i].put, &r->counter[i].get);
    }
    return code == PTL_OK ? PTL_OK : card_failed(r, GOAL_ANY, what, code);
}

/* What is left goes with the interface. */
void card_portals_close(struct card_rank *r) {
    free(r->counter);
    r->counter = NULL;
}

/* ---- operations ---- */

struct portals_op {
    uint32_t op;
    struct goal_op o;
    const struct goal_portals *x;
    struct card_counter *counts, *when;
};

static int run_put(struct card_rank *r, const struct portals_op *p) {
    ptl_handle_md_t md = p->counts ? p->counts->put : r->put;
    const ptl_process_t to = {.rank = p->o.peer};
    /* A put's first argument travels in its header. */
    ptl_hdr_data_t data = p->x->arg[0] == GOAL_NO_VALUE ? 0 : p->x->arg[0];
    if (p->o.tag == GOAL_ANY) {
        const ptl_ct_event_t once = {.success = 1};
        if (!p->counts)
            return PTL_OK;
        return p->when ? PtlTriggeredCTInc(p->counts->ct, once, p->when->ct, p->x->threshold)
                       : PtlCTInc(p->counts->ct, once);
    }
    r->messages++;
    r->bytes += p->o.size;
    return p->when ? PtlTriggeredPut(md, 0, p->o.size, PTL_NO_ACK_REQ, to, r->pt, p->o.tag, 0, NULL,
                                     data, p->when->ct, p->x->threshold)
                   : PtlPut(md, 0, p->o.size, PTL_NO_ACK_REQ, to, r->pt, p->o.tag, 0, NULL, data);
}

static int run_get(struct card_rank *r, const struct portals_op *p) {
    ptl_handle_md_t md = p->counts ? p->counts->get : r->get;
    const ptl_process_t from = {.rank = p->o.peer};
    r->messages++;
    r->bytes += p->o.size;
    return p->when ? PtlTriggeredGet(md, 0, p->o.size, from, r->pt, p->o.tag, 0, NULL, p->when->ct,
                                     p->x->threshold)
                   : PtlGet(md, 0, p->o.size, from, r->pt, p->o.tag, 0, NULL);
}

/* Handler N of a kind is the image's function hhN, phN or chN. */
static int find_handler(struct card_rank *r, uint32_t op, const char *kind, uint32_t number,
                        ptl_handler_t *handler) {
    char name[24];
    *handler = NULL;
    if (number == GOAL_NONE)
        return PTL_OK;
    snprintf(name, sizeof name, "%s%u", kind, number);
    int code = PtlImageFind(r->image, name, handler);
    return code == PTL_OK ? PTL_OK : card_failed(r, op, PtlImageError(), code);
}

static int add_handlers(struct card_rank *r, uint32_t op, const struct goal_portals *x,
                        ptl_me_t *me) {
    int code = find_handler(r, op, "hh", x->hh, &me->header_handler);
    if (code == PTL_OK)
        code = find_handler(r, op, "ph", x->ph, &me->payload_handler);
    if (code == PTL_OK)
        code = find_handler(r, op, "ch", x->ch, &me->completion_handler);
    if (code == PTL_OK && x->mem)
        code = PtlHPUAllocMem(x->mem, r->job.ni, &me->hpu_memory);
    me->options |= PTL_ME_HANDLERS;
    return code;
}

static int run_append(struct card_rank *r, const struct portals_op *p) {
    const struct goal_portals *x = p->x;
    ptl_list_t list = x->options & GOAL_OPTION_OVERFLOW ? PTL_OVERFLOW_LIST : PTL_PRIORITY_LIST;
    ptl_handle_me_t entry;
    uint64_t arguments[4] = {0};
    uint32_t given = 0;
    ptl_me_t me = {
        .start = r->all->in,
        .length = p->o.size,
        .ct_handle = p->counts ? p->counts->ct : PTL_CT_NONE,
        .uid = PTL_UID_ANY,
        .options = PTL_ME_OP_PUT | PTL_ME_OP_GET | PTL_ME_EVENT_LINK_DISABLE,
        .match_id = {.rank = p->o.peer == GOAL_ANY ? PTL_RANK_ANY : p->o.peer},
        .match_bits = p->o.tag == GOAL_ANY ? 0 : p->o.tag,
        .ignore_bits = p->o.tag == GOAL_ANY ? ~0ull : 0,
        .hpu_memory = PTL_INVALID_HANDLE,
    };
    int code = PTL_OK;
    if (x->options & GOAL_OPTION_USE_ONCE)
        me.options |= PTL_ME_USE_ONCE;
    if (p->counts)
        me.options |= PTL_ME_EVENT_CT_COMM | PTL_ME_EVENT_CT_OVERFLOW;
    if (x->hh != GOAL_NONE || x->ph != GOAL_NONE || x->ch != GOAL_NONE)
        code = add_handlers(r, p->op, x, &me);
    /* An entry's arguments are what its handlers' memory begins with. */
    for (uint32_t i = 0; i < 4; i++)
        if (x->arg[i] != GOAL_NO_VALUE) {
            arguments[i] = x->arg[i];
            given = i + 1;
        }
    if (given && x->mem) {
        me.hpu_initial_state = arguments;
        me.hpu_initial_state_length = given * sizeof arguments[0];
    }
    if (code != PTL_OK)
        return code;
    return p->when ? PtlTriggeredMEAppend(r->job.ni, r->pt, &me, list, NULL, &entry, p->when->ct,
                                          x->threshold)
                   : PtlMEAppend(r->job.ni, r->pt, &me, list, NULL, &entry);
}

/* ---- tests ---- */

static int is_true(const struct card_rank *r, uint32_t op, bool *reached) {
    const struct goal_portals *x = goal_portals_of(r->all->goal, op);
    ptl_ct_event_t count;
    int code = PtlCTGet(counter_of(r, x->ct)->ct, &count);
    *reached = count.success + count.failure >= x->threshold;
    return code;
}

static void keep_test(struct card_rank *r, uint32_t op) {
    r->all->next[op] = GOAL_ANY;
    if (r->first_test == GOAL_ANY)
        r->first_test = op;
    else
        r->all->next[r->last_test] = op;
    r->last_test = op;
}

int card_portals_look(struct card_rank *r, bool *any) {
    uint32_t op = r->first_test, next;
    int code = PTL_OK;
    r->first_test = GOAL_ANY;
    for (; op != GOAL_ANY; op = next) {
        bool reached = false;
        next = r->all->next[op];
        if (code == PTL_OK)
            code = is_true(r, op, &reached);
        if (reached)
            card_done(r, op);
        else
            keep_test(r, op);
        *any |= reached;
    }
    return code == PTL_OK ? PTL_OK : card_failed(r, r->first_op, "PtlCTGet", code);
}

int card_portals_run(struct card_rank *r, uint32_t op) {
    const struct spin_goal *goal = r->all->goal;
    const struct goal_portals none = GOAL_PORTALS_NONE, *x = goal_portals_of(goal, op);
    struct portals_op p = {.op = op, .o = goal_at(goal, op), .x = x ? x : &none};
    int code;
    p.counts = counter_of(r, p.x->oct);
    if (p.o.type >= GOAL_TPUT) /* the others have no counter to wait for, whatever a file says */
        p.when = counter_of(r, p.x->ct);
    card_started(r, op);
    switch (p.o.type) {
    case GOAL_CTWAIT:
        keep_test(r, op);
        return PTL_OK;
    case GOAL_PUT:
    case GOAL_TPUT:
        code = run_put(r, &p);
        break;
    case GOAL_GET:
    case GOAL_TGET:
        code = run_get(r, &p);
        break;
    default:
        code = run_append(r, &p);
    }
    if (code != PTL_OK)
        return card_failed(r, op, "the card refuses it", code);
    card_done(r, op);
    return PTL_OK;
}
