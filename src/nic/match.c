/* Design notes. Every field is 1 to 8 bytes at an offset from some base in the packet, so a term is
 * one load, one mask and one comparison with a range, whatever it is called. A rule is up to 8
 * terms that must all hold. Rules are tried in order: a table is small (a card's has tens of
 * entries), and in order is what its user reads. */
#include "nic/match.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"

enum base { RAW, ETHERNET, VLAN, TYPE, IPV4, UDP, TCP, PAYLOAD };

enum form { NUMBER, ADDRESS_IPV4, ADDRESS_MAC };

static const struct field {
    const char *name, *what;
    enum base base;
    uint8_t offset, bytes;
    enum form form;
    uint64_t mask; /* of the bytes that are the field */
} fields[] = {
    {"eth.dst", "destination address, as 02:00:0a:00:00:01", ETHERNET, 0, 6, ADDRESS_MAC,
     0xffffffffffff},
    {"eth.src", "source address", ETHERNET, 6, 6, ADDRESS_MAC, 0xffffffffffff},
    {"eth.type", "type, behind VLAN tags", TYPE, 0, 2, NUMBER, 0xffff},
    {"vlan.id", "of the first VLAN tag", VLAN, 2, 2, NUMBER, 0x0fff},
    {"ipv4.tos", "type of service", IPV4, 1, 1, NUMBER, 0xff},
    {"ipv4.len", "length of the datagram", IPV4, 2, 2, NUMBER, 0xffff},
    {"ipv4.id", "identification", IPV4, 4, 2, NUMBER, 0xffff},
    {"ipv4.frag", "fragment offset, in 8 bytes", IPV4, 6, 2, NUMBER, 0x1fff},
    {"ipv4.ttl", "time to live", IPV4, 8, 1, NUMBER, 0xff},
    {"ipv4.proto", "protocol: 17 is UDP", IPV4, 9, 1, NUMBER, 0xff},
    {"ipv4.src", "source address, as 10.0.0.1 or 10.0.0.0/8", IPV4, 12, 4, ADDRESS_IPV4,
     0xffffffff},
    {"ipv4.dst", "destination address", IPV4, 16, 4, ADDRESS_IPV4, 0xffffffff},
    {"udp.sport", "source port", UDP, 0, 2, NUMBER, 0xffff},
    {"udp.dport", "destination port", UDP, 2, 2, NUMBER, 0xffff},
    {"udp.len", "length of the datagram", UDP, 4, 2, NUMBER, 0xffff},
    {"tcp.sport", "source port", TCP, 0, 2, NUMBER, 0xffff},
    {"tcp.dport", "destination port", TCP, 2, 2, NUMBER, 0xffff},
};
enum { FIELDS = sizeof fields / sizeof fields[0] };

/* Bases of BASE[offset:bytes]. */
static const struct {
    const char *name;
    enum base base;
} bases[] = {{"raw", RAW}, {"ipv4", IPV4}, {"udp", UDP}, {"payload", PAYLOAD}};
enum { BASES = sizeof bases / sizeof bases[0] };

struct term {
    enum base base;
    uint32_t offset, bytes;
    uint64_t mask, low, high; /* low <= (value & mask) <= high */
};

struct rule {
    struct term term[NIC_MATCH_TERMS];
    uint32_t terms;
    int32_t target;
    char *text;
};

struct nic_match {
    struct rule *rule;
    uint32_t rules;
};

/* ---- the packet's side ---- */

static uint32_t base_of(const struct nic_headers *h, enum base base) {
    switch (base) {
    case RAW:
        return 0;
    case ETHERNET:
        return h->ethernet;
    case VLAN:
        return h->vlan;
    case TYPE:
        return h->type;
    case IPV4:
        return h->ipv4;
    case UDP:
        return h->udp;
    case TCP:
        return h->tcp;
    case PAYLOAD:
        return h->payload;
    }
    return HEADERS_ABSENT;
}

static bool holds(const struct term *t, const struct nic_headers *h, const uint8_t *bytes,
                  uint32_t length) {
    uint64_t at = base_of(h, t->base);
    if (at == HEADERS_ABSENT)
        return false;
    at += t->offset;
    /* Bytes behind the payload that the headers claim are padding, and no part of it. */
    uint64_t end = t->base == PAYLOAD ? (uint64_t)h->payload + h->payload_bytes : length;
    if (at + t->bytes > end)
        return false;
    uint64_t value = headers_number(bytes + at, t->bytes) & t->mask;
    return t->low <= value && value <= t->high;
}

