/* getopt and its long forms, with all that they remember kept for the rank: between two calls other
 * ranks run, and read options of their own. Words that are no options are moved behind the others,
 * as the GNU C library does. */
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "sim/world_libc.h"

struct parsing {
    struct world_libc *c;
    struct world_own *own;
    int argc;
    char **argv;
    const char *letters;
    const struct option *longs;
    int *which;
    bool one_dash;          /* getopt_long_only: -name is a long option */
    bool in_order, as_ones; /* '+' and '-' */
    bool quiet;
};

static void turn_round(char **words, int count) {
    for (int i = 0; i < count / 2; i++) {
        char *word = words[i];
        words[i] = words[count - 1 - i];
        words[count - 1 - i] = word;
    }
}

/* Options from `after` to optind go before the words from `before` to `after`. */
static void move_words(struct parsing *p) {
    struct world_libc *c = p->c;
    int optind = p->own->optind, words = c->after - c->before, options = optind - c->after;
    if (words && options) {
        turn_round(p->argv + c->before, words);
        turn_round(p->argv + c->after, options);
        turn_round(p->argv + c->before, words + options);
    }
    c->before += options;
    c->after = optind;
}

static bool is_word(const char *text) {
    return text[0] != '-' || !text[1];
}

/* To the next option: 0; a word in its place: 1; the end: -1. */
static int next_word(struct parsing *p) {
    struct world_libc *c = p->c;
    struct world_own *own = p->own;
    if (c->after > own->optind || c->before > own->optind)
        c->after = c->before = own->optind; /* the program has set it back */
    if (!p->in_order && !p->as_ones) {
        if (c->before != c->after && c->after != own->optind)
            move_words(p);
        else if (c->after != own->optind)
            c->before = own->optind;
        while (own->optind < p->argc && is_word(p->argv[own->optind]))
            own->optind++;
        c->after = own->optind;
    }
    if (own->optind < p->argc && strcmp(p->argv[own->optind], "--") == 0) {
        own->optind++;
        if (c->before != c->after && c->after != own->optind)
            move_words(p);
        else if (c->before == c->after)
            c->before = own->optind;
        c->after = own->optind = p->argc;
    }
    if (own->optind >= p->argc) {
        if (c->before != c->after)
            own->optind = c->before;
        return -1;
    }
    if (!is_word(p->argv[own->optind]))
        return 0;
    if (p->in_order)
        return -1;
    own->optarg = p->argv[own->optind++];
    return 1;
}

static void complain(const struct parsing *p, const char *text, const char *what) {
    if (!p->quiet)
        fprintf(stderr, "%s: %s '%s'\n", p->argv[0], text, what);
}

static int missing(const struct parsing *p) {
    return p->letters[0] == ':' ? ':' : '?';
}

/* The option that begins so; -1: none, -2: several that differ. */
static int find_long(const struct parsing *p, const char *name, size_t length) {
    int found = -1;
    for (int i = 0; p->longs && p->longs[i].name; i++) {
        const struct option *o = &p->longs[i];
        if (strncmp(o->name, name, length) != 0)
            continue;
        if (strlen(o->name) == length)
            return i;
        if (found >= 0 && (p->longs[found].has_arg != o->has_arg ||
                           p->longs[found].flag != o->flag || p->longs[found].val != o->val))
            return -2;
        found = found == -1 ? i : found;
    }
    return found;
}

static int take_long(struct parsing *p, int i, const char *equals) {
    const struct option *o = &p->longs[i];
    char *const word = p->argv[p->own->optind++];
    p->c->option_at = NULL;
    p->own->optopt = o->val;
    if (equals && !o->has_arg) {
        complain(p, "this option takes no argument:", word);
        return '?';
    }
    if (equals)
        p->own->optarg = (char *)(uintptr_t)(equals + 1);
    else if (o->has_arg == required_argument) {
        if (p->own->optind >= p->argc) {
            complain(p, "this option needs an argument:", word);
            return missing(p);
        }
        p->own->optarg = p->argv[p->own->optind++];
    }
    if (p->which)
        *p->which = i;
    p->own->optopt = 0;
    if (!o->flag)
        return o->val;
    *o->flag = o->val;
    return 0;
}

