#include "slides/app_types.h"

#include <math.h>
#include <stdlib.h>

#include "base/rng.h"

/* A step of a construction: `type` becomes the new one, or the first error stays. */
struct construction {
    struct spin_type *type;
    int code;
};

static struct construction begin(size_t bytes, size_t alignment) {
    struct construction c;
    c.code = spin_type_basic(bytes, alignment, &c.type);
    return c;
}

#define STEP(c, call, ...)                                                                         \
    do {                                                                                           \
        struct spin_type *next_ = NULL;                                                            \
        if ((c)->code == PTL_OK) {                                                                 \
            (c)->code = call(__VA_ARGS__, &next_);                                                 \
            spin_type_free((c)->type);                                                             \
            (c)->type = next_;                                                                     \
        }                                                                                          \
    } while (0)

static int end(struct construction c, struct spin_type **type) {
    *type = c.type;
    return c.code;
}

static int side(uint64_t elements, int dimensions) {
    int n = (int)lround(pow((double)elements, 1.0 / dimensions));
    return n > 2 ? n : 2;
}

/* A side of a cube of doubles whose planes are not contiguous in any part. */
static int comb(uint64_t bytes, struct spin_type **type) {
    int n = side(bytes / 8, 2);
    const int sizes[] = {n, n, 8}, part[] = {n, n, 1}, starts[] = {0, 0, 7};
    struct construction c = begin(8, 8);
    STEP(&c, spin_type_subarray, 3, sizes, part, starts, SPIN_ORDER_C, c.type);
    return end(c, type);
}

/* Rows of complex numbers that become columns. */
static int fft2d(uint64_t bytes, struct spin_type **type) {
    int n = side(bytes / 16, 2);
    struct construction c = begin(16, 8);
    STEP(&c, spin_type_vector, n, 1, 4 * n, c.type);
    STEP(&c, spin_type_resized, c.type, 0, 16);
    STEP(&c, spin_type_contiguous, n, c.type);
    return end(c, type);
}

/* Every second or so of a list, in order: atoms or points at a border. */
static int *some_of(int count, int most_gap, uint64_t seed) {
    struct rng r = rng_seeded(seed);
    int *at = malloc((size_t)count * sizeof *at);
    for (int i = 0, next = 0; at && i < count; i++) {
        at[i] = next;
        next += 1 + (int)rng_below(&r, (uint32_t)most_gap);
    }
    return at;
}

static int points(uint64_t bytes, size_t each, struct spin_type **type) {
    int count = (int)(bytes / each) + 1, *at = some_of(count, 4, each);
    struct construction c = begin(4, 4);
    if (!at)
        c.code = PTL_NO_SPACE;
    STEP(&c, spin_type_contiguous, (int)each / 4, c.type);
    STEP(&c, spin_type_indexed_block, count, 1, at, c.type);
    free(at);
    return end(c, type);
}

static int lammps(uint64_t bytes, struct spin_type **type) {
    return points(bytes, 24, type);
}

static int specfem_oc(uint64_t bytes, struct spin_type **type) {
    return points(bytes, 4, type);
}

/* The same points of several arrays that stand behind each other. */
static int arrays(uint64_t bytes, int count, const size_t *each, struct spin_type **type) {
    enum { MOST = 4 };
    struct spin_type *part[MOST] = {0};
    int lengths[MOST], code = PTL_OK;
    ptrdiff_t at[MOST], next = 0;
    uint64_t sum = 0;
    for (int i = 0; i < count; i++)
        sum += each[i];
    for (int i = 0; i < count && code == PTL_OK; i++) {
        ptrdiff_t lb, extent;
        code = points(bytes / sum * each[i], each[i], &part[i]);
        if (code != PTL_OK)
            break;
        spin_type_extent(part[i], &lb, &extent);
        lengths[i] = 1;
        at[i] = next;
        next += extent + 64;
    }
    if (code == PTL_OK)
        code = spin_type_struct(count, lengths, at, part, type);
    for (int i = 0; i < MOST; i++)
        spin_type_free(part[i]);
    return code;
}

