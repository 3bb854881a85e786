/* SC'17 figure 5b: the four cases of message matching, small and large messages that come after and
 * before their receive, by the processor (RDMA), by Portals 4 and by sPIN. The paper draws the
 * protocol; here is what each takes. */
#include "figures.h"

#include <stdlib.h>

#include "base/error.h"
#include "spinlib/p2p.h"

enum { VARIANTS = 3, SIZES = 9, TAG = 1 }; /* 16 B to 1 MiB */
enum { WAITING, COMPUTING, LATE, KINDS };  /* what the receiver does when the message comes */
static const char *const variants[VARIANTS] = {"rdma", "portals", "spin"};
static const uint64_t small_bytes = 4096, large_bytes = 1 << 20;

struct scene {
    const char *variant;
    const uint64_t *bytes;
    int sizes;
    uint32_t ranks;                    /* of which all but the first send */
    struct spin_p2p_request **request; /* [ranks] */
    struct spin_p2p_status *status;
    uint8_t *memory[2];
    double us[KINDS][SIZES];
    struct spin_p2p_counts counts; /* of the receiver */
};

/* Long enough for the message to arrive meanwhile. */
static uint64_t compute_ps(const struct scene *s, uint64_t bytes) {
    return (20000000 + bytes * 40) * (s->ranks - 1);
}

/* One message of each of the others. */
static int post(struct spin_p2p *p2p, struct scene *s, int i) {
    int code = PTL_OK;
    for (uint32_t k = 1; k < s->ranks && code == PTL_OK; k++)
        code = spin_p2p_irecv(p2p, s->memory[0], s->bytes[i], k, TAG, 0, &s->request[k - 1]);
    return code;
}

static int receive(struct spin_p2p *p2p, struct scene *s, int kind, int i, uint64_t *ready_ps) {
    if (kind != LATE && post(p2p, s, i) != PTL_OK)
        return 1;
    spin_barrier();
    uint64_t start = spin_now_ps();
    if (kind != WAITING)
        spin_compute_ps(compute_ps(s, s->bytes[i]));
    if (kind != WAITING)
        start = spin_now_ps();
    if (kind == LATE && post(p2p, s, i) != PTL_OK)
        return 2;
    if (spin_p2p_waitall(p2p, s->ranks - 1, s->request, s->status) != PTL_OK)
        return 3;
    for (uint32_t k = 1; k < s->ranks; k++)
        if (s->status[k - 1].code != PTL_OK)
            return 3;
    *ready_ps = spin_now_ps() - start;
    return 0;
}

static int rank(void *argument) {
    struct scene *s = argument;
    const struct spin_p2p_options o = {.variant = s->variant};
    struct spin_job job;
    struct spin_p2p *p2p;
    if (spin_job_open(&job) != PTL_OK || spin_p2p_open(job.ni, &o, &p2p) != PTL_OK)
        return 1;
    spin_barrier();
    for (int kind = 0; kind < KINDS; kind++)
        for (int i = 0; i < s->sizes; i++) {
            uint64_t took = 0;
            if (job.rank == 0) {
                int line = receive(p2p, s, kind, i, &took);
                if (line)
                    return line;
                s->us[kind][i] = (double)took / 1e6;
            } else {
                spin_barrier();
                if (spin_p2p_send(p2p, s->memory[1], s->bytes[i], 0, TAG, 0) != PTL_OK)
                    return 4;
            }
            spin_barrier();
        }
    if (job.rank == 0)
        spin_p2p_counts(p2p, &s->counts);
    spin_p2p_close(p2p);
    spin_job_close(&job);
    return 0;
}

static const struct {
    const char *name, *title;
} panels[KINDS] = {
    [WAITING] = {"waits", "Receive first, the receiver waits: from send to the end of wait"},
    [COMPUTING] = {"computes", "Receive first, the receiver computes meanwhile: time in wait"},
    [LATE] = {"late", "Message first: time from receive to the end of wait"},
};

