/* Which handlers there are, with a packet and the memory that each needs to do its work: the
 * workloads bring theirs; those of Portals and of examples/ have a row here. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bare_case.h"
#include "hpu/rig.h"
#include "on_rig.h"
#include "p4_accumulate/p4_accumulate.h"
#include "p4_broadcast/p4_broadcast.h"
#include "p4_pingpong/p4_pingpong.h"
#include "p4_raid/p4_raid.h"
#include "p4_strided/p4_strided.h"

#define PACKET 2048u

struct visitor {
    void (*visit)(void *context, struct bare_case *c);
    void *context;
    struct {
        uint32_t entry;
        uint64_t calls;
    } seen[3]; /* header, payload and completion handler, as they come */
};

static __attribute__((noreturn)) void die(const char *what) {
    fprintf(stderr, "bench: %s\n", what);
    exit(1);
}

/* ---- Workloads ------------------------------------------------------------------------------- */

static void before_call(void *context, struct spin_rig *rig, const struct spin_call *call) {
    struct visitor *v = context;
    unsigned i = 0;
    while (v->seen[i].entry && v->seen[i].entry != call->entry)
        i++;
    v->seen[i].entry = call->entry;
    uint64_t n = ++v->seen[i].calls;
    if ((n & (n - 1)) == 0)
        v->visit(v->context, bare_take(rig, call));
}

/* Handlers that a setting chooses. */
static const struct {
    const char *name, *setting;
} variants[] = {{"copy_to_host", "apart=0"}, {"histogram", "trusting=1"}, {"reduce", "unrolled=0"}};

static void visit_workload(struct visitor *v, const char *build, const char *name,
                           const char *setting) {
    struct workload_run *run;
    struct spin_error err;
    struct on_rig_tally tally;
    memset(v->seen, 0, sizeof v->seen);
    if (workload_open(&run, name, &setting, setting != NULL, 1, &err) ||
        on_rig(run,
               &(struct on_rig_options){
                   .images = build, .functional = true, .before = before_call, .context = v},
               &tally, &err))
        die(err.text);
    workload_close(run);
}

/* ---- Others ---------------------------------------------------------------------------------- */

static const struct other {
    const char *image, *function;
    bool is_pspin;
    uint32_t packet_bytes, state_bytes;
    const void *state;
} others[] = {
#define P4(image, function, ...)                                                                   \
    { "p4_" image, function "_handler", false, PACKET, sizeof(__VA_ARGS__), &(__VA_ARGS__) }
    P4("accumulate", "accumulate_header", (struct p4_accumulate){0}),
    P4("accumulate", "accumulate_payload", (struct p4_accumulate){.offset = 64}),
    P4("broadcast", "bcast_header", (struct p4_broadcast){.most_streamed = 1u << 20}),
    P4("broadcast", "bcast_payload",
       (struct p4_broadcast){.ranks = 64, .packet_bytes = PACKET, .offset = 2 * PACKET}),
    P4("broadcast", "bcast_completion", (struct p4_broadcast){.ranks = 64, .length = 1u << 16}),
    P4("pingpong", "pingpong_header", (struct p4_pingpong){.most_streamed = 1u << 20}),
    P4("pingpong", "pingpong_payload", (struct p4_pingpong){.source = 3}),
    P4("pingpong", "pingpong_completion", (struct p4_pingpong){.source = 3, .length = 1u << 16}),
    P4("raid_data", "primary_write_header", (struct p4_raid_data){0}),
    P4("raid_data", "primary_write_payload",
       (struct p4_raid_data){.parity = 2, .source = 1, .offset = 4096}),
    P4("raid_data", "primary_send_acknowledgement_header", (struct p4_raid_data){.parity = 2}),
    P4("raid_parity", "parity_update_header", (struct p4_raid_parity){0}),
    P4("raid_parity", "parity_update_payload", (struct p4_raid_parity){.offset = 4096}),
    P4("raid_parity", "parity_update_completion",
       (struct p4_raid_parity){.source = 1, .client = 5}),
    P4("strided", "ddtvec_payload", (struct p4_strided){.offset = 100, .block = 192, .gap = 64}),
#undef P4
    {"bench/word_sum", "sum_header_handler", false, PACKET, 12, (const uint32_t[]){9, 8, 7}},
    {"bench/word_sum", "sum_payload_handler", false, PACKET, 12, (const uint32_t[]){9, 8, 7}},
    {"bench/word_sum", "sum_completion_handler", false, PACKET, 12, (const uint32_t[]){9, 8, 7}},
    {"bench/sum_handler", "sum_payload_handler", false, 4, 16, (const uint64_t[]){5, 100}},
    {"bench/echo", "echo_ph", true, 512, 12, (const int32_t[]){1, 2, 3}},
    {"bench/echo", "echo_th", true, 512, 12, (const int32_t[]){1, 2, 3}},
};

