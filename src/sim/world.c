/* A simulated world: set-up, the run, and what is said of it. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/copy_past.h"
#include "base/error.h"
#include "base/pages.h"
#include "hpu/gdb.h"
#include "sim/packet_model.h"
#include "sim/world_private.h"

/* ---- pools ------------------------------------------------------------------------------------
 */

void world_fail(struct spin_world *w, enum spin_code code, const char *format, ...) {
    if (w->failure)
        return;
    va_list list;
    va_start(list, format);
    vsnprintf(w->why.text, sizeof w->why.text, format, list);
    va_end(list);
    w->why.code = w->failure = code;
    sim_stop(w->engine);
}

void *world_take(struct spin_world *w, struct pool *pool) {
    void *object = pool_take(pool);
    if (!object)
        world_fail(w, SPIN_ENOMEM, "out of memory for what is in flight");
    return object;
}

/* ---- set-up -----------------------------------------------------------------------------------
 */

static int set_params(struct spin_world *w, const struct spin_world_options *o,
                      struct spin_error *err) {
    const char *preset = o->preset ? o->preset : "sc17-int";
    int code = world_params_preset(&w->params, preset, err);
    for (int i = 0; i < o->set_count && !code; i++)
        if (!world_cards_behind(o->set[i]))
            code = world_params_set(&w->params, o->set[i], err);
    if (code)
        return code;
    snprintf(w->preset, sizeof w->preset, "%s", preset);
    if (o->topology)
        w->params.network.topology = o->topology;
    if (w->params.network.fail_links)
        return spin_fail(err, SPIN_EARG,
                         "fail_links: links of a world do not break; loss=0.01 loses packets");
    if (w->params.network.mtu_bytes % 64 || w->params.network.mtu_bytes > MAP_L1_PACKETS_SIZE / 2)
        return spin_fail(err, SPIN_EARG,
                         "mtu: %llu bytes; a card takes a multiple of 64, at most %u",
                         (unsigned long long)w->params.network.mtu_bytes, MAP_L1_PACKETS_SIZE / 2);
    return SPIN_OK;
}

/* What some ranks have of their own: the file's, then the options'. */
static int set_cards(struct spin_world *w, const struct spin_world_options *o,
                     struct spin_error *err) {
    struct world_cards *c = &w->cards;
    int code = world_cards_new(c, w->ranks, &w->params, err);
    if (!code && o->cards)
        code = world_cards_file(c, o->cards, err);
    for (int i = 0; i < o->set_count && !code; i++)
        if (world_cards_behind(o->set[i]))
            code = world_cards_set(c, o->set[i], err);
    for (uint32_t i = 0; i < c->count && !code; i++)
        if (world_params_hpus(&c->card[i]->params) > w->most_hpus)
            w->most_hpus = world_params_hpus(&c->card[i]->params);
    return code;
}

static int make_hosts(struct spin_world *w, const struct spin_noise *noise,
                      struct spin_error *err) {
    const struct world_cards *c = &w->cards;
    int code = noise_new(noise, &w->noise, err);
    if (!code)
        code = hosts_new(&w->hosts, w->ranks, &c->card[0]->host, w->noise, err);
    for (uint32_t i = 0; i < w->ranks && !code && c->count > 1; i++)
        host_is(w->hosts, i, &c->card[c->of[i]]->host);
    return code;
}

static int place(struct spin_world *w, struct spin_error *err) {
    uint32_t hosts = w->topology->hosts;
    uint32_t *host_of = packet_place(&w->params.network, hosts, w->ranks);
    w->rank_of = malloc(sizeof *w->rank_of * hosts);
    if (!host_of || !w->rank_of) {
        free(host_of);
        return spin_fail(err, SPIN_ENOMEM, "out of memory for %u hosts", hosts);
    }
    for (uint32_t i = 0; i < w->ranks; i++) {
        w->rank[i].host = host_of[i];
        w->rank_of[host_of[i]] = i;
    }
    free(host_of);
    return SPIN_OK;
}

