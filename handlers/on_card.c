#include "on_card.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/grow.h"

#define WATCHDOG (1u << 30) /* the last completion handler of histogram takes its time */

struct kept {
    uint8_t *data;
    uint32_t bytes, message;
    bool first, last;
};

struct driver {
    struct workload_run *run;
    const struct on_card_options *options;
    struct spin_image *image;
    struct spin_card *card;
    uint32_t context;
    struct kept *kept;
    uint32_t count, room, messages, drawn;
    uint64_t digest;
};

static void digest(struct driver *d, const uint8_t *data, uint64_t bytes) {
    for (uint64_t i = 0; i < bytes; i++)
        d->digest = (d->digest ^ data[i]) * 0x100000001b3ull; /* FNV-1a */
}

/* ---- Packets --------------------------------------------------------------------------------- */

static int keep(struct driver *d, const struct workload_packet *p, struct spin_error *err) {
    if (!ROOM_FOR_ONE(d->kept, d->count, d->room, 64))
        return spin_fail(err, SPIN_ENOMEM, "out of memory");
    struct kept *k = &d->kept[d->count];
    *k = (struct kept){malloc(p->bytes), p->bytes, p->message, p->first, p->last};
    if (!k->data)
        return spin_fail(err, SPIN_ENOMEM, "out of memory");
    memcpy(k->data, p->data, p->bytes);
    d->count++;
    if (p->message >= d->messages)
        d->messages = p->message + 1;
    return SPIN_OK;
}

static void swap(struct driver *d, uint32_t a, uint32_t b) {
    struct kept k = d->kept[a];
    d->kept[a] = d->kept[b];
    d->kept[b] = k;
}

/* Each message's first packet goes to the first of its places; with `ends`, its last one to the
 * last. */
static bool settle(struct driver *d, bool ends) {
    uint32_t *place = malloc(d->messages * sizeof *place);
    if (!place)
        return false;
    memset(place, 0xff, d->messages * sizeof *place);
    for (uint32_t n = 0; n < d->count; n++) {
        uint32_t i = ends ? d->count - 1 - n : n;
        const struct kept *k = &d->kept[i];
        if (place[k->message] == UINT32_MAX)
            place[k->message] = i;
        if (ends ? k->last : k->first)
            swap(d, i, place[k->message]);
    }
    free(place);
    return true;
}

static int shuffle(struct driver *d, struct spin_error *err) {
    struct rng rng = rng_seeded(d->options->order);
    for (uint32_t i = d->count; i > 1; i--)
        swap(d, rng_below(&rng, i), i - 1);
    return settle(d, false) && settle(d, true) ? SPIN_OK
                                               : spin_fail(err, SPIN_ENOMEM, "out of memory");
}

/* ---- The card -------------------------------------------------------------------------------- */

static int find(struct driver *d, const char *name, const struct spin_function **function,
                struct spin_error *err) {
    return name ? spin_image_find(d->image, name, function, err) : SPIN_OK;
}

static void fill(struct driver *d, enum spin_space space, const void *content, uint32_t length) {
    uint64_t bytes;
    uint8_t *memory = spin_card_memory(d->card, d->context, space, &bytes);
    if (content && memory && length <= bytes)
        memcpy(memory, content, length);
}

static int add_context(struct driver *d, struct spin_error *err) {
    const struct workload_context *c = workload_context(d->run);
    struct spin_card_context x = {.image = d->image,
                                  .memory_bytes = c->handler_bytes,
                                  .scratch_bytes = c->scratchpad_bytes,
                                  .host_bytes = c->host_bytes,
                                  .watchdog_cycles = WATCHDOG};
    int code = find(d, c->header, &x.handler[SPIN_HEADER_HANDLER], err);
    if (!code)
        code = find(d, c->payload, &x.handler[SPIN_PAYLOAD_HANDLER], err);
    if (!code)
        code = find(d, c->completion, &x.handler[SPIN_COMPLETION_HANDLER], err);
    if (!code)
        code = spin_card_add_context(d->card, &x, &d->context, err);
    if (code)
        return code;
    fill(d, SPIN_STATE, c->handler_memory, c->handler_bytes);
    fill(d, SPIN_ME_HOST, c->host_memory, c->host_bytes);
    for (int i = 0; i < WORKLOAD_CLUSTERS; i++)
        fill(d, (enum spin_space)(SPIN_SCRATCHPAD + i), c->scratchpad, c->scratchpad_bytes);
    return SPIN_OK;
}

