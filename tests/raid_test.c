/* The RAID: writes and reads at random against plain memory, several clients at once, in parts of
 * their own and all over the same stripes; the parity after each round; reads and writes without a
 * server, which nobody may touch then; and servers that are made again, byte by byte. */
#include "spinlib/raid.h"

#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "lib/spinlib_world.h"

enum { MOST_DATA = 4 };

struct scene {
    struct spin_raid_options options;
    uint32_t clients, done;
    bool together;                  /* clients share every stripe, each with blocks of its own */
    uint8_t *plain;                 /* what the RAID must hold */
    uint8_t *memory[MOST_DATA + 1]; /* of the servers */
    uint64_t seed;
};

static uint64_t all(const struct scene *s) {
    return s->options.data * s->options.server_bytes;
}

enum { BLOCK = 64 };

/* Where client writes next: in its own part, or in a block of its own between those of others. So
 * the plain memory is right whatever the order. */
static void choose(const struct scene *s, struct rng *r, uint32_t client, uint64_t *address,
                   uint64_t *bytes) {
    if (s->together) {
        uint64_t rows = all(s) / BLOCK / s->clients, at = rng_below(r, BLOCK / 8) * 8ull;
        *address =
            (rng_below(r, (uint32_t)(rows < 16 ? rows : 16)) * s->clients + client) * BLOCK + at;
        *bytes = 8 + rng_below(r, (uint32_t)(BLOCK - at) / 8) * 8ull;
        return;
    }
    uint64_t part = all(s) / s->clients & ~7ull, at = rng_below(r, (uint32_t)(part / 8)) * 8ull;
    *address = client * part + at;
    *bytes = 8ull * rng_below(r, (uint32_t)((part - at) / 8 + 1));
    if (rng_below(r, 2))
        *bytes = *bytes % 256 & ~7ull; /* small ones as well */
}

static int use(struct spin_raid *raid, struct scene *s, uint32_t client) {
    struct rng r = rng_seeded(s->seed * 64 + client);
    uint8_t *data = malloc(all(s));
    for (int i = 0; i < (TEST_SANITIZED ? 5 : 15); i++) {
        uint64_t address, bytes;
        choose(s, &r, client, &address, &bytes);
        if (rng_below(&r, 3) == 0) {
            RANK_CHECK(spin_raid_read(raid, address, data, bytes) == PTL_OK);
            RANK_CHECK(memcmp(data, s->plain + address, bytes) == 0);
            continue;
        }
        for (uint64_t k = 0; k < bytes; k++)
            data[k] = (uint8_t)rng_u32(&r);
        RANK_CHECK(spin_raid_write(raid, address, data, bytes) == PTL_OK);
        memcpy(s->plain + address, data, bytes);
    }
    free(data);
    return 0;
}

