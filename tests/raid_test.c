/* The RAID: writes and reads at random against plain memory, several clients at once, the parity
 * after each round, reads without a server, and servers that are made again. */
#include "spinlib/raid.h"

#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "lib/spinlib_world.h"

enum { SERVER_BYTES = 64 << 10, MOST_DATA = 4 };

struct scene {
    struct spin_raid_options options;
    uint32_t clients, done;
    uint8_t *plain;                 /* what the RAID must hold */
    uint8_t *memory[MOST_DATA + 1]; /* of the servers */
    uint64_t seed;
};

static uint64_t all(const struct scene *s) {
    return s->options.data * (uint64_t)SERVER_BYTES;
}

/* Each client has its own part, so that the plain memory is right whatever the order. */
static int use(struct spin_raid *raid, struct scene *s, uint32_t client) {
    struct rng r = rng_seeded(s->seed * 64 + client);
    uint64_t part = all(s) / s->clients & ~7ull, first = client * part;
    uint8_t *data = malloc(part);
    for (int i = 0; i < 25; i++) {
        uint64_t at = rng_below(&r, (uint32_t)(part / 8)) * 8ull;
        uint64_t left = part - at, bytes = 8ull * rng_below(&r, (uint32_t)(left / 8 + 1));
        if (rng_below(&r, 2))
            bytes = bytes % 256 & ~7ull; /* small ones as well */
        if (rng_below(&r, 3) == 0) {
            RANK_CHECK(spin_raid_read(raid, first + at, data, bytes) == PTL_OK);
            RANK_CHECK(memcmp(data, s->plain + first + at, bytes) == 0);
            continue;
        }
        for (uint64_t k = 0; k < bytes; k++)
            data[k] = (uint8_t)rng_u32(&r);
        RANK_CHECK(spin_raid_write(raid, first + at, data, bytes) == PTL_OK);
        memcpy(s->plain + first + at, data, bytes);
    }
    free(data);
    return 0;
}

static int check_parity(const struct scene *s) {
    for (uint32_t i = 0; i < SERVER_BYTES; i++) {
        uint8_t sum = 0;
        for (uint32_t k = 0; k <= s->options.data; k++)
            sum ^= s->memory[k][i];
        RANK_CHECK(sum == 0);
    }
    return 0;
}

static int read_all(struct spin_raid *raid, const struct scene *s) {
    uint8_t *data = malloc(all(s));
    RANK_CHECK(spin_raid_read(raid, 0, data, all(s)) == PTL_OK);
    RANK_CHECK(memcmp(data, s->plain, all(s)) == 0);
    free(data);
    return 0;
}

/* Every server of data in turn, and the parity, loses everything. */
static int lose_each(struct spin_raid *raid, struct scene *s, uint32_t rank) {
    int line = 0;
    for (uint32_t lost = 0; lost <= s->options.data; lost++) {
        if (rank == lost)
            memset(spin_raid_memory(raid), 0xee, SERVER_BYTES);
        spin_barrier();
        if (rank == s->options.data + 1) {
            uint64_t at = (uint64_t)lost * s->options.unit;
            spin_raid_avoid(raid, lost);
            line = line ? line : read_all(raid, s);
            if (lost < s->options.data)
                RANK_CHECK(spin_raid_write(raid, at, "12345678", 8) == PTL_FAIL);
            spin_raid_avoid(raid, SPIN_RAID_ALL);
        }
        spin_barrier();
        if (rank == lost)
            RANK_CHECK(spin_raid_rebuild(raid) == PTL_OK);
        spin_barrier();
        if (rank == s->options.data + 1)
            line = line ? line : read_all(raid, s);
        spin_barrier();
    }
    return line;
}

static int rank(void *argument) {
    struct scene *s = argument;
    struct spin_job job;
    struct spin_raid *raid;
    RANK_CHECK(spin_job_open(&job) == PTL_OK);
    RANK_CHECK(spin_raid_open(job.ni, &s->options, &raid) == PTL_OK);
    uint32_t servers = s->options.data + 1;
    if (job.rank < servers)
        s->memory[job.rank] = spin_raid_memory(raid);
    spin_barrier();
    int line = job.rank < servers ? 0 : use(raid, s, job.rank - servers);
    s->done++;
    while (s->options.by_host && job.rank < servers && s->done < job.ranks)
        RANK_CHECK(spin_raid_work(raid, 1) == PTL_OK);
    spin_barrier();
    if (!line && job.rank == 0)
        line = check_parity(s);
    if (!line && job.rank == servers)
        line = read_all(raid, s);
    spin_barrier();
    if (!line && s->clients == 1)
        line = lose_each(raid, s, job.rank);
    if (job.rank == servers) {
        uint64_t room[1] = {0};
        RANK_CHECK(spin_raid_write(raid, 4, room, 8) == PTL_ARG_INVALID);
        RANK_CHECK(spin_raid_write(raid, 0, room, 4) == PTL_ARG_INVALID);
        RANK_CHECK(spin_raid_write(raid, all(s), room, 8) == PTL_ARG_INVALID);
        RANK_CHECK(spin_raid_read(raid, all(s) - 8, room, 16) == PTL_ARG_INVALID);
        RANK_CHECK(spin_raid_write(raid, all(s), room, 0) == PTL_OK);
    }
    spin_barrier();
    spin_raid_close(raid);
    spin_job_close(&job);
    return line;
}

static void run(struct spin_raid_options o, uint32_t clients, uint64_t seed) {
    struct scene s = {.options = o, .clients = clients, .seed = seed};
    s.options.server_bytes = SERVER_BYTES;
    for (int card = 0; card < 2; card++) {
        static const char *const cards[] = {"card=sc17", "card=pspin"};
        s.plain = calloc(1, all(&s));
        s.done = 0;
        spinlib_world_on((struct spin_world_options){.ranks = o.data + 1 + clients,
                                                     .set = &cards[card],
                                                     .set_count = 1},
                         cards[card], rank, &s);
        free(s.plain);
    }
}

TEST(one_client_and_servers_that_are_lost) {
    run((struct spin_raid_options){.data = 4, .unit = 4096}, 1, 1);
    run((struct spin_raid_options){.data = 1, .unit = 65536}, 1, 2);
    run((struct spin_raid_options){.data = 3, .unit = 64}, 1, 3);
}

TEST(four_clients_at_once) {
    for (uint64_t seed = 4; seed <= 6; seed++)
        run((struct spin_raid_options){.data = 4, .unit = 1024u << (2 * (seed - 4))}, 4, seed);
}

TEST(by_the_processors) {
    run((struct spin_raid_options){.data = 4, .unit = 8192, .by_host = true}, 1, 7);
    run((struct spin_raid_options){.data = 2, .unit = 65536, .by_host = true}, 3, 8);
}

TEST_MAIN
