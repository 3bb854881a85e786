/* The GOAL text reader. One pass over the bytes; labels are looked up in a table that is emptied
 * between ranks by raising a stamp, so a rank costs what it holds. */
#include <stdlib.h>

#include "base/error.h"
#include "base/hash_table.h"
#include "sim/goal_scan.h"

struct label {
    const char *at;
    uint32_t length, hash;
    uint32_t stamp; /* rank + 1 that defined it */
    uint32_t op;
};

enum { FEW_LABELS = 128 }; /* the table has room for them from the beginning */

struct labels {
    struct hash_table table;
    uint32_t stamp;
};

static inline bool labels_holds(const struct labels *t, const struct label *slot) {
    return slot->stamp == t->stamp;
}
static inline struct goal_word labels_key(const struct labels *t, const struct label *slot) {
    (void)t;
    return (struct goal_word){slot->at, slot->length, slot->hash};
}
static inline uint64_t labels_hash(const struct labels *t, struct goal_word w) {
    (void)t;
    return w.hash * 0xd6e8feb86659fd93ull; /* it sets words such as l1, l2 well apart */
}
static inline bool labels_same(const struct labels *t, const struct label *slot,
                               struct goal_word w) {
    (void)t;
    return slot->hash == w.hash && slot->length == w.length &&
           memcmp(slot->at, w.at, w.length) == 0;
}
HASH_TABLE(labels, struct labels, struct label, struct goal_word);

static int no_memory(struct goal_scan *s) {
    return spin_fail(s->err, SPIN_ENOMEM,
                     "%s:%u: out of memory, or over the limit of %u operations or dependencies",
                     s->name, s->line, GOAL_MAX_OPS);
}

static int define(struct goal_scan *s, struct labels *t, struct goal_word w, uint32_t op) {
    if (!labels_room(&t->table, t))
        return no_memory(s);
    struct label *slot = labels_slot(&t->table, t, w);
    if (slot->stamp == t->stamp)
        return scan_fail(s, w.at, "label '%.*s' is defined twice in this rank",
                         (int)(w.length < 60 ? w.length : 60), w.at);
    *slot = (struct label){w.at, w.length, w.hash, t->stamp, op};
    t->table.used++;
    return 0;
}

static int look_up(struct goal_scan *s, const struct labels *t, struct goal_word w, uint32_t *op) {
    const struct label *slot = labels_slot(&t->table, t, w);
    if (slot->stamp != t->stamp)
        return scan_fail(s, w.at, "label '%.*s' is not defined in this rank",
                         (int)(w.length < 60 ? w.length : 60), w.at);
    *op = slot->op;
    return 0;
}

/* ["tag" (INT|-1)] ["cpu" INT] ["nic" INT], in that order. */
static int attributes(struct goal_scan *s, struct goal_op *op, bool message) {
    for (int place = message ? 0 : 1;;) {
        if (!scan_blanks(s))
            return SPIN_EFORMAT;
        const char *from = s->at;
        if (!scan_is_letter(*from))
            return 0;
        uint64_t number;
        int code, which = SCAN_PREFIX(s, "tag")   ? 0
                          : SCAN_PREFIX(s, "cpu") ? 1
                          : SCAN_PREFIX(s, "nic") ? 2
                                                  : 3;
        if (which == 3 || which < place || (which == 2 && !message))
            return scan_expected(s, from,
                                 message ? "'tag', 'cpu' or 'nic' in this order, or the line's end"
                                         : "'cpu' or the line's end");
        if (which == 0) {
            if ((code = scan_number_or_any(s, "a tag (a number, or -1 for any)", UINT32_MAX - 1,
                                           &op->tag)) != 0)
                return code;
        } else {
            if ((code = scan_number(s, which == 1 ? "a cpu (0 to 255)" : "a nic (0 to 255)", 255,
                                    &number)) != 0)
                return code;
            *(which == 1 ? &op->cpu : &op->nic) = (uint8_t)number;
        }
        place = which + 1;
    }
}

