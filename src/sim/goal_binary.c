/* The GOAL binary formats.
 *
 *   u64 magic; then, offsets counted from byte 8:
 *   u32 num_ranks; u8 max_cpu; u8 max_nic; (u64 start, u64 end)[num_ranks]
 *   a rank: u32 n_nodes; u32 n_roots; u32 roots[]; nodes of 39 or 104 bytes; u32 appendix[]
 *
 * Nothing says which of the two node sizes a file has, so a reading with each is checked in full:
 * every offset inside its block, every type known, every count of dependencies equal to the edges
 * that arrive, and the roots those operations that wait for nothing. A file that reads well with
 * nodes of 39 bytes and with nodes of 104 has no node at all. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file_in.h"
#include "sim/goal.h"

enum { MAGIC = 4223, BASE = 8, HEADER = 6, ENTRY = 16, PLAIN_NODE = 39, PORTALS_NODE = 104 };
/* Places of ranks in the file that are read at once. */
#define ENTRIES 4096u
/* The longest block of a rank that the next one is compared with. */
#define LONGEST_LAST ((size_t)1 << 16)

static uint32_t u32_at(const uint8_t *p) {
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static uint64_t u64_at(const uint8_t *p) {
    return u32_at(p) | (uint64_t)u32_at(p + 4) << 32;
}

bool goal_is_binary(const uint8_t *bytes, size_t length) {
    return length >= 8 && u64_at(bytes) == MAGIC;
}

struct input {
    const char *name;
    struct file_in *file;
    uint64_t length; /* from byte 8 on */
    uint32_t ranks;
    uint8_t
        *entries; /* [ENTRIES]: those from a multiple of ENTRIES on, with the rank's among them */
    unsigned node;
    struct spin_goal *goal;
    struct spin_error *err;
    uint32_t *waits; /* of the rank that is read */
    uint32_t waits_room;
    uint8_t *last; /* the block of the rank that was read last, if it was not too large */
    size_t last_length, last_room;
};

static int bad(struct input *in, uint32_t rank, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static int bad(struct input *in, uint32_t rank, const char *format, ...) {
    char text[200];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return spin_fail(in->err, SPIN_EFORMAT, "%s: rank %u: %s", in->name, rank, text);
}

static struct goal_portals portals_at(const uint8_t *p) {
    struct goal_portals x = {.options = p[0],
                             .ct = u32_at(p + 1),
                             .threshold = u64_at(p + 5),
                             .oct = u32_at(p + 13),
                             .hh = u32_at(p + 17),
                             .ph = u32_at(p + 21),
                             .ch = u32_at(p + 25),
                             .mem = u32_at(p + 29)};
    for (int i = 0; i < 4; i++)
        x.arg[i] = u64_at(p + 33 + 8 * i);
    return x;
}

static bool peer_is_good(const struct input *in, const struct goal_op *op) {
    switch (op->type) {
    case GOAL_CALC:
    case GOAL_CTWAIT:
    case GOAL_GEM5CALC:
        return true; /* has none */
    case GOAL_RECV:
    case GOAL_APPEND:
    case GOAL_TAPPEND:
        return op->peer == GOAL_ANY || op->peer < in->goal->num_ranks;
    }
    return op->peer < in->goal->num_ranks;
}

static int read_node(struct input *in, uint32_t rank, uint32_t index, const uint8_t *p) {
    struct goal_op op = {.type = p[4],
                         .peer = u32_at(p + 5),
                         .size = u64_at(p + 9),
                         .tag = u32_at(p + 17),
                         .cpu = p[21],
                         .nic = p[22]};
    unsigned last = in->node == PORTALS_NODE ? GOAL_GEM5CALC : GOAL_CALC;
    if (op.type < GOAL_SEND || op.type > last)
        return bad(in, rank, "operation %u has the unknown type %u", index + 1, op.type);
    if (!peer_is_good(in, &op))
        return bad(in, rank, "operation %u: rank %u does not exist, num_ranks is %u", index + 1,
                   op.peer, in->goal->num_ranks);
    if (op.type == GOAL_CALC)
        op.peer = op.tag = op.nic = 0;
    if (goal_add(in->goal, op) == GOAL_ANY ||
        (op.type > GOAL_CALC && !goal_add_portals(in->goal, portals_at(p + PLAIN_NODE))))
        return spin_fail(in->err, SPIN_ENOMEM, "%s: out of memory", in->name);
    return 0;
}

/* `count` successors at `offset` of the appendix, which holds `room` indices. */
static int read_edges(struct input *in, uint32_t rank, uint32_t index, uint32_t nodes,
                      const uint8_t *appendix, uint64_t room, const uint8_t *where, bool on_start) {
    uint32_t count = u32_at(where), offset = u32_at(where + 4);
    if ((uint64_t)offset + count > room)
        return bad(in, rank, "operation %u: successors %u to %llu lie outside the rank's %llu",
                   index + 1, offset, (unsigned long long)offset + count - 1,
                   (unsigned long long)room);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t after = u32_at(appendix + 4 * ((uint64_t)offset + i));
        if (after >= nodes)
            return bad(in, rank, "operation %u: successor %u does not exist, the rank has %u",
                       index + 1, after, nodes);
        if (!goal_add_successor(in->goal, after, on_start))
            return spin_fail(in->err, SPIN_ENOMEM, "%s: out of memory", in->name);
        in->waits[after]++;
    }
    return 0;
}

static int check_roots(struct input *in, uint32_t rank, const uint8_t *roots, uint32_t count,
                       uint32_t nodes, const uint8_t *first_node) {
    uint32_t free_ops = 0;
    for (uint32_t i = 0; i < nodes; i++) {
        uint32_t stated = u32_at(first_node + (uint64_t)i * in->node);
        if (stated != in->waits[i])
            return bad(in, rank, "operation %u waits for %u others but states %u", i + 1,
                       in->waits[i], stated);
        free_ops += stated == 0;
    }
    if (count != free_ops)
        return bad(in, rank, "%u roots are listed, %u operations wait for nothing", count,
                   free_ops);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t root = u32_at(roots + 4 * (uint64_t)i);
        if (root >= nodes || in->waits[root] != 0)
            return bad(in, rank, "operation %u is listed as a root but %s", root + 1,
                       root >= nodes ? "does not exist" : "waits for others, or is listed twice");
        in->waits[root] = UINT32_MAX; /* seen */
    }
    return 0;
}

