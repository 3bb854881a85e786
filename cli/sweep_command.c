/* The command that is swept, and how a value gets into it: where {NAME} stands, as the option
 * --NAME, or as --set NAME=VALUE, in this order. What is added goes right behind the command's
 * name, since words at the end may be a program's. */
#include "sweep.h"

#include <stdlib.h>
#include <string.h>

static const struct cli_option *find_option(const struct cli_command *command, const char *name,
                                            size_t length) {
    for (const struct cli_option *o = command->options; o && o->name; o++)
        if (strlen(o->name) == length && memcmp(o->name, name, length) == 0)
            return o;
    return NULL;
}

/* The option that a word is, with its value if it has one. Moves *i over a value of its own. */
static const struct cli_option *option_at(const struct sweep_command *c, int *i,
                                          const char **value) {
    const char *word = c->word[*i];
    const struct cli_option *o = NULL;
    *value = NULL;
    if (word[0] != '-' || !word[1])
        return NULL;
    if (word[1] == '-') {
        o = find_option(c->made, word + 2, strcspn(word + 2, "="));
        const char *equals = strchr(word, '=');
        *value = equals ? equals + 1 : NULL;
    } else {
        for (o = c->made->options; o && o->name && o->letter != word[1]; o++)
            ;
        if (o && !o->name)
            o = NULL;
        *value = word[2] ? word + 2 : NULL;
    }
    if (o && cli_takes_next(o, word, *i + 1 < c->words ? c->word[*i + 1] : NULL))
        *value = c->word[++*i];
    return o;
}

static bool is_list(const struct cli_option *o) {
    return o->kind == CLI_LIST || o->kind == CLI_OUTPUTS || o->kind == CLI_PASS;
}

/* A swept option or parameter that the command has as well: which of them should count? */
static int check_given(const struct cli_command *command, const struct sweep_command *c,
                       const char *name, enum sweep_way way) {
    for (int i = c->path; i < c->words; i++) {
        const char *value;
        const struct cli_option *o = option_at(c, &i, &value);
        size_t length = strlen(name);
        if (!o)
            continue;
        if (way == SWEEP_SET ? strcmp(o->name, "set") == 0 && value &&
                                   strncmp(value, name, length) == 0 && value[length] == '='
                             : !is_list(o) && strcmp(o->name, name) == 0)
            return cli_error(command, CLI_USAGE,
                             "%s is swept and given in the command as well: leave one of them out",
                             name);
    }
    return 0;
}

/* Points that run at the same time would write one file. */
static int check_outputs(const struct cli_command *command, const struct sweep_command *c,
                         const struct sweep_plan *plan) {
    for (int i = c->path; i < c->words && plan->points > 1; i++) {
        const char *value;
        const struct cli_option *o = option_at(c, &i, &value);
        if (o && (o->kind == CLI_OUTPUT || o->kind == CLI_RESULT) && value && !strchr(value, '{') &&
            strncmp(value, "/dev/", 5) != 0)
            return cli_error(command, CLI_USAGE,
                             "--%s: all points would write %s; put {point}, their number, or a "
                             "swept {NAME} into it",
                             o->name, value);
    }
    return 0;
}

static bool is_place(const struct sweep_command *c, const char *name) {
    char place[128];
    snprintf(place, sizeof place, "{%s}", name);
    for (int i = c->path; i < c->words; i++)
        if (strstr(c->word[i], place))
            return true;
    return false;
}

/* ---- parameters that --set knows ---- */

static bool of_card(const char *name) {
    struct spin_card *card;
    struct spin_parameter row;
    bool found = false;
    if (spin_card_new(&card, "pspin", NULL))
        return true; /* the command itself will say what is wrong */
    for (int i = 0; !found && spin_card_parameter(card, i, &row); i++)
        found = strcmp(row.name, name) == 0;
    spin_card_free(card);
    return found;
}

