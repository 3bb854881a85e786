/* A schedule on cards: the world, what is checked before it runs, and the result. */
#include "goal_card.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/error.h"
#include "goal_card_private.h"
#include "sim/world_private.h"

#define MOST_MESSAGE  ((1ull << 32) - 1)
#define MOST_EAGER    (1ull << 30)
#define UNEXPECTED    (4ull << 20) /* bytes of a rank's memory for early messages, at most */
#define LEAST_BUFFERS 8u           /* short messages that it has room for, at least */
#define MOST_DEPTH    4096u        /* messages of a rank that its card has at a time */
#define LONGEST_PS    (1ull << 62)

const char *card_variant(const char *matching) {
    static const char *const names[][2] = {
        {"host", "rdma"}, {"portals", "portals"}, {"handlers", "spin"}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(matching ? matching : "handlers", names[i][0]) == 0)
            return names[i][1];
    return NULL;
}

int goal_card_check(const struct goal_card_options *o, struct spin_error *err) {
    if (!card_variant(o->matching))
        return spin_fail(err, SPIN_EARG, "unknown matching '%s'; there are host, portals, handlers",
                         o->matching);
    if (o->eager_bytes >= MOST_EAGER)
        return spin_fail(err, SPIN_EARG, "S=%llu: cards send less than 1 GiB without a rendezvous",
                         (unsigned long long)o->eager_bytes);
    return SPIN_OK;
}

int card_failed(struct card_rank *r, uint32_t op, const char *what, int code) {
    char *text = r->all->failed, described[100];
    size_t room = sizeof r->all->failed;
    const char *name = PtlToStr(code, PTL_STR_ERROR);
    if (text[0])
        return code;
    if (op == GOAL_ANY)
        snprintf(text, room, "rank %u: %s: %s", r->rank, what, name);
    else
        snprintf(text, room, "rank %u, operation %u (%s): %s: %s", r->rank, op - r->first_op + 1,
                 goal_describe(r->all->goal, op, described, sizeof described), what, name);
    return code;
}

/* ---- before it runs ---- */

static int check_op(const struct card_replay *all, uint32_t rank, uint32_t op,
                    struct spin_error *err) {
    const struct spin_goal *goal = all->goal;
    const struct goal_op o = goal_at(goal, op);
    const struct goal_portals *x = goal_portals_of(goal, op);
    const char *wrong = NULL;
    char text[100];
    bool timed = o.type == GOAL_CALC;
    if (o.type == GOAL_GEM5CALC)
        wrong = "computation that gem5 would time cannot run here; say calc";
    else if (timed ? o.size > LONGEST_PS / 1000 : o.size > MOST_MESSAGE)
        wrong = timed ? "takes longer than the limit of simulated time (53 days)"
                      : "is larger than 4 GiB, the largest message of a card";
    else if (o.type == GOAL_SEND && o.tag == GOAL_ANY)
        wrong = "a send has a tag";
    else if ((o.type == GOAL_GET || o.type == GOAL_TGET) && o.tag == GOAL_ANY)
        wrong = "a get has a tag";
    else if ((o.type == GOAL_TPUT || o.type == GOAL_TGET || o.type == GOAL_TAPPEND ||
              o.type == GOAL_CTWAIT) &&
             (!x || x->ct == GOAL_NONE))
        wrong = "which counter does it wait for (when ... reaches ...)?";
    else if (x && (x->hh != GOAL_NONE || x->ph != GOAL_NONE || x->ch != GOAL_NONE) &&
             !all->options->handlers)
        wrong = "its handlers are in no image: name one by --handlers";
    return wrong ? spin_fail(err, SPIN_EARG, "rank %u, operation %u (%s): %s", rank,
                             op - goal->first_op[rank] + 1,
                             goal_describe(goal, op, text, sizeof text), wrong)
                 : SPIN_OK;
}

