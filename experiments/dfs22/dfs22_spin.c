/* Writes whose policy the cards of the storage nodes carry out: the storage handlers
 * (handlers/storage), on which a client has one capability for an extent at the beginning of each
 * node's medium. */
#include <stdlib.h>
#include <string.h>

#include "dfs22/dfs22_world.h"
#include "storage/storage_code.h"
#include "storage/store_node_card.h"
#include "storage/store_request.h"

enum { NOW = 100, EXPIRES = 1000 };
enum { SLOTS = 2048, SUMS = 320 }; /* requests; accumulators. Both are in an L1 of 1 MiB */

static enum storage_trust trust(const struct dfs_write *w) {
    return w->trust == DFS_TICKET    ? STORAGE_TRUSTED
           : w->trust == DFS_PACKETS ? STORAGE_AUTHENTICATED
                                     : STORAGE_CAPABILITY;
}

static struct storage_key service_key(void) {
    return store_key(1, EXPIRES, 0x5eed5eed12345678u);
}

static bool is_coded(const struct dfs_write *w) {
    return w->parities != 0;
}

/* Of data on each node. */
static uint32_t node_bytes(const struct dfs_write *w) {
    return is_coded(w) ? (w->bytes + w->copies - 1) / w->copies : w->bytes;
}

/* Messages of the client for one write, and answers. */
static uint32_t messages(const struct dfs_write *w) {
    return is_coded(w) ? w->copies : 1;
}

static uint32_t answers(const struct dfs_write *w) {
    return w->copies + w->parities;
}

/* Of data that one message of write i brings: those that warm caches are short. */
static uint32_t length(const struct dfs_scene *s, uint32_t i) {
    uint32_t bytes = node_bytes(&s->write);
    return i < s->warm && bytes > DFS_WARM_BYTES ? DFS_WARM_BYTES : bytes;
}

/* ---- the client ---- */

struct spin_client {
    ptl_handle_md_t md;     /* of all memory */
    uint8_t *message;       /* of all writes, one after the other */
    uint64_t message_bytes; /* at most */
};

/* Bytes of a packet, if it has a tag. */
static uint32_t packet(const struct dfs_write *w) {
    return w->trust == DFS_PACKETS ? DFS_MTU : 0;
}

static uint64_t message_bytes(const struct dfs_write *w, uint32_t bytes) {
    return storage_message_bytes(bytes, packet(w));
}

/* For the i-th write. */
static void make_grant(const struct dfs_write *w, uint32_t i, struct store_grant *g) {
    const struct storage_key key = service_key();
    struct storage_capability *c = &g->capability;
    *g = (struct store_grant){
        .capability = {.rights = STORAGE_MAY_WRITE,
                       .strategy = is_coded(w)                   ? STORAGE_RS
                                   : w->copies == 1              ? STORAGE_PLAIN
                                   : w->protocol == DFS_SPIN_PBT ? STORAGE_PBT
                                                                 : STORAGE_RING,
                       .serial = w->trust == DFS_FIRST ? (uint16_t)(i + 1) : 0,
                       .k = (uint8_t)w->copies,
                       .m = (uint8_t)w->parities,
                       .client = spin_rank(),
                       .bytes = node_bytes(w),
                       .object = 1,
                       .expires = EXPIRES}};
    for (uint32_t v = 0; v < answers(w); v++)
        c->place[v] = (struct storage_place){.node = 1 + v};
    store_grant_sign(g, &key, trust(w));
}

/* The data of place j: zeros behind the end of it. */
static void fill_data(const struct dfs_scene *s, uint32_t j, uint8_t *data) {
    uint32_t bytes = node_bytes(&s->write), from = j * bytes, left = s->write.bytes - from;
    if (from > s->write.bytes)
        left = 0;
    memset(data, 0, bytes);
    memcpy(data, s->data + (left ? from : 0), left < bytes ? left : bytes);
}

static bool open_client(struct dfs_rank *r, const struct dfs_scene *s, struct spin_client *c) {
    const struct dfs_write *w = &s->write;
    uint32_t bytes = node_bytes(w), n = messages(w);
    uint8_t *data = malloc(bytes ? bytes : 1);
    c->message_bytes = message_bytes(w, bytes);
    c->message = malloc(c->message_bytes * n * s->writes);
    for (uint32_t j = 0; data && c->message && j < n; j++) {
        fill_data(s, j, data);
        for (uint32_t i = 0; i < s->writes; i++) {
            struct storage_head head;
            struct store_grant grant;
            make_grant(w, i, &grant);
            store_head(&head, &grant,
                       &(struct store_ask){.operation = STORAGE_WRITE,
                                           .trust = trust(w),
                                           .place = j,
                                           .length = length(s, i),
                                           .packet = packet(w),
                                           .request = i + 1});
            store_message_fill(c->message + (i * n + j) * c->message_bytes, &head, grant.session,
                               data);
        }
    }
    free(data);
    const ptl_md_t md = {.length = PTL_SIZE_MAX,
                         .options = PTL_MD_EVENT_SEND_DISABLE,
                         .eq_handle = PTL_EQ_NONE,
                         .ct_handle = PTL_CT_NONE};
    return c->message && PtlMDBind(r->job.ni, &md, &c->md) == PTL_OK &&
           dfs_expose(r, STORAGE_ANSWER, 0, 0, r->ct, true);
}

