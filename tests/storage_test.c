/* Storage nodes whose cards write and replicate: every byte on every node, for every strategy,
 * trust model and awkward size; reads; denials. */
#include "base/rng.h"
#include "lib/storage_client.h"

enum { BLOCKS = 64 };
#define EXTENT 150000u

/* A write, and the answer of every node: then its bytes are there, and no others. */
static int write_once(struct storage_scene *s, const struct store_grant *g, uint32_t offset,
                      uint32_t length) {
    const struct storage_capability *c = &g->capability;
    struct storage_head head;
    struct rng r = rng_seeded(++s->request);
    uint8_t *data = malloc(length + 1), *message = malloc(2ull * length + 1000);
    uint32_t answered = 0;
    for (uint32_t i = 0; i < length; i++)
        data[i] = (uint8_t)rng_u32(&r);
    for (uint32_t v = 0; v < c->k; v++)
        memset(s->medium[v], 0, (uint64_t)BLOCKS * STORAGE_BLOCK);
    ptl_hpu_limits_t limits;
    RANK_CHECK(PtlHPULimits(s->job.ni, &limits) == PTL_OK);
    store_head(&head, g,
               &(struct store_ask){.operation = STORAGE_WRITE,
                                   .trust = s->options.trust,
                                   .offset = offset,
                                   .length = length,
                                   .packet = (uint32_t)limits.max_payload_size,
                                   .request = s->request});
    store_message_fill(message, &head, g->session, data);
    RANK_CHECK(storage_put(s, message, storage_message_bytes(length, head.packet), 0) == PTL_OK);
    for (uint32_t i = 0; i < c->k; i++) {
        uint64_t request;
        int got = storage_wait(s, &request);
        RANK_CHECK(request == s->request && got >= 0 && (got & 0xff) == STORAGE_DONE);
        answered |= 1u << (got >> 8);
    }
    RANK_CHECK(answered == (1u << c->k) - 1);
    for (uint32_t v = 0; v < c->k; v++) {
        const uint8_t *at = s->medium[v];
        uint64_t first = (uint64_t)c->place[v].block * STORAGE_BLOCK + offset;
        RANK_CHECK(memcmp(at + first, data, length) == 0);
        for (uint64_t i = 0; i < (uint64_t)BLOCKS * STORAGE_BLOCK; i++)
            RANK_CHECK(at[i] == 0 || (i >= first && i < first + length));
    }
    free(message);
    free(data);
    return 0;
}

static int write_sizes(struct storage_scene *s) {
    static const uint32_t sizes[] = {0, 1, 7, 1024, 1863, 1864, 1865, 3912, 3913, 20001, 70003};
    static const struct {
        uint8_t strategy, k;
    } policies[] = {{STORAGE_PLAIN, 1}, {STORAGE_RING, 2}, {STORAGE_RING, 4},
                    {STORAGE_PBT, 2},   {STORAGE_PBT, 4},  {STORAGE_PBT, 8}};
    for (uint32_t i = 0; i < sizeof policies / sizeof *policies; i++) {
        struct store_grant g = storage_grant(s, policies[i].strategy, policies[i].k, 0, EXTENT);
        for (uint32_t n = 0; n < sizeof sizes / sizeof *sizes; n++) {
            int line = write_once(s, &g, 5 * n + i, sizes[n]);
            if (line)
                return line;
        }
    }
    return 0;
}

TEST(every_byte_on_every_copy) {
    struct storage_scene s = {.nodes = 8, .options = {.blocks = BLOCKS}, .client = write_sizes};
    storage_world(&s, NULL, 0);
}

TEST_MAIN
