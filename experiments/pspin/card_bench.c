#include "pspin/card_bench.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "experiment_card.h"
#include "images.h"

#define WARM_PS 1000000ull

static void on_out(void *user, const struct card_out *out, uint64_t at_ps) {
    struct card_bench *b = user;
    (void)at_ps;
    b->packets_out++;
    b->bytes_out += out->length;
}

static void on_fault(void *user, const struct card_fault *fault, uint64_t at_ps) {
    struct card_bench *b = user;
    if (!b->faults++)
        snprintf(b->fault, sizeof b->fault, "%s at pc 0x%x, address 0x%x, after %" PRIu64 " ps",
                 spin_ending_name(fault->ending), fault->pc, fault->address, at_ps);
}

static struct card_callbacks callbacks_of(struct card_bench *b) {
    return (struct card_callbacks){.user = b, .packet_out = on_out, .fault = on_fault};
}

static bool next_packet(void *user, struct card_packet *packet) {
    struct card_bench *b = user;
    const struct card_bench_traffic *t = &b->traffic;
    if (b->given == t->packets)
        return false;
    uint32_t i = b->given++, messages = t->messages ? t->messages : 1;
    memset(b->packet, 0, t->bytes);
    if (t->fill)
        t->fill(t->user, i, b->packet);
    *packet = (struct card_packet){.context = b->context,
                                   .message = i % messages,
                                   .bytes = b->packet,
                                   .length = t->bytes,
                                   .eom = i + messages >= t->packets,
                                   .arrival_ps = b->arrival_ps[i]};
    return true;
}

/* As published, then through a network if the caller wants one. */
static int make_arrivals(struct card_bench *b, struct spin_error *err) {
    const struct card_bench_traffic *t = &b->traffic;
    uint32_t *bytes = malloc(t->packets * sizeof *bytes), together = t->together ? t->together : 1;
    b->arrival_ps = malloc(t->packets * sizeof *b->arrival_ps);
    if (!bytes || !b->arrival_ps) {
        free(bytes);
        return spin_fail(err, SPIN_ENOMEM, "out of memory");
    }
    for (uint32_t i = 0; i < t->packets; i++) {
        bytes[i] = t->bytes;
        b->arrival_ps[i] = i < t->warm
                               ? i * WARM_PS
                               : t->warm * WARM_PS + (i - t->warm) / together * t->interval_ps;
    }
    int code = experiment_arrivals(b->context_of, t->packets, bytes, b->arrival_ps, err);
    free(bytes);
    return code;
}

static int make_card(struct card_bench *b, const struct card_bench_setup *setup,
                     struct spin_error *err) {
    struct card_config config;
    const struct card_callbacks callbacks = callbacks_of(b);
    const struct spin_function *function = NULL;
    int code = experiment_card(b->context_of, setup->config, &config, err);
    if (!code)
        code = spin_image_find(b->image, setup->entry, &function, err);
    if (code)
        return code;
    b->engine = sim_engine_new(err);
    if (!b->engine)
        return SPIN_ENOMEM;
    code = card_new(&b->card, b->engine, &config, &callbacks, err);
    if (code)
        return code;
    struct card_context context = {.abi = CARD_PSPIN,
                                   .image = b->image,
                                   .memory_bytes = setup->memory_bytes,
                                   .scratch_bytes = setup->scratch_bytes,
                                   .host = b->host,
                                   .host_bytes = setup->host_bytes,
                                   .host_address = setup->host_address};
    context.entry[SPIN_PAYLOAD_HANDLER] = function->address;
    return card_add_context(b->card, &context, &b->context, err);
}

int card_bench_open(struct card_bench *b, const struct experiment_context *context,
                    const struct card_bench_setup *setup, struct spin_error *err) {
    *b = (struct card_bench){.context_of = context};
    int code = setup->of_workload ? images_load_workload(context, setup->image, &b->image, err)
                                  : images_load(context, setup->image, &b->image, err);
    if (!code && setup->host_bytes) {
        b->host = calloc(1, setup->host_bytes);
        if (!b->host)
            code = spin_fail(err, SPIN_ENOMEM, "out of memory");
    }
    if (!code)
        code = make_card(b, setup, err);
    if (code)
        card_bench_close(b);
    return code;
}

void card_bench_spans(struct card_bench *b,
                      void (*span)(void *user, const struct card_span *span)) {
    struct card_callbacks callbacks = callbacks_of(b);
    callbacks.span = span;
    card_set_callbacks(b->card, &callbacks);
}

int card_bench_run(struct card_bench *b, const struct card_bench_traffic *traffic,
                   struct card_stats *stats, struct spin_error *err) {
    if (traffic->bytes > card_most_bytes(b->card))
        return spin_fail(err, SPIN_EARG, "a packet of %u bytes; this card takes at most %u",
                         traffic->bytes, card_most_bytes(b->card));
    free(b->packet);
    free(b->arrival_ps);
    b->arrival_ps = NULL;
    b->packet = malloc(traffic->bytes ? traffic->bytes : 1);
    if (!b->packet)
        return spin_fail(err, SPIN_ENOMEM, "out of memory");
    b->traffic = *traffic;
    b->given = 0;
    int code = make_arrivals(b, err);
    if (code)
        return code;
    card_feed(b->card, next_packet, b);
    code = sim_run(b->engine, SIM_FOREVER, UINT64_MAX, err);
    if (!code && b->faults)
        code = spin_fail(err, SPIN_EFORMAT, "%" PRIu64 " handlers were ended, the first: %s",
                         b->faults, b->fault);
    if (!code)
        code = card_idle(b->card, err);
    if (code)
        return code;
    card_stats(b->card, stats);
    if (stats->completed != traffic->packets)
        return spin_fail(err, SPIN_EFORMAT,
                         "%" PRIu64 " packets of %u completed, %" PRIu64 " dropped",
                         stats->completed, traffic->packets, stats->dropped + stats->refused);
    return SPIN_OK;
}

void card_bench_close(struct card_bench *b) {
    card_free(b->card);
    sim_engine_free(b->engine);
    spin_image_free(b->image);
    free(b->host);
    free(b->packet);
    free(b->arrival_ps);
    *b = (struct card_bench){0};
}
