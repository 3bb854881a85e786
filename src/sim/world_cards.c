#include "sim/world_cards.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/grow.h"
#include "base/text.h"
#include "sim/rank_set.h"

#define LARGEST_FILE  (256u << 10)
#define MOST_SECTIONS 1024u /* each looks at every rank, each line at every card */
#define MOST_PROGRAMS 256u
#define MOST_ENTRIES  1024u /* of a card: as an interface has */

/* ---- descriptions ---- */

static struct host_config host_of(const struct world_params *p) {
    return (struct host_config){
        .cpus = (uint32_t)p->cores,
        .cycle_ps = p->cpu_cycle,
        .memory_latency_ps = p->memory_latency,
        .memory_fs_per_byte = p->network.memory_fs,
        .dma_latency_ps = p->network.dma_latency_ps,
        .dma_fs_per_byte = p->network.dma_fs,
    };
}

static struct world_card *add_card(struct world_cards *c) {
    if (!ROOM_FOR_ONE(c->card, c->count, c->room, 4))
        return NULL;
    struct world_card *card = calloc(1, sizeof *card);
    if (card)
        c->card[c->count++] = card;
    return card;
}

int world_cards_new(struct world_cards *c, uint32_t ranks, const struct world_params *usual,
                    struct spin_error *err) {
    *c = (struct world_cards){.ranks = ranks, .of = calloc(ranks, sizeof *c->of)};
    struct world_card *card = c->of ? add_card(c) : NULL;
    if (!card)
        return spin_fail(err, SPIN_ENOMEM, "out of memory for %u ranks", ranks);
    card->params = *usual;
    card->host = host_of(usual);
    card->members = ranks;
    return SPIN_OK;
}

void world_cards_free(struct world_cards *c) {
    for (uint32_t i = 0; i < c->count; i++)
        free(c->card[i]);
    for (uint32_t i = 0; i < c->settings; i++)
        free(c->setting[i].name);
    for (struct world_launch *l = c->launches, *next; l; l = next) {
        next = l->next;
        free(l->text);
        free(l);
    }
    for (struct world_entry *e = c->entries, *next; e; e = next) {
        next = e->made;
        world_entry_free(e);
    }
    free(c->card);
    free(c->setting);
    free(c->of);
    free(c->about);
    *c = (struct world_cards){0};
}

/* Those of the set have a description of their own, which is `chosen`; another than before if they
 * shared it with ranks outside. */
static bool split(struct world_cards *c, const uint8_t *set) {
    uint32_t before = c->count;
    for (uint32_t i = 0; i < before; i++)
        c->card[i]->inside = 0;
    for (uint32_t r = 0; r < c->ranks; r++)
        c->card[c->of[r]]->inside += rank_set_has(set, r);
    for (uint32_t i = 0; i < before; i++) {
        struct world_card *whole = c->card[i], *own;
        whole->chosen = whole->inside && whole->inside == whole->members;
        whole->becomes = i;
        if (!whole->inside || whole->chosen)
            continue;
        if (!(own = add_card(c)))
            return false;
        *own = *whole;
        own->members = own->inside;
        own->chosen = true;
        whole->members -= whole->inside;
        whole->becomes = c->count - 1;
    }
    for (uint32_t r = 0; r < c->ranks; r++)
        if (rank_set_has(set, r))
            c->of[r] = c->card[c->of[r]]->becomes;
    return true;
}

/* ---- what is said of them ---- */

static void without_blanks(char *text) {
    char *to = text;
    for (const char *from = text; *from; from++)
        if (!isspace((unsigned char)*from))
            *to++ = *from;
    *to = 0;
}

/* What comes next is about these ranks. */
static int begin_section(struct world_cards *c, const char *ranks, struct spin_error *err) {
    uint8_t *set;
    if (c->sections++ == MOST_SECTIONS)
        return spin_fail(err, SPIN_ELIMIT, "more than %u groups of ranks", MOST_SECTIONS);
    char *about = strdup(ranks);
    if (!about)
        return spin_fail(err, SPIN_ENOMEM, "out of memory");
    without_blanks(about);
    free(c->about);
    c->about = about;
    int code = rank_set_read(&set, about, c->ranks, err);
    if (code)
        return code;
    if (!split(c, set))
        code = spin_fail(err, SPIN_ENOMEM, "out of memory for the cards of %u ranks", c->ranks);
    free(set);
    return code;
}

