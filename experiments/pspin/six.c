#include "pspin/six.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "experiment_card.h"
#include "images.h"
#include "spin/driver.h"

const char *const six_names[SIX] = {"aggregate", "filtering", "histogram",
                                    "kvstore",   "reduce",    "strided_ddt"};

int six_open(struct workload_run **run, int which, uint32_t bytes, const char *more,
             struct spin_error *err) {
    /* The parameter that makes a packet so long: in bytes or words, with or without headers.
     * kvstore has none: its packets are short, and padded where they are fed. */
    static const struct {
        const char *parameter;
        uint32_t unit, headers;
    } length[SIX] = {{"payload", 1, WORKLOAD_HEADERS},      {"bytes", 1, 0},
                     {"packet_words", 4, WORKLOAD_HEADERS}, {NULL, 1, 0},
                     {"words", 4, WORKLOAD_HEADERS},        {"payload", 1, WORKLOAD_HEADERS}};
    char setting[40];
    const char *settings[2];
    int count = 0;
    if (bytes < 64 || bytes > SIX_MOST_BYTES || bytes % 4)
        return spin_fail(err, SPIN_EARG, "--bytes %u: packets have 64 to %u bytes, in words", bytes,
                         SIX_MOST_BYTES);
    if (length[which].parameter) {
        snprintf(setting, sizeof setting, "%s=%u", length[which].parameter,
                 (bytes - length[which].headers) / length[which].unit);
        settings[count++] = setting;
    }
    if (more)
        settings[count++] = more;
    return workload_open(run, six_names[which], settings, count, 1, err);
}

/* ---- the card ---- */

struct on_card {
    struct workload_run *run;
    struct sim_engine *engine;
    struct card *card;
    struct spin_image *image;
    uint8_t *host;
    uint32_t context, given, completed, room;
    struct six_load load;
    uint64_t faults;
    uint64_t *arrival_ps;                       /* [room] */
    uint64_t *completion_ps, *completion_bytes; /* [room] */
    uint8_t packet[SIX_MOST_BYTES];
};

static bool next_packet(void *user, struct card_packet *packet) {
    struct on_card *c = user;
    struct workload_packet p;
    if (!workload_next(c->run, &p))
        return false;
    uint32_t length = p.bytes > c->load.bytes ? p.bytes : c->load.bytes;
    if (length > sizeof c->packet)
        return false; /* six_on_card refuses it: not everything completes */
    memset(c->packet, 0, length);
    memcpy(c->packet, p.data, p.bytes);
    if (c->given == c->room)
        return false;
    /* The last packet of a message may be shorter than the rest. */
    bool is_padded = strcmp(c->run->of->name, "kvstore") == 0;
    *packet = (struct card_packet){.context = c->context,
                                   .message = p.message,
                                   .bytes = c->packet,
                                   .length = is_padded ? length : p.bytes,
                                   .eom = p.last,
                                   .user = is_padded ? length : p.bytes,
                                   .arrival_ps = c->arrival_ps[c->given]};
    c->given++;
    return true;
}

static void on_out(void *user, const struct card_out *out, uint64_t at_ps) {
    struct on_card *c = user;
    (void)at_ps;
    workload_sent(c->run, 0, out->bytes, out->length);
}

static void on_fault(void *user, const struct card_fault *fault, uint64_t at_ps) {
    struct on_card *c = user;
    (void)fault, (void)at_ps;
    c->faults++;
}

static void on_feedback(void *user, const struct card_feedback *feedback) {
    struct on_card *c = user;
    if (c->completed == c->room)
        return;
    c->completion_ps[c->completed] = feedback->completion_ps;
    c->completion_bytes[c->completed++] = feedback->user;
}

static double steady_gbit(const struct on_card *c) {
    uint32_t last = c->completed - 1 - c->completed / 10;
    uint64_t bytes = 0;
    if (!c->completed || c->completion_ps[last] <= c->arrival_ps[0])
        return 0;
    for (uint32_t i = 0; i <= last; i++)
        bytes += c->completion_bytes[i];
    return 8000.0 * (double)bytes / (double)(c->completion_ps[last] - c->arrival_ps[0]);
}

static int entry(const struct spin_image *image, const char *name, uint32_t *address,
                 struct spin_error *err) {
    const struct spin_function *function;
    if (!name)
        return SPIN_OK;
    int code = spin_image_find(image, name, &function, err);
    if (!code)
        *address = function->address;
    return code;
}

static int make_context(struct on_card *c, struct spin_error *err) {
    const struct workload_context *w = workload_context(c->run);
    struct card_context context = {.abi = CARD_PSPIN,
                                   .image = c->image,
                                   .memory_bytes = w->handler_bytes,
                                   .scratch_bytes = w->scratchpad_bytes,
                                   .host = c->host,
                                   .host_bytes = w->host_bytes};
    int code = entry(c->image, w->header, &context.entry[SPIN_HEADER_HANDLER], err);
    if (!code)
        code = entry(c->image, w->payload, &context.entry[SPIN_PAYLOAD_HANDLER], err);
    if (!code)
        code = entry(c->image, w->completion, &context.entry[SPIN_COMPLETION_HANDLER], err);
    if (!code)
        code = card_add_context(c->card, &context, &c->context, err);
    if (code)
        return code;
    if (w->host_memory)
        memcpy(c->host, w->host_memory, w->host_bytes);
    uint32_t bytes, address = card_address(c->card, c->context, UINT32_MAX, &bytes);
    if (w->handler_memory)
        memcpy(card_reach(c->card, c->context, address, w->handler_bytes), w->handler_memory,
               w->handler_bytes);
    for (uint32_t k = 0; k < WORKLOAD_CLUSTERS && w->scratchpad; k++) {
        address = card_address(c->card, c->context, k, &bytes);
        memcpy(card_reach(c->card, c->context, address, w->scratchpad_bytes), w->scratchpad,
               w->scratchpad_bytes);
    }
    return SPIN_OK;
}

