/* A type: its loop, and what MPI says of its bounds. */
#ifndef DATATYPE_TYPE_H
#define DATATYPE_TYPE_H

#include "datatype_loop.h"
#include "spinlib/datatype.h"

/* No displacement, size or bound is larger, so that sums of a few do not overflow. */
#define TYPE_MOST (1ll << 60)

struct spin_type {
    struct part part;
    bool has_data;
    int64_t true_lb, true_ub; /* of the data; both 0 if there is none */
    bool marked; /* lb and ub were set by resized, subarray or darray (MPI's markers) */
    int64_t mark_lb, mark_ub;
    int64_t alignment; /* largest of the basic types */
};

int64_t type_lb(const struct spin_type *t);
int64_t type_ub(const struct spin_type *t);
int64_t type_extent(const struct spin_type *t);

/* A type without data yet, or NULL. */
struct spin_type *type_new(void);
/* Lets the bounds of t cover copies of `old` from displacement `first` to `last`. */
void type_cover(struct spin_type *t, const struct spin_type *old, int64_t first, int64_t last);
/* Ends a constructor: *out is t if all is well; otherwise it is freed. */
int type_finish(struct spin_type *t, bool has_memory, struct spin_type **out);

/* *to = a * b + c, unless it is above TYPE_MOST. */
bool type_sum(int64_t a, int64_t b, int64_t c, int64_t *to);

#endif
