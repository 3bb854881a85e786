#include "cli.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/text.h"
#include "base/units.h"
#include "outputs.h"

static void print_error(const struct cli_command *command, const char *format, va_list args) {
    const char *name = command->name;
    if (strcmp(name, "openspin") == 0)
        fputs("openspin: ", stderr);
    else
        fprintf(stderr, "openspin %s: ", name);
    char text[2000], shown[sizeof text];
    vsnprintf(text, sizeof text, format, args);
    text_show(shown, sizeof shown, text);
    fprintf(stderr, "%s\n", shown);
}

int cli_error(const struct cli_command *command, int status, const char *format, ...) {
    va_list args;
    va_start(args, format);
    print_error(command, format, args);
    va_end(args);
    return status;
}

int cli_report(const struct cli_command *command, const struct spin_error *err) {
    return cli_error(command, err->code == SPIN_EARG ? CLI_USAGE : CLI_FAILED, "%s", err->text);
}

static bool list_add(struct cli_list *list, const char *item) {
    const char **larger = realloc(list->items, sizeof *larger * (size_t)(list->count + 1));
    if (!larger)
        return false;
    list->items = larger;
    list->items[list->count++] = item;
    return true;
}

static const struct cli_option *find_long(const struct cli_command *command, const char *text) {
    size_t length = strcspn(text, "=");
    for (const struct cli_option *o = command->options; o && o->name; o++)
        if (strlen(o->name) == length && memcmp(o->name, text, length) == 0)
            return o;
    return NULL;
}

static const struct cli_option *find_short(const struct cli_command *command, char letter) {
    for (const struct cli_option *o = command->options; o && o->name; o++)
        if (o->letter == letter)
            return o;
    return NULL;
}

/* A number, but more than 64 bits of it. */
static bool is_huge(const char *text) {
    uint64_t number;
    size_t digits = strspn(text, "0123456789");
    return digits && !text[digits] && !units_u64(text, &number);
}

/* `shown` is the option as the user wrote it, for messages. */
static int store(const struct cli_command *command, const struct cli_option *o, const char *shown,
                 const char *value, void *into) {
    void *at = (char *)into + o->offset;
    uint64_t number;
    switch (o->kind) {
    case CLI_FLAG:
        *(bool *)at = true;
        return 0;
    case CLI_STRING:
    case CLI_OUTPUT:
        *(const char **)at = value;
        return 0;
    case CLI_RESULT:
        *(const char **)at = value ? value : "-";
        return 0;
    case CLI_LIST:
    case CLI_OUTPUTS:
    case CLI_PASS:
        if (!list_add(at, value))
            return cli_error(command, CLI_FAILED, "out of memory");
        return 0;
    case CLI_NUMBER:
    case CLI_SIZE:
        if (is_huge(value))
            number = UINT64_MAX;
        else if (!(o->kind == CLI_NUMBER ? units_u64(value, &number) : units_size(value, &number)))
            return cli_error(command, CLI_USAGE, "%s: '%s' is not a %s", shown, value,
                             o->kind == CLI_NUMBER ? "number" : "size (such as 4096 or 32KiB)");
        if (number < o->min || number > o->max || is_huge(value))
            return cli_error(command, CLI_USAGE, "%s: %s is outside %llu to %llu", shown, value,
                             (unsigned long long)o->min, (unsigned long long)o->max);
        *(uint64_t *)at = number;
        return 0;
    }
    return 0;
}

bool cli_takes_next(const struct cli_option *o, const char *word, const char *next) {
    bool whole = word[1] == '-' ? strchr(word, '=') != NULL : word[2] != 0;
    if (o->kind == CLI_FLAG || whole || !next)
        return false;
    if (o->kind != CLI_RESULT)
        return true;
    const char *dot = strrchr(next, '.');
    return dot && strcmp(dot + 1, o->name) == 0;
}

