/* Made traffic: UDP datagrams with right lengths and checksums, or as PsPIN's examples have them,
 * from a seed.
 *
 * Messages are numbered in the order in which they begin; message m belongs to flow m modulo flows.
 * `interleave` of them are under way at once and take turns, packet by packet. */
#include "sim/traffic.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/rng.h"
#include "base/settings.h"
#include "base/units.h"

#define MOST_INTERLEAVED 65536

enum sizes { FIXED, UNIFORM, IMIX };
enum payload { RANDOM, ZERO, COUNT };

/* The simple Internet mix: IPv4 datagrams of 40, 576 and 1500 bytes, 7 to 4 to 1. */
static const struct { uint32_t bytes, share; } imix[] = {{40, 7}, {576, 4}, {1500, 1}};
enum { IMIX_SHARES = 12 };

struct running {
    uint64_t message;
    uint64_t sent;
};

struct gen {
    struct traffic base;
    /* options */
    uint64_t messages, per_message, flows, interleave, fs_byte, gap_ps, message_gap_ps, seed;
    uint64_t start_ps, port;
    enum sizes sizes;
    enum payload payload;
    uint32_t size_low, size_high;
    bool poisson, pspin; /* headers as PsPIN's examples have them */
    /* state */
    struct rng random;
    struct traffic_clock clock;
    uint64_t sent, begun;
    struct running *running;
    uint64_t turn, under_way;
    uint8_t *bytes;
};

static uint32_t draw_size(struct gen *g) {
    if (g->sizes == FIXED)
        return g->size_low;
    if (g->sizes == UNIFORM)
        return g->size_low + rng_below(&g->random, g->size_high - g->size_low + 1);
    uint32_t draw = rng_below(&g->random, IMIX_SHARES), i = 0;
    for (; draw >= imix[i].share; i++)
        draw -= imix[i].share;
    return imix[i].bytes + (g->base.link == NIC_LINK_ETHERNET ? HEADERS_ETHERNET : 0);
}

static void fill_payload(struct gen *g, uint32_t from, uint32_t length) {
    if (g->payload == ZERO) {
        memset(g->bytes + from, 0, length - from);
    } else if (g->payload == COUNT) {
        for (uint32_t i = from; i < length; i++)
            g->bytes[i] = (uint8_t)(i - from);
    } else {
        uint32_t i = from;
        for (; i + 8 <= length; i += 8) {
            uint64_t word = rng_u64(&g->random);
            for (int b = 0; b < 8; b++) /* by bytes: the same on every machine */
                g->bytes[i + (uint32_t)b] = (uint8_t)(word >> 8 * b);
        }
        uint64_t word = i < length ? rng_u64(&g->random) : 0;
        for (; i < length; i++, word >>= 8)
            g->bytes[i] = (uint8_t)word;
    }
}

/* The message whose turn it is; a new one takes the place of one that has ended. */
static struct running *take_turn(struct gen *g) {
    while (g->under_way < g->interleave && g->begun < g->messages)
        g->running[g->under_way++] = (struct running){g->begun++, 0};
    if (g->turn >= g->under_way)
        g->turn = 0;
    return &g->running[g->turn];
}

static void end_turn(struct gen *g, struct running *r, bool ended) {
    if (!ended)
        g->turn++;
    else if (g->begun < g->messages)
        *r = (struct running){g->begun++, 0}, g->turn++;
    else /* the others keep their order */
        memmove(r, r + 1, (size_t)(--g->under_way - g->turn) * sizeof *r);
}

static bool advance(struct gen *g, uint32_t length, bool ended) {
    uint64_t gap = ended ? g->message_gap_ps : g->gap_ps;
    if (!g->poisson)
        return traffic_clock_add(&g->clock, gap, length, g->fs_byte);
    struct traffic_clock mean = {0};
    if (!traffic_clock_add(&mean, gap, length, g->fs_byte))
        return false;
    return traffic_clock_add(&g->clock, rng_exponential(&g->random, mean.ps), 0, 0);
}

static int next(struct traffic *t, struct traffic_packet *p, struct spin_error *err) {
    struct gen *g = (struct gen *)t;
    if (g->sent == g->base.packets)
        return 0;
    struct running *r = take_turn(g);
    uint64_t message = r->message;
    bool last = ++r->sent == g->per_message;
    uint32_t length = draw_size(g);
    uint32_t flow = (uint32_t)(message % g->flows);
    fill_payload(g, headers_udp_bytes(t->link), length);
    struct headers_udp udp = {.source = 0x0a000001 + flow,
                              .destination = 0x0aff0001,
                              .source_port = (uint16_t)(0xc000 + flow % 0x4000),
                              .destination_port = (uint16_t)g->port,
                              .identification = (uint16_t)g->sent};
    if (g->pspin)
        headers_write_pspin(g->bytes, length, &udp);
    else
        headers_write_udp(t->link, g->bytes, length, &udp);
    *p = (struct traffic_packet){.arrival_ps = g->clock.ps,
                                 .bytes = g->bytes,
                                 .length = length,
                                 .copy_bytes = length,
                                 .flow = flow,
                                 .message = (uint32_t)message,
                                 .end_of_message = last};
    end_turn(g, r, last);
    if (++g->sent < g->base.packets && !advance(g, length, last))
        return spin_fail(err, SPIN_ELIMIT, "gen: packet %llu arrives beyond the limit of 53 days",
                         (unsigned long long)g->sent + 1);
    return 1;
}