/* `name` is behind the dashes. -3: it is none; letters are tried. */
static int try_long(struct parsing *p, const char *name, bool two_dashes) {
    const char *equals = strchr(name, '=');
    size_t length = equals ? (size_t)(equals - name) : strlen(name);
    int i = find_long(p, name, length);
    if (i >= 0)
        return take_long(p, i, equals);
    if (i == -1 && !two_dashes && strchr(p->letters, name[0]))
        return -3;
    complain(p, i == -2 ? "ambiguous option" : "unknown option", p->argv[p->own->optind]);
    p->own->optind++;
    p->own->optopt = 0;
    p->c->option_at = NULL;
    return '?';
}

static int take_letter(struct parsing *p) {
    struct world_libc *c = p->c;
    struct world_own *own = p->own;
    char letter[2] = {*c->option_at++, 0};
    const char *known = letter[0] == ':' || letter[0] == ';' ? NULL : strchr(p->letters, letter[0]);
    char *rest = *c->option_at ? c->option_at : NULL;
    if (!rest) {
        c->option_at = NULL;
        own->optind++;
    }
    own->optopt = (unsigned char)letter[0];
    if (!known) {
        complain(p, "unknown option --", letter);
        return '?';
    }
    own->optopt = 0;
    if (known[1] != ':')
        return (unsigned char)letter[0];
    c->option_at = NULL;
    if (rest) {
        own->optarg = rest;
        own->optind++;
    } else if (known[2] == ':') {
        own->optarg = NULL;
    } else if (own->optind >= p->argc) {
        own->optopt = (unsigned char)letter[0];
        complain(p, "this option needs an argument --", letter);
        return missing(p);
    } else {
        own->optarg = p->argv[own->optind++];
    }
    return (unsigned char)letter[0];
}

static int parse(struct parsing *p) {
    struct world_libc *c = p->c;
    struct world_own *own = p->own;
    if (p->argc < 1)
        return -1;
    own->optarg = NULL;
    if (own->optind == 0 || !c->options_begun) {
        own->optind = own->optind ? own->optind : 1;
        c->before = c->after = own->optind;
        c->option_at = NULL;
        c->options_begun = true;
    }
    p->in_order = p->letters[0] == '+' || getenv("POSIXLY_CORRECT");
    p->as_ones = p->letters[0] == '-';
    p->letters += p->letters[0] == '+' || p->letters[0] == '-';
    p->quiet = !own->opterr || p->letters[0] == ':';
    if (!c->option_at || !*c->option_at) {
        int how = next_word(p);
        if (how)
            return how;
        char *word = p->argv[own->optind];
        bool two = word[1] == '-' && p->longs;
        if (two)
            return try_long(p, word + 2, true);
        if (p->longs && p->one_dash && (word[2] || !strchr(p->letters, word[1]))) {
            int code = try_long(p, word + 1, false);
            if (code != -3)
                return code;
        }
        c->option_at = word + 1;
    }
    return take_letter(p);
}

static int parse_with(int argc, char *const *argv, const char *letters, const struct option *longs,
                      int *which, bool one_dash) {
    struct world_thread *t = world_current();
    struct parsing p = {.c = world_libc(t),
                        .own = world_own(t),
                        .argc = argc,
                        .argv = (char **)(uintptr_t)argv,
                        .letters = letters,
                        .longs = longs,
                        .which = which,
                        .one_dash = one_dash};
    return parse(&p);
}

static int own_getopt(int argc, char *const *argv, const char *letters) {
    return parse_with(argc, argv, letters, NULL, NULL, false);
}

static int own_getopt_long(int argc, char *const *argv, const char *letters,
                           const struct option *longs, int *which) {
    return parse_with(argc, argv, letters, longs, which, false);
}

static int own_getopt_long_only(int argc, char *const *argv, const char *letters,
                                const struct option *longs, int *which) {
    return parse_with(argc, argv, letters, longs, which, true);
}

const struct world_call world_getopt_calls[] = {
    WORLD_CALL(getopt, own_getopt),
    WORLD_CALL(__posix_getopt, own_getopt),
    WORLD_CALL(getopt_long, own_getopt_long),
    WORLD_CALL(getopt_long_only, own_getopt_long_only),
    {NULL, NULL},
};
