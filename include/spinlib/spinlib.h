/* spinlib/spinlib.h: what the use cases of spinlib have in common.
 * Each has a header of its own here (scan.h, ...), a folder handlers/NAME with its handlers, its
 * host side and a README, and works the same on simulated and live cards: what a program needs is
 *     cc program.c -o program $(pkg-config --cflags --libs spinlib)
 * Calls return PTL_OK or another code of enum ptl_retvals. */
#ifndef SPINLIB_SPINLIB_H
#define SPINLIB_SPINLIB_H

#include <openspin.h>
#include <portals4.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The ranks of a job, for programs that have no interface yet: PtlInit and a matching, logical
 * interface on which rank r is process r. */
struct spin_job {
    ptl_handle_ni_t ni;
    uint32_t rank, ranks;
};
int spin_job_open(struct spin_job *job);
void spin_job_close(struct spin_job *job);

/* An image of the library ("scan"), from the folder $OPENSPIN_HANDLERS or, without it, from where
 * openspin was installed. `openspin sim run` and `openspin launch` set the variable. PtlImageError
 * says what is wrong. One that is of another build than the library is refused, PTL_ARG_INVALID,
 * with a line on stderr. */
int spin_handlers_load(ptl_handle_ni_t ni, const char *name, ptl_image_h *image);

/* A matching list entry, for anybody unless it says otherwise, with handlers of an image; each call
 * that opens a use case makes some. `options` are those of ptl_me_t; PTL_ME_HANDLERS is added if a
 * handler is named, and PTL_ME_EVENT_LINK_DISABLE always. */
struct spin_entry {
    void *start;
    uint64_t length, min_free;
    ptl_match_bits_t bits, ignore;
    unsigned int options;
    ptl_handle_ct_t ct; /* 0: none */
    void *user_ptr;
    ptl_image_h image;
    const char *header, *payload, *completion; /* names of functions, or NULL */
    uint32_t user_hdr_bytes;
    /* Memory on the card: `memory`, or (0) new memory of `memory_bytes` for this entry alone. It
     * begins with a copy of `state` if that is given. */
    ptl_hpu_md_h memory;
    uint32_t memory_bytes, state_bytes;
    const void *state;
    void *handler_memory; /* host memory that handlers use beside the entry's, or NULL */
    uint64_t handler_memory_bytes;
    const char *cleanup; /* runs after cleanup_ns of silence within a message; or NULL */
    uint64_t cleanup_ns;
    bool from_self; /* not for anybody: for this rank only */
};
struct spin_linked {
    ptl_handle_me_t me;
    ptl_hpu_md_h memory; /* of this entry alone, or PTL_INVALID_HANDLE */
};
int spin_entry_append(ptl_handle_ni_t ni, ptl_pt_index_t pt, const struct spin_entry *entry,
                      struct spin_linked *linked);
/* Unlinks it, once messages that are under way are over, and frees its memory. Nothing for one that
 * is all zero. */
void spin_entry_remove(struct spin_linked *linked);

#ifdef __cplusplus
}
#endif

#endif