static void close_gen(struct traffic *t) {
    struct gen *g = (struct gen *)t;
    free(g->running);
    free(g->bytes);
    free(g);
}

static const struct traffic_source source = {next, close_gen};

/* ---- options ---- */

static int parse_sizes(struct gen *g, const char *text, struct spin_error *err) {
    char low[24];
    uint64_t a, b;
    uint32_t ethernet = g->base.link == NIC_LINK_ETHERNET ? HEADERS_ETHERNET : 0;
    uint32_t least = headers_udp_bytes(g->base.link), most = HEADERS_MOST_IPV4 + ethernet;
    if (strcmp(text, "imix") == 0) {
        g->sizes = IMIX;
        return SPIN_OK;
    }
    const char *dash = strchr(text, '-');
    size_t length = dash ? (size_t)(dash - text) : strlen(text);
    if (length >= sizeof low)
        length = 0; /* no number is that long */
    memcpy(low, text, length);
    low[length] = 0;
    if (!units_size(low, &a) || (dash && !units_size(dash + 1, &b)))
        return spin_fail(err, SPIN_EARG,
                         "gen: size: '%.60s' is not a size (1024), a range (64-1500) or imix",
                         text);
    b = dash ? b : a;
    if (a < least || b > most || a > b)
        return spin_fail(err, SPIN_EARG,
                         "gen: size: %.60s is outside %u (the headers) to %u bytes%s", text, least,
                         most, a > b ? ", or upside down" : "");
    g->sizes = a == b ? FIXED : UNIFORM;
    g->size_low = (uint32_t)a;
    g->size_high = (uint32_t)b;
    return SPIN_OK;
}

static int parse(struct gen *g, char *options, struct spin_error *err) {
    static const char *const arrivals[] = {"constant", "poisson", NULL};
    static const char *const payloads[] = {"random", "zero", "count", NULL};
    static const char *const headers[] = {"internet", "pspin", NULL};
    const char *size = "1024";
    unsigned poisson = 0, pspin = 0, payload = 0;
    const uint64_t year = 1ull << 61;
    const struct setting table[] = {
        {"messages", SETTING_COUNT, &g->messages, 1, 1u << 31, NULL},
        {"packets", SETTING_COUNT, &g->per_message, 1, 1ull << 40, NULL},
        {"size", SETTING_TEXT, &size, 0, 0, NULL},
        {"flows", SETTING_COUNT, &g->flows, 1, 1 << 20, NULL},
        {"interleave", SETTING_COUNT, &g->interleave, 1, MOST_INTERLEAVED, NULL},
        {"rate", SETTING_RATE, &g->fs_byte, 0, 0, NULL},
        {"gap", SETTING_TIME, &g->gap_ps, 0, year, NULL},
        {"message_gap", SETTING_TIME, &g->message_gap_ps, 0, year, NULL},
        {"start", SETTING_TIME, &g->start_ps, 0, year, NULL},
        {"arrivals", SETTING_WORD, &poisson, 0, 0, arrivals},
        {"payload", SETTING_WORD, &payload, 0, 0, payloads},
        {"headers", SETTING_WORD, &pspin, 0, 0, headers},
        {"port", SETTING_COUNT, &g->port, 0, 65535, NULL},
        {"seed", SETTING_COUNT, &g->seed, 0, UINT64_MAX, NULL},
        {"link", SETTING_WORD, &g->base.link, 0, 0, traffic_links},
        {0},
    };
    g->message_gap_ps = UINT64_MAX; /* not said: the same as the gap */
    int code = settings_read("gen", options, table, err);
    if (code)
        return code;
    if (g->message_gap_ps == UINT64_MAX)
        g->message_gap_ps = g->gap_ps;
    if (g->interleave > g->messages)
        g->interleave = g->messages;
    if (__builtin_mul_overflow(g->messages, g->per_message, &g->base.packets))
        return spin_fail(err, SPIN_EARG, "gen: messages times packets is over the limit of 2^64");
    g->poisson = poisson;
    g->pspin = pspin;
    g->payload = (enum payload)payload;
    if (g->pspin && g->base.link != NIC_LINK_IP)
        return spin_fail(err, SPIN_EARG, "gen: headers=pspin goes with link=ip only");
    return parse_sizes(g, size, err);
}

int traffic_gen_open(struct traffic **out, char *options, struct spin_error *err) {
    struct gen *g = calloc(1, sizeof *g);
    if (!g)
        return spin_fail(err, SPIN_ENOMEM, "gen: out of memory");
    *g = (struct gen){.base = {.source = &source, .link = NIC_LINK_IP},
                      .messages = 1,
                      .per_message = 32,
                      .flows = 1,
                      .interleave = 1,
                      .fs_byte = 20000, /* 400 Gbit/s, the card's rate in ISCA'21 */
                      .port = 4791,
                      .seed = 1};
    int code = parse(g, options, err);
    if (!code) {
        g->random = rng_seeded(g->seed);
        g->clock.ps = g->start_ps;
        g->running = calloc(g->interleave, sizeof *g->running);
        g->bytes = malloc(TRAFFIC_MOST_BYTES);
        if (!g->running || !g->bytes)
            code = spin_fail(err, SPIN_ENOMEM, "gen: out of memory");
    }
    if (code)
        close_gen(&g->base);
    else
        *out = &g->base;
    return code;
}