static int build(struct driver *d, struct spin_error *err) {
    char path[4096];
    struct spin_limits limits;
    const char *image = workload_context(d->run)->image;
    if (snprintf(path, sizeof path, "%s/%s.spin", d->options->images, image) >= (int)sizeof path)
        return spin_fail(err, SPIN_EARG, "%s: name is too long", d->options->images);
    int code = spin_card_new(&d->card, "pspin", err);
    for (int i = 0; i < 4 && d->options->settings[i] && !code; i++)
        code = spin_card_set(d->card, d->options->settings[i], err);
    if (code)
        return code;
    spin_card_limits(d->card, &limits);
    code = spin_image_load(&d->image, path, &limits, err);
    return code ? code : add_context(d, err);
}

static bool next(void *user, struct spin_card_packet *packet) {
    struct driver *d = user;
    if (d->drawn == d->count)
        return false;
    const struct kept *k = &d->kept[d->drawn];
    *packet = (struct spin_card_packet){.arrival_ps = d->drawn * d->options->interval_ps,
                                        .bytes = k->data,
                                        .length = k->bytes,
                                        .message = k->message,
                                        .end_of_message = k->last,
                                        .user = d->drawn};
    d->drawn++;
    return true;
}

static void sent(void *user, const struct spin_card_sent *packet) {
    struct driver *d = user;
    digest(d, packet->bytes, packet->length);
    workload_sent(d->run, 0, packet->bytes, packet->length);
}

/* ---- Results --------------------------------------------------------------------------------- */

static int no_fault(struct driver *d, const struct spin_card_result *r, struct spin_error *err) {
    const struct spin_card_fault *f = &r->fault[0];
    if (r->faults_told)
        return spin_fail(err, SPIN_EFORMAT,
                         "%s, message %u: handler was ended: %s at pc 0x%08x, 0x%08x",
                         workload_context(d->run)->image, f->message, spin_ending_name(f->ending),
                         f->pc, f->address);
    if (r->completed != d->count)
        return spin_fail(err, SPIN_EFORMAT, "%s: %llu of %u packets completed",
                         workload_context(d->run)->image, (unsigned long long)r->completed,
                         d->count);
    return SPIN_OK;
}

static const uint8_t *memory(struct driver *d, enum spin_space space) {
    uint64_t bytes;
    const uint8_t *at = spin_card_memory(d->card, d->context, space, &bytes);
    digest(d, at, at ? bytes : 0);
    return at;
}

static int check(struct driver *d, struct on_card_outcome *outcome, struct spin_error *err) {
    struct spin_card_result r;
    uint32_t bytes = workload_context(d->run)->scratchpad_bytes;
    uint8_t *none = calloc(1, bytes ? bytes : 1); /* of clusters that the card does not have */
    spin_card_result(d->card, &r);
    int code = none ? no_fault(d, &r, err) : spin_fail(err, SPIN_ENOMEM, "out of memory");
    struct workload_results results = {.handler_memory = memory(d, SPIN_STATE),
                                       .host_memory = memory(d, SPIN_ME_HOST),
                                       .in_order = r.hpus == 1 && !d->options->order};
    for (int i = 0; i < WORKLOAD_CLUSTERS; i++) {
        const uint8_t *pad = memory(d, (enum spin_space)(SPIN_SCRATCHPAD + i));
        results.scratchpad[i] = pad ? pad : none;
    }
    if (!code)
        code = workload_check(d->run, &results, err);
    digest(d, (const uint8_t *)&r.digest, sizeof r.digest);
    *outcome = (struct on_card_outcome){d->count, r.hpus, d->digest};
    free(none);
    return code;
}

int on_card(struct workload_run *run, const struct on_card_options *options,
            struct on_card_outcome *outcome, struct spin_error *err) {
    struct driver d = {.run = run, .options = options, .digest = 0xcbf29ce484222325ull};
    struct workload_packet p;
    int code = build(&d, err);
    while (!code && workload_next(run, &p))
        code = keep(&d, &p, err);
    if (!code && options->order)
        code = shuffle(&d, err);
    if (!code)
        code = spin_card_run(
            d.card, &(struct spin_card_options){.next = next, .user = &d, .sent = sent}, err);
    if (!code)
        code = check(&d, outcome, err);
    for (uint32_t i = 0; i < d.count; i++)
        free(d.kept[i].data);
    free(d.kept);
    spin_card_free(d.card);
    spin_image_free(d.image);
    return code;
}
