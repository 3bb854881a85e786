/* Reads a graph file: one statement per line, '#' to the end of the line is a comment.
 *
 *   openspin-graph 1                                magic and version, the first statement
 *   host NAME...                                    hosts, numbered as they appear
 *   switch NAME...
 *   link A B [rate=100Gbit/s] [latency=1us]         both directions; parallel links are allowed
 *
 * Names are looked up in a hash table, but every number handed out follows the order of the file.
 */
#include "sim/topology.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/grow.h"
#include "base/index_table.h"
#include "base/units.h"

#define MAX_NODES (1u << 20)
#define MAX_LINKS (1u << 22)
#define MAX_KINDS 4096
#define NAME_ROOM (TOPO_MAX_NAME / 2)

struct word {
    const char *at;
    uint32_t length;
};

struct wire {
    uint32_t a, b; /* indices of names, in order of appearance */
    uint16_t kind;
};

struct parser {
    const char *file, *at, *end, *line_start;
    uint32_t line;
    struct word *names;
    bool *is_host;
    uint32_t *line_of;
    uint32_t count, room, hosts;
    struct hash_table by_name;
    struct wire *wires;
    uint32_t wire_count, wire_room;
    struct topo_kind kinds[MAX_KINDS];
    uint32_t kind_count;
    struct hash_table by_value; /* kinds */
    struct spin_error *err;
};

static int fail_at(struct parser *p, const char *where, const char *what, struct word w) {
    char shown[40];
    snprintf(shown, sizeof shown, "%.*s", (int)(w.length < 32 ? w.length : 32), w.at ? w.at : "");
    for (char *c = shown; *c; c++)
        if (*c < 0x20 || *c > 0x7e)
            *c = '?';
    return spin_fail(p->err, SPIN_EFORMAT, "%s:%u:%u: %s%s%s%s", p->file, p->line,
                     (uint32_t)(where - p->line_start) + 1, what, w.at ? " '" : "", shown,
                     w.at ? "'" : "");
}

static int no_memory(struct parser *p) {
    return spin_fail(p->err, SPIN_ENOMEM, "%s: out of memory", p->file);
}

static bool is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\r';
}

/* The next word of this line; length 0 at its end. */
static struct word next_word(struct parser *p) {
    while (p->at < p->end && is_blank(*p->at))
        p->at++;
    struct word w = {p->at, 0};
    while (p->at < p->end && !is_blank(*p->at) && *p->at != '\n' && *p->at != '#')
        p->at++;
    w.length = (uint32_t)(p->at - w.at);
    return w;
}

static bool is(struct word w, const char *text) {
    return w.length == strlen(text) && memcmp(w.at, text, w.length) == 0;
}

static uint64_t hash_of(struct word w) {
    return hash_table_text(w.at, w.length);
}
static bool same_word(struct word a, struct word b) {
    return a.length == b.length && memcmp(a.at, b.at, a.length) == 0;
}
static struct word name_at(const struct parser *p, uint32_t index) {
    return p->names[index];
}
INDEX_TABLE_OF(names, struct parser, struct word, name_at, hash_of, same_word);

static bool grow_names(struct parser *p) {
    uint32_t room = p->room ? 2 * p->room : 64;
    struct word *names = realloc(p->names, sizeof *names * room);
    if (names)
        p->names = names;
    bool *is_host = realloc(p->is_host, sizeof *is_host * room);
    if (is_host)
        p->is_host = is_host;
    uint32_t *line_of = realloc(p->line_of, sizeof *line_of * room);
    if (line_of)
        p->line_of = line_of;
    if (!names || !is_host || !line_of)
        return false;
    p->room = room;
    return true;
}

static bool good_name(struct word w) {
    if (w.length >= NAME_ROOM)
        return false;
    for (uint32_t i = 0; i < w.length; i++) {
        char c = w.at[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              c == '_' || c == '.'))
            return false;
    }
    return true;
}

static int add_nodes(struct parser *p, bool host) {
    struct word w = next_word(p);
    if (!w.length)
        return fail_at(p, w.at, "expected a name", (struct word){0});
    for (; w.length; w = next_word(p)) {
        if (!good_name(w))
            return fail_at(p, w.at, "a name has 1 to 23 letters, digits, '_' and '.'; this is", w);
        if (p->count == MAX_NODES)
            return fail_at(p, w.at, "over the limit of 1048576 hosts and switches at", w);
        if (p->count == p->room && !grow_names(p))
            return no_memory(p);
        if (names_find(&p->by_name, p, w) != INDEX_NONE)
            return fail_at(p, w.at, "this name is already taken:", w);
        p->names[p->count] = w;
        if (!names_add(&p->by_name, p, p->count))
            return no_memory(p);
        p->line_of[p->count] = p->line;
        p->is_host[p->count++] = host;
        p->hosts += host;
    }
    return SPIN_OK;
}

