#include "hpu/hpu_invoke.h"

#define PSPIN_ARGS 16u /* handler_args_t, on top of the stack */

static uint32_t stack_address(const struct invoke_core *core) {
    return MAP_L1_ALIAS + MAP_L1_RUNTIME + core->core * MAP_STACK_SIZE;
}

static bool fits(const struct invoke_memory *m) {
    return !m->bytes || hpu_is_aligned(m->address, m->host);
}

bool hpu_invoke_fits(const struct invoke_context *x) {
    bool all = fits(&x->constants) && fits(&x->data) && fits(&x->handler_data) && fits(&x->memory);
    for (uint32_t i = 0; i < MAP_CLUSTERS; i++)
        all = all && fits(&x->scratchpad[i]);
    return all;
}

/* They are never too many. */
static void give(struct hpu *h, const struct invoke_memory *m, bool writable,
                 enum hpu_region region) {
    int i = m->bytes ? hpu_add_window(h, m->address, m->bytes, m->host, writable, region) : -1;
    if (i >= 0)
        h->window[i].view = m->view;
}
_Static_assert(INVOKE_OTHERS + 4 + MAP_CLUSTERS + 1 <= HPU_WINDOWS,
               "the image's three, the entry's, scratchpads, the heap");

bool hpu_invoke_open(struct port *p, const struct invoke_context *x,
                     const struct invoke_core *core) {
    struct hpu *h = p->hpu;
    h->windows = 0;
    if (!hpu_invoke_fits(x) || !hpu_is_aligned(stack_address(core), core->stack) ||
        !fits(&core->heap))
        return false;
    hpu_add_window(h, 0, 0, NULL, true, HPU_REGION_L1);         /* INVOKE_PACKET */
    hpu_add_window(h, 0, 0, NULL, true, HPU_REGION_L2_PACKETS); /* INVOKE_L2_PACKET */
    hpu_add_window(h, stack_address(core), MAP_STACK_SIZE, core->stack, true,
                   HPU_REGION_L1); /* INVOKE_STACK */
    give(h, &x->constants, false, HPU_REGION_L2_HANDLER);
    give(h, &x->data, true, HPU_REGION_L2_HANDLER);
    give(h, &x->handler_data, true, HPU_REGION_L2_HANDLER);
    give(h, &x->memory, true, x->memory_region);
    for (uint32_t i = 0; i < MAP_CLUSTERS; i++)
        give(h, &x->scratchpad[i], true, i == core->cluster ? HPU_REGION_L1 : HPU_REGION_REMOTE_L1);
    uint16_t *begins = p->heap.begins;
    p->heap = (struct hpu_heap){.begins = begins};
    if (p->is_pspin)
        return true;
    p->heap = (struct hpu_heap){.address = core->heap.address,
                                .bytes = core->heap.bytes,
                                .host = core->heap.host,
                                .check = core->check,
                                .begins = begins};
    if (!core->check)
        give(h, &core->heap, true, HPU_REGION_L1);
    return true;
}

static void move_window(struct hpu_window *w, uint32_t base, uint8_t *host, uint32_t bytes,
                        bool writable) {
    w->base = base;
    w->host = host;
    hpu_size_window(w, bytes, writable);
}

bool hpu_invoke_memory(struct port *p, const struct invoke_context *x) {
    if (!fits(&x->memory))
        return false;
    uint32_t i = INVOKE_OTHERS + (x->constants.bytes != 0) + (x->data.bytes != 0) +
                 (x->handler_data.bytes != 0);
    move_window(&p->hpu->window[i], x->memory.address, x->memory.host, x->memory.bytes, true);
    p->hpu->window[i].view = x->memory.view;
    return true;
}

/* ---- what the handler is told ---- */

static uint32_t bytes_of(struct port *p, const struct spin_image *image, uint32_t entry) {
    struct port_measured *m = &p->measured[(entry >> 2 ^ entry >> 5) % PORT_MEASURED];
    if (m->image != image || m->entry != entry) { /* as most calls are like some before */
        const struct spin_function *f = spin_image_at(image, entry);
        *m = (struct port_measured){image, entry, f ? f->bytes : 0};
    }
    return m->bytes;
}

static void set_task(struct port *p, const struct invoke_context *x, const struct invoke_call *c) {
    struct hpu_task *task = &p->hpu->task;
    *task = (struct hpu_task){
        .handler_address = c->entry,
        .handler_bytes = bytes_of(p, x->image, c->entry),
        .memory_address = c->memory_address,
        .memory_bytes = c->memory_bytes,
        .packet_address = c->bytes || !c->l2_packet ? c->address : c->l2_address,
        .packet_bytes = c->length,
        .host_high = (uint32_t)(x->host_address >> 32),
        .host_low = (uint32_t)x->host_address,
        .host_bytes = x->host_bytes > UINT32_MAX ? UINT32_MAX : (uint32_t)x->host_bytes,
        .l2_packet = c->l2_address,
        .home_cluster = c->home_cluster,
        .flow = c->flow,
    };
    for (uint32_t i = 0; i < MAP_CLUSTERS; i++) {
        task->scratch_bytes[i] = x->scratchpad[i].bytes;
        task->scratch_address[i] = x->scratchpad[i].bytes ? x->scratchpad[i].address : 0;
    }
}

