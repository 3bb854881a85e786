/* One write to a RAID-5: rank 0 is the client, 1 the data server, 2 the parity server. */
#include "p4_raid/p4_raid.h"

#include <string.h>

#include "p4.h"

enum { CLIENT, DATA, PARITY };
static const char *const images[] = {"p4_raid_data", "p4_raid_parity", NULL};

struct shared {
    const struct p4_setup *setup;
    uint64_t start_ps, end_ps;
};

static uint8_t before(uint32_t i) {
    return (uint8_t)(i * 3 + 1);
}
static uint8_t after(uint32_t i) {
    return (uint8_t)(i * 5 + i / 97 + 2);
}

static int client(struct p4_rank *r, struct shared *s) {
    uint32_t n = s->setup->bytes;
    if (!p4_append(r, &(struct p4_entry){.start = n, .length = 1, .bits = P4_DONE}))
        return 2;
    for (uint32_t i = 0; i < n; i++)
        r->buffer[i] = after(i);
    spin_barrier();
    s->start_ps = spin_now_ps();
    if (!p4_put(r, 0, n, DATA, P4_WRITE) || !p4_wait(r, 1))
        return 3;
    s->end_ps = spin_now_ps();
    spin_barrier();
    return 0;
}

static int data_server(struct p4_rank *r, const struct shared *s) {
    uint32_t n = s->setup->bytes;
    const struct p4_raid_data state = {.parity = PARITY};
    for (uint32_t i = 0; i < n; i++)
        r->buffer[i] = before(i);
    if (!p4_append(r, &(struct p4_entry){.length = n,
                                         .bits = P4_WRITE,
                                         .header = "primary_write_header_handler",
                                         .payload = "primary_write_payload_handler",
                                         .state = &state,
                                         .state_bytes = sizeof state}) ||
        !p4_append(r, &(struct p4_entry){.start = n,
                                         .length = 1,
                                         .bits = P4_STORED,
                                         .header = "primary_send_acknowledgement_header_handler",
                                         .state = &state,
                                         .state_bytes = sizeof state}))
        return 2;
    spin_barrier();
    spin_barrier();
    for (uint32_t i = 0; i < n; i++)
        if (r->buffer[i] != after(i))
            return 5;
    return 0;
}

static int parity_server(struct p4_rank *r, const struct shared *s) {
    uint32_t n = s->setup->bytes;
    const struct p4_raid_parity state = {0};
    for (uint32_t i = 0; i < n; i++)
        r->buffer[i] = before(i) ^ 0x5a; /* the other data servers hold 0x5a */
    if (!p4_append(r, &(struct p4_entry){.length = n,
                                         .bits = P4_PARITY,
                                         .header = "parity_update_header_handler",
                                         .payload = "parity_update_payload_handler",
                                         .completion = "parity_update_completion_handler",
                                         .state = &state,
                                         .state_bytes = sizeof state}))
        return 2;
    spin_barrier();
    spin_barrier();
    for (uint32_t i = 0; i < n; i++)
        if (r->buffer[i] != (after(i) ^ 0x5a))
            return 5;
    return 0;
}

static int rank(void *argument) {
    struct shared *s = argument;
    struct p4_rank r;
    if (!p4_open(&r, s->setup, s->setup->bytes + 1ull,
                 spin_rank() == CLIENT ? NULL : images[spin_rank() - 1]))
        return 1;
    int status = spin_rank() == CLIENT ? client(&r, s)
                 : spin_rank() == DATA ? data_server(&r, s)
                                       : parity_server(&r, s);
    p4_close(&r);
    return status;
}

int p4_raid(const struct p4_setup *setup, struct p4_outcome *outcome, struct spin_error *err) {
    struct shared s = {.setup = setup};
    int code = p4_run(setup, 3, images, rank, &s, outcome, err);
    outcome->time_ps = s.end_ps - s.start_ps;
    return code;
}