/* Where the rank's block is, from byte 8 on: *start, and *limit behind its end. */
static int find_rank(struct input *in, uint32_t rank, uint64_t *start, uint64_t *limit) {
    if (rank % ENTRIES == 0) {
        uint32_t count = in->ranks - rank < ENTRIES ? in->ranks - rank : ENTRIES;
        int code = file_in_copy(in->file, BASE + HEADER + (uint64_t)rank * ENTRY,
                                (size_t)count * ENTRY, in->entries, in->err);
        if (code)
            return code;
    }
    const uint8_t *entry = in->entries + (size_t)(rank % ENTRIES) * ENTRY;
    uint64_t end = u64_at(entry + 8);
    *start = u64_at(entry);
    /* Some writers give the last byte, some the one behind it. */
    *limit = end < in->length ? end + 1 : in->length;
    if (*start > end || end > in->length || *start > *limit || *limit - *start < 8)
        return bad(in, rank, "bytes %llu to %llu lie outside the file of %llu bytes",
                   (unsigned long long)*start, (unsigned long long)end,
                   (unsigned long long)in->length + BASE);
    return 0;
}

/* The operations of a rank, each with its successors. */
static int read_nodes(struct input *in, uint32_t rank, uint32_t nodes, const uint8_t *first_node,
                      uint64_t indices) {
    const uint8_t *appendix = first_node + (uint64_t)nodes * in->node;
    if (nodes > in->waits_room) {
        uint32_t *larger = realloc(in->waits, (size_t)nodes * sizeof *larger);
        if (!larger)
            return spin_fail(in->err, SPIN_ENOMEM, "%s: out of memory", in->name);
        in->waits = larger;
        in->waits_room = nodes;
    }
    if (nodes)
        memset(in->waits, 0, (size_t)nodes * sizeof *in->waits);
    int code = 0;
    for (uint32_t i = 0; !code && i < nodes; i++) {
        const uint8_t *p = first_node + (uint64_t)i * in->node;
        code = read_node(in, rank, i, p);
        if (!code && u32_at(p + 23))
            code = read_edges(in, rank, i, nodes, appendix, indices, p + 23, false);
        if (!code && u32_at(p + 31))
            code = read_edges(in, rank, i, nodes, appendix, indices, p + 31, true);
    }
    return code;
}

