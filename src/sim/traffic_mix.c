/* Several traffics as one: each is asked for its next packet, and the earliest goes first. */
#include <stdlib.h>

#include "base/error.h"
#include "sim/traffic.h"

struct lane {
    struct traffic *traffic;
    struct traffic_packet packet;
    bool has_packet; /* that was not handed out yet */
};

struct mix {
    struct traffic base;
    uint32_t lanes;
    int32_t last; /* whose packet was handed out last: its bytes are used until the next call */
    struct lane lane[];
};

static int draw(struct lane *l, struct spin_error *err) {
    int code = traffic_next(l->traffic, &l->packet, err);
    l->has_packet = code > 0;
    return code < 0 ? code : SPIN_OK;
}

static int next(struct traffic *t, struct traffic_packet *packet, struct spin_error *err) {
    struct mix *m = (struct mix *)t;
    struct lane *best = NULL;
    for (uint32_t i = 0; i < m->lanes; i++) {
        bool fresh = m->last < 0 || (uint32_t)m->last == i;
        int code = fresh ? draw(&m->lane[i], err) : SPIN_OK;
        if (code)
            return code;
    }
    for (uint32_t i = 0; i < m->lanes; i++)
        if (m->lane[i].has_packet &&
            (!best || m->lane[i].packet.arrival_ps < best->packet.arrival_ps))
            best = &m->lane[i];
    if (!best) {
        m->last = (int32_t)m->lanes; /* none: nothing is drawn any more */
        return 0;
    }
    m->last = (int32_t)(best - m->lane);
    *packet = best->packet;
    packet->message = packet->message * m->lanes + (uint32_t)m->last;
    return 1;
}

static void close_all(struct traffic *t) {
    struct mix *m = (struct mix *)t;
    for (uint32_t i = 0; i < m->lanes; i++)
        traffic_close(m->lane[i].traffic);
    free(m);
}

static const struct traffic_source source = {next, close_all};

int traffic_open_all(struct traffic **out, const char *const *specs, struct spin_error *err) {
    uint32_t lanes = 0;
    while (specs[lanes])
        lanes++;
    *out = NULL;
    if (lanes == 1)
        return traffic_open(out, specs[0], err);
    struct mix *m = calloc(1, sizeof *m + lanes * sizeof m->lane[0]);
    if (!m)
        return spin_fail(err, SPIN_ENOMEM, "out of memory");
    m->base.source = &source;
    m->last = -1;
    int code = SPIN_OK;
    for (uint32_t i = 0; i < lanes && !code; i++) {
        struct traffic **at = &m->lane[i].traffic;
        code = traffic_open(at, specs[i], err);
        m->lanes += !code;
        if (code)
            continue;
        if (i == 0)
            m->base.link = traffic_link(*at);
        if (traffic_link(*at) != m->base.link)
            code = spin_fail(err, SPIN_EARG,
                             "'%.100s' and '%.100s' begin with different headers, IP and Ethernet; "
                             "say link=ip or link=eth",
                             specs[0], specs[i]);
        m->base.packets += traffic_packets(*at);
        m->base.cut_packets += traffic_cut_packets(*at);
        m->base.late_packets += traffic_late_packets(*at);
    }
    if (code) {
        close_all(&m->base);
        return code;
    }
    *out = &m->base;
    return SPIN_OK;
}
