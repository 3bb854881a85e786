#include "hpu/rig.h"

#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "hpu/code_store.h"
#include "hpu/guard.h"
#include "spin/driver.h"

#define DEFAULT_BUDGET 1000000u
#define GUARD          64u /* between heap and state: what is next to each is nobody's */

const char *spin_region_name(enum spin_region region) {
    return hpu_region_name(region);
}

const char *spin_ending_name(enum spin_ending ending) {
    return ending == SPIN_RETURNED ? "returned" : hpu_fault_name(ending);
}

const char *spin_return_code_name(int32_t code) {
    static const char *const names[] = {"SUCCESS",      "SUCCESS_PENDING",
                                        "PROCESS_DATA", "PROCESS_DATA_PENDING",
                                        "PROCEED",      "PROCEED_PENDING",
                                        "DROP",         "DROP_PENDING",
                                        "FAIL",         "SEGV"};
    return code >= 0 && code < 10 ? names[code] : NULL;
}

static uint32_t l1_address(const struct spin_rig *rig, uint32_t offset) {
    return MAP_L1_BASE + rig->hpu.id / MAP_CLUSTER_HPUS * MAP_L1_STRIDE + offset;
}

static struct invoke_memory copy_segment(struct spin_rig *rig, const struct image_segment *seg) {
    uint8_t *host = rig->l2 + (seg->address - MAP_L2_HANDLER);
    if (!seg->bytes)
        return (struct invoke_memory){0};
    if (seg->filled)
        memcpy(host, seg->content, seg->filled);
    return (struct invoke_memory){seg->address, seg->bytes, host, NULL};
}

/* The scratchpads of a PsPIN context: at the end of each cluster's L1. That of the own cluster is
 * L1, the others are memory that the rig makes up. */
static int give_scratchpads(struct spin_rig *rig, const struct spin_rig_options *o,
                            struct spin_error *err) {
    uint32_t own = rig->hpu.id / MAP_CLUSTER_HPUS, bytes = (o->scratchpad_bytes + 7) & ~7u;
    uint32_t before = HEAP_BYTES + 2 * GUARD + (o->state_in_l2 ? 0 : rig->state_bytes);
    if (bytes > MAP_L1_SCRATCH_SIZE - before)
        return spin_fail(err, SPIN_ELIMIT, "scratchpad of %u bytes, the L1 of a cluster has %u",
                         o->scratchpad_bytes, MAP_L1_SCRATCH_SIZE - before);
    for (uint32_t i = 0; i < MAP_CLUSTERS; i++) {
        uint8_t *l1 = i == own ? rig->l1 : (rig->remote_l1[i] = guard_memory_new(MAP_L1_SIZE));
        if (!l1)
            return spin_fail(err, SPIN_ENOMEM, "out of memory");
        rig->context.scratchpad[i] =
            (struct invoke_memory){.address = MAP_L1_BASE + i * MAP_L1_STRIDE + MAP_L1_SIZE - bytes,
                                   .bytes = o->scratchpad_bytes,
                                   .host = l1 + MAP_L1_SIZE - bytes};
    }
    return SPIN_OK;
}

