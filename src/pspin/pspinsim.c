/* The simulation behind pspinsim.h: packets are queued by the driver and drawn by the card. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/grow.h"
#include "pspin/world.h"

struct pspin_world pspin;

int pspin_say(const char *format, ...) {
    va_list list;
    va_start(list, format);
    fputs("pspin: ", stderr);
    vfprintf(stderr, format, list);
    fputc('\n', stderr);
    va_end(list);
    return SPIN_ERR;
}

int pspin_fail(const struct spin_error *err) {
    return pspin_say("%s", err->text);
}

int pspinsim_default_conf(pspin_conf_t *conf) {
    /* The buffers as the RTL has them: for programs that read them. */
    *conf = (pspin_conf_t){
        .ni_conf = {.axi_aw_buffer = 32, .axi_w_buffer = 32, .axi_b_buffer = 32},
        .no_conf = {.axi_ar_buffer = 32,
                    .axi_r_buffer = 32,
                    .network_G = 0.02,
                    .max_pkt_size = 2048,
                    .max_network_queue_len = 1024},
        .pcie_slv_conf = {.axi_aw_buffer = 32,
                          .axi_w_buffer = 32,
                          .axi_ar_buffer = 32,
                          .axi_b_buffer = 32,
                          .axi_r_buffer = 32,
                          .pcie_G = 0.014782},
    };
    return SPIN_SUCCESS;
}

static void on_packet_out(void *user, const struct card_out *out, uint64_t at_ps) {
    (void)user, (void)at_ps;
    if (pspin.pkt_out)
        pspin.pkt_out((uint8_t *)(uintptr_t)out->bytes, out->length);
}

static void on_host_write(void *user, uint32_t context, uint64_t address, const uint8_t *bytes,
                          uint32_t length, uint64_t at_ps) {
    (void)user, (void)context, (void)at_ps;
    if (pspin.slv_write)
        pspin.slv_write(address, (uint8_t *)(uintptr_t)bytes, length);
}

static void on_host_read(void *user, uint32_t context, uint64_t address, uint8_t *bytes,
                         uint32_t length, uint64_t at_ps) {
    (void)user, (void)context, (void)at_ps;
    if (pspin.slv_read)
        pspin.slv_read(address, bytes, length);
    else
        memset(bytes, 0, length);
}

static void on_feedback(void *user, const struct card_feedback *f) {
    (void)user;
    if (pspin.feedback && !f->dropped)
        pspin.feedback(f->user, f->nic_arrival_ps, f->pspin_arrival_ps, f->completion_ps);
}

static void on_fault(void *user, const struct card_fault *f, uint64_t at_ps) {
    (void)user;
    if (pspin.faults++)
        return;
    char text[400];
    spin_ending_text(card_context_image(pspin.card, f->context), f->ending, f->pc, f->address,
                     &f->refusal, text, sizeof text);
    spin_fail(&pspin.first_fault, SPIN_EFORMAT,
              "message %u, HPU %u, %llu ns: handler was ended: %s", f->message, f->hpu,
              (unsigned long long)(at_ps / 1000), text);
}

/* As in the RTL. */
static void on_print(void *user, uint32_t cluster, uint32_t core, const char *line) {
    (void)user;
    printf("[%u,%u] %s\n", cluster, core, line);
}

static void on_write_done(void *context, const struct sim_event *event) {
    (void)context;
    if (pspin.mst_write)
        pspin.mst_write((void *)(uintptr_t)event->with.u64[0]);
}

static void on_read_done(void *context, const struct sim_event *event) {
    (void)context;
    if (pspin.mst_read)
        pspin.mst_read((void *)(uintptr_t)event->with.u64[0]);
}

static int configure(const pspin_conf_t *conf) {
    struct spin_error err;
    if (card_config_preset(&pspin.config, "pspin", &err))
        return pspin_fail(&err);
    pspin.config.contexts = PSPIN_CONTEXTS;
    pspin.config.held_handles = 1;
    if (!conf)
        return SPIN_SUCCESS;
    if (!(conf->no_conf.network_G >= 0 && conf->no_conf.network_G < 1000) ||
        !(conf->pcie_slv_conf.pcie_G >= 0 && conf->pcie_slv_conf.pcie_G < 1000))
        return pspin_say("network_G and pcie_G are ns per byte, from 0 to 1000");
    if (conf->no_conf.network_G > 0)
        pspin.config.network_rate = (uint64_t)(conf->no_conf.network_G * 1e6 + 0.5);
    if (conf->pcie_slv_conf.pcie_G > 0)
        pspin.config.pcie_rate = (uint64_t)(conf->pcie_slv_conf.pcie_G * 1e6 + 0.5);
    /* The RTL's bench adds it to a time in ps. */
    pspin.config.pcie_latency = conf->pcie_slv_conf.pcie_L;
    return SPIN_SUCCESS;
}