/* For reports. */
static int note_setting(struct world_cards *c, const char *assignment, struct spin_error *err) {
    size_t bytes = strlen(c->about) + strlen(assignment) + 2;
    char *name = malloc(bytes);
    uint32_t rank = (uint32_t)strtoul(c->about, NULL, 10);
    if (name)
        snprintf(name, bytes, "%s:%.*s", c->about, (int)strcspn(assignment, "="), assignment);
    if (!name || !ROOM_FOR_ONE(c->setting, c->settings, c->setting_room, 8)) {
        free(name);
        return spin_fail(err, SPIN_ENOMEM, "out of memory");
    }
    c->setting[c->settings++] = (struct world_setting){name, rank};
    return SPIN_OK;
}

static struct world_launch *launch_of(struct world_cards *c, const char *text,
                                      struct spin_error *err) {
    struct world_launch *l = c->launches;
    while (l && strcmp(l->text, text) != 0)
        l = l->next;
    if (l)
        return l;
    if (c->launch_count == MOST_PROGRAMS) {
        spin_fail(err, SPIN_ELIMIT, "more than %u programs", MOST_PROGRAMS);
        return NULL;
    }
    l = calloc(1, sizeof *l);
    if (!l || !(l->text = strdup(text))) {
        free(l);
        spin_fail(err, SPIN_ENOMEM, "out of memory");
        return NULL;
    }
    l->next = c->launches;
    c->launches = l;
    c->launch_count++;
    return l;
}

/* "none", or a shared object and its arguments. */
static int set_program(struct world_cards *c, const char *text, struct spin_error *err) {
    bool none = strcmp(text, "none") == 0;
    struct spin_error why = {0};
    if (!*text)
        return spin_fail(err, SPIN_EARG, "program: none, or a shared object and its arguments");
    struct world_launch *launch = none ? NULL : launch_of(c, text, &why);
    if (!none && !launch)
        return spin_fail(err, (enum spin_code)why.code, "%s", why.text);
    for (uint32_t i = 0; i < c->count; i++)
        if (c->card[i]->chosen) {
            c->card[i]->no_program = none;
            c->card[i]->launch = launch;
        }
    return SPIN_OK;
}

/* Of ranks that have no program. */
static int add_entry(struct world_cards *c, const char *text, struct spin_error *err) {
    for (uint32_t i = 0; i < c->count; i++) {
        struct world_card *card = c->card[i];
        struct world_entry *e;
        if (!card->chosen)
            continue;
        if (!card->no_program)
            return spin_fail(err, SPIN_EARG,
                             "entry: of ranks with 'program = none', which comes before it; a "
                             "program appends its entries itself");
        if (card->entry_count == MOST_ENTRIES)
            return spin_fail(err, SPIN_ELIMIT, "entry: more than %u of a card", MOST_ENTRIES);
        int code = world_entry_read(&e, text, err);
        if (code) {
            world_entry_free(e);
            return code;
        }
        e->made = c->entries;
        c->entries = e;
        e->next = card->entries;
        card->entries = e;
        card->entry_count++;
    }
    return SPIN_OK;
}

/* "preset=sc17-dis": how these ranks' cards reach host memory, which is what presets differ in. The
 * network and all else is the world's. */
static int set_preset(struct world_cards *c, const char *name, struct spin_error *err) {
    struct world_params of;
    int code = world_params_preset(&of, name, err);
    for (uint32_t i = 0; i < c->count && !code; i++) {
        struct world_card *card = c->card[i];
        if (!card->chosen)
            continue;
        card->params.network.dma_latency_ps = of.network.dma_latency_ps;
        card->params.network.dma_fs = of.network.dma_fs;
        card->host = host_of(&card->params);
    }
    code = code ? code : note_setting(c, "dma_latency", err);
    return code ? code : note_setting(c, "dma_rate", err);
}

static int set_chosen(struct world_cards *c, const char *assignment, struct spin_error *err) {
    if (strncmp(assignment, "preset=", 7) == 0)
        return set_preset(c, assignment + 7, err);
    if (strncmp(assignment, "program=", 8) == 0)
        return set_program(c, assignment + 8, err);
    if (strncmp(assignment, "entry=", 6) == 0)
        return add_entry(c, assignment + 6, err);
    for (uint32_t i = 0; i < c->count; i++) {
        struct world_card *card = c->card[i];
        if (!card->chosen)
            continue;
        int code = world_params_set_own(&card->params, assignment, err);
        if (code)
            return code;
        card->host = host_of(&card->params);
    }
    return note_setting(c, assignment, err);
}