/* In a large world nothing of a rank is in the cache when its turn comes. */
static void look_ahead(void *context, const struct sim_event *event) {
    const struct spin_world *w = context;
    const char *rank = (const char *)&w->rank[sim_object(event)];
    __builtin_prefetch(rank);
    __builtin_prefetch(rank + RANK_LINE);
}

static void look_closer(void *context, const struct sim_event *event) {
    const struct spin_world *w = context;
    nic_prefetch(w->rank[sim_object(event)].nic);
}

static inline void prefetch(const void *object, size_t bytes) {
    for (size_t i = 0; i < bytes; i += RANK_LINE)
        __builtin_prefetch((const char *)object + i);
}

/* A program goes on where it left its stack. */
static void look_at_thread(void *context, const struct sim_event *event) {
    const struct spin_world *w = context;
    prefetch(&w->rank[sim_object(event)], sizeof *w->rank);
    if (!event->with.u32[1])
        fibre_ahead(w->fibres, event->with.u32[0]);
}

static void look_at_stack(void *context, const struct sim_event *event) {
    const struct spin_world *w = context;
    look_closer(context, event);
    if (!event->with.u32[1] && w->rank[sim_object(event)].main.state != THREAD_WAITING)
        fibre_closer(w->fibres, event->with.u32[0]);
}

/* A packet leaves, has left, or is met by its header. */
static void look_at_flight(void *context, const struct sim_event *event) {
    const struct spin_world *w = context;
    look_ahead(context, event);
    prefetch(pool_at(&w->flights, event->with.u32[0]), sizeof(struct world_flight));
}

static void look_at_packet(void *context, const struct sim_event *event) {
    const struct spin_world *w = context;
    const struct world_flight *f = pool_at(&w->flights, event->with.u32[0]);
    nic_prefetch_bucket(w->rank[sim_object(event)].nic, f->packet);
    prefetch(f->packet, sizeof *f->packet);
}

static void look_at_match(void *context, const struct sim_event *event) {
    const struct spin_world *w = context;
    const struct world_flight *f = pool_at(&w->flights, event->with.u32[0]);
    nic_prefetch_match(w->rank[sim_object(event)].nic, f->packet);
}

/* It is about to come to its card. */
static void look_at_coming(void *context, uint64_t cookie, uint32_t host) {
    const struct spin_world *w = context;
    const char *rank = (const char *)&w->rank[w->rank_of[host]];
    __builtin_prefetch(rank);
    __builtin_prefetch(rank + RANK_LINE);
    __builtin_prefetch(&((const struct world_rank *)rank)->main.process.portals);
    prefetch(pool_at(&w->flights, (uint32_t)cookie), sizeof(struct world_flight));
}

static void look_at_come(void *context, uint64_t cookie, uint32_t host) {
    const struct spin_world *w = context;
    const struct world_flight *f = pool_at(&w->flights, (uint32_t)cookie);
    const struct world_rank *r = &w->rank[w->rank_of[host]];
    __builtin_prefetch(f->packet);
    __builtin_prefetch(&f->packet->bytes);
    nic_prefetch(r->nic);
    __builtin_prefetch(r->main.process.portals);
}

static void look_at_leaving(void *context, const struct sim_event *event) {
    const struct spin_world *w = context;
    const struct world_flight *f = pool_at(&w->flights, event->with.u32[0]);
    nic_prefetch_progress(w->rank[sim_object(event)].nic);
    network_prefetch(w->net, w->rank[sim_object(event)].host);
    __builtin_prefetch(f->packet);
    __builtin_prefetch(f->how.peer);
}

static void look_at_arrival(void *context, const struct sim_event *event) {
    const struct spin_world *w = context;
    look_at_flight(context, event);
    nic_prefetch_table(w->rank[sim_object(event)].nic);
}