static void fill(struct sheet *s, const struct scene scene[VARIANTS]) {
    for (int kind = 0; kind < KINDS; kind++) {
        struct sheet_panel *p = sheet_panel(s, panels[kind].name, panels[kind].title);
        p->log_x = p->log_y = true;
        sheet_column(p, "B", 0, "message");
        for (int v = 0; v < VARIANTS; v++)
            sheet_column(p, "us", 3, "%s", variants[v]);
        for (int i = 0; i < scene[0].sizes; i++) {
            struct sheet_row *row = sheet_row(s, p, NULL);
            row->value[0] = (double)scene[0].bytes[i];
            for (int v = 0; v < VARIANTS; v++)
                row->value[1 + v] = scene[v].us[kind][i];
        }
    }
}

static void claims(struct sheet *s, const struct scene scene[VARIANTS]) {
    const struct scene *rdma = &scene[0], *portals = &scene[1], *spin = &scene[2];
    int small = 0, large = spin->sizes - 1;
    while (spin->bytes[small] < small_bytes)
        small++;
    sheet_shape(s, "A13", spin->us[WAITING][small] < rdma->us[WAITING][small],
                "case I: a small message costs a copy less than with RDMA");
    sheet_shape(s, "A13", spin->us[COMPUTING][large] < 0.05 * rdma->us[COMPUTING][large],
                "case II: a large message needs no processor");
    sheet_shape(s, "A13", portals->us[COMPUTING][large] > 0.5 * rdma->us[COMPUTING][large],
                "case II without handlers: it waits for one");
    sheet_shape(s, "A13",
                spin->us[LATE][small] < 2 * portals->us[LATE][small] &&
                    spin->us[LATE][large] < 1.1 * portals->us[LATE][large],
                "cases III and IV: as in Portals 4, by the processor");
    sheet_shape(s, "A13",
                spin->counts.expected_large &&
                    !(spin->counts.host_gets - spin->counts.unexpected_large),
                "the card gets each large message whose receive was first");
}

int sc17_fig5b(const struct experiment_context *context, struct sheet *s, struct spin_error *err) {
    uint64_t bytes[SIZES], most = large_bytes;
    struct scene scene[VARIANTS] = {{0}};
    int sizes = context->setup.bytes ? 1 : SIZES, code = SPIN_OK;
    for (int i = 0; i < sizes; i++)
        bytes[i] = context->setup.bytes ? context->setup.bytes : 16ull << 2 * i;
    if (context->setup.bytes > most)
        most = context->setup.bytes;
    uint32_t ranks = context->setup.ranks ? context->setup.ranks : 2;
    if (ranks == 1)
        return spin_fail(err, SPIN_EARG, "--ranks 1: one receives, another must send");
    uint8_t *memory = calloc(2, most);
    struct spin_p2p_request **request = calloc(ranks, sizeof *request);
    struct spin_p2p_status *status = calloc(ranks, sizeof *status);
    if (!memory || !request || !status)
        code = spin_fail(err, SPIN_ENOMEM, "no memory for the messages");
    for (int v = 0; v < VARIANTS && !code; v++) {
        const struct spin_world_options base = {.ranks = ranks};
        scene[v] = (struct scene){.variant = variants[v],
                                  .bytes = bytes,
                                  .sizes = sizes,
                                  .ranks = ranks,
                                  .request = request,
                                  .status = status,
                                  .memory = {memory, memory + most}};
        code = experiment_ranks(context, "p2p_handler", &base, rank, &scene[v], err);
    }
    free(memory);
    free(request);
    free(status);
    if (code)
        return code;
    fill(s, scene);
    if (ranks > 2)
        sheet_note(s, "%u ranks send a message each; times are until all are there.", ranks - 1);
    sheet_note(s, "Messages of more than 16 KiB are large: their receiver gets them.");
    if (!experiment_one_row(context))
        claims(s, scene);
    return SPIN_OK;
}
