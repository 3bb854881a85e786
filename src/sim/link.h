/* A program and the libraries that come with it, linked into one image of which every rank gets a
 * copy: code, variables and all. Libraries of the system are loaded once, by the system.
 *
 * Names are looked for in the program, in its own libraries, among the C library's calls that a
 * rank has of its own (world_libc.h), in this process, and in the system's libraries, in this
 * order. What is the same for all ranks is filled in here, once; what depends on where a copy is,
 * is a list of fixups. */
#ifndef SPIN_SIM_LINK_H
#define SPIN_SIM_LINK_H

#include "sim/object.h"

struct link_fixup {
    uint64_t at, value; /* offsets in the image: there stands the address of that */
};

struct link_object {
    struct object object;
    uint64_t at;    /* in the image */
    uint64_t tls;   /* of its thread-local variables in a thread's block */
    uint32_t order; /* of initialisation */
};

struct linked {
    struct link_object *objects; /* the program is the first */
    uint32_t count;
    void **system; /* handles of the system's libraries */
    uint32_t systems;
    uint64_t span, align; /* of the image */
    uint64_t own_at;      /* in the image: the C library's variables */
    uint64_t main;        /* in the image */
    uint64_t tls_bytes, tls_align;
    struct link_fixup *fixups; /* addresses of what is in the image */
    uint64_t fixup_count;
    struct link_fixup *indirect; /* addresses that a function in the image returns */
    uint64_t indirect_count;
    uint32_t *initialise; /* objects, those that others need first */
    bool unwinds;         /* has the run-time of exceptions */
};

int link_program(struct linked *l, const char *path, struct spin_error *err);
/* A function of the process or of the system's libraries. */
bool link_find(const struct linked *l, const char *name, const void **address);
void link_free(struct linked *l);

/* Thread-local variables are asked for by two words, of which the first names an object of the
 * image if it has this bit. */
#define LINK_TLS_OBJECT (1ull << 63)
#define LINK_TLS_FIXED                                                                             \
    (1ull << 62) /* the second word is an address: a variable of the system's                      \
                  */

#endif