static int unknown_option(const struct cli_command *command, const char *word) {
    struct text_near near = text_near(word + 2, strcspn(word + 2, "="));
    for (const struct cli_option *o = command->options; o && o->name; o++)
        text_near_try(&near, o->name);
    char hint[80] = "";
    if (near.best)
        snprintf(hint, sizeof hint, " (did you mean '--%s'?)", near.best);
    return cli_error(command, CLI_USAGE, "unknown option '%s'%s; see 'openspin %s --help'", word,
                     hint, command->name);
}

static int parse_long(const struct cli_command *command, int argc, char **argv, int *i,
                      void *into) {
    const char *text = argv[*i] + 2;
    const struct cli_option *o = find_long(command, text);
    if (!o)
        return unknown_option(command, argv[*i]);
    char shown[64];
    snprintf(shown, sizeof shown, "--%s", o->name);
    const char *value = strchr(text, '=');
    if (o->kind == CLI_FLAG) {
        if (value)
            return cli_error(command, CLI_USAGE, "%s takes no value", shown);
        return store(command, o, shown, NULL, into);
    }
    if (value)
        value++;
    else if (cli_takes_next(o, argv[*i], *i + 1 < argc ? argv[*i + 1] : NULL))
        value = argv[++*i];
    if ((!value && o->kind != CLI_RESULT) || (value && !*value && o->kind == CLI_RESULT))
        return cli_error(command, CLI_USAGE, "%s needs a value: %s %s", shown, shown, o->arg);
    return store(command, o, shown, value, into);
}

static int parse_short(const struct cli_command *command, int argc, char **argv, int *i,
                       void *into) {
    const char *text = argv[*i];
    const struct cli_option *o = find_short(command, text[1]);
    if (!o || (o->kind == CLI_FLAG && text[2]))
        return cli_error(command, CLI_USAGE, "unknown option '%s'; see 'openspin %s --help'", text,
                         command->name);
    char shown[] = {'-', o->letter, 0};
    if (o->kind == CLI_FLAG)
        return store(command, o, shown, NULL, into);
    if (o->kind == CLI_PASS) {
        /* "-O2" is one word and "-D NAME" two: pass on what was written. A bare -g or -O is whole,
         * the others need their value. */
        int code = store(command, o, shown, text, into);
        bool lone = o->letter == 'g' || o->letter == 'O';
        if (code || text[2] || lone)
            return code;
    }
    const char *value = text[2] == '=' ? text + 3 : text[2] ? text + 2 : NULL;
    if (cli_takes_next(o, text, *i + 1 < argc ? argv[*i + 1] : NULL))
        value = argv[++*i];
    if ((!value && o->kind != CLI_RESULT) || (value && !*value && o->kind == CLI_RESULT))
        return cli_error(command, CLI_USAGE, "%s needs a value: %s %s", shown, shown, o->arg);
    return store(command, o, shown, value, into);
}

/* How many words are the command's: all, or those up to the name of the program that it launches.
 */
static int own_words(const struct cli_command *command, int argc, char **argv) {
    for (int i = 1; command->launches && i < argc; i++) {
        if (strcmp(argv[i], "--") == 0)
            return i + 1 < argc ? i + 2 : argc;
        if (argv[i][0] != '-')
            return i + 1;
        const struct cli_option *o =
            argv[i][1] == '-' ? find_long(command, argv[i] + 2) : find_short(command, argv[i][1]);
        if (o && cli_takes_next(o, argv[i], i + 1 < argc ? argv[i + 1] : NULL))
            i++;
    }
    return argc;
}

int cli_parse(const struct cli_command *command, int argc, char **argv, void *into,
              struct cli_list *operands) {
    *operands = (struct cli_list){0};
    bool only_operands = false;
    int own = own_words(command, argc, argv);
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i];
        int code = 0;
        if (only_operands || i >= own || word[0] != '-' || !word[1]) {
            if (!list_add(operands, word))
                code = cli_error(command, CLI_FAILED, "out of memory");
        } else if (strcmp(word, "--") == 0) {
            only_operands = true;
        } else if (word[1] == '-') {
            code = parse_long(command, argc, argv, &i, into);
        } else {
            code = parse_short(command, argc, argv, &i, into);
        }
        if (code)
            return code;
    }
    return cli_check_outputs(command, argc, argv, into);
}