struct nic_verdict nic_match_packet(const struct nic_match *m, enum nic_link link,
                                    const uint8_t *bytes, uint32_t length) {
    struct nic_headers h = headers_find(link, bytes, length);
    for (uint32_t r = 0; r < m->rules; r++) {
        const struct rule *rule = &m->rule[r];
        uint32_t t = 0;
        while (t < rule->terms && holds(&rule->term[t], &h, bytes, length))
            t++;
        if (t == rule->terms)
            return (struct nic_verdict){rule->target, (int32_t)r, h.fault};
    }
    return (struct nic_verdict){NIC_TO_HOST, -1, h.fault};
}

/* ---- the text's side ---- */

struct scan {
    const char *name, *at, *end, *line_start;
    unsigned line;
    struct spin_error *err;
};

static int complain(const struct scan *s, const char *at, const char *what) {
    return spin_fail(s->err, SPIN_EFORMAT, "%.200s:%u:%u: %s", s->name, s->line,
                     (unsigned)(at - s->line_start) + 1, what);
}

/* With the word at `at` in the message: up to a blank or an operator, and no unprintable byte. */
static int complain_word(const struct scan *s, const char *at, const char *expected) {
    char word[32], text[160];
    size_t n = 0;
    while (at + n < s->end && n < sizeof word - 1 && at[n] > ' ' && at[n] < 127 &&
           !strchr("&;#", at[n]))
        n++;
    memcpy(word, at, n);
    word[n] = 0;
    if (n)
        snprintf(text, sizeof text, "expected %s, found '%s'", expected, word);
    else
        snprintf(text, sizeof text, "expected %s", expected);
    return complain(s, at, text);
}

static void blanks(struct scan *s) {
    while (s->at < s->end && (*s->at == ' ' || *s->at == '\t' || *s->at == '\r'))
        s->at++;
}

static bool take(struct scan *s, const char *word) {
    size_t n = strlen(word);
    if ((size_t)(s->end - s->at) < n || memcmp(s->at, word, n) != 0)
        return false;
    s->at += n;
    return true;
}

static char peek(const struct scan *s) {
    return s->at < s->end ? *s->at : 0;
}

/* A decimal or 0x number; false (and nothing taken) when there is none or it does not fit. */
static bool number(struct scan *s, uint64_t *value) {
    const char *from = s->at;
    uint64_t v = 0;
    unsigned base = 10;
    if (take(s, "0x") || take(s, "0X"))
        base = 16;
    const char *digits = s->at;
    for (; s->at < s->end && isxdigit((unsigned char)*s->at); s->at++) {
        char c = *s->at;
        unsigned digit = c <= '9' ? (unsigned)(c - '0') : (unsigned)((c | 32) - 'a' + 10);
        if (digit >= base || __builtin_mul_overflow(v, base, &v) ||
            __builtin_add_overflow(v, digit, &v)) {
            s->at = from;
            return false;
        }
    }
    if (s->at == digits) {
        s->at = from;
        return false;
    }
    *value = v;
    return true;
}

/* "10.0.0.1", four numbers up to 255. */
static bool dotted(struct scan *s, uint64_t *value) {
    const char *from = s->at;
    uint64_t v = 0, part;
    for (int i = 0; i < 4; i++) {
        if ((i && !take(s, ".")) || !number(s, &part) || part > 255) {
            s->at = from;
            return false;
        }
        v = v << 8 | part;
    }
    *value = v;
    return true;
}

/* "02:00:0a:00:00:01", six pairs of hexadecimal digits. */
static bool colons(struct scan *s, uint64_t *value) {
    const char *from = s->at;
    uint64_t v = 0;
    for (int i = 0; i < 6; i++) {
        if ((i && !take(s, ":")) || s->end - s->at < 2 || !isxdigit((unsigned char)s->at[0]) ||
            !isxdigit((unsigned char)s->at[1])) {
            s->at = from;
            return false;
        }
        char pair[3] = {s->at[0], s->at[1], 0};
        v = v << 8 | strtoul(pair, NULL, 16);
        s->at += 2;
    }
    *value = v;
    return true;
}

static bool value_of(struct scan *s, enum form form, uint64_t *value) {
    const char *from = s->at;
    if ((form == ADDRESS_IPV4 && dotted(s, value)) || (form == ADDRESS_MAC && colons(s, value)))
        return true;
    if (number(s, value) && peek(s) != '.' && peek(s) != ':')
        return true;
    s->at = from; /* a number that goes on is an address with a mistake in it */
    return false;
}