/* Gives the handler its memory: packet, stack, state, heap, constants, data; and nothing else. */
static int give_memory(struct spin_rig *rig, const struct spin_rig_options *o,
                       struct spin_error *err) {
    const struct spin_image *im = rig->image;
    struct invoke_context *x = &rig->context;
    uint32_t id = rig->hpu.id, core = id % MAP_CLUSTER_HPUS;
    uint32_t l2_used = 0;
    if (im->constants.bytes)
        l2_used = im->constants.address + im->constants.bytes - MAP_L2_HANDLER;
    if (im->data.bytes && im->data.address + im->data.bytes - MAP_L2_HANDLER > l2_used)
        l2_used = im->data.address + im->data.bytes - MAP_L2_HANDLER;
    l2_used = (l2_used + 63) & ~63u;
    uint32_t l2_end =
        im->handler_data.bytes ? MAP_L2_HANDLER_DATA - MAP_L2_HANDLER : im->limits.handler_bytes;
    uint32_t room = o->state_in_l2 ? l2_end - (l2_used < l2_end ? l2_used : l2_end)
                                   : im->limits.state_bytes - HEAP_BYTES - GUARD;
    if (rig->state_bytes > room)
        return spin_fail(err, SPIN_ELIMIT, "%s: state of %u bytes, the card has %u bytes of %s",
                         im->path, rig->state_bytes, room,
                         o->state_in_l2 ? "L2 handler memory left" : "L1 scratchpad");

    rig->packet_address = l1_address(rig, MAP_L1_PACKETS + CALL_HEADROOM);
    rig->packet = rig->l1 + MAP_L1_PACKETS + CALL_HEADROOM;
    if (o->state_in_l2) {
        rig->state_address = MAP_L2_HANDLER + l2_used;
        rig->state = rig->l2 + l2_used;
    } else {
        rig->state_address = l1_address(rig, MAP_L1_SCRATCH + HEAP_BYTES + GUARD);
        rig->state = rig->l1 + MAP_L1_SCRATCH + HEAP_BYTES + GUARD;
    }
    *x = (struct invoke_context){.image = im,
                                 .constants = copy_segment(rig, &im->constants),
                                 .data = copy_segment(rig, &im->data),
                                 .handler_data = copy_segment(rig, &im->handler_data),
                                 .memory = {rig->state_address, rig->state_bytes, rig->state, NULL},
                                 .memory_region =
                                     o->state_in_l2 ? HPU_REGION_L2_HANDLER : HPU_REGION_L1,
                                 .host_address = RIG_HOST_BASE,
                                 .host_bytes = rig->host_bytes};
    int code = o->scratchpad_bytes ? give_scratchpads(rig, o, err) : SPIN_OK;
    rig->core = (struct invoke_core){
        .cluster = id / MAP_CLUSTER_HPUS,
        .core = core,
        .stack = rig->l1 + MAP_L1_RUNTIME + core * MAP_STACK_SIZE,
        .heap = {l1_address(rig, MAP_L1_SCRATCH), HEAP_BYTES, rig->l1 + MAP_L1_SCRATCH, NULL},
        .check = o->check};
    if (!code && !hpu_invoke_open(&rig->port, x, &rig->core))
        code = spin_fail(err, SPIN_EARG, INVOKE_UNALIGNED, im->path);
    return code;
}

/* The packets' windows change with each packet, and have none. */
static void give_views(struct spin_rig *rig) {
    for (uint32_t i = 0; i < rig->hpu.windows; i++) {
        struct hpu_window *w = &rig->hpu.window[i];
        if (i > INVOKE_L2_PACKET)
            w->view = rig->view[i] =
                guard_view_new(w->host, w->base, w->read_room[0], w->write_room[0] != 0);
    }
}

static int unknown_core(const char *name, struct spin_error *err) {
    char list[100] = "";
    for (unsigned i = 0; hpu_timing_name(i); i++) {
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", used ? ", " : "", hpu_timing_name(i));
    }
    return spin_fail(err, SPIN_EARG, "no core model '%s'; there are: %s", name, list);
}

int rig_new(struct spin_rig **out, const struct spin_image *im,
            const struct spin_rig_options *options, uint32_t variant, struct spin_error *err) {
    static const struct spin_rig_options defaults;
    const struct spin_rig_options *o = options ? options : &defaults;
    *out = NULL;
    const char *core = o->core ? o->core : "ri5cy";
    const struct hpu_timing *timing = hpu_timing_find(core);
    if (!timing)
        return unknown_core(core, err);
    if (o->hpu >= im->limits.hpus)
        return spin_fail(err, SPIN_EARG, "HPU %u: the card has HPUs 0 to %u", o->hpu,
                         im->limits.hpus - 1);
    struct spin_rig *rig = aligned_alloc(_Alignof(struct spin_rig), sizeof *rig);
    if (!rig)
        return spin_fail(err, SPIN_ENOMEM, "out of memory");
    memset(rig, 0, sizeof *rig);
    rig->image = im;
    rig->state_bytes = o->state_bytes ? o->state_bytes : 4096;
    rig->host_bytes = o->host_bytes ? o->host_bytes : 64u << 10;
    rig->budget = o->budget ? o->budget : DEFAULT_BUDGET;
    rig->l1 = guard_memory_new(MAP_L1_SIZE);
    rig->l2_bytes = im->limits.handler_bytes;
    rig->l2 = guard_memory_new(rig->l2_bytes);
    rig->me_host = calloc(1, rig->host_bytes);
    rig->handler_host = calloc(1, rig->host_bytes);
    rig->l2_packet = calloc(1, MAP_L1_PACKETS_SIZE);
    const struct hpu_code_key key = {.program = im->code.content,
                                     .base = im->code.address,
                                     .bytes = im->code.bytes,
                                     .mode = o->functional ? HPU_FUNCTIONAL : HPU_TIMED,
                                     .timing = timing,
                                     .with_float = im->limits.with_float,
                                     .jit = o->check ? SPIN_JIT_OFF : o->jit,
                                     .is_alone = true,
                                     .variant = variant};
    int code = SPIN_OK;
    if (!rig->l1 || !rig->l2 || !rig->me_host || !rig->handler_host || !rig->l2_packet)
        code = spin_fail(err, SPIN_ENOMEM, "out of memory");
    if (!code)
        code = hpu_code_share(&rig->code, &key, err);
    if (!code) {
        hpu_init(&rig->hpu, rig->code, o->hpu);
        port_open(&rig->port, &rig->hpu, &rig_card, im->info.is_pspin);
        rig->port.counter = rig->counter;
        rig->port.mtu_bytes = RIG_MTU;
        if (rig->code->timing->icache_bytes) {
            rig->hpu.icache = hpu_icache_new(rig->code, NULL, 0);
            if (!rig->hpu.icache)
                code = spin_fail(err, SPIN_ENOMEM, "out of memory");
        }
    }
    if (!code)
        code = give_memory(rig, o, err);
    if (!code && rig->code->jit)
        give_views(rig);
    if (code)
        spin_rig_free(rig);
    else
        *out = rig;
    return code;
}

