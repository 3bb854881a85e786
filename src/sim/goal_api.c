/* The public calls on GOAL schedules: files in and out, and a run from beginning to end. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/file_in.h"
#include "sim/goal.h"
#include "sim/loggops.h"
#include "sim/packet_model.h"

/* More would not fit into memory once it is read. */
#define LARGEST_FILE ((size_t)1 << 36)
/* Events between two reports of progress: a tenth of a second or so. */
#define SLICE 1000000

int spin_goal_read(const char *path, struct spin_goal **goal, struct spin_error *err) {
    struct file_in in;
    uint8_t magic[8];
    const uint8_t *text = NULL;
    int code = file_in_open(&in, path, "GOAL schedule", LARGEST_FILE, err);
    if (!code && in.length >= sizeof magic)
        code = file_in_copy(&in, 0, sizeof magic, magic, err);
    if (!code && in.length >= sizeof magic && goal_is_binary(magic, sizeof magic))
        code = goal_read_binary(&in, goal, err);
    else if (!code && !(text = file_in_at(&in, 0, (size_t)in.length, err)))
        code = SPIN_EFILE;
    else if (!code)
        code = goal_read_text(path, (const char *)text, (size_t)in.length, goal, err);
    file_in_close(&in);
    return code;
}

void spin_goal_free(struct spin_goal *goal) {
    goal_free(goal);
}

static int write_to(const struct spin_goal *goal, FILE *out, enum spin_goal_format format,
                    struct spin_error *err) {
    if (format == SPIN_GOAL_TEXT)
        return goal_write_text(goal, out, err);
    goal_write_binary(goal, format == SPIN_GOAL_BINARY_PORTALS, out);
    return SPIN_OK;
}

int spin_goal_write(const struct spin_goal *goal, const char *path, enum spin_goal_format format,
                    struct spin_error *err) {
    if (strcmp(path, "-") == 0)
        return write_to(goal, stdout, format, err);
    struct file_out out;
    int code = file_out_open(&out, path, err);
    if (code)
        return code;
    code = write_to(goal, out.stream, format, err);
    if (code) {
        file_out_abandon(&out);
        return code;
    }
    return file_out_commit(&out, err);
}

struct spin_goal_info spin_goal_info(const struct spin_goal *goal) {
    struct spin_goal_info info = {
        .ranks = goal->num_ranks,
        .cpus = goal->max_cpu + 1u,
        .nics = goal->max_nic + 1u,
        .operations = goal->op_count,
        .dependencies = goal->edge_count,
        .memory_bytes = goal_bytes(goal),
    };
    for (uint32_t i = 0; i < goal->op_count; i++) {
        const struct goal_shape *s = goal_shape_of(goal, i);
        uint32_t peer = goal->ops[i].peer;
        if (s->type == GOAL_SEND) {
            info.sends++;
            info.bytes_sent += s->size;
            if (s->size > info.largest_message)
                info.largest_message = s->size;
        } else if (s->type == GOAL_RECV) {
            info.receives++;
            info.wildcard_receives += peer == GOAL_ANY || s->tag == GOAL_ANY;
        } else if (s->type == GOAL_CALC) {
            info.calcs++;
            info.calc_ns += goal_size_of(s, peer);
        } else {
            info.portals++;
        }
        for (uint32_t e = 0; e < s->edge_count; e++)
            info.start_dependencies += (goal->edges[s->edges + e] & GOAL_ON_START) != 0;
    }
    for (uint32_t rank = 0; rank < goal->num_ranks; rank++)
        if (goal_rank_ops(goal, rank) > info.most_of_a_rank)
            info.most_of_a_rank = goal_rank_ops(goal, rank);
    return info;
}

static int run_engine(struct sim_engine *engine, const struct loggops *replay,
                      const struct packet_model *network, const struct spin_goal *goal,
                      const struct spin_goal_options *options, struct spin_error *err) {
    int code;
    do {
        code = sim_run(engine, SIM_FOREVER, SLICE, err);
        if (options->progress)
            options->progress(options->progress_context, loggops_counts(replay).done,
                              goal->op_count);
    } while (!code && sim_engine_counts(engine).pending && !loggops_stopped(replay) &&
             !(network && packet_model_stopped(network)));
    return code;
}