static const char *form_name(enum form form) {
    return form == ADDRESS_IPV4  ? "an address such as 10.0.0.1"
           : form == ADDRESS_MAC ? "an address such as 02:00:0a:00:00:01"
                                 : "a number";
}

static int fits(const struct scan *s, const char *at, uint64_t value, uint64_t mask) {
    char text[100];
    if (value <= mask)
        return SPIN_OK;
    snprintf(text, sizeof text, "%llu (0x%llx) is over the field's limit of %llu",
             (unsigned long long)value, (unsigned long long)value, (unsigned long long)mask);
    return complain(s, at, text);
}

/* "=value", "=value/mask", "=low-high". */
static int comparison(struct scan *s, enum form form, struct term *t) {
    blanks(s);
    if (!take(s, "="))
        return complain_word(s, s->at, "'='");
    blanks(s);
    const char *at = s->at;
    uint64_t whole = t->mask;
    if (!value_of(s, form, &t->low))
        return complain_word(s, at, form_name(form));
    int code = fits(s, at, t->low, whole);
    t->high = t->low;
    at = s->at + 1;
    if (!code && take(s, "/")) {
        uint64_t mask;
        bool address = form == ADDRESS_IPV4 && dotted(s, &mask);
        if (!address && !number(s, &mask))
            return complain_word(s, at, "a mask");
        /* A small plain number behind an IPv4 address is the length of a prefix. */
        if (form == ADDRESS_IPV4 && !address && mask <= 32)
            mask = mask ? whole << (32 - mask) & whole : 0;
        code = fits(s, at, mask, whole);
        t->mask = mask;
        t->low &= mask; /* bits outside the mask say nothing, so 10.1.2.3/8 is 10.0.0.0/8 */
        t->high = t->low;
    } else if (!code && peek(s) == '-' && s->at + 1 < s->end && s->at[1] != '>') {
        s->at++;
        if (!value_of(s, form, &t->high))
            return complain_word(s, at, form_name(form));
        code = fits(s, at, t->high, whole);
        if (!code && t->high < t->low)
            code = complain(s, at, "the range ends below its start");
    }
    return code;
}

/* "[offset:bytes]" behind the name of a base. */
static int bytes_at(struct scan *s, struct term *t) {
    uint64_t offset, bytes;
    const char *at = ++s->at;
    if (!number(s, &offset))
        return complain_word(s, at, "an offset in bytes");
    if (offset > HEADERS_MOST_IPV4)
        return complain(s, at, "the offset is over the limit of 65535");
    if (!take(s, ":"))
        return complain_word(s, s->at, "':' and the number of bytes");
    at = s->at;
    if (!number(s, &bytes))
        return complain_word(s, at, "the number of bytes");
    if (bytes < 1 || bytes > 8)
        return complain(s, at, "1 to 8 bytes can be compared at once");
    if (!take(s, "]"))
        return complain_word(s, s->at, "']'");
    t->offset = (uint32_t)offset;
    t->bytes = (uint32_t)bytes;
    t->mask = bytes == 8 ? UINT64_MAX : (1ull << 8 * bytes) - 1;
    return SPIN_OK;
}

static int term(struct scan *s, struct term *t) {
    const char *at = s->at;
    while (s->at < s->end && (isalnum((unsigned char)*s->at) || *s->at == '.'))
        s->at++;
    size_t length = (size_t)(s->at - at);
    if (peek(s) == '[') {
        for (int b = 0; b < BASES; b++)
            if (strlen(bases[b].name) == length && memcmp(bases[b].name, at, length) == 0) {
                t->base = bases[b].base;
                int code = bytes_at(s, t);
                return code ? code : comparison(s, NUMBER, t);
            }
        return complain_word(s, at, "raw[, ipv4[, udp[ or payload[");
    }
    for (int f = 0; f < FIELDS; f++)
        if (strlen(fields[f].name) == length && memcmp(fields[f].name, at, length) == 0) {
            const struct field *field = &fields[f];
            *t = (struct term){field->base, field->offset, field->bytes, field->mask, 0, 0};
            return comparison(s, field->form, t);
        }
    s->at = at;
    return complain_word(s, at, "a field such as udp.dport, or raw[offset:bytes]");
}