/* What was moved counts, and the program may wait for that. */
static void look_at_dma(void *context, const struct sim_event *event) {
    const struct spin_world *w = context;
    const struct world_rank *r = &w->rank[sim_object(event)];
    look_ahead(context, event);
    prefetch(&r->main, 2 * RANK_LINE);
    prefetch(pool_at(&w->dmas, event->with.u32[0]), sizeof(struct world_dma));
}

static void look_at_move(void *context, const struct sim_event *event) {
    const struct spin_world *w = context;
    const struct world_dma *dma = pool_at(&w->dmas, event->with.u32[0]);
    look_closer(context, event);
    nic_prefetch_move(&dma->move);
}

/* A handler goes on where its HPU stands. */
static void look_at_hpu(void *context, const struct sim_event *event) {
    const struct spin_world *w = context;
    const struct world_executor *e = w->executor[event->with.u32[0]];
    look_closer(context, event);
    prefetch(e, 384); /* registers and the first windows */
    nic_prefetch_task(e->task);
}

static void look_at_command(void *context, const struct sim_event *event) {
    const struct spin_world *w = context;
    const struct world_rank *r = &w->rank[sim_object(event)];
    nic_prefetch_message(w->executor[event->with.u32[0]]->task);
    network_prefetch(w->net, r->host);
}

/* A handler has ended. */
static void look_at_end(void *context, const struct sim_event *event) {
    const struct spin_world *w = context;
    look_ahead(context, event);
    __builtin_prefetch(pool_at(&w->ends, event->with.u32[0]));
}

static void look_at_task(void *context, const struct sim_event *event) {
    const struct spin_world *w = context;
    const struct world_end *end = pool_at(&w->ends, event->with.u32[0]);
    look_closer(context, event);
    nic_prefetch_task(end->task);
}

static void look_at_message(void *context, const struct sim_event *event) {
    const struct spin_world *w = context;
    const struct world_end *end = pool_at(&w->ends, event->with.u32[0]);
    nic_prefetch_message(end->task);
}

static const struct sim_module module = {
    .name = "world",
    .kinds = WORLD_KINDS,
    .kind = {
        [WORLD_THREAD_EVENT] = {world_on_thread, look_at_thread, look_at_stack, 0, NULL},
        [WORLD_DEPART_EVENT] = {world_on_depart, look_at_flight, look_at_leaving, 0, NULL},
        [WORLD_LEFT_EVENT] = {world_on_left, look_at_flight, look_at_leaving, 0, NULL},
        [WORLD_MATCHED_EVENT] = {world_on_matched, look_at_arrival, look_at_packet, 0,
                                 look_at_match},
        [WORLD_DMA_EVENT] = {world_on_dma, look_at_dma, look_at_move, 0, NULL},
        [WORLD_HPU_EVENT] = {world_on_hpu, look_ahead, look_at_hpu, 0, look_at_command},
        [WORLD_END_EVENT] = {world_on_end, look_at_end, look_at_task, 0, look_at_message},
        [WORLD_TICK_EVENT] = {world_on_tick, look_ahead, look_closer, 0, NULL},
        [WORLD_LAUNCH_EVENT] = {world_on_launch, look_ahead, look_closer, 0, NULL},
        [WORLD_TASKLET_EVENT] = {world_on_tasklet, look_ahead, look_closer, 0, NULL},
        [WORLD_PAGED_EVENT] = {world_on_paged, look_ahead, look_closer, 0, NULL},
    }};

static int make_network(struct spin_world *w, struct spin_error *err) {
    const struct spin_packet *p = &w->params.network;
    int code = topology_create(&w->topology, p->topology, w->ranks, err);
    if (code)
        return code;
    if (w->topology->hosts < w->ranks)
        return spin_fail(err, SPIN_EARG, "%s has %u hosts, fewer than %u ranks", p->topology,
                         w->topology->hosts, w->ranks);
    const struct net_config config = packet_net_config(p);
    const struct net_callbacks callbacks = {.context = w,
                                            .packet = world_on_packet,
                                            .copied = world_on_copy,
                                            .ahead = look_at_coming,
                                            .closer = look_at_come};
    return network_create(&w->net, w->engine, w->topology, &config, &callbacks, err);
}