static int lammps_full(uint64_t bytes, struct spin_type **type) {
    static const size_t each[] = {24, 4, 8, 16}; /* places, kinds, charges, numbers */
    return arrays(bytes, 4, each, type);
}

static int specfem_cm(uint64_t bytes, struct spin_type **type) {
    static const size_t each[] = {12, 12};
    return arrays(bytes, 2, each, type);
}

/* Vectors of three complex floats on a side of a 4-D lattice. */
static int milc(uint64_t bytes, struct spin_type **type) {
    int n = side(bytes / 24, 3);
    struct construction c = begin(4, 4);
    STEP(&c, spin_type_contiguous, 6, c.type);
    STEP(&c, spin_type_vector, n, n / 2 ? n / 2 : 1, n, c.type);
    STEP(&c, spin_type_hvector, 2 * n, 1, 24ll * n * (n + 2), c.type);
    return end(c, type);
}

static int nas_lu(uint64_t bytes, struct spin_type **type) {
    struct construction c = begin(8, 8);
    STEP(&c, spin_type_contiguous, 5, c.type);
    STEP(&c, spin_type_vector, (int)(bytes / 40) + 1, 1, 12, c.type);
    return end(c, type);
}

static int nas_mg(uint64_t bytes, struct spin_type **type) {
    int n = side(bytes / 8, 2);
    const int sizes[] = {n + 2, 4, n + 2}, part[] = {n, 1, n}, starts[] = {1, 1, 1};
    struct construction c = begin(8, 8);
    STEP(&c, spin_type_subarray, 3, sizes, part, starts, SPIN_ORDER_C, c.type);
    return end(c, type);
}

static int sw4lite(uint64_t bytes, struct spin_type **type) {
    int n = side(bytes / 48, 2);
    struct construction c = begin(8, 8);
    STEP(&c, spin_type_contiguous, 3, c.type);
    STEP(&c, spin_type_vector, n, 2, 2 * n, c.type);
    STEP(&c, spin_type_hvector, n, 1, 24ll * n * (2 * n + 1), c.type);
    return end(c, type);
}

/* The same border of arrays with three and with two dimensions. */
static int wrf(uint64_t bytes, struct spin_type **type) {
    int n = (int)(bytes / 160) + 1, code = PTL_OK; /* four times (8 + 2) floats each */
    const int sizes[] = {n, 8, 40}, part[] = {n, 8, 1}, part2[] = {n, 2, 1};
    const int starts[] = {0, 0, 3}, once[] = {1, 1};
    struct construction a = begin(4, 4), b = begin(4, 4);
    STEP(&a, spin_type_subarray, 3, sizes, part, starts, SPIN_ORDER_C, a.type);
    STEP(&b, spin_type_subarray, 3, sizes, part2, starts, SPIN_ORDER_C, b.type);
    struct spin_type *both[] = {a.type, b.type};
    const ptrdiff_t at[] = {0, 4ll * n * 8 * 40};
    *type = NULL;
    code = a.code != PTL_OK ? a.code : b.code;
    if (code == PTL_OK)
        code = spin_type_struct(2, once, at, both, &a.type);
    if (code == PTL_OK)
        code = spin_type_contiguous(4, a.type, type);
    if (a.type != both[0])
        spin_type_free(a.type);
    spin_type_free(both[0]);
    spin_type_free(both[1]);
    return code;
}

const struct app_type app_types[] = {
    {"COMB", "side of a cube, doubles", comb},
    {"FFT2D", "rows that become columns", fft2d},
    {"LAMMPS", "atoms at a border", lammps},
    {"LAMMPS full", "atoms, several arrays", lammps_full},
    {"MILC", "side of a 4-D lattice", milc},
    {"NAS LU", "blocks of 5 doubles", nas_lu},
    {"NAS MG", "side of a grid, by rows", nas_mg},
    {"SPECFEM3D oc", "points, floats", specfem_oc},
    {"SPECFEM3D cm", "points, two arrays", specfem_cm},
    {"SW4LITE", "side of a grid, 48 B", sw4lite},
    {"WRF", "borders of several arrays", wrf},
    {0},
};
