/* Words that every compiler knows: one row each. */
#include "cc.h"

#include <stdio.h>
#include <string.h>

enum form { ALONE, JOINED, APART, EITHER }; /* -w, -std=X, -include X, -lX or -l X */
enum role { COMPILE, LINK, DEPENDS, FILE_OF, TARGET, STOP, NOTHING };

static const struct row {
    const char *word;
    enum form form;
    enum role role;
} rows[] = {
    {"-std=", JOINED, COMPILE},
    {"-w", ALONE, COMPILE},
    {"-include", APART, COMPILE},
    {"-imacros", APART, COMPILE},
    {"-isystem", EITHER, COMPILE},
    {"-iquote", EITHER, COMPILE},
    {"-idirafter", EITHER, COMPILE},
    {"-pedantic", ALONE, COMPILE},
    {"-pedantic-errors", ALONE, COMPILE},
    {"-ansi", ALONE, COMPILE},
    {"-MMD", ALONE, DEPENDS},
    {"-MD", ALONE, DEPENDS},
    {"-MP", ALONE, DEPENDS},
    {"-MF", EITHER, FILE_OF},
    {"-MT", EITHER, TARGET},
    {"-MQ", EITHER, TARGET},
    {"-MM", ALONE, STOP},
    {"-M", ALONE, STOP},
    {"-E", ALONE, STOP},
    {"-S", ALONE, STOP},
    {"-c", ALONE, STOP},
    {"-Wl,", JOINED, LINK},
    {"-lm", ALONE, NOTHING},
    {"-lc", ALONE, NOTHING},
    {"-lgcc", ALONE, NOTHING},
    {"-l", EITHER, LINK},
    {"-L", EITHER, LINK},
    {"-nostdlib", ALONE, NOTHING},
    {"-nostartfiles", ALONE, NOTHING},
    {"-nodefaultlibs", ALONE, NOTHING},
    {"-static", ALONE, NOTHING},
    {"-pipe", ALONE, NOTHING},
};

const char *cc_word(int i) {
    return (size_t)i < sizeof rows / sizeof rows[0] ? rows[i].word : NULL;
}

/* Options of our own whose value is the next word, whatever it looks like. */
static bool takes_next(const char *word) {
    static const char *const own[] = {"-o", "-D", "-U", "-I", "--output", "--compiler"};
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        if (strcmp(word, own[i]) == 0)
            return true;
    return false;
}

void cc_add(struct cc_list *list, const char *word) {
    if (list->count + 1 < (int)(sizeof list->word / sizeof list->word[0]))
        list->word[list->count++] = word;
    else
        list->full = true;
}

static const struct row *find(const char *word) {
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        size_t length = strlen(rows[i].word);
        bool whole = rows[i].form == ALONE || rows[i].form == APART;
        if (whole ? strcmp(word, rows[i].word) == 0 : strncmp(word, rows[i].word, length) == 0)
            return &rows[i];
    }
    return NULL;
}

/* -Wl,a,b: the words between the commas. Everything is kept, since a card finds handlers by name.
 */
static void add_linker_words(struct cc_list *list, char *word) {
    for (char *at = strtok(word, ","); at; at = strtok(NULL, ","))
        if (strcmp(at, "--gc-sections") != 0)
            cc_add(list, at);
}

static void take(struct cc_words *w, const struct row *row, char *word, const char *value) {
    switch (row->role) {
    case COMPILE:
    case LINK:
        if (row->form == JOINED && row->role == LINK) {
            add_linker_words(&w->link, word + strlen(row->word));
            return;
        }
        cc_add(row->role == LINK ? &w->link : &w->compile, word);
        if (value)
            cc_add(row->role == LINK ? &w->link : &w->compile, value);
        w->no_warnings |= strcmp(word, "-w") == 0;
        return;
    case TARGET:
        cc_add(&w->target, word);
        if (value)
            cc_add(&w->target, value);
        return;
    case FILE_OF:
        w->depends_file = value ? value : word + strlen(row->word);
        return;
    case DEPENDS:
        w->depends_phony |= word[2] == 'P';
        w->depends |= word[2] != 'P';
        w->depends_all |= strcmp(word, "-MD") == 0;
        return;
    case STOP:
        /* The earliest stop holds, as with any compiler. */
        if (!w->stop || strcmp(w->stop, "-c") == 0 || word[1] == 'M')
            w->stop = row->word;
        w->stop_depends |= word[1] == 'M';
        return;
    case NOTHING:
        return;
    }
}