/* The type that a word names, 0 for none. */
static unsigned type_of(struct goal_word w) {
    if (WORD_IS(w, "send"))
        return GOAL_SEND;
    if (WORD_IS(w, "recv"))
        return GOAL_RECV;
    if (WORD_IS(w, "calc"))
        return GOAL_CALC;
    for (unsigned type = GOAL_PUT; type <= GOAL_GEM5CALC; type++) {
        const char *word = goal_type_word(type);
        if (word_is(w, word, (uint32_t)strlen(word)))
            return type;
    }
    return WORD_IS(w, "calcgem5") ? GOAL_GEM5CALC : 0;
}

/* The type that follows a label and its colon; there the word cannot be another label. */
static unsigned type_after_label(struct goal_scan *s) {
    if (SCAN_PREFIX(s, "send"))
        return GOAL_SEND;
    if (SCAN_PREFIX(s, "recv"))
        return GOAL_RECV;
    if (SCAN_PREFIX(s, "calcgem5"))
        return GOAL_GEM5CALC;
    if (SCAN_PREFIX(s, "calc"))
        return GOAL_CALC;
    return type_of(scan_word(s));
}

static int send_or_receive(struct goal_scan *s, struct goal_op *op) {
    int code = scan_bytes(s, &op->size);
    if (code || (code = scan_keyword(s, op->type == GOAL_SEND ? "to" : "from")))
        return code;
    if (!scan_blanks(s))
        return SPIN_EFORMAT;
    if (op->type == GOAL_SEND)
        code = scan_rank(s, "a rank", &op->peer);
    else if (*s->at == '-')
        code = scan_number_or_any(s, "a rank, or -1 for any", 0, &op->peer);
    else
        code = scan_rank(s, "a rank, or -1 for any", &op->peer);
    return code ? code : attributes(s, op, true);
}

/* The operation whose word was read. */
static int operation(struct goal_scan *s, unsigned type, uint32_t *index) {
    struct goal_op op = {.type = (uint8_t)type};
    struct goal_portals portals;
    int code;
    if (type < GOAL_CALC)
        code = send_or_receive(s, &op);
    else if (type > GOAL_CALC)
        code = scan_portals_op(s, &op, &portals);
    else if ((code = scan_number(s, "a time", UINT64_MAX, &op.size)) == 0)
        code = attributes(s, &op, false);
    if (code)
        return code;
    *index = goal_add(s->goal, op);
    if (*index == GOAL_ANY || (type > GOAL_CALC && !goal_add_portals(s->goal, portals)))
        return no_memory(s);
    return 0;
}

static int dependency(struct goal_scan *s, const struct labels *t, struct goal_word after) {
    bool on_start = SCAN_PREFIX(s, "irequires");
    if (!on_start)
        s->at += sizeof "requires" - 1; /* verb_follows has seen it */
    if (!scan_blanks(s))
        return SPIN_EFORMAT;
    struct goal_word before = scan_word(s);
    if (before.length == 0)
        return scan_expected(s, s->at, "a label");
    uint32_t a = 0, b = 0;
    int code = look_up(s, t, after, &a);
    if (code || (code = look_up(s, t, before, &b)))
        return code;
    return goal_link(s->goal, a, b, on_start) ? 0 : no_memory(s);
}

/* Whether the next word makes the one before it a label, whatever it is. */
static bool verb_follows(struct goal_scan *s) {
    const char *from = s->at;
    bool follows = SCAN_PREFIX(s, "requires") || SCAN_PREFIX(s, "irequires");
    s->at = from;
    return follows;
}

/* [LABEL ":"] op | LABEL ("requires"|"irequires") LABEL */
static int statement(struct goal_scan *s, struct labels *t) {
    struct goal_word first = scan_word(s);
    if (first.length == 0)
        return scan_expected(s, s->at, "an operation, a label or '}'");
    if (!scan_blanks(s))
        return SPIN_EFORMAT;
    uint32_t index;
    unsigned type;
    if (*s->at == ':') {
        s->at++;
        if (!scan_blanks(s))
            return SPIN_EFORMAT;
        const char *from = s->at;
        if (!(type = type_after_label(s)))
            return scan_expected(s, from, "'send', 'recv' or 'calc'");
        int code = operation(s, type, &index);
        return code ? code : define(s, t, first, index);
    }
    if (scan_is_letter(*s->at) && verb_follows(s))
        return dependency(s, t, first);
    if ((type = type_of(first)) != 0)
        return operation(s, type, &index);
    return scan_expected(s, s->at, "':', 'requires' or 'irequires' after a label");
}