static int find_end(struct parser *p, uint32_t *index) {
    struct word w = next_word(p);
    if (!w.length)
        return fail_at(p, w.at, "a link needs two names: link A B", (struct word){0});
    *index = names_find(&p->by_name, p, w);
    if (*index == INDEX_NONE)
        return fail_at(p, w.at, "no host or switch of this name above:", w);
    return SPIN_OK;
}

/* "rate=..." or "latency=..." into the kind. */
static int read_attribute(struct parser *p, struct word w, struct topo_kind *kind) {
    char value[64];
    const char *equals = memchr(w.at, '=', w.length);
    uint32_t key = equals ? (uint32_t)(equals - w.at) : w.length;
    uint32_t length = equals ? w.length - key - 1 : 0;
    if (!equals || length == 0 || length >= sizeof value)
        return fail_at(p, w.at, "expected rate=VALUE or latency=VALUE, not", w);
    memcpy(value, equals + 1, length);
    value[length] = 0;
    struct word name = {w.at, key};
    if (is(name, "rate") && !kind->fs_per_byte) {
        if (!units_per_byte_fs(value, &kind->fs_per_byte) || !kind->fs_per_byte ||
            kind->fs_per_byte > TOPO_SLOWEST_FS)
            return fail_at(p, equals + 1, "not a rate (such as 100Gbit/s or 20ps/B):", w);
    } else if (is(name, "latency") && !kind->latency_ps) {
        if (!units_time_ps(value, &kind->latency_ps) || !kind->latency_ps ||
            kind->latency_ps > TOPO_MAX_LATENCY_PS)
            return fail_at(p, equals + 1, "not a latency above 0 (such as 33.4ns or 1us):", w);
    } else {
        return fail_at(p, w.at, "expected one rate=VALUE and one latency=VALUE, not", w);
    }
    return SPIN_OK;
}

static uint64_t hash_of_kind(struct topo_kind kind) {
    return hash_table_spread(hash_table_spread(kind.fs_per_byte) ^ kind.latency_ps);
}
static bool same_kind(struct topo_kind a, struct topo_kind b) {
    return a.fs_per_byte == b.fs_per_byte && a.latency_ps == b.latency_ps;
}
static struct topo_kind kind_at(const struct parser *p, uint32_t index) {
    return p->kinds[index];
}
INDEX_TABLE_OF(kinds, struct parser, struct topo_kind, kind_at, hash_of_kind, same_kind);

static int kind_index(struct parser *p, struct topo_kind kind, const char *where, uint16_t *index) {
    uint32_t found = kinds_find(&p->by_value, p, kind);
    if (found == INDEX_NONE) {
        if (p->kind_count == MAX_KINDS)
            return fail_at(p, where, "over the limit of 4096 different pairs of rate and latency",
                           (struct word){0});
        found = p->kind_count;
        p->kinds[found] = kind;
        if (!kinds_add(&p->by_value, p, found))
            return no_memory(p);
        p->kind_count++;
    }
    *index = (uint16_t)found;
    return SPIN_OK;
}

static int add_link(struct parser *p) {
    struct wire wire;
    const char *where = p->at;
    int code = find_end(p, &wire.a);
    if (!code)
        code = find_end(p, &wire.b);
    if (code)
        return code;
    if (wire.a == wire.b)
        return fail_at(p, where, "a link from a node to itself:", p->names[wire.a]);
    if (p->is_host[wire.a] && p->is_host[wire.b])
        return fail_at(p, where,
                       "a host is linked to a switch, not to another host:", p->names[wire.b]);
    struct topo_kind kind = {0};
    for (struct word w = next_word(p); w.length && !code; w = next_word(p))
        code = read_attribute(p, w, &kind);
    if (!code)
        code = kind_index(p, kind, where, &wire.kind);
    if (code)
        return code;
    if (p->wire_count == MAX_LINKS)
        return fail_at(p, where, "over the limit of 4194304 links", (struct word){0});
    if (!ROOM_FOR_ONE(p->wires, p->wire_count, p->wire_room, 64))
        return no_memory(p);
    p->wires[p->wire_count++] = wire;
    return SPIN_OK;
}

static int read_line(struct parser *p, bool *begun) {
    struct word w = next_word(p);
    if (!w.length)
        return SPIN_OK;
    if (!*begun) {
        struct word version = next_word(p);
        if (!is(w, "openspin-graph") || !is(version, "1"))
            return fail_at(p, w.at, "the first line must be 'openspin-graph 1', not", w);
        *begun = true;
        w = next_word(p);
        return w.length ? fail_at(p, w.at, "nothing follows the version; found", w) : SPIN_OK;
    }
    if (is(w, "host"))
        return add_nodes(p, true);
    if (is(w, "switch"))
        return add_nodes(p, false);
    if (is(w, "link"))
        return add_link(p);
    return fail_at(p, w.at, "expected host, switch or link, not", w);
}

