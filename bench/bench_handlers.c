/* Handler throughput of one processor: what PsPIN's six handlers do with packets of 64 B to 4 KiB,
 * as handlers of a live card that sends to itself (every packet is made, matched to its message,
 * given to its handler and accounted for), as the same card without a handler stores them, and as
 * the host's compiler makes functions of them, on packets that are there already.
 *   bench-handlers IMAGE */
#include "measure.h"
#include "payload_host.h"

#include "live/live_card.h"

#define NEED(call)                                                                                 \
    do {                                                                                           \
        int code_ = (call);                                                                        \
        if (code_) {                                                                               \
            fprintf(stderr, "bench: %s: %s\n", #call, PtlToStr(code_, PTL_STR_ERROR));             \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

#define MESSAGE (64u << 10) /* bytes */
#define TURNS   5
#define STATE   4096u

static struct live_folder folder;
static struct live_card *card;
static ptl_handle_ni_t ni;
static ptl_handle_ct_t arrived;
static ptl_handle_md_t md;
static ptl_image_h image;
static ptl_process_t self;
static uint8_t *source, *host;
static uint64_t messages;

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

static void open_card(const char *path, uint32_t packet_bytes) {
    const struct live_card_options options = {
        .folder = &folder, .nid = 1, .pid = 1, .jit = SPIN_JIT_ON, .mtu_bytes = packet_bytes};
    struct spin_error err;
    ptl_pt_index_t pt;
    if (live_card_new(&card, &options, &err)) {
        fprintf(stderr, "bench: %s\n", err.text);
        exit(1);
    }
    portals_enter(live_card_process(card));
    NEED(PtlInit());
    NEED(PtlNIInit(PTL_IFACE_DEFAULT, PTL_NI_MATCHING | PTL_NI_PHYSICAL, PTL_PID_ANY, NULL, NULL,
                   &ni));
    NEED(PtlGetPhysId(ni, &self));
    NEED(PtlPTAlloc(ni, 0, PTL_EQ_NONE, 0, &pt));
    NEED(PtlCTAlloc(ni, &arrived));
    const ptl_md_t all = {
        .start = source, .length = MESSAGE, .eq_handle = PTL_EQ_NONE, .ct_handle = PTL_CT_NONE};
    NEED(PtlMDBind(ni, &all, &md));
    NEED(PtlImageLoad(ni, path, &image));
    messages = 0;
}

/* An entry per handler; none: the card stores the data. */
static void add_entry(uint64_t bits, const char *handler) {
    ptl_me_t me = {.start = host,
                   .length = 2 * MESSAGE,
                   .ct_handle = arrived,
                   .uid = PTL_UID_ANY,
                   .match_id = {.phys = {PTL_NID_ANY, PTL_PID_ANY}},
                   .match_bits = bits,
                   .options = PTL_ME_OP_PUT | PTL_ME_EVENT_CT_COMM};
    ptl_handle_me_t handle;
    if (handler) {
        me.options |= PTL_ME_HANDLERS;
        NEED(PtlImageFind(image, handler, &me.payload_handler));
        NEED(PtlHPUAllocMem(STATE, ni, &me.hpu_memory));
    }
    NEED(PtlMEAppend(ni, 0, &me, PTL_PRIORITY_LIST, NULL, &handle));
}

static void send_messages(uint64_t bits, uint32_t count) {
    ptl_ct_event_t event;
    for (uint32_t i = 0; i < count; i++)
        NEED(PtlPut(md, 0, MESSAGE, PTL_NO_ACK_REQ, self, 0, bits, 0, NULL, 0));
    messages += count;
    NEED(PtlCTWait(arrived, messages, &event));
    if (event.failure) {
        fprintf(stderr, "bench: a handler failed\n");
        exit(1);
    }
}

/* ns per packet: the best of some turns. */
static double on_card(uint64_t bits, uint32_t packet_bytes) {
    uint32_t count = packet_bytes < 512 ? 40 : 200;
    double best = 0;
    send_messages(bits, count); /* compiled by then */
    for (int i = 0; i < TURNS; i++) {
        double start = now_ns();
        send_messages(bits, count);
        double ns = (now_ns() - start) / count / (MESSAGE / packet_bytes);
        best = i == 0 || ns < best ? ns : best;
    }
    return best;
}

static double on_host(const struct payload_row *row, uint32_t packet_bytes) {
    struct payload_state *state = calloc(1, STATE);
    double best = 0;
    for (int i = 0; i < TURNS; i++) {
        double start = now_ns();
        for (int k = 0; k < 200; k++)
            for (uint32_t at = 0; at < MESSAGE; at += packet_bytes)
                row->run(state, (const uint32_t *)(const void *)(source + at), packet_bytes, at,
                         host);
        double ns = (now_ns() - start) / 200 / (MESSAGE / packet_bytes);
        best = i == 0 || ns < best ? ns : best;
    }
    free(state);
    return best;
}

int main(int argc, char **argv) {
    static const uint32_t sizes[] = {64, 256, 1024, 4096};
    struct spin_error err;
    char name[64];
    if (argc != 2) {
        fprintf(stderr, "usage: bench-handlers IMAGE\n");
        return 2;
    }
    bench_machine();
    source = malloc(MESSAGE);
    host = calloc(2, MESSAGE);
    for (uint32_t i = 0; i < MESSAGE; i++)
        source[i] = (uint8_t)(i * 2654435761u >> 13);
    printf(
        "handler     bytes  card: ns, Gbit/s   without handler: ns   host: ns   throughput against "
        "host\n");
    for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
        if (live_folder_make(&folder, name, sizeof name, &err)) {
            fprintf(stderr, "bench: %s\n", err.text);
            return 1;
        }
        open_card(argv[1], sizes[k]);
        for (uint64_t i = 0; i < 6; i++)
            add_entry(i, payload_rows[i].handler);
        add_entry(6, NULL);
        double plain = on_card(6, sizes[k]);
        for (uint64_t i = 0; i < 6; i++) {
            double ns = on_card(i, sizes[k]), native = on_host(&payload_rows[i], sizes[k]);
            printf("%-10s  %5u  %8.1f %8.1f  %18.1f  %10.1f   %6.2f\n", payload_rows[i].name,
                   sizes[k], ns, 8 * sizes[k] / ns, plain, native, native / ns);
        }
        live_card_free(card);
        live_folder_remove(&folder);
    }
    return 0;
}