/* Early messages need no more room than all short ones of a rank. */
static uint64_t unexpected_bytes(const struct card_replay *all) {
    const struct spin_goal *goal = all->goal;
    uint64_t most = 0, eager = all->options->eager_bytes;
    uint64_t *into = calloc(goal->num_ranks, sizeof *into);
    for (uint32_t i = 0; into && i < goal->op_count; i++) {
        const struct goal_shape *s = goal_shape_of(goal, i);
        if (s->type != GOAL_SEND)
            continue;
        uint64_t *of = &into[goal->ops[i].peer];
        *of += s->size < eager ? s->size : eager;
        most = *of > most ? *of : most;
    }
    free(into);
    most = most < UNEXPECTED ? most : UNEXPECTED;
    uint64_t longest = all->most_bytes < eager ? all->most_bytes : eager;
    /* Twice: a buffer that has less than a whole short message left takes none. */
    most = 2 * most < LEAST_BUFFERS * longest ? LEAST_BUFFERS * longest : 2 * most;
    return most < 4096 ? 4096 : most;
}

static int check_all(struct card_replay *all, struct spin_error *err) {
    const struct spin_goal *goal = all->goal;
    int code = goal_card_check(all->options, err);
    all->portals =
        all->options->handlers; /* an image that cannot be loaded is an error in any case */
    for (uint32_t rank = 0; !code && rank < goal->num_ranks; rank++)
        for (uint32_t op = goal->first_op[rank]; !code && op < goal->first_op[rank + 1]; op++) {
            const struct goal_shape *s = goal_shape_of(goal, op);
            code = check_op(all, rank, op, err);
            all->portals |= s->type > GOAL_CALC;
            all->depth =
                goal_rank_ops(goal, rank) > all->depth ? goal_rank_ops(goal, rank) : all->depth;
            if (s->type != GOAL_CALC && s->size > all->most_bytes)
                all->most_bytes = s->size;
        }
    all->depth = all->depth < MOST_DEPTH ? all->depth + 1 : MOST_DEPTH;
    all->unexpected_bytes = all->options->unexpected_bytes;
    if (!code && !all->unexpected_bytes)
        all->unexpected_bytes = unexpected_bytes(all);
    return code;
}

/* ---- memory ---- */

/* Pages that nobody touches cost nothing. */
static uint8_t *pages(uint64_t bytes) {
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return at == MAP_FAILED ? NULL : at;
}

static bool set_up_ranks(struct card_replay *all) {
    const struct spin_goal *goal = all->goal;
    for (uint32_t rank = 0; rank < goal->num_ranks; rank++) {
        struct card_rank *r = &all->rank[rank];
        r->all = all;
        r->rank = rank;
        r->first_op = goal->first_op[rank];
        r->ops = goal_rank_ops(goal, rank);
        r->first_test = GOAL_ANY;
        r->cpus = 1;
        for (uint32_t op = r->first_op; op < r->first_op + r->ops; op++) {
            const struct goal_shape *s = goal_shape_of(goal, op);
            all->waits[op] = s->waits;
            r->cpus = s->cpu >= r->cpus ? s->cpu + 1u : r->cpus;
        }
        r->cpu = calloc(r->cpus, sizeof *r->cpu);
        if (!r->cpu)
            return false;
    }
    return true;
}

static int set_up(struct card_replay *all, struct spin_error *err) {
    const struct spin_goal *goal = all->goal;
    size_t ops = (size_t)goal->op_count + 1;
    all->most_bytes = all->most_bytes ? all->most_bytes : 1;
    all->out = pages(all->most_bytes);
    all->in = pages(all->most_bytes);
    all->waits = calloc(ops, sizeof *all->waits);
    all->next = calloc(ops, sizeof *all->next);
    all->running = calloc(ops / 64 + 1, sizeof *all->running);
    all->rank = calloc(goal->num_ranks, sizeof *all->rank);
    bool good = all->out && all->in && all->waits && all->next && all->running && all->rank &&
                set_up_ranks(all);
    return good ? SPIN_OK : spin_fail(err, SPIN_ENOMEM, "out of memory for the replay");
}

