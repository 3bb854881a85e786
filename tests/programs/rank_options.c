/* getopt of a rank beside the system's, on random command lines: the same answers, variables and
 * order of words. */
#define _GNU_SOURCE
#include "conformance.h"

#include <dlfcn.h>
#include <getopt.h>
#include <stdlib.h>

typedef int getopt_call(int argc, char *const *argv, const char *letters,
                        const struct option *longs, int *which);

static struct {
    getopt_call *call[2];
    int *optind, *opterr, *optopt;
    char **optarg;
} theirs;

static void *find(const char *name) {
    void *symbol = dlsym(RTLD_DEFAULT, name);
    if (!symbol)
        exit(3);
    return symbol;
}

enum { WORDS = 7 };
static const char *const words[] = {
    "-a",    "-b",     "-bx",  "-ab",    "-c",       "-cx", "-ac",      "x",       "y",
    "-",     "--",     "-z",   "--long", "--lo",     "--l", "--long=1", "--other", "--other=2",
    "--opt", "--opt=", "--no", "-long",  "-other=4", "-d",  "-dx",      "--lock"};
static const char *const letters[] = {"ab:c::d", "+ab:c::d", "-ab:c::d", ":ab:c::d", "+:ab:c", "d"};

static int compare(unsigned seed) {
    static int flag[2];
    const struct option longs[2][6] = {{{"long", no_argument, NULL, 1},
                                        {"lock", no_argument, &flag[0], 2},
                                        {"other", required_argument, NULL, 3},
                                        {"opt", optional_argument, NULL, 4},
                                        {0}},
                                       {{"long", no_argument, NULL, 1},
                                        {"lock", no_argument, &flag[1], 2},
                                        {"other", required_argument, NULL, 3},
                                        {"opt", optional_argument, NULL, 4},
                                        {0}}};
    char program[] = "program", *argv[2][WORDS + 2] = {{program}, {program}};
    srand(seed);
    int argc = 1 + rand() % (WORDS + 1), only = rand() % 2;
    const char *known = letters[rand() % (int)(sizeof letters / sizeof letters[0])];
    for (int i = 1; i < argc; i++)
        argv[0][i] = argv[1][i] = (char *)words[rand() % (int)(sizeof words / sizeof words[0])];
    optind = *theirs.optind = 0;
    opterr = *theirs.opterr = 0;
    optopt = *theirs.optopt = '?';
    for (int code = 0, step = 0; code != -1 && step < 100; step++) {
        int which[2] = {-1, -1};
        code = only ? getopt_long_only(argc, argv[0], known, longs[0], &which[0])
                    : getopt_long(argc, argv[0], known, longs[0], &which[0]);
        EXPECT_EQ(code, theirs.call[only](argc, argv[1], known, longs[1], &which[1]));
        EXPECT_EQ(which[0], which[1]);
        EXPECT_EQ(optind, *theirs.optind);
        EXPECT(optarg == *theirs.optarg);
        EXPECT_EQ(flag[0], flag[1]);
        if (code == '?' || code == ':')
            EXPECT_EQ(optopt, *theirs.optopt);
        EXPECT(memcmp(argv[0], argv[1], sizeof argv[0]) == 0);
    }
    return 0;
}

int main(void) {
    void *symbol[2] = {find("getopt_long"), find("getopt_long_only")};
    memcpy(theirs.call, symbol, sizeof symbol);
    theirs.optind = find("optind");
    theirs.opterr = find("opterr");
    theirs.optopt = find("optopt");
    theirs.optarg = find("optarg");
    for (unsigned seed = 1; seed <= 20000; seed++)
        if (compare(seed)) {
            fprintf(stderr, "seed %u\n", seed);
            return 1;
        }
    return 0;
}