static bool of_goal(const char *name) {
    struct spin_loggops loggops;
    struct spin_packet packet;
    struct spin_parameter row;
    bool found = false;
    if (spin_loggops_preset("sc17-int", &loggops, NULL) ||
        spin_packet_preset("sc17-int", &packet, NULL))
        return true;
    for (int i = 0; !found && spin_loggops_parameter(&loggops, NULL, i, &row); i++)
        found = strcmp(row.name, name) == 0;
    for (int i = 0; !found && spin_packet_parameter(&packet, NULL, i, &row); i++)
        found = strcmp(row.name, name) == 0;
    return found;
}

static bool of_world(const char *name) {
    struct spin_world *world;
    size_t ranks = strspn(name, "0123456789-,"); /* "0-3:hpus", of some ranks */
    name += ranks && name[ranks] == ':' ? ranks + 1 : 0;
    struct spin_parameter row;
    bool found = false;
    const char *const pspin[] = {"card=pspin"}; /* so that its parameters are there */
    const struct spin_world_options one = {.ranks = 1, .set = pspin, .set_count = 1};
    if (spin_world_new(&world, &one, NULL))
        return true;
    for (int i = 0; !found && spin_world_parameter(world, i, &row); i++)
        found = strcmp(row.name, name) == 0;
    spin_world_free(world);
    return found;
}

static bool is_parameter(const struct cli_command *made, const char *name) {
    static const struct {
        const char *command;
        bool (*has)(const char *name);
    } commands[] = {{"card run", of_card}, {"goal run", of_goal}, {"sim run", of_world}};
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        if (strcmp(made->name, commands[i].command) == 0)
            return commands[i].has(name);
    return false;
}

/* ---- finding out ---- */

static int find_way(const struct cli_command *command, const struct sweep_command *c,
                    const char *name, enum sweep_way *way) {
    const struct cli_option *o = find_option(c->made, name, strlen(name));
    if (is_place(c, name)) {
        *way = SWEEP_PLACE;
        return 0;
    }
    if (o)
        *way = o->kind == CLI_FLAG ? SWEEP_FLAG : SWEEP_OPTION;
    else if (is_parameter(c->made, name))
        *way = SWEEP_SET;
    else
        return cli_error(
            command, CLI_USAGE, "'%s' is no option%s of %s; put {%s} where its values belong", name,
            find_option(c->made, "set", 3) ? " or parameter" : "", c->made->name, name);
    if (o && (o->kind == CLI_OUTPUT || o->kind == CLI_RESULT))
        return cli_error(command, CLI_USAGE, "%s is a file to write, nothing to sweep", name);
    return check_given(command, c, name, *way);
}

/* A flag is on or off. */
static int check_flag(const struct cli_command *command, const struct sweep_plan *plan,
                      int column) {
    for (uint32_t p = 0; p < plan->points; p++) {
        const char *value = sweep_value(plan, p, column);
        if (strcmp(value, "on") != 0 && strcmp(value, "off") != 0)
            return cli_error(command, CLI_USAGE, "%s: '%s' is not on or off, and --%s is no more",
                             sweep_name(plan, column), value, sweep_name(plan, column));
    }
    return 0;
}

int sweep_command_find(const struct cli_command *command, const struct cli_list *words,
                       const struct sweep_plan *plan, struct sweep_command *into) {
    *into = (struct sweep_command){.word = words->items, .words = words->count};
    const struct cli_command *at = &cli_root;
    while (at->commands && into->path < words->count) {
        const struct cli_command *const *sub = at->commands;
        while (*sub && strcmp(cli_last_word(*sub), words->items[into->path]) != 0)
            sub++;
        if (!*sub)
            break;
        at = *sub;
        into->path++;
    }
    if (!words->count)
        return cli_error(command, CLI_USAGE, "of which command? usage: openspin sweep %s",
                         command->args);
    if (at->commands || !find_option(at, "json", 4))
        return cli_error(command, CLI_USAGE,
                         "'%s' cannot be swept: it takes a command that prints results with --json "
                         "(budget, card run, goal run, sim run)",
                         words->items[into->path ? into->path - 1 : 0]);
    into->made = at;
    into->way = calloc((size_t)plan->columns, sizeof *into->way);
    int status = into->way ? 0 : cli_error(command, CLI_FAILED, "out of memory");
    for (int c = 0; c < plan->columns && !status; c++) {
        status = find_way(command, into, sweep_name(plan, c), &into->way[c]);
        if (!status && into->way[c] == SWEEP_FLAG)
            status = check_flag(command, plan, c);
    }
    return status ? status : check_outputs(command, into, plan);
}