static int gather(const struct loggops *replay, const struct sim_engine *engine,
                  const struct packet_model *network, const struct spin_goal *goal,
                  struct spin_goal_result *result, struct spin_error *err) {
    struct loggops_counts counts = loggops_counts(replay);
    struct sim_counts engine_counts = sim_engine_counts(engine);
    *result = (struct spin_goal_result){
        .events = counts.events,
        .messages = counts.messages,
        .bytes = counts.bytes,
        .noise_ps = counts.noise_ps,
        .queue_ps = counts.queue_ps,
        .unreceived = counts.unreceived,
        .engine_events = engine_counts.handled,
        .most_pending = engine_counts.most_pending,
        .memory_bytes = counts.memory_bytes + engine_counts.bytes + goal_bytes(goal),
        .digest = engine_counts.digest,
        .ranks = goal->num_ranks,
        .finish_ps = malloc((size_t)goal->num_ranks * sizeof *result->finish_ps),
    };
    if (!result->finish_ps)
        return spin_fail(err, SPIN_ENOMEM, "out of memory");
    for (uint32_t rank = 0; rank < goal->num_ranks; rank++) {
        result->finish_ps[rank] = loggops_finish_ps(replay, rank);
        if (result->finish_ps[rank] > result->makespan_ps)
            result->makespan_ps = result->finish_ps[rank];
    }
    if (!network)
        return SPIN_OK;
    result->memory_bytes += packet_model_bytes(network);
    /* The last packet may be in after the last rank is done: use is of the longer time. */
    uint64_t until =
        engine_counts.now_ps > result->makespan_ps ? engine_counts.now_ps : result->makespan_ps;
    int code = packet_model_result(network, until, &result->packet, err);
    if (code)
        spin_goal_result_free(result);
    return code;
}

/* What looks on: where a trace and a picture go. */
struct onlookers {
    struct trace trace;
    struct timeline timeline; /* its view is the trace's as well */
};

static int look_on(struct onlookers *o, const struct spin_goal *goal,
                   const struct spin_goal_options *options, struct spin_error *err) {
    int code = timeline_view_new(&o->timeline.view, &options->view, goal->num_ranks, err);
    return !code && options->trace ? trace_open(&o->trace, options->trace, err) : code;
}

/* The trace of a deadlock is what one wants to look at; of a run that failed otherwise, not. */
static int show(struct onlookers *o, const struct loggops *replay,
                const struct spin_goal_options *options, int code, struct spin_error *err) {
    bool keep = code == SPIN_OK || code == SPIN_EDEADLOCK;
    int closed = trace_close(&o->trace, keep, code ? NULL : err);
    if (!closed && keep && options->picture) {
        struct timeline_rows rows = loggops_rows(replay);
        closed = timeline_svg(&o->timeline, &rows, options->picture, code ? NULL : err);
    }
    return closed;
}

static int find_path(const struct loggops *replay, const struct spin_goal_options *options,
                     struct spin_goal_result *result, struct spin_error *err) {
    if (!options->critical_path)
        return SPIN_OK;
    int code = loggops_path(replay, &result->step, &result->steps, err);
    if (!code)
        loggops_mark(replay, result->step, result->steps);
    else
        spin_goal_result_free(result);
    return code;
}

static int replay_all(const struct spin_goal *goal, const struct spin_goal_options *options,
                      struct sim_engine *engine, struct onlookers *look,
                      struct spin_goal_result *result, struct spin_error *err) {
    struct noise *noise = NULL;
    struct loggops *replay = NULL;
    struct packet_model *network = NULL;
    struct trace *trace = options->trace ? &look->trace : NULL;
    int code = noise_new(&options->noise, &noise, err);
    if (!code && options->packet)
        code = packet_model_new(&network, engine, options->packet, goal->num_ranks, trace,
                                &look->timeline.view, err);
    if (!code) {
        struct loggops_setup setup = {
            .engine = engine,
            .goal = goal,
            .parameters = options->loggops,
            .transport = network ? packet_model_transport(network) : NULL,
            .noise = noise,
            .trace = trace,
            .timeline = options->picture ? &look->timeline : NULL,
            .view = options->trace || options->picture ? &look->timeline.view : NULL,
            .path = options->critical_path};
        code = loggops_new(&setup, &replay, err);
    }
    if (!code && network)
        packet_model_attach(network, replay);
    if (!code)
        code = run_engine(engine, replay, network, goal, options, err);
    if (!code)
        code = loggops_verdict(replay, err);
    if (network && (!code || code == SPIN_EDEADLOCK))
        code = packet_model_verdict(network, code, err);
    if (!code)
        code = gather(replay, engine, network, goal, result, err);
    if (!code)
        code = find_path(replay, options, result, err);
    int shown = show(look, replay, options, code, err);
    if (!code && shown) {
        spin_goal_result_free(result);
        code = shown;
    }
    loggops_free(replay);
    packet_model_free(network);
    noise_free(noise);
    return code;
}

int spin_goal_run(const struct spin_goal *goal, const struct spin_goal_options *options,
                  struct spin_goal_result *result, struct spin_error *err) {
    *result = (struct spin_goal_result){0};
    struct onlookers look = {0};
    struct sim_engine *engine = sim_engine_new(err);
    if (!engine)
        return SPIN_ENOMEM;
    if (options->digest)
        sim_engine_digest(engine);
    int code = look_on(&look, goal, options, err);
    if (!code)
        code = replay_all(goal, options, engine, &look, result, err);
    timeline_free(&look.timeline);
    sim_engine_free(engine);
    return code;
}

void spin_goal_result_free(struct spin_goal_result *result) {
    free(result->finish_ps);
    free(result->step);
    result->finish_ps = NULL;
    result->step = NULL;
    result->steps = 0;
}