/* ---- a rank like the one before ---- */

/* Nodes that differ in their peer at most. */
static inline bool is_like(const uint8_t *a, const uint8_t *b) {
    return memcmp(a, b, 5) == 0 && memcmp(a + 9, b + 9, 16) == 0 &&
           memcmp(a + PLAIN_NODE - 16, b + PLAIN_NODE - 16, 16) == 0;
}

/* The ranks of a parallel program mostly do the same with other partners. Such a rank is good as
 * the one before was, and takes its operations, if all that differs are peers, and these exist.
 * False: it has to be read. */
static bool repeats(struct input *in, const uint8_t *block, size_t length, uint32_t nodes,
                    size_t before_nodes) {
    const uint8_t *last = in->last;
    size_t behind = before_nodes + (size_t)nodes * PLAIN_NODE;
    if (in->node != PLAIN_NODE || in->last_length != length ||
        memcmp(block, last, before_nodes) != 0 ||
        memcmp(block + behind, last + behind, length - behind) != 0)
        return false;
    for (size_t at = before_nodes; at < behind; at += PLAIN_NODE) {
        const uint8_t *p = block + at;
        uint32_t peer = u32_at(p + 5), type = p[4];
        if (!is_like(p, last + at) ||
            (peer >= in->ranks && type != GOAL_CALC && (peer != GOAL_ANY || type != GOAL_RECV)))
            return false;
    }
    struct goal_packed *ops = goal_repeat_rank(in->goal);
    if (!ops)
        return false;
    for (const uint8_t *p = block + before_nodes; p < block + behind; p += PLAIN_NODE, ops++)
        if (p[4] != GOAL_CALC) {
            ops->peer = u32_at(p + 5);
            in->goal->wildcards |= ops->peer == GOAL_ANY;
        }
    return true;
}

static void keep_last(struct input *in, const uint8_t *block, size_t length) {
    in->last_length = 0;
    if (length > LONGEST_LAST || in->node != PLAIN_NODE)
        return;
    if (length > in->last_room) {
        free(in->last);
        in->last_room = 0;
        if (!(in->last = malloc(2 * length)))
            return; /* it only saves time */
        in->last_room = 2 * length;
    }
    memcpy(in->last, block, length);
    in->last_length = length;
}

static int read_rank(struct input *in, uint32_t rank) {
    uint64_t start, limit;
    int code = find_rank(in, rank, &start, &limit);
    if (code)
        return code;
    uint64_t room = limit - start - 8;
    const uint8_t *block = file_in_at(in->file, BASE + start, (size_t)(limit - start), in->err);
    if (!block)
        return in->err->code;
    uint32_t nodes = u32_at(block), roots = u32_at(block + 4);
    uint64_t needed = 4 * (uint64_t)roots + (uint64_t)nodes * in->node;
    if (roots > nodes || needed > room)
        return bad(in, rank, "%u operations and %u roots do not fit into its %llu bytes", nodes,
                   roots, (unsigned long long)room + 8);
    size_t before_nodes = 8 + 4 * (size_t)roots, indices = (size_t)(room - needed) / 4;
    size_t length = before_nodes + (size_t)nodes * in->node + 4 * indices;
    if (repeats(in, block, length, nodes, before_nodes))
        return 0;
    const uint8_t *first_node = block + before_nodes;
    code = read_nodes(in, rank, nodes, first_node, indices);
    if (!code)
        code = check_roots(in, rank, block + 8, roots, nodes, first_node);
    uint32_t circle;
    if (!code && (code = goal_end_rank(in->goal, &circle)) == SPIN_EFORMAT)
        return bad(in, rank, "operations wait for each other in a circle, among them operation %u",
                   circle + 1);
    if (!code)
        keep_last(in, block, length);
    return code;
}