void cli_free(const struct cli_command *command, void *into, struct cli_list *operands) {
    for (const struct cli_option *o = command->options; o && o->name; o++)
        if (o->kind == CLI_LIST || o->kind == CLI_OUTPUTS || o->kind == CLI_PASS) {
            /* Several letters may share one list (-O -D -I of cc): free it once. */
            struct cli_list *list = (struct cli_list *)(void *)((char *)into + o->offset);
            free(list->items);
            *list = (struct cli_list){0};
        }
    free(operands->items);
    *operands = (struct cli_list){0};
}

static int read_time(const struct cli_command *command, const char *option, const char *text,
                     uint64_t *ps) {
    if (!text || units_time_ps(text, ps))
        return 0;
    return cli_error(command, CLI_USAGE, "%s: '%s' is not a time (such as 10us)", option, text);
}

int cli_view(const struct cli_command *command, const struct cli_view *of, struct spin_view *view) {
    *view = (struct spin_view){.ranks = of->only};
    int status = read_time(command, "--from", of->from, &view->from_ps);
    return status ? status : read_time(command, "--to", of->to, &view->to_ps);
}

int cli_result(const struct cli_command *command, const char *path,
               void (*print)(FILE *out, const void *what), const void *what) {
    struct file_out file;
    struct spin_error err;
    if (strcmp(path, "-") == 0) {
        print(stdout, what);
        return 0;
    }
    if (file_out_open(&file, path, &err))
        return cli_report(command, &err);
    print(file.stream, what);
    return file_out_commit(&file, &err) ? cli_report(command, &err) : 0;
}

bool cli_is_printed(const char *json, const char *csv) {
    return (json && strcmp(json, "-") == 0) || (csv && strcmp(csv, "-") == 0);
}

int cli_noise(const struct cli_command *command, const char *text, struct spin_noise *noise) {
    char period[64];
    const char *comma = strchr(text, ',');
    size_t length = comma ? (size_t)(comma - text) : sizeof period;
    if (length < sizeof period) {
        memcpy(period, text, length);
        period[length] = 0;
        if (units_time_ps(period, &noise->period_ps) && noise->period_ps > 0 &&
            units_time_ps(comma + 1, &noise->length_ps))
            return 0;
    }
    return cli_error(command, CLI_USAGE, "--noise: '%s' is not PERIOD,LENGTH (such as 1ms,25us)",
                     text);
}

int cli_rate(const struct cli_command *command, const char *shown, const char *text,
             uint64_t *bits_per_s) {
    if (units_rate(text, bits_per_s) && *bits_per_s <= 1000000000000000)
        return 0;
    return cli_error(command, CLI_USAGE,
                     "%s: '%s' is no rate up to 1000Tbit/s (such as 400Gbit/s, or 12.5 in Gbit/s)",
                     shown, text);
}

int cli_clock(const struct cli_command *command, const char *shown, const char *text,
              uint64_t *cycle_ps) {
    if (units_clock_ps(text, cycle_ps) && *cycle_ps <= 1000000)
        return 0;
    return cli_error(command, CLI_USAGE,
                     "%s: '%s' is no frequency from 1MHz to 1000GHz (such as 2GHz, or 1500 in MHz)",
                     shown, text);
}

int cli_jit(const struct cli_command *command, const char *text, enum spin_jit *mode) {
    *mode = SPIN_JIT_ON;
    if (text && !spin_jit_parse(text, mode))
        return cli_error(command, CLI_USAGE, "--jit: '%s' is not off, on or force", text);
    return 0;
}

const char *cli_last_word(const struct cli_command *command) {
    const char *blank = strrchr(command->name, ' ');
    return blank ? blank + 1 : command->name;
}