static int make_card(struct on_card *c, const struct experiment_context *context,
                     struct spin_error *err) {
    const struct workload_context *w = workload_context(c->run);
    struct card_config config;
    struct card_callbacks callbacks = {
        .user = c, .packet_out = on_out, .fault = on_fault, .feedback = on_feedback};
    int code = images_load_workload(context, w->image, &c->image, err);
    if (!code) /* an HPU that waits for a lock spins to the end of its quantum */
        code = experiment_card(context, "quantum=16", &config, err);
    if (!code && config.clusters != WORKLOAD_CLUSTERS)
        code = spin_fail(err, SPIN_EARG,
                         "%u clusters: the workloads' handlers are written for the scratchpads of "
                         "%d (pspin.cluster_hpus=N, or --card sc17 with hpus a multiple of 4)",
                         (unsigned)config.clusters, WORKLOAD_CLUSTERS);
    if (code)
        return code;
    c->host = calloc(1, w->host_bytes ? w->host_bytes : 1);
    if (!c->host)
        return spin_fail(err, SPIN_ENOMEM, "out of memory");
    c->engine = sim_engine_new(err);
    if (!c->engine)
        return SPIN_ENOMEM;
    code = card_new(&c->card, c->engine, &config, &callbacks, err);
    return code ? code : make_context(c, err);
}

/* After the last packet: everything completed, and the results are right. */
static int judge(struct on_card *c, struct card_stats *stats, struct spin_error *err) {
    const struct workload_context *w = workload_context(c->run);
    struct workload_results results = {.host_memory = c->host};
    uint32_t bytes;
    card_stats(c->card, stats);
    if (c->faults || stats->completed != c->given ||
        workload_next(c->run, &(struct workload_packet){0}))
        return spin_fail(err, SPIN_EFORMAT,
                         "%s: %" PRIu64 " of %u packets completed, %" PRIu64 " handlers ended",
                         c->run->of->name, stats->completed, c->given, c->faults);
    if (w->handler_bytes)
        results.handler_memory =
            card_reach(c->card, c->context, card_address(c->card, c->context, UINT32_MAX, &bytes),
                       w->handler_bytes);
    for (uint32_t k = 0; k < WORKLOAD_CLUSTERS && w->scratchpad_bytes; k++)
        results.scratchpad[k] = card_reach(
            c->card, c->context, card_address(c->card, c->context, k, &bytes), w->scratchpad_bytes);
    return workload_check(c->run, &results, err);
}

#define MOST_PACKETS 65536u

/* As the load says, then through a network if the caller wants one. All are as long as the longest:
 * of a message the last alone is shorter. */
static int make_arrivals(struct on_card *c, const struct experiment_context *context,
                         struct spin_error *err) {
    uint32_t packets = 0, *bytes;
    for (uint32_t i = 0; i < c->room; i++)
        c->arrival_ps[i] = i * c->load.interval_ps;
    struct workload_run *count; /* which has as many packets */
    int code = six_open(&count, c->load.which, c->load.bytes, c->load.setting, err);
    if (code)
        return code;
    for (struct workload_packet p; packets < c->room && workload_next(count, &p);)
        packets++;
    workload_close(count);
    bytes = malloc(c->room * sizeof *bytes);
    if (!bytes)
        return spin_fail(err, SPIN_ENOMEM, "out of memory");
    for (uint32_t i = 0; i < packets; i++)
        bytes[i] = c->load.bytes;
    code = experiment_arrivals(context, packets, bytes, c->arrival_ps, err);
    free(bytes);
    return code;
}

int six_on_card(const struct experiment_context *context, const struct six_load *load,
                struct six_result *result, struct spin_error *err) {
    struct on_card *c = calloc(1, sizeof *c);
    if (!c)
        return spin_fail(err, SPIN_ENOMEM, "out of memory");
    c->load = *load;
    c->room = MOST_PACKETS;
    c->completion_ps = calloc(c->room, sizeof *c->completion_ps);
    c->completion_bytes = calloc(c->room, sizeof *c->completion_bytes);
    c->arrival_ps = calloc(c->room, sizeof *c->arrival_ps);
    int code = c->completion_ps && c->completion_bytes && c->arrival_ps
                   ? SPIN_OK
                   : spin_fail(err, SPIN_ENOMEM, "out of memory");
    if (!code)
        code = six_open(&c->run, load->which, load->bytes, load->setting, err);
    if (!code)
        code = make_card(c, context, err);
    if (!code)
        code = make_arrivals(c, context, err);
    if (!code) {
        card_feed(c->card, next_packet, c);
        code = sim_run(c->engine, SIM_FOREVER, UINT64_MAX, err);
    }
    if (!code)
        code = card_idle(c->card, err);
    if (!code)
        code = judge(c, &result->stats, err);
    if (!code)
        result->steady_gbit = steady_gbit(c);
    card_free(c->card);
    sim_engine_free(c->engine);
    spin_image_free(c->image);
    workload_close(c->run);
    free(c->completion_ps);
    free(c->completion_bytes);
    free(c->arrival_ps);
    free(c->host);
    free(c);
    return code;
}