static int read_as(struct input *in, unsigned node, struct spin_goal **goal) {
    in->node = node;
    in->last_length = 0;
    in->goal = goal_new(in->ranks, in->err);
    if (!in->goal)
        return SPIN_ENOMEM;
    int code = 0;
    for (uint32_t rank = 0; !code && rank < in->ranks; rank++)
        code = read_rank(in, rank);
    if (code)
        goal_free(in->goal);
    else
        *goal = in->goal;
    return code;
}

static int read_either(struct input *in, struct spin_goal **goal, struct spin_error *err) {
    struct spin_error plain = {0}, portals = {0};
    in->err = &plain;
    int code = read_as(in, PLAIN_NODE, goal);
    if (code == SPIN_EFORMAT) {
        in->err = &portals;
        if (read_as(in, PORTALS_NODE, goal) == 0)
            code = 0;
    }
    if (code && err)
        *err = plain;
    return code;
}

int goal_read_binary(struct file_in *file, struct spin_goal **goal, struct spin_error *err) {
    uint8_t head[BASE + HEADER] = {0};
    struct input in = {.name = file->path, .file = file};
    if (file->length >= sizeof head) {
        int code = file_in_copy(file, 0, sizeof head, head, err);
        if (code)
            return code;
    }
    if (!goal_is_binary(head, sizeof head))
        return spin_fail(err, SPIN_EFORMAT, "%s: cut off in its header, or not binary GOAL",
                         in.name);
    in.length = file->length - BASE;
    in.ranks = u32_at(head + BASE);
    if (in.ranks == 0 || in.ranks > GOAL_MAX_RANKS || (in.length - HEADER) / ENTRY < in.ranks)
        return spin_fail(err, SPIN_EFORMAT,
                         "%s: %u ranks in the header, but the file of %llu bytes has room for %llu "
                         "offsets (limit %u)",
                         in.name, in.ranks, (unsigned long long)file->length,
                         (unsigned long long)(in.length - HEADER) / ENTRY, GOAL_MAX_RANKS);
    in.entries = malloc(ENTRIES * ENTRY);
    int code = in.entries ? read_either(&in, goal, err)
                          : spin_fail(err, SPIN_ENOMEM, "%s: out of memory", in.name);
    free(in.entries);
    free(in.waits);
    free(in.last);
    return code;
}

/* ---- writing ---- */

static void put_u32(uint8_t *p, uint32_t v) {
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(v >> 8 * i);
}

static void put_u64(uint8_t *p, uint64_t v) {
    put_u32(p, (uint32_t)v);
    put_u32(p + 4, (uint32_t)(v >> 32));
}