int spin_rig_new(struct spin_rig **out, const struct spin_image *im,
                 const struct spin_rig_options *options, struct spin_error *err) {
    return rig_new(out, im, options, 0, err);
}

void spin_rig_free(struct spin_rig *rig) {
    if (!rig)
        return;
    hpu_icache_free(rig->hpu.icache);
    hpu_code_release(rig->code);
    for (uint32_t i = 0; i < HPU_WINDOWS; i++)
        guard_view_free(rig->view[i]);
    guard_memory_free(rig->l1, MAP_L1_SIZE);
    guard_memory_free(rig->l2, rig->l2_bytes);
    free(rig->me_host);
    free(rig->handler_host);
    free(rig->l2_packet);
    free(rig->port.heap.begins);
    for (uint32_t i = 0; i < MAP_CLUSTERS; i++)
        guard_memory_free(rig->remote_l1[i], MAP_L1_SIZE);
    free(rig);
}

uint8_t *spin_rig_memory(struct spin_rig *rig, enum spin_space space, uint32_t *bytes,
                         uint32_t *address) {
    const struct image_segment *data = &rig->image->data;
    struct {
        uint8_t *host;
        uint32_t bytes, address;
    } m = {0};
    switch (space) {
    case SPIN_STATE:
        m.host = rig->state, m.bytes = rig->state_bytes, m.address = rig->state_address;
        break;
    case SPIN_PACKET:
        m.host = rig->packet, m.bytes = rig->packet_bytes, m.address = rig->packet_address;
        break;
    case SPIN_DATA:
        m.bytes = data->bytes, m.address = data->address;
        m.host = data->bytes ? rig->l2 + (data->address - MAP_L2_HANDLER) : NULL;
        break;
    case SPIN_ME_HOST:
        m.host = rig->me_host, m.bytes = rig->host_bytes;
        break;
    case SPIN_HANDLER_HOST:
        m.host = rig->handler_host, m.bytes = rig->host_bytes;
        break;
    default: {
        unsigned i = (unsigned)space - SPIN_SCRATCHPAD;
        if (i < MAP_CLUSTERS) {
            const struct invoke_memory *pad = &rig->context.scratchpad[i];
            m.host = pad->host, m.bytes = pad->bytes, m.address = pad->address;
        }
    }
    }
    *bytes = m.bytes;
    *address = m.address;
    return m.host;
}