static int make(struct spin_world *w, const struct spin_world_options *o, struct spin_error *err) {
    w->ranks = o->ranks;
    w->moving = WORLD_NONE;
    w->catch_crashes = o->catch_crashes;
    w->jit = o->check ? SPIN_JIT_OFF : o->jit;
    w->check = o->check;
    w->fault = o->fault;
    w->progress = o->progress;
    w->user = o->user;
    w->setup = o->setup;
    w->setup_argument = o->setup_argument;
    if (o->gdb && o->gdb_rank >= o->ranks)
        return spin_fail(err, SPIN_EARG, "gdb for rank %u; the world has ranks 0 to %u",
                         o->gdb_rank, o->ranks - 1);
    w->gdb_rank = o->gdb_rank;
    if (o->gdb && !(w->gdb = gdb_many_new(o->gdb_port, o->listening, o->user)))
        return spin_fail(err, SPIN_ENOMEM, "out of memory");
    w->until_ps = o->until_ps ? o->until_ps : SIM_FOREVER;
    w->timing = hpu_timing_find("sc17");
    w->zone = zone_new();
    if (!w->zone)
        return spin_fail(err, SPIN_ENOMEM, "out of memory");
    pool_init(&w->flights, w->zone, sizeof(struct world_flight), UINT32_MAX);
    pool_init(&w->dmas, w->zone, sizeof(struct world_dma), UINT32_MAX);
    pool_init(&w->paged, w->zone, sizeof(struct world_paged), UINT32_MAX);
    pool_init(&w->tasks, w->zone, sizeof(struct world_task), UINT32_MAX);
    pool_init(&w->ends, w->zone, sizeof(struct world_end), UINT32_MAX);
    int code = set_params(w, o, err);
    if (!code)
        code = set_cards(w, o, err);
    if (code)
        return code;
    w->trace_path = o->trace ? strdup(o->trace) : NULL;
    w->picture_path = o->picture ? strdup(o->picture) : NULL;
    w->links_path = o->links ? strdup(o->links) : NULL;
    code = timeline_view_new(&w->timeline.view, &o->view, w->ranks, err);
    if (code)
        return code;
    code = o->pcap ? world_capture(w, o->pcap, err) : 0;
    if (code)
        return code;
    w->rank = pages_new(sizeof *w->rank * w->ranks);
    if (!w->rank || (o->trace && !w->trace_path) || (o->picture && !w->picture_path) ||
        (o->links && !w->links_path))
        return spin_fail(err, SPIN_ENOMEM, "out of memory for %u ranks", w->ranks);
    w->engine = sim_engine_new(err);
    if (!w->engine)
        return SPIN_ENOMEM;
    code = sim_engine_join(w->engine, &module, w, &w->sim, err);
    if (!code)
        code = make_network(w, err);
    if (!code)
        code = make_hosts(w, &o->noise, err);
    if (!code)
        code = place(w, err);
    if (!code)
        code = nic_pool_new(&w->packets, (uint32_t)w->params.network.mtu_bytes, err);
    if (code)
        return code;
    nic_pool_in(w->packets, w->zone);
    return world_ranks_new(w, err);
}

int spin_world_new(struct spin_world **out, const struct spin_world_options *o,
                   struct spin_error *err) {
    *out = NULL;
    if (o->ranks < 1 || o->ranks > WORLD_MOST_RANKS)
        return spin_fail(err, SPIN_EARG, "a world of %u ranks; the limits are 1 and %u", o->ranks,
                         WORLD_MOST_RANKS);
    struct spin_world *w = calloc(1, sizeof *w);
    if (!w)
        return spin_fail(err, SPIN_ENOMEM, "out of memory");
    int code = make(w, o, err);
    if (code)
        spin_world_free(w);
    else
        *out = w;
    return code;
}

