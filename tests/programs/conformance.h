/* Programs of the conformance list (tests/cli/conformance.sh): one program has many points, each a
 * function by name that returns 0 if what Portals programs rely on holds, and prints what does not.
 */
#ifndef CONFORMANCE_H
#define CONFORMANCE_H

#include <stdio.h>
#include <string.h>

#define EXPECT(condition)                                                                          \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition);          \
            return 1;                                                                              \
        }                                                                                          \
    } while (0)
#define EXPECT_EQ(value, expected)                                                                 \
    do {                                                                                           \
        long long is = (long long)(value), should = (long long)(expected);                         \
        if (is != should) {                                                                        \
            fprintf(stderr, "%s:%d: %s is %lld, not %s (%lld)\n", __FILE__, __LINE__, #value, is,  \
                    #expected, should);                                                            \
            return 1;                                                                              \
        }                                                                                          \
    } while (0)

struct point {
    const char *name;
    int (*holds)(void);
};

static inline int conformance(const struct point *points, int argc, char **argv) {
    for (const struct point *p = points; argc > 1 && p->name; p++)
        if (strcmp(p->name, argv[1]) == 0)
            return p->holds();
    fprintf(stderr, "no such point: %s\n", argc > 1 ? argv[1] : "(none given)");
    return 2;
}

#endif
