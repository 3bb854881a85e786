/* spinlib/datatype.h: MPI-style derived datatypes (SC'17 section 5.2), packed and unpacked by the
 * card. A sender's card gathers data that is not contiguous, the receiver's card puts each packet
 * where it belongs, in any order; no processor copies. See handlers/datatype/README.md.
 *
 * Types are built by calls with the names, arguments and meaning of MPI's; displacements and
 * strides may be negative, and counts zero, as there. A type and a count are committed to a layout,
 * which is what is packed, sent and received. */
#ifndef SPINLIB_DATATYPE_H
#define SPINLIB_DATATYPE_H

#include <stddef.h>

#include "spinlib.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Types ---- */

/* Never changed once it is made. PTL_ARG_INVALID: arguments that MPI does not allow, or a type that
 * spans more than 2^60 bytes. */
struct spin_type;

/* A basic type, as int, double or 16 bytes: its size, and what its address is a multiple of (a
 * power of two; the extent of types made of it is rounded up to that). */
int spin_type_basic(size_t bytes, size_t alignment, struct spin_type **type);
#define SPIN_TYPE_OF(c_type, type) spin_type_basic(sizeof(c_type), _Alignof(c_type), type)

int spin_type_contiguous(int count, struct spin_type *old, struct spin_type **type);
int spin_type_vector(int count, int blocklength, int stride, struct spin_type *old,
                     struct spin_type **type);
int spin_type_hvector(int count, int blocklength, ptrdiff_t stride, struct spin_type *old,
                      struct spin_type **type);
int spin_type_indexed(int count, const int *blocklengths, const int *displacements,
                      struct spin_type *old, struct spin_type **type);
int spin_type_hindexed(int count, const int *blocklengths, const ptrdiff_t *displacements,
                       struct spin_type *old, struct spin_type **type);
int spin_type_indexed_block(int count, int blocklength, const int *displacements,
                            struct spin_type *old, struct spin_type **type);
int spin_type_hindexed_block(int count, int blocklength, const ptrdiff_t *displacements,
                             struct spin_type *old, struct spin_type **type);
int spin_type_struct(int count, const int *blocklengths, const ptrdiff_t *displacements,
                     struct spin_type *const *types, struct spin_type **type);

enum spin_type_order { SPIN_ORDER_C, SPIN_ORDER_FORTRAN };
int spin_type_subarray(int dimensions, const int *sizes, const int *subsizes, const int *starts,
                       enum spin_type_order order, struct spin_type *old, struct spin_type **type);

enum spin_type_distribution { SPIN_DISTRIBUTE_BLOCK, SPIN_DISTRIBUTE_CYCLIC, SPIN_DISTRIBUTE_NONE };
#define SPIN_DISTRIBUTE_DEFAULT (-1) /* an argument of a distribution */
int spin_type_darray(int size, int rank, int dimensions, const int *global_sizes,
                     const enum spin_type_distribution *distributions, const int *arguments,
                     const int *process_sizes, enum spin_type_order order, struct spin_type *old,
                     struct spin_type **type);

int spin_type_resized(struct spin_type *old, ptrdiff_t lb, ptrdiff_t extent,
                      struct spin_type **type);

/* Types that were made of it, and layouts, stay. Nothing for NULL. */
void spin_type_free(struct spin_type *type);

uint64_t spin_type_size(const struct spin_type *type);
void spin_type_extent(const struct spin_type *type, ptrdiff_t *lb, ptrdiff_t *extent);
void spin_type_true_extent(const struct spin_type *type, ptrdiff_t *lb, ptrdiff_t *extent);

/* ---- Layouts ---- */

/* `count` of a type behind each other, as a dataloop: contiguous regions are merged, repetitions
 * are loops. PTL_NO_SPACE: it is over a limit, or memory is; err says which (4 GiB of data or of
 * memory, 24 loops within each other that cannot be merged). */
struct spin_layout;
int spin_type_commit(struct spin_type *type, int count, struct spin_layout **layout,
                     struct spin_error *err);
void spin_layout_free(struct spin_layout *layout);

struct spin_layout_info {
    uint64_t size;           /* packed */
    ptrdiff_t true_lb;       /* of the first byte, from the buffer's address */
    uint64_t true_extent;    /* from there to the last */
    uint64_t regions;        /* contiguous pieces of memory, at most */
    uint32_t depth;          /* loops within each other */
    uint32_t dataloop_bytes; /* on the card */
    enum { SPIN_LAYOUT_VECTOR, SPIN_LAYOUT_INDEX, SPIN_LAYOUT_GENERAL } form;
};
struct spin_layout_info spin_layout_info(const struct spin_layout *layout);

/* Bytes `position` to `position + bytes` of the packed data, to and from `packed`; at most to the
 * end. `buffer` is the address that displacements count from. */
void spin_layout_pack(const struct spin_layout *layout, const void *buffer, uint64_t position,
                      uint64_t bytes, void *packed);
void spin_layout_unpack(const struct spin_layout *layout, void *buffer, uint64_t position,
                        uint64_t bytes, const void *packed);

#ifdef __cplusplus
}
#endif

#endif
