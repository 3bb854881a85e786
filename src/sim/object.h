/* Shared objects of this machine, as far as a loader needs them: where their segments go, what they
 * define, what must be filled in. Nothing in the file is trusted. */
#ifndef SPIN_SIM_OBJECT_H
#define SPIN_SIM_OBJECT_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "openspin.h"

struct object_table { /* of fixed entries, by address in the object */
    uint64_t at, bytes;
};

struct object {
    char *path;
    uint8_t *content;      /* as it is in memory before anything is filled in */
    uint64_t end, span;    /* bytes of it; in whole pages */
    uint64_t align;        /* of its beginning */
    uint64_t private_from; /* where pages begin that the program may write */
    uint64_t valued_to;    /* from there on all is 0 */
    bool private_code;     /* some of them are code */
    const Elf64_Sym *symbols;
    uint32_t symbol_count;
    const char *strings;
    uint64_t string_bytes;
    const uint16_t *versions; /* of symbols, or NULL */
    struct object_table relocations[2], packed, init_array, fini_array;
    uint64_t init, fini;            /* 0: none */
    uint64_t tls, tls_bytes;        /* thread-local variables: the first ones have values, */
    uint64_t tls_valued, tls_align; /* the others are 0 */
    uint64_t frames;                /* its .eh_frame_hdr, or 0 */
    const char *search; /* where it looks for libraries: DT_RUNPATH or DT_RPATH, or NULL */
    uint64_t dynamic, dynamic_count;
    uint64_t needed_versions;
};

int object_read(struct object *o, const char *path, struct spin_error *err);
void object_free(struct object *o);
/* The library i that it needs, in its own words; NULL after the last. */
const char *object_needs(const struct object *o, uint32_t i);
/* The name of a symbol; its version, or NULL. */
const char *object_symbol_name(const struct object *o, uint32_t symbol);
const char *object_symbol_version(const struct object *o, uint32_t symbol);
/* Is it defined here, for others to see? */
bool object_defines(const struct object *o, uint32_t symbol);

/* The function that others can see and that holds this address; "": none. */
const char *object_function(const struct object *o, uint64_t at);

/* `bytes` at an address of it, or NULL. */
static inline void *object_at(const struct object *o, uint64_t at, uint64_t bytes) {
    return at <= o->span && bytes <= o->span - at ? o->content + at : NULL;
}

#endif