int pspinsim_init(int argc, char **argv, pspin_conf_t *conf) {
    (void)argc, (void)argv;
    struct spin_error err;
    struct stat st;
    struct spin_image *image;
    if (pspin.card)
        return pspin_say("there is a card already: call pspinsim_fini first");
    if (configure(conf))
        return SPIN_ERR;
    const struct card_callbacks callbacks = {.packet_out = on_packet_out,
                                             .host_write = on_host_write,
                                             .host_read = on_host_read,
                                             .feedback = on_feedback,
                                             .fault = on_fault,
                                             .print = on_print};
    static const struct sim_module host = {.name = "host",
                                           .kinds = 2,
                                           .kind = {[PSPIN_WRITE_EVENT] = {.run = on_write_done},
                                                    [PSPIN_READ_EVENT] = {.run = on_read_done}}};
    pspin.engine = sim_engine_new(&err);
    if (!pspin.engine || sim_engine_join(pspin.engine, &host, NULL, &pspin.host, &err) ||
        card_new(&pspin.card, pspin.engine, &pspin.config, &callbacks, &err)) {
        sim_engine_free(pspin.engine);
        pspin.engine = NULL;
        return pspin_fail(&err);
    }
    for (uint32_t i = 0; i < pspin.images; i++) /* found before there was a card */
        pspin_to_card(pspin.image[i]);
    if (conf && conf->slm_files_path && stat(conf->slm_files_path, &st) == 0 && S_ISREG(st.st_mode))
        return pspin_load(conf->slm_files_path, &image);
    return SPIN_SUCCESS;
}

/* The card draws the next packet. */
static bool draw(void *user, struct card_packet *p) {
    (void)user;
    uint64_t now = sim_engine_counts(pspin.engine).now_ps, cycle = pspin.config.cycle;
    now = (now + cycle - 1) / cycle * cycle;
    if (pspin.next_arrival_ps < now) /* the one before had no room, or this was added late */
        pspin.next_arrival_ps = now;
    pspin.next_arrival_ps += pspin.gap_ps;
    pspin.gap_ps = 0;
    free(pspin.drawn);
    pspin.drawn = NULL;
    if (pspin.first == pspin.packets) {
        pspin.first = pspin.packets = 0;
        pspin.feeding = false;
        return false;
    }
    const struct pspin_packet *q = &pspin.packet[pspin.first++];
    pspin.gap_ps = (q->wait_cycles ? q->wait_cycles : 1) * cycle; /* the NIC takes one per cycle */
    pspin.drawn = q->data;
    *p = (struct card_packet){.context = q->context,
                              .message = q->message,
                              .bytes = q->data,
                              .length = q->bytes,
                              .eom = q->eom,
                              .arrival_ps = pspin.next_arrival_ps,
                              .at_once = true,
                              .partial_copy = true,
                              .l1_bytes = q->l1_bytes,
                              .user = q->user};
    return true;
}

int pspin_add(const spin_ec_t *ec, struct pspin_packet p, const uint8_t *bytes) {
    uint32_t most = card_most_bytes(pspin.card);
    if (!p.bytes || p.bytes > most)
        return pspin_say("packet of %u bytes, the packet buffers take 1 to %u", p.bytes, most);
    p.message %= PSPIN_MESSAGES; /* the low bits count */
    if (pspin_find_context(ec, &p.context))
        return SPIN_ERR;
    p.data = ROOM_FOR_ONE(pspin.packet, pspin.packets, pspin.room, 1024) ? malloc(p.bytes) : NULL;
    if (!p.data)
        return pspin_say("out of memory");
    memcpy(p.data, bytes, p.bytes);
    pspin.packet[pspin.packets++] = p;
    pspin.eos = false;
    return SPIN_SUCCESS;
}

int pspinsim_packet_add(spin_ec_t *ec, uint32_t msgid, uint8_t *data, size_t len, size_t l1_len,
                        uint8_t eom, uint32_t wait_cycles, uint64_t user_ptr) {
    uint32_t bytes = len > UINT32_MAX ? UINT32_MAX : (uint32_t)len;
    if (!pspin.card)
        return pspin_say("no card: call pspinsim_init first");
    struct pspin_packet p = {.bytes = bytes,
                             .l1_bytes = l1_len < len ? (uint32_t)l1_len : bytes,
                             .message = msgid,
                             .eom = eom != 0,
                             .wait_cycles = wait_cycles,
                             .user = user_ptr};
    return pspin_add(ec, p, data);
}