int rig_begin(struct spin_rig *rig, const struct spin_call *c, struct spin_error *err) {
    struct hpu *h = &rig->hpu;
    uint32_t most = MAP_L1_PACKETS_SIZE - CALL_HEADROOM;
    if (c->packet_bytes > most)
        return spin_fail(err, SPIN_ELIMIT, "packet of %u bytes, the packet buffer in L1 takes %u",
                         c->packet_bytes, most);
    if (c->user_hdr_bytes > c->packet_bytes)
        return spin_fail(err, SPIN_EARG, "user header of %u bytes in a packet of %u bytes",
                         c->user_hdr_bytes, c->packet_bytes);
    if (c->packet_bytes)
        memmove(rig->packet, c->packet, c->packet_bytes);
    rig->packet_bytes = c->packet_bytes;
    bool pspin = c->kind == SPIN_PSPIN_HANDLER; /* whose packets are in L2 as well */
    if (c->packet_bytes && pspin)
        memcpy(rig->l2_packet, rig->packet, c->packet_bytes);
    for (uint32_t i = 0; i < h->windows; i++)
        h->window[i].loads = h->window[i].stores = 0;
    h->device_loads = h->device_stores = 0;
    rig->commands = rig->commands_lost = 0;
    rig->start_cycle = h->cycles = 0;
    rig->start_misses = h->icache ? hpu_icache_misses(h->icache) : 0;
    if (h->icache)
        hpu_icache_rewind(h->icache);
    h->instret = 0;
    struct invoke_call call = {.entry = c->entry,
                               .kind = c->kind,
                               .budget_cycles = rig->budget,
                               .packet = rig->packet,
                               .address = rig->packet_address,
                               .headroom = CALL_HEADROOM,
                               .bytes = c->packet_bytes,
                               .length = c->packet_bytes,
                               .l2_packet = pspin ? rig->l2_packet : NULL,
                               .l2_address = MAP_L2_PACKETS,
                               .memory_address = rig->state_address,
                               .memory_bytes = rig->state_bytes,
                               .header = {.length = c->message_bytes,
                                          .target = c->target,
                                          .source = c->source,
                                          .match_bits = c->match_bits,
                                          .hdr_data = c->hdr_data,
                                          .offset = c->me_offset},
                               .offset = c->packet_offset,
                               .user_hdr_bytes = c->user_hdr_bytes,
                               .dropped_bytes = c->dropped_bytes,
                               .flow_control = c->flow_control,
                               .home_cluster = c->home_cluster,
                               .flow = c->flow};
    memcpy(call.argument, c->argument, sizeof call.argument);
    hpu_invoke_begin(&rig->port, &rig->context, &rig->core, &call);
    return SPIN_OK;
}

void rig_end(struct spin_rig *rig, enum hpu_stop stop, struct spin_outcome *o) {
    const struct hpu *h = &rig->hpu;
    port_end(&rig->port);
    *o = (struct spin_outcome){
        .ending = stop == HPU_FAULTED ? (enum spin_ending)h->fault : SPIN_RETURNED,
        .value = (int32_t)h->x[10],
        .pc = h->pc,
        .bad_address = h->fault_address,
        .instructions = h->instret,
        .cycles = h->cycles - rig->start_cycle,
        .icache_misses = h->icache ? hpu_icache_misses(h->icache) - rig->start_misses : 0,
        .command = rig->command,
        .commands = rig->commands,
        .commands_lost = rig->commands_lost,
    };
    if (rig->port.refusal.call)
        o->refusal = rig->port.refusal;
    bool timed = h->code->mode == HPU_TIMED; /* stepping counts accesses in any mode */
    if (!timed)
        return;
    for (uint32_t i = 0; i < h->windows; i++) {
        o->loads[h->window[i].region] += h->window[i].loads;
        o->stores[h->window[i].region] += h->window[i].stores;
    }
    o->loads[SPIN_REGION_DRIVER] = h->device_loads;
    o->stores[SPIN_REGION_DRIVER] = h->device_stores;
}

void spin_rig_outbound(struct spin_rig *rig,
                       void (*each)(void *context, uint32_t dest, const uint8_t *data,
                                    uint32_t bytes),
                       void *context) {
    rig->outbound = each;
    rig->outbound_context = context;
}

void spin_rig_print(struct spin_rig *rig,
                    void (*each)(void *context, uint32_t hpu, const char *line), void *context) {
    rig->print = each;
    rig->print_context = context;
}

void spin_rig_trace(struct spin_rig *rig, void (*each)(void *context, const struct spin_step *step),
                    void *context) {
    rig->trace = each;
    rig->trace_context = context;
}

enum hpu_stop rig_step(struct spin_rig *rig) {
    struct hpu *h = &rig->hpu;
    uint32_t registers[32];
    memcpy(registers, h->x, sizeof registers);
    struct spin_step step = {
        .pc = h->pc, .cycle = h->cycles - rig->start_cycle, .before = registers, .after = h->x};
    uint64_t before = h->cycles, executed = h->instret;
    enum hpu_stop stop = hpu_step(h);
    if (!rig->trace || h->instret == executed)
        return stop; /* it faulted; a jump to nowhere has executed, its target has not */
    step.cycles = (uint32_t)(h->cycles - before);
    step.next_pc = h->pc;
    rig->trace(rig->trace_context, &step);
    return stop;
}

enum hpu_stop rig_run(struct spin_rig *rig) {
    if (!rig->trace)
        return hpu_run(&rig->hpu, UINT64_MAX);
    enum hpu_stop stop;
    do
        stop = rig_step(rig);
    while (stop == HPU_PAUSED);
    return stop;
}

int spin_rig_call(struct spin_rig *rig, const struct spin_call *call, struct spin_outcome *outcome,
                  struct spin_error *err) {
    int code = rig_begin(rig, call, err);
    if (!code)
        rig_end(rig, rig_run(rig), outcome);
    return code;
}
