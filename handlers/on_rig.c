#include "on_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/grow.h"

#define WATCHDOG (1u << 30) /* the last completion handler of histogram takes its time */

/* Packets of a message, kept so that they can run in another order. */
struct kept {
    uint8_t *data;
    uint32_t bytes, message;
    uint64_t number;
};

struct driver {
    struct workload_run *run;
    const struct on_rig_options *options;
    struct on_rig_tally *tally;
    struct spin_image *image;
    struct spin_rig *rig;
    const struct spin_function *header, *payload, *completion;
    struct kept *kept;
    uint32_t count, room;
    uint64_t taken;
    struct rng order;
};

static void outbound(void *context, uint32_t dest, const uint8_t *data, uint32_t bytes) {
    workload_sent(context, dest, data, bytes);
}

static int find(struct driver *d, const char *name, const struct spin_function **function,
                struct spin_error *err) {
    *function = NULL;
    return name ? spin_image_find(d->image, name, function, err) : SPIN_OK;
}

static void fill(struct driver *d, enum spin_space space, const void *content, uint32_t length) {
    uint32_t bytes, address;
    uint8_t *memory = spin_rig_memory(d->rig, space, &bytes, &address);
    if (content && memory && length <= bytes)
        memcpy(memory, content, length);
}

static int begin(struct driver *d, struct spin_error *err) {
    const struct workload_context *c = workload_context(d->run);
    char path[4096];
    if (snprintf(path, sizeof path, "%s/%s.spin", d->options->images, c->image) >= (int)sizeof path)
        return spin_fail(err, SPIN_EARG, "%s: name is too long", d->options->images);
    struct spin_rig_options o = {.functional = d->options->functional,
                                 .state_in_l2 = true,
                                 .jit = d->options->jit,
                                 .budget = WATCHDOG,
                                 .hpu = d->options->hpu,
                                 .state_bytes = c->handler_bytes ? c->handler_bytes : 64,
                                 .host_bytes = c->host_bytes,
                                 .scratchpad_bytes = c->scratchpad_bytes};
    int code = spin_image_load(&d->image, path, NULL, err);
    if (!code)
        code = find(d, c->header, &d->header, err);
    if (!code)
        code = find(d, c->payload, &d->payload, err);
    if (!code)
        code = find(d, c->completion, &d->completion, err);
    if (!code)
        code = spin_rig_new(&d->rig, d->image, &o, err);
    if (code)
        return code;
    spin_rig_outbound(d->rig, outbound, d->run);
    fill(d, SPIN_STATE, c->handler_memory, c->handler_bytes);
    fill(d, SPIN_ME_HOST, c->host_memory, c->host_bytes);
    for (int i = 0; i < WORKLOAD_CLUSTERS; i++)
        fill(d, (enum spin_space)(SPIN_SCRATCHPAD + i), c->scratchpad, c->scratchpad_bytes);
    return SPIN_OK;
}

static void count(struct on_rig_tally *t, const struct spin_outcome *r) {
    bool first = t->packets++ == 0;
    t->instructions += r->instructions;
    t->cycles += r->cycles;
    t->warm_instructions += first ? 0 : r->instructions;
    t->warm_cycles += first ? 0 : r->cycles;
    if (first || r->instructions < t->least_instructions)
        t->least_instructions = r->instructions;
    if (first || r->cycles < t->least_cycles)
        t->least_cycles = r->cycles;
    if (r->instructions > t->most_instructions)
        t->most_instructions = r->instructions;
    if (r->cycles > t->most_cycles)
        t->most_cycles = r->cycles;
}

static int call(struct driver *d, const struct spin_function *f, const struct kept *k,
                struct spin_error *err) {
    struct spin_call c = {.entry = f->address,
                          .kind = SPIN_PSPIN_HANDLER,
                          .packet = k->data,
                          .packet_bytes = k->bytes,
                          .home_cluster = k->message % WORKLOAD_CLUSTERS,
                          .flow = k->message};
    struct spin_outcome r;
    if (d->options->before)
        d->options->before(d->options->context, d->rig, &c);
    int code = spin_rig_call(d->rig, &c, &r, err);
    if (!code && r.ending != SPIN_RETURNED)
        return spin_fail(err, SPIN_EFORMAT,
                         "%s, packet %llu: %s was ended: %s at pc 0x%08x, 0x%08x",
                         workload_context(d->run)->image, (unsigned long long)k->number, f->name,
                         spin_ending_name(r.ending), r.pc, r.bad_address);
    if (!code && f == d->payload)
        count(d->tally, &r);
    return code;
}

static int keep(struct driver *d, const struct workload_packet *p, struct spin_error *err) {
    if (!ROOM_FOR_ONE(d->kept, d->count, d->room, 64))
        return spin_fail(err, SPIN_ENOMEM, "out of memory");
    struct kept *k = &d->kept[d->count];
    *k = (struct kept){
        .data = malloc(p->bytes), .bytes = p->bytes, .message = p->message, .number = ++d->taken};
    if (!k->data)
        return spin_fail(err, SPIN_ENOMEM, "out of memory");
    memcpy(k->data, p->data, p->bytes);
    d->count++;
    return SPIN_OK;
}

static void forget(struct driver *d) {
    for (uint32_t i = 0; i < d->count; i++)
        free(d->kept[i].data);
    d->count = 0;
}

/* The handlers of the packets that were kept: `first` of them before the payloads, the last one's
 * completion handler after. */
static int run_kept(struct driver *d, struct spin_error *err) {
    int code = SPIN_OK;
    struct kept first = d->kept[0], last = d->kept[d->count - 1];
    if (d->header)
        code = call(d, d->header, &first, err);
    for (uint32_t i = d->count; d->options->shuffle && i > 1; i--) {
        uint32_t j = rng_below(&d->order, i);
        struct kept swap = d->kept[j];
        d->kept[j] = d->kept[i - 1];
        d->kept[i - 1] = swap;
    }
    for (uint32_t i = 0; i < d->count && d->payload && !code; i++)
        if (d->kept[i].number != d->options->leave_out)
            code = call(d, d->payload, &d->kept[i], err);
    if (!code && d->completion)
        code = call(d, d->completion, &last, err);
    forget(d);
    return code;
}

static int check(struct driver *d, struct spin_error *err) {
    uint32_t bytes, address;
    struct workload_results results = {
        .handler_memory = spin_rig_memory(d->rig, SPIN_STATE, &bytes, &address),
        .host_memory = spin_rig_memory(d->rig, SPIN_ME_HOST, &bytes, &address),
        .in_order = !d->options->shuffle};
    for (int i = 0; i < WORKLOAD_CLUSTERS; i++)
        results.scratchpad[i] =
            spin_rig_memory(d->rig, (enum spin_space)(SPIN_SCRATCHPAD + i), &bytes, &address);
    return workload_check(d->run, &results, err);
}

int on_rig(struct workload_run *run, const struct on_rig_options *options,
           struct on_rig_tally *tally, struct spin_error *err) {
    struct driver d = {
        .run = run, .options = options, .tally = tally, .order = rng_seeded(options->shuffle)};
    struct workload_packet p;
    *tally = (struct on_rig_tally){0};
    int code = begin(&d, err);
    while (!code && workload_next(run, &p)) {
        code = keep(&d, &p, err);
        if (!code && p.last)
            code = run_kept(&d, err);
    }
    if (!code)
        code = check(&d, err);
    forget(&d);
    free(d.kept);
    spin_rig_free(d.rig);
    spin_image_free(d.image);
    return code;
}