/* Complex units, as floats: products with them are exact, fused or not, and stay small however
 * often they are multiplied in. To those that read words they are words like others. */
static void fill_packet(uint8_t *packet, uint32_t bytes, bool is_pspin) {
    for (uint32_t i = 0; i < bytes / 4; i++) {
        uint32_t turn = i / 2 % 3; /* 1, i, -i */
        float value = turn == 0 ? (float)(i % 2 == 0) : i % 2 == 0 ? 0.f : turn == 1 ? 1.f : -1.f;
        memcpy(packet + 4 * (size_t)i, &value, 4);
    }
    if (is_pspin)
        workload_headers(packet, bytes, 1, 0x0a000002);
}

static void fill_heap(struct spin_rig *rig) {
    uint8_t *heap = hpu_reach(&rig->hpu, rig->port.heap.address, HEAP_BYTES, true);
    for (uint32_t i = 0; heap && i < HEAP_BYTES / 4; i++) { /* PsPIN's handlers have none */
        float value = (float)(i % 7) - 2;
        memcpy(heap + 4 * (size_t)i, &value, 4);
    }
}

static void visit_other(struct visitor *v, const char *build, const struct other *row) {
    char path[4096];
    uint8_t packet[PACKET];
    struct spin_error err;
    struct spin_image *image;
    struct spin_rig *rig;
    const struct spin_function *f;
    struct spin_limits limits;
    spin_limits_default(&limits);
    limits.with_float = true;
    snprintf(path, sizeof path, "%s/%s.spin", build, row->image);
    if (spin_image_load(&image, path, &limits, &err) ||
        spin_image_find(image, row->function, &f, &err) ||
        spin_rig_new(&rig, image,
                     &(struct spin_rig_options){.functional = true,
                                                .state_in_l2 = row->is_pspin,
                                                .state_bytes = row->state_bytes},
                     &err))
        die(err.text);
    uint32_t bytes, address;
    memcpy(spin_rig_memory(rig, SPIN_STATE, &bytes, &address), row->state, row->state_bytes);
    fill_packet(packet, row->packet_bytes, row->is_pspin);
    fill_heap(rig);
    v->visit(v->context, bare_take(rig, &(struct spin_call){
                                            .entry = f->address,
                                            .kind = row->is_pspin ? SPIN_PSPIN_HANDLER : f->kind,
                                            .packet = packet,
                                            .packet_bytes = row->packet_bytes,
                                            .packet_offset = PACKET,
                                            .source = 3,
                                            .target = 4,
                                            .me_offset = 128,
                                            .match_bits = 0x1122334455667788,
                                            .hdr_data = 6}));
    spin_rig_free(rig);
    spin_image_free(image);
}

void bare_visit(const char *build, void (*visit)(void *context, struct bare_case *c),
                void *context) {
    struct visitor v = {.visit = visit, .context = context};
    for (unsigned i = 0; workload_at(i); i++) {
        const char *name = workload_at(i)->name;
        visit_workload(&v, build, name, NULL);
        for (size_t k = 0; k < sizeof variants / sizeof variants[0]; k++)
            if (strcmp(variants[k].name, name) == 0)
                visit_workload(&v, build, name, variants[k].setting);
    }
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        visit_other(&v, build, &others[i]);
}