void spin_world_free(struct spin_world *w) {
    if (!w)
        return;
    world_flights_free(w);
    world_dmas_free(w);
    world_ranks_free(w);
    world_hpus_free(w);
    gdb_many_free(w->gdb);
    world_programs_free(w);
    world_processes_free(w);
    network_destroy(w->net);
    topology_destroy(w->topology);
    hosts_free(w->hosts);
    noise_free(w->noise);
    nic_pool_free(w->packets);
    sim_engine_free(w->engine);
    pages_keep(w->rank, sizeof *w->rank * w->ranks, sizeof *w->rank * w->ranks);
    free(w->rank_of);
    world_cards_free(&w->cards);
    pool_clear(&w->tasks);
    pool_clear(&w->ends);
    pool_clear(&w->paged);
    free(w->trace_path);
    free(w->picture_path);
    free(w->links_path);
    world_capture_free(w);
    timeline_free(&w->timeline);
    zone_free(w->zone);
    free(w);
}

int spin_world_check(const char *assignment, struct spin_error *err) {
    struct world_params scratch;
    int code = world_params_preset(&scratch, "sc17-int", err);
    const char *own = world_cards_behind(assignment);
    if (code)
        return code;
    return own ? world_params_set_own(&scratch, own, err)
               : world_params_set(&scratch, assignment, err);
}

bool spin_world_parameter(const struct spin_world *w, int i, struct spin_parameter *row) {
    int k = 0;
    if (world_params_row(&w->params, w->preset, i, row))
        return true;
    while (world_params_row(&w->params, w->preset, k, row))
        k++;
    return world_cards_row(&w->cards, w->preset, i - k, row);
}

/* ---- the run ----------------------------------------------------------------------------------
 */

static void say_why_stopped(struct spin_world *w) {
    static const char advice[] = "no virtual time passes in its program, only in calls: where it "
                                 "waits for memory to change it should call spin_work, "
                                 "sched_yield or PtlCTGet";
    const struct world_watch *s = &w->watch;
    char where[200] = "";
    unsigned rank = s->thread ? s->thread->rank->index : 0;
    if (s->at)
        world_where(w, s->at, where, sizeof where);
    if (s->reason == WATCH_REPEATS)
        world_fail(w, SPIN_ELIMIT, "rank %u watches memory in %s for %u s without a call; %s", rank,
                   where, s->ticks / 100, advice);
    else if (s->reason == WATCH_COMPUTES)
        world_fail(w, SPIN_ELIMIT,
                   "rank %u computes in %s for %u s without a call; %s; if it needs longer, set "
                   "patience=SECONDS",
                   rank, where, s->ticks / 100, advice);
}

/* In pieces where somebody wants to know how far it is. */
static int run_engine(struct spin_world *w, struct spin_error *err) {
    const uint64_t piece = 16384; /* events: some milliseconds */
    if (!w->progress)
        return sim_run(w->engine, w->until_ps, UINT64_MAX, err);
    for (;;) {
        uint64_t before = sim_engine_counts(w->engine).handled;
        int code = sim_run(w->engine, w->until_ps, piece, err);
        struct sim_counts now = sim_engine_counts(w->engine);
        if (!code && now.handled - before == piece)
            w->progress(w->user, now.now_ps);
        if (code || now.handled - before < piece || w->watch.reason || w->watch.interrupted ||
            w->failure)
            return code;
    }
}