static int target(struct scan *s, uint32_t contexts, int32_t *to) {
    const char *at = s->at;
    uint64_t context;
    if (take(s, "host")) {
        *to = NIC_TO_HOST;
    } else if (take(s, "drop")) {
        *to = NIC_TO_DROP;
    } else if (take(s, "ctx") && isdigit((unsigned char)peek(s)) && number(s, &context)) {
        if (context >= contexts) {
            char text[120];
            snprintf(text, sizeof text, "ctx%llu does not exist: there %s %u context%s, from ctx0",
                     (unsigned long long)context, contexts == 1 ? "is" : "are", contexts,
                     contexts == 1 ? "" : "s");
            return complain(s, at, text);
        }
        *to = (int32_t)context;
    } else {
        return complain_word(s, at, "ctx0 (a context's number), host or drop");
    }
    return SPIN_OK;
}

/* One rule, from its first byte to its end. */
static int rule(struct scan *s, uint32_t contexts, struct rule *r) {
    const char *from = s->at;
    int code = SPIN_OK;
    if (!take(s, "any")) {
        do {
            blanks(s);
            if (r->terms == NIC_MATCH_TERMS)
                return complain(s, s->at, "a rule has at most 8 terms");
            code = term(s, &r->term[r->terms++]);
            blanks(s);
        } while (!code && take(s, "&"));
    }
    blanks(s);
    if (!code && !take(s, "->"))
        code = complain_word(s, s->at, r->terms ? "'&' or '->'" : "'->'");
    blanks(s);
    if (!code)
        code = target(s, contexts, &r->target);
    const char *to = s->at;
    blanks(s);
    if (!code && s->at < s->end && !strchr("\n;#", *s->at))
        code = complain_word(s, s->at, "the end of the rule");
    if (!code && !(r->text = strndup(from, (size_t)(to - from))))
        code = spin_fail(s->err, SPIN_ENOMEM, "%.200s: out of memory", s->name);
    return code;
}

static int rules(struct scan *s, uint32_t contexts, struct nic_match *m) {
    while (s->at < s->end) {
        blanks(s);
        if (peek(s) == '#')
            while (s->at < s->end && *s->at != '\n')
                s->at++;
        if (s->at == s->end)
            break;
        if (*s->at == '\n') {
            s->line++;
            s->line_start = ++s->at;
        } else if (*s->at == ';') {
            s->at++;
        } else {
            if (m->rules == NIC_MATCH_RULES)
                return complain(s, s->at, "over the limit of 256 rules");
            int code = rule(s, contexts, &m->rule[m->rules++]);
            if (code)
                return code;
        }
    }
    if (m->rules == 0)
        return spin_fail(s->err, SPIN_EFORMAT,
                         "%.200s: no rule; write one such as 'udp.dport=4791 -> ctx0'", s->name);
    return SPIN_OK;
}

int nic_match_parse(struct nic_match **out, const char *name, const char *text, size_t length,
                    uint32_t contexts, struct spin_error *err) {
    *out = NULL;
    struct nic_match *m = calloc(1, sizeof *m);
    if (m)
        m->rule = calloc(NIC_MATCH_RULES, sizeof *m->rule);
    if (!m || !m->rule) {
        nic_match_free(m);
        return spin_fail(err, SPIN_ENOMEM, "%.200s: out of memory", name);
    }
    struct scan s = {name, text, text + length, text, 1, err};
    int code = rules(&s, contexts, m);
    if (code)
        nic_match_free(m);
    else
        *out = m;
    return code;
}

int nic_match_read(struct nic_match **out, const char *path, uint32_t contexts,
                   struct spin_error *err) {
    uint8_t *text;
    size_t length;
    *out = NULL;
    int code = file_read(path, "match table", 1 << 20, &text, &length, err);
    if (code)
        return code;
    code = nic_match_parse(out, path, (const char *)text, length, contexts, err);
    free(text);
    return code;
}

void nic_match_free(struct nic_match *m) {
    if (!m)
        return;
    for (uint32_t r = 0; m->rule && r < m->rules; r++)
        free(m->rule[r].text);
    free(m->rule);
    free(m);
}

uint32_t nic_match_rules(const struct nic_match *m) {
    return m->rules;
}

const char *nic_match_rule_text(const struct nic_match *m, uint32_t rule) {
    return m->rule[rule].text;
}

bool nic_match_field(uint32_t i, const char **name, const char **what) {
    if (i >= FIELDS)
        return false;
    *name = fields[i].name;
    *what = fields[i].what;
    return true;
}