static int check_parity(const struct scene *s) {
    for (uint32_t i = 0; i < s->options.server_bytes; i++) {
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

static int is_filled(const struct scene *s, const uint8_t *memory, uint8_t with) {
    for (uint32_t i = 0; i < s->options.server_bytes; i++)
        RANK_CHECK(memory[i] == with);
    return 0;
}

/* What clients do, and the processors of servers if they do the cards' work. */
static int round_of(struct spin_raid *raid, struct scene *s, const struct spin_job *job) {
    uint32_t servers = s->options.data + 1;
    spin_barrier();
    s->done = 0;
    spin_barrier();
    int line = job->rank < servers ? 0 : use(raid, s, job->rank - servers);
    s->done++;
    while (s->options.by_host && job->rank < servers && s->done < job->ranks)
        RANK_CHECK(spin_raid_work(raid, 1) == PTL_OK);
    spin_barrier();
    return line;
}

/* Every server in turn loses everything; all go on without it, and it comes back. */
static int lose_each(struct spin_raid *raid, struct scene *s, const struct spin_job *job) {
    uint32_t servers = s->options.data + 1;
    for (uint32_t lost = 0; lost < servers; lost++) {
        if (job->rank == lost)
            memset(spin_raid_memory(raid), 0xee, s->options.server_bytes);
        spin_barrier();
        spin_raid_avoid(raid, lost);
        int line = job->rank == servers ? read_all(raid, s) : 0;
        line = line ? line : round_of(raid, s, job);
        line = line || job->rank != servers ? line : read_all(raid, s);
        if (job->rank == lost) {
            line = line ? line : is_filled(s, spin_raid_memory(raid), 0xee);
            RANK_CHECK(spin_raid_rebuild(raid) == PTL_OK);
        }
        spin_raid_avoid(raid, SPIN_RAID_ALL);
        spin_barrier();
        line = line || job->rank ? line : check_parity(s);
        line = line || job->rank != servers ? line : read_all(raid, s);
        spin_barrier();
        if (line)
            return line;
    }
    return 0;
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
    int line = round_of(raid, s, &job);
    if (!line && job.rank == 0)
        line = check_parity(s);
    if (!line && job.rank == servers)
        line = read_all(raid, s);
    spin_barrier();
    if (!line)
        line = lose_each(raid, s, &job);
    spin_barrier();
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

static void run(struct spin_raid_options o, uint32_t clients, bool together, uint64_t seed) {
    struct scene s = {.options = o, .clients = clients, .together = together, .seed = seed};
    s.options.server_bytes = o.unit < 1024 ? 4096 : 65536; /* few stripes: each is read alone */
    for (int card = 0; card < 2; card++) {
        static const char *const cards[] = {"card=sc17", "card=pspin"};
        s.plain = calloc(1, all(&s));
        spinlib_world_on((struct spin_world_options){.ranks = o.data + 1 + clients,
                                                     .set = &cards[card],
                                                     .set_count = 1},
                         cards[card], rank, &s);
        free(s.plain);
    }
}

TEST(one_client_and_servers_that_are_lost) {
    run((struct spin_raid_options){.data = 4, .unit = 4096}, 1, false, 1);
    run((struct spin_raid_options){.data = 1, .unit = 65536}, 1, false, 2);
    run((struct spin_raid_options){.data = 3, .unit = 64}, 1, false, 3);
}

TEST(parity_that_rotates) {
    run((struct spin_raid_options){.data = 4, .unit = 4096, .rotate = true}, 1, false, 11);
    run((struct spin_raid_options){.data = 3, .unit = 64, .rotate = true}, 2, false, 12);
}

TEST(four_clients_at_once) {
    for (uint64_t seed = 4; seed <= 6; seed++)
        run((struct spin_raid_options){.data = 4,
                                       .unit = 1024u << (2 * (seed - 4)),
                                       .rotate = seed == 5},
            4, false, seed);
}

TEST(four_clients_in_the_same_stripes) {
    run((struct spin_raid_options){.data = 4, .unit = 64}, 4, true, 21);
    run((struct spin_raid_options){.data = 4, .unit = 64, .rotate = true}, 4, true, 22);
    run((struct spin_raid_options){.data = 2, .unit = 1024, .rotate = true}, 4, true, 23);
}

TEST(by_the_processors) {
    run((struct spin_raid_options){.data = 4, .unit = 8192, .by_host = true}, 1, false, 7);
    run((struct spin_raid_options){.data = 2, .unit = 65536, .by_host = true}, 3, false, 8);
    run((struct spin_raid_options){.data = 3, .unit = 64, .rotate = true, .by_host = true}, 3, true,
        9);
}

/* Left-symmetric: of five servers 4, 3, 2, 1, 0 have the parity of the first stripes, and data
 * begins on the server after it. */
static int where_rank(void *argument) {
    struct spin_raid **raids = argument;
    const struct spin_raid_options o = {
        .data = 4, .unit = 64, .server_bytes = 5 * 64, .rotate = true};
    struct spin_job job;
    uint64_t word = 0x0123456789abcdef, back;
    RANK_CHECK(spin_job_open(&job) == PTL_OK);
    RANK_CHECK(spin_raid_open(job.ni, &o, &raids[job.rank]) == PTL_OK);
    spin_barrier();
    for (uint32_t unit = 0; unit < 20 && job.rank == 5; unit++) {
        uint32_t stripe = unit / 4, parity = 4 - stripe, server = (parity + 1 + unit % 4) % 5;
        RANK_CHECK(spin_raid_write(raids[5], unit * 64, &word, 8) == PTL_OK);
        for (uint32_t k = 0; k < 5; k++) {
            memcpy(&back, (uint8_t *)spin_raid_memory(raids[k]) + stripe * 64ull, 8);
            RANK_CHECK((back == word) == (k == server || k == parity));
        }
        back = 0;
        RANK_CHECK(spin_raid_write(raids[5], unit * 64, &back, 8) == PTL_OK);
    }
    spin_barrier();
    spin_raid_close(raids[job.rank]);
    spin_job_close(&job);
    return 0;
}

TEST(left_symmetric) {
    struct spin_raid *raids[6];
    spinlib_world(6, where_rank, raids);
}

TEST_MAIN