static bool begin_write(struct dfs_rank *r, const struct dfs_scene *s, const struct spin_client *c,
                        uint32_t write) {
    uint32_t n = messages(&s->write);
    for (uint32_t j = 0; j < n; j++)
        if (PtlPut(c->md, (uintptr_t)(c->message + (write * n + j) * c->message_bytes),
                   message_bytes(&s->write, length(s, write)), PTL_NO_ACK_REQ,
                   (ptl_process_t){.rank = 1 + j}, r->pt, STORAGE_REQUEST, 0, NULL, 0) != PTL_OK)
            return false;
    return true;
}

/* At most `window` under way. */
static bool client_writes(struct dfs_rank *r, struct dfs_scene *s, const struct spin_client *c) {
    uint32_t window = s->window, each = answers(&s->write);
    uint32_t me = spin_rank() ? spin_rank() - each : 0;
    uint64_t start_ps = 0, first_ps = 0;
    for (uint32_t i = 0; i < s->writes + window; i++) {
        if (i >= window) {
            if (!dfs_wait(r->ct, (uint64_t)(i + 1 - window) * each))
                return false;
            s->done_ps[(uint64_t)me * s->writes + i - window] = spin_now_ps();
        }
        if (i == s->warm)
            first_ps = spin_now_ps();
        if (me == 0 && s->write.writes && i == s->writes / 3)
            for (int last = 0; last < 2; last++)
                spin_world_card(s->world, dfs_node(&s->write, last), &s->begun[last]);
        if (i + 1 == s->writes)
            start_ps = spin_now_ps();
        if (i < s->writes && !begin_write(r, s, c, i))
            return false;
    }
    dfs_took(s, start_ps, first_ps);
    return true;
}

/* Every answer says that all is well. */
static bool all_done(struct dfs_rank *r, const struct dfs_scene *s) {
    for (uint32_t i = 0; i < s->writes * answers(&s->write); i++) {
        ptl_event_t event;
        if (!dfs_next(r, &event) || (event.hdr_data & 0xff) != STORAGE_DONE)
            return false;
    }
    return true;
}

static int client(struct dfs_rank *r, struct dfs_scene *s) {
    struct spin_client c = {.message = NULL};
    int status = open_client(r, s, &c) ? 0 : 2;
    spin_barrier();
    if (!status)
        status = !client_writes(r, s, &c) ? 3 : all_done(r, s) ? 0 : 6;
    free(c.message);
    return status;
}

/* ---- nodes ---- */

int dfs_spin_rank(struct dfs_rank *r, struct dfs_scene *s) {
    if (!dfs_is_node(&s->write))
        return client(r, s);
    const struct store_node_options options = {.medium = r->memory,
                                               .blocks = node_bytes(&s->write) / STORAGE_BLOCK + 1,
                                               .slots = SLOTS,
                                               .accumulators = SUMS,
                                               .trust = trust(&s->write),
                                               .now = NOW,
                                               .key = {service_key()}};
    struct store_node_card *card = r->more = calloc(1, sizeof *card);
    if (!card || store_node_card_open(r->job.ni, r->pt, &options, card) != PTL_OK)
        return 4;
    spin_barrier();
    return 0;
}

void dfs_spin_close(struct dfs_rank *r) {
    if (r->more)
        store_node_card_close(r->more);
    free(r->more);
}

bool dfs_spin_right(const struct dfs_rank *r) {
    const struct dfs_scene *s = r->scene;
    const struct dfs_write *w = &s->write;
    uint32_t bytes = node_bytes(w), me = spin_rank() - 1;
    uint8_t *expected = calloc(bytes + 1, 1), *data = malloc(bytes + 1);
    if (!expected || !data)
        return false;
    if (me < w->copies)
        fill_data(s, is_coded(w) ? me : 0, expected);
    for (uint32_t j = 0; me >= w->copies && j < w->copies; j++) {
        uint8_t by = storage_coefficient(w->copies, me - w->copies, j);
        fill_data(s, j, data);
        for (uint32_t i = 0; i < bytes; i++)
            expected[i] ^= storage_product(data[i], by);
    }
    bool right = memcmp(expected, r->memory, bytes) == 0;
    free(data);
    free(expected);
    return right;
}
