/* spinlib/datatype.h: MPI-style derived datatypes (SC'17 section 5.2), packed and unpacked by the
 * card. A sender's card gathers data that is not contiguous, the receiver's card puts each packet
 * where it belongs, in any order; no processor copies. See handlers/datatype/README.md.
 *
 * Types are built by calls with the names, arguments and meaning of MPI's; displacements and
 * strides may be negative, and counts zero, as there. A type and a count are committed to a layout,
 * which is what is packed, sent and received. */
#ifndef SPINLIB_DATATYPE_H
#define SPINLIB_DATATYPE_H

#include <stdbool.h>
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

/* ---- Receiving and sending ---- */

/* A rank's receives and sends. All ranks open it, in the same order as other calls that take a
 * portal table entry; receives and sends are closed before it is. */
struct spin_types;
int spin_types_open(ptl_handle_ni_t ni, struct spin_types **types);
void spin_types_close(struct spin_types *types);

/* How a receive finds the place of a packet in the layout. The first chooses: a specialised handler
 * if the layout has a form for it (spin_layout_info), else SPIN_TYPE_SEEK. */
enum spin_type_strategy {
    SPIN_TYPE_BEST,
    SPIN_TYPE_SPECIALISED, /* refused if the layout is SPIN_LAYOUT_GENERAL */
    SPIN_TYPE_HPU_LOCAL,   /* each HPU moves a segment of its own over the whole message */
    SPIN_TYPE_READ_ONLY,   /* from a copy of the nearest checkpoint */
    SPIN_TYPE_READ_WRITE,  /* with the checkpoint, which moves on with the packets behind it */
    SPIN_TYPE_SEEK,        /* by divisions and bisections, from nothing */
    SPIN_TYPE_HOST,        /* no handlers: received packed, unpacked by the processor */
};

/* What the interval between checkpoints is computed from; 0: as said. */
struct spin_type_options {
    enum spin_type_strategy strategy;
    uint32_t interval;       /* bytes; 0: by the model */
    uint32_t hpus;           /* of the card; 4 */
    uint32_t hpu_cycle_ps;   /* 400 */
    uint32_t packet_ps;      /* from one packet of 4 KiB to the next; 82,000 (400 Gbit/s) */
    uint32_t card_bytes;     /* memory for a receive; what the card has */
    uint32_t buffer_packets; /* the card holds so many; 1,024 */
};

/* The published model (slides, E1) with its inputs: a message takes
 *     T_C = T_pkt + ceil(interval / k) (P - 1) T_pkt + ceil(n_pkt / P) T_PH
 * with P HPUs and n_pkt packets of k bytes, one every T_pkt, of T_PH each. The second term is what
 * HPUs wait for the first packet of their sequence. T_C grows with the interval, so that is a
 * packet, or as many as make the checkpoints fit in card memory; `bound` says which, and if HPUs
 * then wait for more than a fifth of the third term, or the card's buffer is too small for a
 * sequence per HPU. */
struct spin_interval {
    uint32_t bytes, checkpoints, checkpoint_bytes;
    uint32_t packet_bytes, packets, hpus;  /* k, n_pkt, P */
    double regions_per_packet;             /* gamma */
    double packet_ps, handler_ps, time_ps; /* T_pkt, T_PH(gamma), T_C */
    enum {
        SPIN_INTERVAL_IS_A_PACKET,
        SPIN_INTERVAL_BY_MEMORY,
        SPIN_INTERVAL_OVER_WAITING,
        SPIN_INTERVAL_OVER_BUFFER
    } bound;
};
/* False: the checkpoints of no interval fit in card memory. */
bool spin_type_interval(const struct spin_layout *layout, const struct spin_type_options *options,
                        struct spin_interval *interval);

/* A receive: messages with this tag, from whom ever, are put into `buffer` by the card, one after
 * the other until it is closed. `options` may be NULL. PTL_ARG_INVALID: the layout has no such
 * strategy, or data of it overlaps; PTL_NO_SPACE: it does not fit in card memory; err says more. */
struct spin_receive;
int spin_receive_open(struct spin_types *types, void *buffer, const struct spin_layout *layout,
                      uint32_t tag, const struct spin_type_options *options,
                      struct spin_receive **receive, struct spin_error *err);
/* Waits for the next message; another one may be sent when that has returned. PTL_FAIL: it was
 * longer than the layout, or a part did not come. */
int spin_receive_wait(struct spin_receive *receive);
void spin_receive_close(struct spin_receive *receive);

/* A send: data of a layout in `buffer`, as often as wanted. Contiguous data is put as it is,
 * whatever the way. */
enum spin_send_way {
    SPIN_SEND_CARD,   /* the own card gathers it */
    SPIN_SEND_STREAM, /* the processor packs it, and puts each piece as soon as it is packed */
    SPIN_SEND_PACK,   /* the processor packs all of it, then puts it */
};
struct spin_send;
int spin_send_open(struct spin_types *types, const void *buffer, const struct spin_layout *layout,
                   enum spin_send_way way, struct spin_send **send, struct spin_error *err);
/* Begins to send, to a receive that is there. Data may change after the wait, which comes before
 * the next start. PTL_FAIL of the wait: the receive is not there, or has failed. */
int spin_send_start(struct spin_send *send, uint32_t rank, uint32_t tag);
int spin_send_wait(struct spin_send *send);
void spin_send_close(struct spin_send *send);

#ifdef __cplusplus
}
#endif

#endif