/* ---- one assignment: "4-7:hpus=0" ---- */

const char *world_cards_behind(const char *assignment) {
    size_t colon = strcspn(assignment, ":=");
    return isdigit((unsigned char)*assignment) && assignment[colon] == ':' ? assignment + colon + 1
                                                                           : NULL;
}

int world_cards_set(struct world_cards *c, const char *assignment, struct spin_error *err) {
    const char *behind = world_cards_behind(assignment);
    char *ranks = strndup(assignment, (size_t)(behind - assignment) - 1);
    if (!ranks)
        return spin_fail(err, SPIN_ENOMEM, "out of memory");
    int code = begin_section(c, ranks, err);
    free(ranks);
    return code ? code : set_chosen(c, behind, err);
}

/* ---- files ---- */

/* Lines whose values are words, with blanks and commas. */
static bool is_words(const char *line) {
    size_t length = strcspn(line, " \t=");
    return (length == 7 && memcmp(line, "program", 7) == 0) ||
           (length == 5 && memcmp(line, "entry", 5) == 0);
}

/* "program = none" becomes "program=none", in place; NULL: it has no '='. */
static char *words_assignment(char *line) {
    size_t name = strcspn(line, " \t=");
    const char *equals = line + name + strspn(line + name, " \t");
    if (*equals != '=')
        return NULL;
    const char *value = equals + 1 + strspn(equals + 1, " \t");
    size_t length = strlen(value);
    while (length && isspace((unsigned char)value[length - 1]))
        length--;
    line[name] = '=';
    memmove(line + name + 1, value, length);
    line[name + 1 + length] = 0;
    return line;
}

static int read_line(struct world_cards *c, char *line, struct spin_error *err) {
    if (strncmp(line, "ranks", 5) == 0 && isblank((unsigned char)line[5]))
        return begin_section(c, line + 6, err);
    char shown[60];
    text_show(shown, sizeof shown, line);
    const char *assignment = is_words(line) ? words_assignment(line) : text_assignment(line);
    if (!assignment)
        return spin_fail(err, SPIN_EFORMAT, "'%s' is neither 'ranks 0-3,7' nor NAME = VALUE",
                         shown);
    if (!c->about)
        return spin_fail(err, SPIN_EFORMAT,
                         "'%s': of which ranks? a line such as 'ranks 0-3,7' comes first", shown);
    return set_chosen(c, assignment, err);
}

int world_cards_text(struct world_cards *c, const char *path, char *text, struct spin_error *err) {
    int number = 0;
    for (char *line = text, *next; *line; line = next) {
        size_t length = strcspn(line, "\n");
        next = line + length + (line[length] == '\n');
        line[length] = 0;
        number++;
        line += strspn(line, " \t\r");
        if (!*line || *line == '#')
            continue;
        struct spin_error why;
        int code = read_line(c, line, &why);
        if (code)
            return spin_fail(err, code == SPIN_ENOMEM ? SPIN_ENOMEM : SPIN_EFORMAT, "%s:%d: %s",
                             path, number, why.text);
    }
    return SPIN_OK;
}

int world_cards_file(struct world_cards *c, const char *path, struct spin_error *err) {
    uint8_t *data;
    size_t length;
    int code = file_read(path, "description of cards", LARGEST_FILE, &data, &length, err);
    if (code)
        return code;
    if (strlen((const char *)data) != length)
        code = spin_fail(err, SPIN_EFORMAT, "%s: holds a byte 0; this is no file of cards", path);
    else
        code = world_cards_text(c, path, (char *)data, err);
    free(data);
    return code;
}

/* ---- reports ---- */

bool world_cards_row(const struct world_cards *c, const char *preset, int i,
                     struct spin_parameter *row) {
    if (i < 0 || (uint32_t)i >= c->settings)
        return false;
    const struct world_setting *s = &c->setting[i];
    struct world_params of = c->card[c->of[s->rank]]->params;
    const char *name = world_cards_behind(s->name);
    if (strncmp(name, "pspin.", 6) == 0)
        of.is_pspin = true; /* else it has no such rows */
    for (int k = 0; world_params_row(&of, preset, k, row); k++)
        if (strcmp(row->name, name) == 0)
            break;
    row->name = s->name;
    row->source = SPIN_SET_BY_USER;
    return true;
}
