#include "sc17/live_machine.h"

#include <math.h>
#include <time.h>

#include "base/error.h"
#include "images.h"
#include "live_ranks.h"
#include "nic/headers.h"

/* ---- plans ---- */

struct p4_live_plan *live_plan_new(const struct experiment_context *context, int *fd,
                                   struct spin_error *err) {
    struct p4_live_plan *plan = live_memory_new(context, sizeof *plan, fd, err);
    if (plan)
        snprintf(plan->images, sizeof plan->images, "%s", context->workloads);
    return plan;
}

void live_plan_free(struct p4_live_plan *plan, int fd) {
    live_memory_free(plan, sizeof *plan, fd);
}

void live_plan_add(struct p4_live_plan *plan, enum p4_live_case use_case, enum p4_variant variant,
                   uint32_t bytes) {
    if (plan->rows < P4_LIVE_ROWS)
        plan->row[plan->rows++] =
            (struct p4_live_row){.use_case = use_case, .variant = variant, .bytes = bytes};
}

int live_plan_run(const struct experiment_context *context, int fd, uint32_t ranks,
                  struct spin_error *err) {
    return live_ranks(context, "p4-live", fd, ranks, err);
}

double live_row_us(const struct p4_live_row *row) {
    uint64_t time[P4_LIVE_TIMES];
    for (int i = 0; i < P4_LIVE_TIMES; i++)
        time[i] = row->time[i].end_ps - row->time[i].start_ps;
    uint64_t typical = p4_typical(time, P4_LIVE_TIMES);
    return (double)typical / (row->use_case == P4_LIVE_PINGPONG ? 2e6 * P4_LIVE_TRIPS : 1e6);
}

/* ---- the machine ---- */

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

#define CALLS 2000
#define WARM  1000 /* then the handler is compiled */

/* The shortest of many calls with a packet of that size. */
static int call_ns(struct spin_rig *rig, uint32_t entry, uint32_t bytes, double *ns,
                   double *instructions, struct spin_error *err) {
    uint8_t packet[4096] = {0};
    struct spin_outcome outcome = {0};
    const struct spin_call call = {
        .entry = entry, .kind = SPIN_PSPIN_HANDLER, .packet = packet, .packet_bytes = bytes};
    int code = SPIN_OK;
    headers_write_pspin(packet, bytes, &(struct headers_udp){0});
    *ns = INFINITY;
    for (int i = 0; !code && i < CALLS; i++) {
        double start = now_ns();
        code = spin_rig_call(rig, &call, &outcome, err);
        double each = now_ns() - start;
        if (i >= WARM && each < *ns)
            *ns = each;
    }
    if (!code && outcome.ending != SPIN_RETURNED)
        code = spin_fail(err, SPIN_EFORMAT, "aggregate_ph ended by %s",
                         spin_ending_name(outcome.ending));
    *instructions = (double)outcome.instructions;
    return code;
}

/* Nanoseconds per instruction of a compiled handler that is of no use case here: what it takes more
 * for a longer packet. */
static int instruction_ns(const struct experiment_context *context, double *ns,
                          struct spin_error *err) {
    struct spin_rig_options options = {
        .functional = true, .jit = SPIN_JIT_FORCE, .scratchpad_bytes = 4096};
    struct spin_image *image;
    struct spin_rig *rig = NULL;
    const struct spin_function *f;
    double ns_of[2], instructions[2];
    int code = images_load_workload(context, "aggregate", &image, err);
    if (!code)
        code = spin_rig_new(&rig, image, &options, err);
    if (code && image) { /* there is no LLVM: live handlers are interpreted, too */
        options.jit = SPIN_JIT_OFF;
        code = spin_rig_new(&rig, image, &options, err);
    }
    if (!code)
        code = spin_image_find(image, "aggregate_ph", &f, err);
    for (int i = 0; i < 2 && !code; i++)
        code = call_ns(rig, f->address, i ? 4096 : 512, &ns_of[i], &instructions[i], err);
    if (!code)
        *ns = (ns_of[1] - ns_of[0]) / (instructions[1] - instructions[0]);
    spin_rig_free(rig);
    spin_image_free(image);
    return code;
}

static void set(struct live_machine *m, const char *name, double value, const char *unit) {
    double least =
        *unit == 'p' ? 0.1 : 0; /* of a rate; on a busy machine it may come out as less */
    snprintf(m->text[m->count], sizeof m->text[0], "%s=%.*f%s", name, *unit == 'p' ? 1 : 2,
             value > least ? value : least, unit);
    m->set[m->count] = m->text[m->count];
    m->count++;
}

int live_machine_from(const struct experiment_context *context, const struct p4_live_plan *plan,
                      struct live_machine *m, struct spin_error *err) {
    const struct p4_live_machine *is = &plan->machine;
    double per_instruction, put = (double)is->put / 1000, poll = (double)is->poll / 1000;
    double round_trip = (double)is->ack / 1000;
    double copy_ps = (double)is->copy_64k / 65536;
    *m = (struct live_machine){0};
    int code = instruction_ns(context, &per_instruction, err);
    if (code)
        return code;
    set(m, "o", put, "ns");
    set(m, "poll", poll, "ns");
    set(m, "g", (double)is->gap / 1000, "ns");
    /* What is left of an acknowledged put is the way there and back: two links each, and what cards
     * do. */
    set(m, "link_latency", (round_trip - put - poll) / 4, "ns");
    set(m, "link_rate", ((double)is->ack_64k - (double)is->ack_16k) / 49152, "ps/B");
    set(m, "dma_rate", copy_ps, "ps/B");
    set(m, "memory_rate", copy_ps / 2, "ps/B"); /* read and written */
    set(m, "hpu_start", ((double)is->handled - (double)is->ack) / 1000, "ns");
    set(m, "hpu_cycle", per_instruction, "ns");
    set(m, "cpu_cycle", (double)is->products / 1000 / 4096 / 4, "ns"); /* 4 cycles per product */
    static const char *const inside[] = {
        "switch_time=0", "match_header=0",   "match_packet=0",
        "dma_latency=0", "memory_latency=0", "hpus=1"}; /* whoever drives the card */
    for (size_t i = 0; i < sizeof inside / sizeof inside[0]; i++)
        m->set[m->count++] = inside[i];
    return SPIN_OK;
}
