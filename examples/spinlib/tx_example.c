/* A bank: accounts are records of all ranks, and every rank moves money between two of them, in
 * transactions that are tried until they commit. In the end no money is lost. First the cards
 * validate the transactions, then the processors.
 *     cc tx_example.c -o tx $(pkg-config --cflags --libs spinlib)
 *     openspin launch -n 4 ./tx
 *     openspin sim run -n 4 ./tx */
#include <spinlib/tx.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    ACCOUNTS = 64,
    DONE = ACCOUNTS,
    RECORDS
}; /* and one record counts the ranks that are done */

struct account {
    int64_t money;
    char owner[56];
};

/* Adds to two accounts, or to one (b < 0). Returns how often it was tried, 0 for an error. */
static int move(struct spin_tx *tx, int a, int b, int64_t amount) {
    struct account from, to;
    bool committed = false;
    for (int tries = 1;; tries++) {
        if (spin_tx_begin(tx) != PTL_OK || spin_tx_read(tx, a, &from) != PTL_OK ||
            (b >= 0 && spin_tx_read(tx, b, &to) != PTL_OK))
            return 0;
        from.money -= amount;
        to.money += amount;
        if (spin_tx_write(tx, a, &from) != PTL_OK ||
            (b >= 0 && spin_tx_write(tx, b, &to) != PTL_OK) ||
            spin_tx_commit(tx, &committed) != PTL_OK)
            return 0;
        if (committed)
            return tries;
        usleep(tries < 10 ? 10 * tries : 100); /* who is in the way gets time */
    }
}

/* All ranks are done; until then this one serves, if processors do. */
static int wait_for_all(struct spin_tx *tx, uint32_t ranks) {
    struct account done = {0};
    if (!move(tx, DONE, -1, -1))
        return 1;
    while (done.money < ranks)
        if (spin_tx_work(tx, 1) != PTL_OK || spin_tx_begin(tx) != PTL_OK ||
            spin_tx_read(tx, DONE, &done) != PTL_OK)
            return 1;
    return 0;
}

/* When nobody changes anything, reads need no commit. */
static bool is_all_there(struct spin_tx *tx) {
    struct account account;
    int64_t sum = 0;
    spin_tx_begin(tx);
    for (int i = 0; i < ACCOUNTS; i++)
        sum += spin_tx_read(tx, i, &account) == PTL_OK ? account.money : 1000000;
    return sum == 0; /* accounts begin with nothing, and may owe */
}

static int run(const struct spin_job *job, bool by_host, int moves) {
    const struct spin_tx_options o = {.records = RECORDS, .by_host = by_host};
    struct spin_tx *tx;
    int64_t tries = 0;
    unsigned random = job->rank;
    int status = 0, code = spin_tx_open(job->ni, &o, &tx);
    if (code != PTL_OK) {
        printf("rank %u: %s %s\n", job->rank, PtlToStr(code, PTL_STR_ERROR), PtlImageError());
        return 1;
    }
    spin_barrier(); /* all owners are there */
    uint64_t start = spin_now_ps();
    for (int i = 0; i < moves && !status; i++) {
        int a = (int)((random = random * 1664525 + 1013904223) >> 20) % ACCOUNTS;
        int more = move(tx, a, (a + 1 + i % (ACCOUNTS - 1)) % ACCOUNTS, 1 + i % 100);
        status |= !more;
        tries += more;
    }
    status |= wait_for_all(tx, job->ranks);
    double us = (double)(spin_now_ps() - start) / 1e6;
    spin_barrier();
    if (job->rank == 0 && !status) {
        status |= !is_all_there(tx);
        printf("%u transfers by the %s, %s; %.1f thousand per second, %.2f tries each\n",
               moves * job->ranks, by_host ? "processors" : "cards",
               status ? "money is lost" : "no money is lost", 1e3 * moves * job->ranks / us,
               (double)tries / moves);
    }
    spin_barrier();
    spin_tx_close(tx);
    return status;
}

int main(int argc, char **argv) {
    struct spin_job job;
    int moves = argc > 1 ? atoi(argv[1]) : 200;
    if (spin_job_open(&job) != PTL_OK)
        return 2;
    int status = run(&job, false, moves) | run(&job, true, moves);
    spin_job_close(&job);
    return status;
}