int world_run(struct spin_world *w, struct spin_error *err) {
    if (w->ran)
        return spin_fail(err, SPIN_EARG, "a world runs once; make another one");
    w->ran = true;
    int code = world_programs_load(w, err);
    if (code)
        return code;
    world_crashes(w, w->catch_crashes);
    if (w->catch_crashes && !w->gdb) /* a session takes as long as it takes, and ^C ends it */
        world_watch_start(w);
    world_start_ranks(w);
    if (!w->failure)
        do
            code = run_engine(w, err);
        while (!code && world_processes_wait(w));
    copy_past_end();
    world_watch_stop(w);
    world_processes_end(w);
    world_crashes(w, false);
    if (!code && w->watch.reason)
        say_why_stopped(w);
    if (!code && w->failure) {
        if (err)
            *err = w->why;
        code = w->failure;
    }
    if (!code)
        code = network_check(w->net, err);
    if (!code)
        code = world_verdict(w, err);
    int drawn = world_draw(w, code ? NULL : err); /* the picture of a deadlock is worth having */
    if (w->links_path && !drawn) {
        struct spin_packet_result links = {0};
        drawn = packet_links(w->topology, w->net, sim_engine_counts(w->engine).now_ps, &links,
                             w->links_path, code ? NULL : err);
    }
    if (w->pcap && !drawn)
        drawn = world_capture_end(w, code ? NULL : err);
    return code ? code : drawn;
}

int spin_world_run(struct spin_world *w, int (*main)(void *argument), void *argument,
                   struct spin_error *err) {
    w->main = main;
    w->argument = argument;
    return world_run(w, err);
}

struct spin_world_result spin_world_result(const struct spin_world *w) {
    struct spin_world_result r = {
        .ranks = w->ranks, .counts = w->counts, .first_fault = w->first_fault};
    struct net_counts n = network_counts(w->net);
    struct host_counts h = hosts_counts(w->hosts);
    r.counts.packets = n.injected;
    r.counts.lost = n.injected + n.duplicated - n.in_flight - n.fate[NET_DELIVERED];
    r.counts.dma_bytes = h.dma_bytes;
    r.counts.memory_bytes = h.memory_bytes;
    r.counts.events = sim_engine_counts(w->engine).handled;
    for (uint32_t i = 0; i < w->ranks; i++) {
        const struct world_rank *rank = &w->rank[i];
        if (rank->card)
            world_pspin_count(rank, &r.counts);
        world_paging_count(rank, &r.counts);
        r.counts.retransmitted += nic_counts(rank->nic)->retransmitted;
        r.counts.flow_control += nic_counts(rank->nic)->flow_control;
        r.counts.handled_packets += nic_counts(rank->nic)->handled_packets;
        r.counts.handled_bytes += nic_counts(rank->nic)->handled_bytes;
        r.counts.dropped += portals_dropped(nic_portals(rank->nic));
        r.makespan_ps = world_later(r.makespan_ps, rank->main.clock_ps);
        if (rank->ended && rank->status != 0 && r.failed++ == 0) {
            r.first_failed = i;
            r.first_status = rank->status;
            r.first_exited = rank->exited;
        }
    }
    return r;
}

bool spin_world_has_program(const struct spin_world *w, uint32_t rank) {
    return rank < w->ranks && !w->rank[rank].alone;
}

uint64_t spin_world_finish_ps(const struct spin_world *w, uint32_t rank, int *status) {
    if (rank >= w->ranks)
        return 0;
    if (status)
        *status = w->rank[rank].status;
    return w->rank[rank].main.clock_ps;
}

bool spin_world_card(const struct spin_world *w, uint32_t rank, struct spin_world_card *card) {
    if (rank >= w->ranks)
        return false;
    const struct world_rank *r = &w->rank[rank];
    const struct nic_counts *n = nic_counts(r->nic);
    *card = (struct spin_world_card){.kind = r->params->is_pspin ? "pspin" : "sc17",
                                     .hpus = world_params_hpus(r->params),
                                     .packets_sent = n->sent,
                                     .packets_received = n->received,
                                     .packets_retransmitted = n->retransmitted,
                                     .messages_sent = n->messages_out,
                                     .messages_received = n->messages_in,
                                     .handlers = n->tasks,
                                     .flow_control = n->flow_control};
    if (r->card)
        world_pspin_tell(r, card);
    return true;
}