void sweep_command_free(struct sweep_command *c) {
    free(c->way);
    *c = (struct sweep_command){0};
}

/* ---- the words of a point ---- */

/* Writes argv's words one after the other; counts only while `to` is NULL. */
struct writer {
    char *to;
    char **argv;
    size_t bytes;
    int count;
};

static void put(struct writer *w, const char *text, size_t length) {
    if (w->to)
        memcpy(w->to + w->bytes, text, length);
    w->bytes += length;
}

static void begin_word(struct writer *w) {
    if (w->argv)
        w->argv[w->count] = w->to + w->bytes;
    w->count++;
}

static void put_words(struct writer *w, const char *const *texts) {
    begin_word(w);
    for (; *texts; texts++)
        put(w, *texts, strlen(*texts));
    put(w, "", 1);
}

/* The value of {name}, or NULL for braces that mean something else. */
static const char *placed(const struct sweep_plan *plan, uint32_t point, const char *name,
                          size_t length, char *number, size_t room) {
    for (int c = 0; c < plan->columns; c++) {
        const char *own = sweep_name(plan, c);
        if (strlen(own) == length && memcmp(own, name, length) == 0)
            return sweep_value(plan, point, c);
    }
    if (length != 5 || memcmp(name, "point", 5) != 0)
        return NULL;
    snprintf(number, room, "%u", point + 1);
    return number;
}

static void put_filled(struct writer *w, const struct sweep_plan *plan, uint32_t point,
                       const char *word) {
    char number[16];
    begin_word(w);
    while (*word) {
        size_t plain = strcspn(word, "{");
        put(w, word, plain);
        word += plain;
        if (!*word)
            break;
        size_t length = strcspn(word + 1, "}");
        const char *value =
            word[1 + length] ? placed(plan, point, word + 1, length, number, sizeof number) : NULL;
        if (value)
            put(w, value, strlen(value));
        else
            put(w, word, 1);
        word += value ? length + 2 : 1;
    }
    put(w, "", 1);
}

static void put_point(struct writer *w, const struct sweep_command *c,
                      const struct sweep_plan *plan, uint32_t point) {
    put_words(w, (const char *const[]){"openspin", NULL});
    for (int i = 0; i < c->path; i++)
        put_words(w, (const char *const[]){c->word[i], NULL});
    put_words(w, (const char *const[]){"--json", NULL});
    for (int k = 0; k < plan->columns; k++) {
        const char *name = sweep_name(plan, k), *value = sweep_value(plan, point, k);
        if (c->way[k] == SWEEP_OPTION)
            put_words(w, (const char *const[]){"--", name, "=", value, NULL});
        else if (c->way[k] == SWEEP_SET)
            put_words(w, (const char *const[]){"--set=", name, "=", value, NULL});
        else if (c->way[k] == SWEEP_FLAG && strcmp(value, "on") == 0)
            put_words(w, (const char *const[]){"--", name, NULL});
    }
    for (int i = c->path; i < c->words; i++)
        put_filled(w, plan, point, c->word[i]);
}

char **sweep_argv(const struct sweep_command *c, const struct sweep_plan *plan, uint32_t point,
                  int *argc) {
    struct writer w = {0};
    put_point(&w, c, plan, point);
    size_t pointers = (size_t)(w.count + 1) * sizeof(char *);
    char **argv = malloc(pointers + w.bytes);
    if (!argv)
        return NULL;
    *argc = w.count;
    w = (struct writer){.to = (char *)argv + pointers, .argv = argv};
    put_point(&w, c, plan, point);
    argv[*argc] = NULL;
    return argv;
}
