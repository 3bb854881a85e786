/* The speed of transactions: two records of two owners are read and changed. */
#include "spinlib/tx.h"

#include <stdlib.h>

#include "speed.h"

enum { OWNERS = 2, RANKS = 4, MOST_BYTES = 1024, OWN = 512 }; /* records of a client */

extern const struct speed_case tx_speed;

struct bank {
    struct spin_tx *tx;
    uint32_t rank, bytes;
    bool by_host;
};

static int open_bank(const struct speed *speed, const struct spin_job *job, void **use) {
    const struct spin_tx_options o = {.records = OWN * (job->ranks - OWNERS),
                                      .record_bytes = speed_bytes(&tx_speed, speed),
                                      .owners = OWNERS,
                                      .by_host = speed->by_host};
    struct bank *b = malloc(sizeof *b);
    if (!b)
        return PTL_NO_SPACE;
    *b = (struct bank){.rank = job->rank, .bytes = o.record_bytes, .by_host = speed->by_host};
    int code = spin_tx_open(job->ni, &o, &b->tx);
    if (code == PTL_OK)
        *use = b;
    else
        free(b);
    return code;
}

/* Clients have records of their own, so that each try commits. */
static int transfer(struct spin_tx *tx, uint32_t record) {
    uint8_t data[2][MOST_BYTES];
    bool committed;
    int code = spin_tx_begin(tx);
    for (uint32_t i = 0; i < 2 && code == PTL_OK; i++)
        code = spin_tx_read(tx, record + i, data[i]);
    for (uint32_t i = 0; i < 2 && code == PTL_OK; i++) {
        data[i][0]++;
        code = spin_tx_write(tx, record + i, data[i]);
    }
    if (code == PTL_OK)
        code = spin_tx_commit(tx, &committed);
    return code == PTL_OK && !committed ? PTL_FAIL : code;
}

static int use_bank(void *use, uint32_t operations, struct speed_done *done) {
    struct bank *b = use;
    int code = PTL_OK;
    done->serves = b->rank < OWNERS && b->by_host;
    if (b->rank < OWNERS)
        return PTL_OK;
    for (uint32_t i = 0; i < operations && code == PTL_OK; i++)
        code = transfer(b->tx, (b->rank - OWNERS) * OWN + 2 * (i % (OWN / 2)));
    done->operations = operations;
    done->bytes = operations * 2ull * b->bytes;
    return code;
}

static int serve(void *use) {
    return spin_tx_work(((struct bank *)use)->tx, 1);
}

static void close_bank(void *use) {
    struct bank *b = use;
    spin_tx_close(b->tx);
    free(b);
}

const struct speed_case tx_speed = {
    .name = "tx",
    .operation = "two records of 64 B at two owners read and changed",
    .image = "tx_handler",
    .ranks = RANKS,
    .least_ranks = OWNERS + 1,
    .bytes = 64,
    .least_bytes = 4,
    .most_bytes = MOST_BYTES,
    .operations = 32,
    .live_operations = 200,
    .open = open_bank,
    .work = use_bank,
    .serve = serve,
    .close = close_bank,
};