int cc_split(const struct cli_command *command, int *argc, char **argv, struct cc_words *words) {
    int kept = 1;
    for (int i = 1; i < *argc; i++) {
        if (strcmp(argv[i], "--") == 0) {
            while (i < *argc)
                argv[kept++] = argv[i++];
            break;
        }
        const struct row *row = argv[i][0] == '-' ? find(argv[i]) : NULL;
        if (!row) {
            bool two = takes_next(argv[i]) && i + 1 < *argc;
            argv[kept++] = argv[i];
            if (two)
                argv[kept++] = argv[++i];
            continue;
        }
        bool apart = row->form == APART || (row->form == EITHER && strcmp(argv[i], row->word) == 0);
        if (apart && i + 1 == *argc)
            return cli_error(command, CLI_USAGE, "%s needs a value", row->word);
        char *word = argv[i];
        take(words, row, word, apart ? argv[++i] : NULL);
    }
    *argc = kept;
    argv[kept] = NULL;
    return 0;
}

void cc_suffix(char *to, size_t room, const char *name, const char *suffix) {
    snprintf(to, room - strlen(suffix), "%s", name);
    char *slash = strrchr(to, '/'), *base = slash ? slash + 1 : to, *dot = strrchr(base, '.');
    if (dot && dot != base)
        *dot = 0;
    strcat(to, suffix);
}

bool cc_is_object(const char *source) {
    const char *dot = strrchr(source, '.');
    return dot && (strcmp(dot, ".o") == 0 || strcmp(dot, ".a") == 0);
}

/* ---- -march ---------------------------------------------------------------------------------- */

/* Extensions of one letter that an HPU has; zicsr and zifencei always. */
static bool has_letter(char letter, bool with_float) {
    return strchr("imac", letter) || (letter == 'f' && with_float);
}

/* "rv32imac_zicsr_xpulpv2" letter by letter: what stays, and what is left out. */
static bool read_march(const char *at, bool with_float, char *stays, char *left, size_t room) {
    size_t kept = 4, gone = 0;
    if (strncmp(at, "rv32", 4) != 0 || (at[4] != 'i' && at[4] != 'g'))
        return false;
    memcpy(stays, "rv32", 4);
    at += 4;
    while (*at && kept + 8 < room && gone + 32 < room) {
        size_t length = strchr("zsx", *at) ? strcspn(at, "_") : 1; /* a name, or a letter */
        if (*at == 'g') {                                          /* imafd */
            kept += (size_t)sprintf(stays + kept, "%s", with_float ? "imaf" : "ima");
            gone += (size_t)sprintf(left + gone, "%s", with_float ? " d" : " f d");
        } else if (length == 1 && *at >= 'a' && *at <= 'z' && has_letter(*at, with_float)) {
            stays[kept++] = *at;
        } else if (*at >= 'a' && *at <= 'z' && strncmp(at, "zicsr", length) != 0 &&
                   strncmp(at, "zifencei", length) != 0) {
            gone += (size_t)snprintf(left + gone, 32, " %.*s", (int)length, at);
        } /* a digit or an underscore: the version, the separator */
        at += length;
        if (at[-1] >= '0' && at[-1] <= '9' && *at == 'p')
            at++; /* of a version, 2p0 */
    }
    stays[kept] = 0;
    return *at == 0;
}

int cc_march(const struct cli_command *command, struct cc_words *words, struct cli_list *pass,
             bool with_float, bool is_gcc) {
    char stays[128], left[128] = "";
    for (int i = 0; i < pass->count; i++) {
        const char *word = pass->items[i];
        if (strncmp(word, "-mabi=", 6) == 0 && strcmp(word, "-mabi=ilp32") != 0)
            return cli_error(command, CLI_USAGE, "%s: handlers have -mabi=ilp32", word);
        if (strncmp(word, "-march=", 7) != 0)
            continue;
        left[0] = 0;
        if (!read_march(word + 7, with_float, stays, left, sizeof stays))
            return cli_error(command, CLI_USAGE,
                             "%s: HPUs are rv32imac, and rv32imafc with --float", word);
        snprintf(words->march, sizeof words->march, "-march=%s%s", stays,
                 is_gcc ? "_zicsr_zifencei" : "");
        if (left[0] && !words->no_warnings)
            cli_error(command, 0, "%s: HPUs have no%s; compiled for %s", word, left, stays);
        memmove(&pass->items[i], &pass->items[i + 1],
                sizeof pass->items[0] * (size_t)(pass->count - i - 1));
        pass->count--;
        i--;
    }
    return 0;
}
