/* The Portals dialect in text:
 *
 *   put|tput N b [arg1 V]..[arg4 V] to R [when CT reaches V] [ct C] tag T
 *   get|tget N b from R [when CT reaches V] [ct C] tag T
 *   append|tappend N b to priority_list|overflow_list [hh V][ph V][ch V][arg1 V]..[mem V]
 *       allowed (R|-1) [when CT reaches V] ct C [use_once] tag T
 *   test CT for V
 *   gem5calc N, calcgem5 FUNCTION N b
 *
 * "when" and "test" name the counter that is waited for, with its threshold; "ct" the one that
 * counts. Handlers (hh, ph, ch) are numbers here; a card gives them meaning. */
#include "base/error.h"
#include "sim/goal_scan.h"

static int number32(struct goal_scan *s, const char *what, uint32_t *value) {
    uint64_t number;
    int code = scan_number(s, what, UINT32_MAX, &number);
    if (!code)
        *value = (uint32_t)number;
    return code;
}

static int small(struct goal_scan *s, const char *what, uint8_t *value) {
    uint64_t number;
    int code = scan_number(s, what, 255, &number);
    if (!code)
        *value = (uint8_t)number;
    return code;
}

static int when_part(struct goal_scan *s, struct goal_portals *p) {
    int code = number32(s, "a counter", &p->ct);
    if (code || (code = scan_keyword(s, "reaches")))
        return code;
    return scan_number(s, "a threshold", UINT64_MAX, &p->threshold);
}

static int to_part(struct goal_scan *s, struct goal_op *op, struct goal_portals *p, bool append) {
    if (!append)
        return scan_rank(s, "a rank", &op->peer);
    if (!scan_blanks(s))
        return SPIN_EFORMAT;
    const char *from = s->at;
    struct goal_word w = scan_word(s);
    if (WORD_IS(w, "overflow_list"))
        p->options |= GOAL_OPTION_OVERFLOW;
    else if (!WORD_IS(w, "priority_list"))
        return scan_expected(s, from, "'priority_list' or 'overflow_list'");
    return 0;
}

/* One "name value" of the rest of the line. */
static int part(struct goal_scan *s, struct goal_word w, const char *from, struct goal_op *op,
                struct goal_portals *p) {
    bool append = op->type == GOAL_APPEND || op->type == GOAL_TAPPEND;
    bool get = op->type == GOAL_GET || op->type == GOAL_TGET;
    if (WORD_IS(w, "to") || (get && WORD_IS(w, "from")))
        return to_part(s, op, p, append);
    if (WORD_IS(w, "tag"))
        return scan_number_or_any(s, "a tag (a number, or -1 for any)", UINT32_MAX - 1, &op->tag);
    if (WORD_IS(w, "cpu"))
        return small(s, "a cpu (0 to 255)", &op->cpu);
    if (WORD_IS(w, "nic"))
        return small(s, "a nic (0 to 255)", &op->nic);
    if (WORD_IS(w, "ct"))
        return number32(s, "a counter", &p->oct);
    if (w.length == 4 && memcmp(w.at, "arg", 3) == 0 && w.at[3] >= '1' && w.at[3] <= '4')
        return scan_number(s, "an argument", UINT64_MAX, &p->arg[w.at[3] - '1']);
    if (op->type != GOAL_APPEND && WORD_IS(w, "when"))
        return when_part(s, p);
    if (append && WORD_IS(w, "hh"))
        return number32(s, "a header handler", &p->hh);
    if (append && WORD_IS(w, "ph"))
        return number32(s, "a payload handler", &p->ph);
    if (append && WORD_IS(w, "ch"))
        return number32(s, "a completion handler", &p->ch);
    if (append && WORD_IS(w, "mem"))
        return number32(s, "a size of handler memory", &p->mem);
    if (append && WORD_IS(w, "use_once")) {
        p->options |= GOAL_OPTION_USE_ONCE;
        return 0;
    }
    if (append && WORD_IS(w, "allowed")) {
        if (!scan_blanks(s))
            return SPIN_EFORMAT;
        return *s->at == '-' ? scan_number_or_any(s, "a rank, or -1 for any", 0, &op->peer)
                             : scan_rank(s, "a rank, or -1 for any", &op->peer);
    }
    return scan_expected(s, from, "an attribute of this operation, or the line's end");
}

/* A time; or, as LogGOPSim's calcgem5 has it, a function and its bytes. */
static int scan_gem5(struct goal_scan *s, struct goal_op *op) {
    int code = scan_number(s, "a time or a function", UINT64_MAX, &op->size);
    if (code || !scan_blanks(s) || !scan_is_digit(*s->at))
        return code;
    if (op->size > UINT32_MAX)
        return scan_fail(s, s->at, "a function has a number below 4294967296");
    op->tag = (uint32_t)op->size;
    return scan_bytes(s, &op->size);
}

int scan_portals_op(struct goal_scan *s, struct goal_op *op, struct goal_portals *portals) {
    *portals = GOAL_PORTALS_NONE;
    int code;
    if (op->type == GOAL_CTWAIT) {
        if ((code = number32(s, "a counter", &portals->ct)) || (code = scan_keyword(s, "for")))
            return code;
        return scan_number(s, "a threshold", UINT64_MAX, &portals->threshold);
    }
    if (op->type == GOAL_GEM5CALC)
        return scan_gem5(s, op);
    if ((code = scan_bytes(s, &op->size)) != 0)
        return code;
    const char *start = s->at;
    bool to = false;
    for (;;) {
        if (!scan_blanks(s))
            return SPIN_EFORMAT;
        const char *from = s->at;
        if (!scan_is_letter(*from))
            break;
        struct goal_word name = scan_word(s);
        to |= WORD_IS(name, "to") || WORD_IS(name, "from");
        if ((code = part(s, name, from, op, portals)) != 0)
            return code;
    }
    return to ? 0 : scan_fail(s, start, "'to' is missing: where does this operation go?");
}
