/* The words of a compiler's command line that `openspin cc` takes beside its own options. */
#ifndef OPENSPIN_CC_H
#define OPENSPIN_CC_H

#include "cli.h"

/* What is given to a program, built word by word. */
struct cc_list {
    const char *word[512];
    int count;
    bool full;
};
void cc_add(struct cc_list *list, const char *word);

struct cc_words {
    struct cc_list compile, link, target; /* target: -MT and -MQ with their values */
    bool depends, depends_all, depends_phony;
    const char *depends_file; /* of -MF */
    const char *stop;         /* -E, -S, -c, -M or -MM; NULL: an image is made */
    bool stop_depends;        /* it is -M or -MM */
    bool no_warnings;
    char march[160]; /* -march=..., as the compiler gets it; empty: the default */
};

/* Word i that it knows, NULL after the last: for the completion. */
const char *cc_word(int i);

/* Takes the words out of argv, of which *argc are left for cli_parse. 0, or the status after the
 * error. */
int cc_split(const struct cli_command *command, int *argc, char **argv, struct cc_words *words);
/* What -march= among the words passed on means for an HPU: what it lacks is left out, and said. */
int cc_march(const struct cli_command *command, struct cc_words *words, struct cli_list *pass,
             bool with_float, bool is_gcc);
/* The name with its suffix replaced, cut if there is no room. */
void cc_suffix(char *to, size_t room, const char *name, const char *suffix);
bool cc_is_object(const char *source);

#endif