/* One option, its text in lines of at most 100 columns. */
static void print_option(const char *left, const char *help) {
    enum { MARGIN = 27, COLUMNS = 100 };
    int at = printf("  %-24s", left);
    while (*help) {
        int word = (int)strcspn(help, " ");
        if (at + 1 + word > COLUMNS)
            at = printf("\n%*s", MARGIN - 1, "") - 1;
        at += printf(" %.*s", word, help);
        help += word + (help[word] == ' ');
    }
    printf("\n");
}

static void print_help(const struct cli_command *command) {
    bool root = command == &cli_root;
    printf("usage: openspin%s%s %s\n\n%s\n", root ? "" : " ", root ? "" : command->name,
           command->args, command->about ? command->about : command->summary);
    if (command->commands) {
        printf("\nCommands:\n");
        for (const struct cli_command *const *c = command->commands; *c; c++)
            printf("  %-12s %s\n", cli_last_word(*c), (*c)->summary);
    }
    printf("\nOptions:\n");
    for (const struct cli_option *o = command->options; o && o->name; o++) {
        char left[64];
        if (o->kind == CLI_PASS)
            snprintf(left, sizeof left, "-%c%s", o->letter, o->arg ? o->arg : "");
        else
            snprintf(left, sizeof left, "%.*s--%s%s%s", o->letter ? 4 : 0,
                     (char[]){'-', o->letter, ',', ' ', 0}, o->name,
                     o->arg && o->kind != CLI_RESULT ? " " : "", o->arg ? o->arg : "");
        print_option(left, o->help);
    }
    print_option("--help", "show this text");
    print_option("--version", "show the version");
}

static bool is_asked(int argc, char **argv, const char *option) {
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], option) == 0)
            return true;
    return false;
}

static const struct cli_command *find_command(const struct cli_command *group, const char *word) {
    for (const struct cli_command *const *c = group->commands; *c; c++)
        if (strcmp(cli_last_word(*c), word) == 0)
            return *c;
    return NULL;
}

static int unknown_command(const struct cli_command *group, const char *word) {
    struct text_near near = text_near(word, strlen(word));
    for (const struct cli_command *const *c = group->commands; *c; c++)
        text_near_try(&near, cli_last_word(*c));
    return cli_error(group, CLI_USAGE, "unknown command '%s'%s; see 'openspin%s%s --help'", word,
                     text_near_hint(&near).text, group == &cli_root ? "" : " ",
                     group == &cli_root ? "" : group->name);
}

/* "openspin help goal run" is "openspin goal run --help". */
static int help_on(const struct cli_command *command, int argc, char **argv) {
    for (int i = 1; i < argc && command->commands; i++) {
        const struct cli_command *group = command;
        command = find_command(group, argv[i]);
        if (!command)
            return unknown_command(group, argv[i]);
    }
    print_help(command);
    return 0;
}

int cli_dispatch(const struct cli_command *group, int argc, char **argv) {
    const struct cli_command *command = group;
    if (group->commands && argc > 1 && argv[1][0] != '-') {
        if (strcmp(argv[1], "help") == 0)
            return help_on(group, argc - 1, argv + 1);
        command = find_command(group, argv[1]);
        if (!command)
            return unknown_command(group, argv[1]);
        if (command->commands)
            return cli_dispatch(command, argc - 1, argv + 1);
        argc--;
        argv++;
    }
    int own = own_words(command, argc, argv);
    if (is_asked(own, argv, "--help")) {
        print_help(command);
        return 0;
    }
    if (is_asked(own, argv, "--version")) {
        printf("openspin %s\n", spin_version());
        return 0;
    }
    if (command->run)
        return command->run(command, argc, argv);
    if (argc > 1)
        return cli_error(command, CLI_USAGE, "unknown option '%s'; see '--help'", argv[1]);
    return cli_error(command, CLI_USAGE, "which command? see 'openspin%s%s --help'",
                     command == &cli_root ? "" : " ", command == &cli_root ? "" : command->name);
}