static int rank_block(struct goal_scan *s, struct labels *t) {
    uint32_t expected = s->goal->ranks_done, rank;
    const char *from = s->at;
    int code;
    if (!WORD_IS(scan_word(s), "rank"))
        return scan_expected(s, from, "'rank'");
    if (!scan_blanks(s))
        return SPIN_EFORMAT;
    from = s->at;
    if ((code = scan_rank(s, "a rank", &rank)) != 0)
        return code;
    if (rank != expected)
        return scan_fail(s, from, "rank %u is next, found rank %u: ranks appear once, in order",
                         expected, rank);
    if (!scan_lines(s))
        return SPIN_EFORMAT;
    if (*s->at != '{')
        return scan_expected(s, s->at, "'{'");
    s->at++;
    t->stamp++;
    t->table.used = 0;
    for (;;) {
        if (!scan_lines(s))
            return SPIN_EFORMAT;
        if (*s->at == '}')
            break;
        if ((code = statement(s, t)) != 0)
            return code;
        if (!scan_blanks(s))
            return SPIN_EFORMAT;
        if (*s->at != '\n' && *s->at != '}')
            return scan_expected(s, s->at, "the end of the line");
    }
    s->at++;
    uint32_t circle;
    code = goal_end_rank(s->goal, &circle);
    if (code == SPIN_ENOMEM)
        return no_memory(s);
    if (code) {
        char text[100];
        goal_describe(s->goal, s->goal->first_op[rank] + circle, text, sizeof text);
        return scan_fail(s, s->at - 1,
                         "rank %u: operations wait for each other in a circle, "
                         "among them operation %u (%s)",
                         rank, circle + 1, text);
    }
    return 0;
}

static int whole_file(struct goal_scan *s, struct labels *t) {
    uint64_t ranks;
    if (!hash_table_reserve(&t->table, sizeof(struct label), FEW_LABELS))
        return no_memory(s);
    if (!scan_lines(s))
        return SPIN_EFORMAT;
    const char *from = s->at;
    int code;
    if (!WORD_IS(scan_word(s), "num_ranks"))
        return scan_expected(s, from, "'num_ranks'");
    if (!scan_blanks(s))
        return SPIN_EFORMAT;
    from = s->at;
    if ((code = scan_number(s, "a number of ranks", GOAL_MAX_RANKS, &ranks)) != 0)
        return code;
    if (ranks == 0)
        return scan_fail(s, from, "num_ranks is 0: a schedule has at least one rank");
    if (!(s->goal = goal_new((uint32_t)ranks, s->err)))
        return SPIN_ENOMEM;
    while (s->goal->ranks_done < ranks) {
        if (!scan_lines(s))
            return SPIN_EFORMAT;
        if (s->at >= s->end)
            return scan_fail(s, s->at, "rank %u is missing: num_ranks is %llu", s->goal->ranks_done,
                             (unsigned long long)ranks);
        if ((code = rank_block(s, t)) != 0)
            return code;
    }
    if (!scan_lines(s))
        return SPIN_EFORMAT;
    return s->at < s->end ? scan_expected(s, s->at, "nothing after the last rank") : 0;
}

int goal_read_text(const char *name, const char *text, size_t length, struct spin_goal **goal,
                   struct spin_error *err) {
    struct goal_scan s = {
        .name = name, .at = text, .end = text + length, .line_start = text, .line = 1, .err = err};
    struct labels labels = {.stamp = 1};
    int code = whole_file(&s, &labels);
    hash_table_free(&labels.table);
    if (code) {
        goal_free(s.goal);
        return code;
    }
    *goal = s.goal;
    return SPIN_OK;
}