/* void handler(handler_args_t *args): the arguments on the stack, the task in the HPU driver. */
static void pspin_arguments(struct hpu *h, const struct invoke_core *core) {
    uint8_t *args = core->stack + MAP_STACK_SIZE - PSPIN_ARGS;
    call_put32(args, MAP_DRIVER + SPIN_REG_MEMORY_ADDRESS); /* a task_t begins there */
    call_put32(args + 4, h->id);
    call_put32(args + 8, core->cluster);
    call_put32(args + 12, core->core);
    h->x[2] -= PSPIN_ARGS;
    h->x[10] = h->x[2];
}

static void p4spin_arguments(struct hpu *h, const struct invoke_call *c) {
    uint32_t before = c->user_hdr_bytes < c->bytes ? c->user_hdr_bytes : c->bytes;
    uint8_t *end = c->arguments ? c->arguments : c->packet;
    struct call_header header;
    switch (c->kind) {
    case SPIN_HEADER_HANDLER:
        header = c->header;
        header.length = header.length ? header.length : c->length;
        call_put_header(end, &header);
        h->x[10] = c->address - CALL_HEADER_BYTES;
        h->x[11] = c->memory_address;
        return;
    case SPIN_PAYLOAD_HANDLER:
        call_put_payload(end + before, c->length - before, c->offset);
        h->x[10] = c->address + before - CALL_PAYLOAD_BYTES;
        h->x[11] = c->memory_address;
        return;
    case SPIN_COMPLETION_HANDLER:
    case SPIN_CLEANUP_HANDLER:
        h->x[10] = c->dropped_bytes;
        h->x[11] = c->flow_control;
        h->x[12] = c->memory_address;
        return;
    default:
        memcpy(&h->x[10], c->argument, sizeof c->argument);
    }
}

void hpu_invoke_begin(struct port *p, const struct invoke_context *x,
                      const struct invoke_core *core, const struct invoke_call *c) {
    struct hpu *h = p->hpu;
    move_window(&h->window[INVOKE_PACKET], c->address - c->headroom, c->packet - c->headroom,
                c->headroom + c->bytes, !c->reads_only);
    move_window(&h->window[INVOKE_L2_PACKET], c->l2_address, c->l2_packet,
                c->l2_packet ? c->length : 0, true);
    hpu_start(h, c->entry, stack_address(core) + MAP_STACK_SIZE, c->budget_cycles);
    set_task(p, x, c);
    if (c->kind == SPIN_PSPIN_HANDLER)
        pspin_arguments(h, core);
    else
        p4spin_arguments(h, c);
    port_begin(p);
}

/* ---- the next one ---- */

/* As port_begin. */
static void begin_again(struct hpu *h) {
    struct port *p = h->device_context;
    port_clear_words(h);
    p->commands = 0;
    p->heap.used = 0;
    h->result = h->handles = 0;
    h->cycles = 0;
    h->unready.any = 0;
}

/* As hpu_start, after a handler that has returned. */
static void start_again(struct hpu *h) {
    h->cycles = h->instret = 0;
    hpu_clear_registers(h->x);
    if (h->code->has_float)
        hpu_clear_registers(h->f);
    h->fcsr = 0;
    h->x[1] = MAP_RETURN;
    h->x[2] = h->window[INVOKE_STACK].base + MAP_STACK_SIZE;
    h->x[11] = h->task.memory_address;
    h->pc = h->entry;
    h->mid_block = h->is_fresh = h->reserved = false;
    hpu_set_horizon(h);
}

/* The end of such a call, as the HPU shows it. */
static struct invoke_end ended(const struct hpu *h, enum hpu_stop stop) {
    return (struct invoke_end){stop, h->x[10]};
}

struct invoke_end hpu_invoke_rest(struct hpu *h, uint64_t returned) {
    h->unready.registers = 1;
    return ended(h, returned ? hpu_run_rest(h, returned) : HPU_DONE);
}

struct invoke_end hpu_invoke_anew(struct hpu *h, uint8_t *packet, uint32_t bytes, uint32_t offset) {
    struct hpu_window *w = &h->window[INVOKE_PACKET];
    uint32_t headroom = h->task.packet_address - w->base;
    if (h->unready.registers)
        start_again(h);
    begin_again(h);
    hpu_size_window(w, headroom + bytes, w->write_room[0]);
    h->task.packet_bytes = bytes;
    if (h->generated && atomic_load_explicit(h->generated, memory_order_acquire))
        return hpu_invoke_next(h, packet, bytes, offset);
    call_put_payload(packet, bytes, offset);
    h->x[10] = h->task.packet_address - CALL_PAYLOAD_BYTES;
    w->host = packet - headroom;
    h->unready.registers = 1;
    h->is_fresh = true;
    return ended(h, hpu_run(h, UINT64_MAX));
}