/* After the world: ranks that did not come to their end have left their memory behind. */
static void clean_up(struct card_replay *all) {
    for (uint32_t rank = 0; all->rank && rank < all->goal->num_ranks; rank++) {
        struct card_rank *r = &all->rank[rank];
        spin_p2p_close(r->p2p);
        card_portals_close(r);
        free(r->cpu);
    }
    if (all->out)
        munmap(all->out, all->most_bytes);
    if (all->in)
        munmap(all->in, all->most_bytes);
    free(all->waits);
    free(all->next);
    free(all->running);
    free(all->rank);
}

/* ---- the result ---- */

static void add_counts(struct spin_p2p_counts *to, const struct spin_p2p_counts *of) {
    uint64_t *sum = (uint64_t *)to;
    const uint64_t *more = (const uint64_t *)of;
    _Static_assert(sizeof *to % sizeof *sum == 0, "all are counts");
    for (size_t i = 0; i < sizeof *to / sizeof *sum; i++)
        sum[i] += more[i];
}

static int gather(const struct card_replay *all, const struct spin_world *world,
                  struct goal_card_result *result, struct spin_error *err) {
    const struct spin_goal *goal = all->goal;
    struct spin_goal_result *run = &result->run;
    uint64_t received = 0, sent = 0;
    run->ranks = goal->num_ranks;
    run->finish_ps = malloc((size_t)goal->num_ranks * sizeof *run->finish_ps);
    if (!run->finish_ps)
        return spin_fail(err, SPIN_ENOMEM, "out of memory");
    for (uint32_t rank = 0; rank < goal->num_ranks; rank++) {
        const struct card_rank *r = &all->rank[rank];
        run->finish_ps[rank] = r->finish_ps - r->began_ps;
        if (run->finish_ps[rank] > run->makespan_ps)
            run->makespan_ps = run->finish_ps[rank];
        run->messages += r->messages;
        run->bytes += r->bytes;
        received += r->received;
        add_counts(&result->p2p, &r->counts);
    }
    for (uint32_t i = 0; i < goal->op_count; i++)
        sent += goal_shape_of(goal, i)->type == GOAL_SEND;
    run->unreceived = sent - received;
    result->world = spin_world_result(world).counts;
    result->quiet_ps = all->portals ? world->now_ps - all->rank[0].began_ps : 0;
    run->engine_events = result->world.events;
    run->events = goal->op_count + run->messages;
    run->memory_bytes = result->world.memory_bytes + goal_bytes(goal);
    return SPIN_OK;
}

static int verdict(const struct card_replay *all, const struct spin_world *world, int code,
                   struct spin_error *err) {
    struct spin_world_result r = spin_world_result(world);
    if (all->failed[0])
        return spin_fail(err, SPIN_ELIMIT, "%s", all->failed);
    if (r.counts.faults)
        return spin_fail(err, SPIN_EFORMAT, "a handler failed: %s", r.first_fault);
    if (code == SPIN_EDEADLOCK && all->done < all->goal->op_count)
        return goal_deadlock(all->goal, all->running, all->done, err);
    if (code == SPIN_EDEADLOCK) /* the end of one with Portals operations */
        return SPIN_OK;
    if (!code && r.failed)
        return spin_fail(err, SPIN_EFORMAT, "rank %u failed", r.first_failed);
    return code;
}

int goal_card_run(const struct spin_goal *goal, const struct goal_card_options *options,
                  struct goal_card_result *result, struct spin_error *err) {
    struct card_replay all = {.goal = goal, .options = options};
    struct spin_world_options world_options = options->world;
    struct spin_world *world = NULL;
    *result = (struct goal_card_result){0};
    world_options.ranks = goal->num_ranks;
    int code = check_all(&all, err);
    if (!code)
        code = set_up(&all, err);
    if (!code)
        code = spin_world_new(&world, &world_options, err);
    if (!code) {
        code = spin_world_run(world, card_rank_main, &all, err);
        code = verdict(&all, world, code, err);
        if (!code)
            code = gather(&all, world, result, err);
        spin_world_free(world);
    }
    clean_up(&all);
    return code;
}

void goal_card_result_free(struct goal_card_result *result) {
    spin_goal_result_free(&result->run);
}