static int read_lines(struct parser *p) {
    bool begun = false;
    while (p->at < p->end) {
        p->line++;
        p->line_start = p->at;
        int code = read_line(p, &begun);
        if (code)
            return code;
        while (p->at < p->end && *p->at != '\n')
            p->at++;
        p->at += p->at < p->end;
    }
    if (!begun)
        return fail_at(p, p->at, "the first line must be 'openspin-graph 1'", (struct word){0});
    return SPIN_OK;
}

/* Names and adjacency into the topology: hosts first, each in the order of the file. */
static int assemble(struct parser *p, struct topology *t) {
    struct topo_graph *g = &t->graph;
    uint32_t nodes = p->count, channels = 2 * p->wire_count, host = 0, sw = p->hosts;
    uint32_t *number = malloc(sizeof *number * (nodes + 1));
    size_t text = 0;
    for (uint32_t i = 0; i < nodes; i++)
        text += p->names[i].length + 1;
    t->hosts = p->hosts;
    t->switches = nodes - p->hosts;
    t->channels = channels;
    t->links = p->wire_count;
    g->edges = malloc(sizeof *g->edges * (channels + 1));
    g->source = malloc(sizeof *g->source * (channels + 1));
    g->edge_of = malloc(sizeof *g->edge_of * (channels + 1));
    g->start = calloc((size_t)nodes + 2, sizeof *g->start);
    g->names = malloc(text + 1);
    g->name_at = malloc(sizeof *g->name_at * (nodes + 1));
    t->kinds = malloc(sizeof *t->kinds * p->kind_count);
    if (!number || !g->edges || !g->source || !g->edge_of || !g->start || !g->names ||
        !g->name_at || !t->kinds) {
        free(number);
        return no_memory(p);
    }
    memcpy(t->kinds, p->kinds, sizeof *t->kinds * p->kind_count);
    t->n_kinds = p->kind_count;
    text = 0;
    for (uint32_t i = 0; i < nodes; i++) {
        number[i] = p->is_host[i] ? host++ : sw++;
        g->name_at[number[i]] = (uint32_t)text;
        memcpy(g->names + text, p->names[i].at, p->names[i].length);
        text += p->names[i].length;
        g->names[text++] = 0;
    }
    for (uint32_t i = 0; i < p->wire_count; i++) {
        g->start[number[p->wires[i].a] + 2]++;
        g->start[number[p->wires[i].b] + 2]++;
    }
    for (uint32_t n = 2; n <= nodes + 1; n++) /* start[n + 1] becomes the fill mark of node n */
        g->start[n] += g->start[n - 1];
    for (uint32_t i = 0; i < p->wire_count; i++)
        for (uint32_t side = 0; side < 2; side++) {
            uint32_t from = number[side ? p->wires[i].b : p->wires[i].a];
            uint32_t to = number[side ? p->wires[i].a : p->wires[i].b];
            g->edge_of[2 * i + side] = g->start[from + 1];
            g->edges[g->start[from + 1]++] =
                (struct topo_edge){.channel = 2 * i + side, .node = to, .kind = p->wires[i].kind};
            g->source[2 * i + side] = from;
        }
    free(number);
    return SPIN_OK;
}

static int check_hosts(struct parser *p, const struct topology *t) {
    if (t->hosts == 0)
        return spin_fail(p->err, SPIN_EFORMAT, "%s: no host; a network needs at least one",
                         p->file);
    for (uint32_t i = 0, host = 0; i < p->count; i++) {
        if (!p->is_host[i])
            continue;
        uint32_t links = t->graph.start[host + 1] - t->graph.start[host];
        if (links != 1)
            return spin_fail(p->err, SPIN_EFORMAT,
                             "%s:%u: host '%.*s' has %u links; a host has exactly one", p->file,
                             p->line_of[i], (int)p->names[i].length, p->names[i].at, links);
        host++;
    }
    return SPIN_OK;
}

int topology_parse_graph(struct topology **out, const char *text, size_t length, const char *name,
                         struct spin_error *err) {
    struct parser *p = calloc(1, sizeof *p);
    struct topology *t = calloc(1, sizeof *t);
    int code = SPIN_OK;
    *out = NULL;
    if (!p || !t) {
        code = spin_fail(err, SPIN_ENOMEM, "%s: out of memory", name);
    } else {
        *p = (struct parser){.file = name,
                             .at = text,
                             .end = text + length,
                             .line_start = text,
                             .kind_count = 1,
                             .err = err};
        t->family = &topo_graph_family;
        code = read_lines(p);
    }
    if (!code)
        code = assemble(p, t);
    if (!code)
        code = check_hosts(p, t);
    if (!code)
        code = topo_build_graph(t, name, err);
    if (p) {
        free(p->names);
        free(p->is_host);
        free(p->line_of);
        hash_table_free(&p->by_name);
        hash_table_free(&p->by_value);
        free(p->wires);
        free(p);
    }
    if (code)
        topology_destroy(t);
    else
        *out = t;
    return code;
}