static void put_node(uint8_t *p, const struct spin_goal *goal, uint32_t op, uint32_t done_at,
                     uint32_t started) {
    const struct goal_shape *s = goal_shape_of(goal, op);
    const struct goal_op o = goal_at(goal, op);
    uint32_t done = s->edge_count - started;
    put_u32(p, s->waits);
    p[4] = o.type;
    put_u32(p + 5, o.peer);
    put_u64(p + 9, o.size);
    put_u32(p + 17, o.tag);
    p[21] = o.cpu;
    p[22] = o.nic;
    put_u32(p + 23, done);
    put_u32(p + 27, done_at);
    put_u32(p + 31, started);
    put_u32(p + 35, done_at + done);
    const struct goal_portals *x = goal_portals_of(goal, op);
    if (!x)
        return;
    p += PLAIN_NODE;
    p[0] = x->options;
    put_u32(p + 1, x->ct);
    put_u64(p + 5, x->threshold);
    put_u32(p + 13, x->oct);
    put_u32(p + 17, x->hh);
    put_u32(p + 21, x->ph);
    put_u32(p + 25, x->ch);
    put_u32(p + 29, x->mem);
    for (int i = 0; i < 4; i++)
        put_u64(p + 33 + 8 * i, x->arg[i]);
}

static void write_u32(FILE *out, uint32_t v) {
    uint8_t bytes[4];
    put_u32(bytes, v);
    fwrite(bytes, 1, 4, out);
}

static uint32_t roots_of(const struct spin_goal *goal, uint32_t rank) {
    uint32_t roots = 0;
    for (uint32_t i = goal->first_op[rank]; i < goal->first_op[rank + 1]; i++)
        roots += goal_shape_of(goal, i)->waits == 0;
    return roots;
}

/* Per operation, its done-successors and then its start-successors follow each other in the
 * appendix. */
static void write_rank(const struct spin_goal *goal, uint32_t rank, unsigned node, FILE *out) {
    uint32_t first = goal->first_op[rank], last = goal->first_op[rank + 1];
    write_u32(out, last - first);
    write_u32(out, roots_of(goal, rank));
    for (uint32_t i = first; i < last; i++)
        if (goal_shape_of(goal, i)->waits == 0)
            write_u32(out, i - first);
    uint32_t offset = 0;
    for (uint32_t i = first; i < last; i++) {
        const struct goal_shape *s = goal_shape_of(goal, i);
        uint8_t bytes[PORTALS_NODE] = {0};
        uint32_t started = 0;
        for (uint32_t e = 0; e < s->edge_count; e++)
            started += (goal->edges[s->edges + e] & GOAL_ON_START) != 0;
        put_node(bytes, goal, i, offset, started);
        offset += s->edge_count;
        fwrite(bytes, 1, node, out);
    }
    for (uint32_t i = 0; i < last - first; i++)
        for (int pass = 0; pass < 2; pass++) {
            const struct goal_shape *s = goal_shape_of(goal, first + i);
            for (uint32_t e = 0; e < s->edge_count; e++) {
                uint32_t edge = goal->edges[s->edges + e];
                if (((edge & GOAL_ON_START) != 0) == pass)
                    write_u32(out, goal_after(i, edge));
            }
        }
}

void goal_write_binary(const struct spin_goal *goal, bool portals, FILE *out) {
    unsigned node = portals || goal->portals_count ? PORTALS_NODE : PLAIN_NODE;
    uint8_t head[BASE + HEADER];
    put_u64(head, MAGIC);
    put_u32(head + 8, goal->num_ranks);
    head[12] = goal->max_cpu;
    head[13] = goal->max_nic;
    fwrite(head, 1, sizeof head, out);
    uint64_t at = HEADER + 16 * (uint64_t)goal->num_ranks;
    for (uint32_t rank = 0; rank < goal->num_ranks; rank++) {
        uint64_t words = 2 + (uint64_t)roots_of(goal, rank);
        for (uint32_t i = goal->first_op[rank]; i < goal->first_op[rank + 1]; i++)
            words += goal_shape_of(goal, i)->edge_count;
        uint64_t end = at + 4 * words + (uint64_t)goal_rank_ops(goal, rank) * node;
        uint8_t entry[16];
        put_u64(entry, at);
        put_u64(entry + 8, end);
        fwrite(entry, 1, sizeof entry, out);
        at = end;
    }
    for (uint32_t rank = 0; rank < goal->num_ranks; rank++)
        write_rank(goal, rank, node, out);
}