int pspinsim_packet_eos(void) {
    pspin.eos = true;
    return SPIN_SUCCESS;
}

static int advance(uint64_t until_ps) {
    struct spin_error err;
    if (!pspin.card)
        return pspin_say("no card: call pspinsim_init first");
    if (!pspin.feeding && pspin.first != pspin.packets) {
        pspin.feeding = true;
        card_feed(pspin.card, draw, NULL);
    }
    return sim_run(pspin.engine, until_ps, UINT64_MAX, &err) ? pspin_fail(&err) : SPIN_SUCCESS;
}

int pspinsim_run(void) {
    struct spin_error err;
    int code;
    do /* callbacks may add packets */
        code = advance(SIM_FOREVER);
    while (!code && pspin.first != pspin.packets);
    if (!code && card_idle(pspin.card, &err))
        code = pspin_fail(&err);
    if (!code && pspin.faults)
        code = pspin_fail(&pspin.first_fault);
    return code;
}

int pspinsim_run_tick(uint8_t *done_flag) {
    /* Not the engine's time, which stands still without events. */
    uint64_t now = pspin.engine ? sim_engine_counts(pspin.engine).now_ps : 0;
    pspin.tick_ps = (pspin.tick_ps < now ? now : pspin.tick_ps) + pspin.config.cycle;
    int code = advance(pspin.tick_ps);
    *done_flag = !code && pspin.eos && pspin.first == pspin.packets &&
                 sim_engine_counts(pspin.engine).pending == 0;
    return code;
}

static void print_statistics(void) {
    struct card_stats s;
    card_stats(pspin.card, &s);
    const struct spin_spread *latency = &s.part[CARD_PART_TOTAL];
    printf("packets: %llu in, %llu completed, %llu dropped, %llu out\n",
           (unsigned long long)s.taken, (unsigned long long)s.completed,
           (unsigned long long)(s.dropped + s.refused), (unsigned long long)s.packets_out);
    printf("throughput: %llu.%03llu Gbit/s\n", (unsigned long long)s.throughput_mbit / 1000,
           (unsigned long long)s.throughput_mbit % 1000);
    if (latency->count)
        printf("latency from NIC arrival: mean %.1f ns, min %.1f, p50 %.1f, p99 %.1f, max %.1f\n",
               (double)latency->sum / (double)latency->count / 1e3, (double)latency->least / 1e3,
               (double)latency->p50 / 1e3, (double)latency->p99 / 1e3, (double)latency->most / 1e3);
    static const char *const names[] = {"header", "payload", "completion"};
    for (int i = 0; i < 3; i++)
        if (s.handler[i].runs)
            printf("%s handlers: %llu, mean %.1f instructions, %.1f cycles\n", names[i],
                   (unsigned long long)s.handler[i].runs,
                   (double)s.handler[i].instructions / (double)s.handler[i].runs,
                   (double)s.handler[i].cycles / (double)s.handler[i].runs);
    if (s.faults)
        printf("faults: %llu\n", (unsigned long long)s.faults);
}

int pspinsim_fini(void) {
    if (!pspin.card)
        return pspin_say("no card: call pspinsim_init first");
    print_statistics();
    while (pspin.first != pspin.packets)
        free(pspin.packet[pspin.first++].data);
    free(pspin.packet);
    free(pspin.drawn);
    card_free(pspin.card);
    sim_engine_free(pspin.engine);
    pspin_memory_free();
    pspin = (struct pspin_world){0};
    return SPIN_SUCCESS;
}

#define SETTER(name, type, member)                                                                 \
    int pspinsim_cb_set_##name(type cb) {                                                          \
        pspin.member = cb;                                                                         \
        return SPIN_SUCCESS;                                                                       \
    }
SETTER(pkt_out, pkt_out_cb_t, pkt_out)
SETTER(pcie_slv_write, pcie_slv_write_cb_t, slv_write)
SETTER(pcie_slv_read, pcie_slv_read_cb_t, slv_read)
SETTER(pcie_mst_write_completion, pcie_mst_write_cb_t, mst_write)
SETTER(pcie_mst_read_completion, pcie_mst_read_cb_t, mst_read)
SETTER(pkt_feedback, pkt_feedback_cb_t, feedback)
