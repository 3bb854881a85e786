/* Random datatypes built by spinlib and by Open MPI: sizes, bounds and packed bytes are the same.
 * OPENSPIN_SEEDS=N takes N types. */
#include <mpi.h>

#include "lib/test.h"
#include "lib/type_tree.h"

enum { MOST_BYTES = 20000, MOST_SPAN = 100000 };

/* Why a type is not compared; see is_odd(). */
enum { COMPARED, ODD, REFUSED, OUTCOMES };

/* Open MPI refuses arrays of types without data, and its bounds are not always those of the type
 * map (MPI 4.0, section 5.1.6): it pads the extent at each level, from the padded extents below,
 * and not that of the whole map once, which makes a difference where displacements are not
 * aligned; and vectors of chars with the stride -1 begin at 0. Types that enclose such a one are
 * not compared. */
static bool is_odd(const struct tree *t, MPI_Datatype type) {
    struct map m = tree_map(t);
    struct bounds b = map_bounds(&m);
    MPI_Aint lb, extent, true_lb, true_extent;
    free(m.entry);
    MPI_Type_get_extent(type, &lb, &extent);
    MPI_Type_get_true_extent(type, &true_lb, &true_extent);
    return extent != b.extent || lb != b.lb || true_lb != b.true_lb || true_extent != b.true_extent;
}

/* MPI_DATATYPE_NULL: not to be compared, and *outcome says why. */
static MPI_Datatype mpi_type(const struct tree *t, int *outcome) {
    const MPI_Datatype basic[] = {MPI_CHAR, MPI_SHORT, MPI_INT, MPI_DOUBLE};
    static const int distributions[] = {
        [SPIN_DISTRIBUTE_BLOCK] = MPI_DISTRIBUTE_BLOCK,
        [SPIN_DISTRIBUTE_CYCLIC] = MPI_DISTRIBUTE_CYCLIC,
        [SPIN_DISTRIBUTE_NONE] = MPI_DISTRIBUTE_NONE,
    };
    MPI_Datatype old[TREE_ARGUMENTS], type = MPI_DATATYPE_NULL;
    int at[TREE_ARGUMENTS], distribution[3], argument[3];
    MPI_Aint bytes[TREE_ARGUMENTS];
    int order = t->fortran ? MPI_ORDER_FORTRAN : MPI_ORDER_C;
    for (int i = 0; i < t->children; i++)
        old[i] = mpi_type(t->child[i], outcome);
    for (int i = 0; i < TREE_ARGUMENTS; i++) {
        at[i] = (int)t->at[i];
        bytes[i] = t->at[i];
    }
    for (int d = 0; d < 3; d++) {
        distribution[d] = distributions[t->distribution[d]];
        argument[d] =
            t->argument[d] == SPIN_DISTRIBUTE_DEFAULT ? MPI_DISTRIBUTE_DFLT_DARG : t->argument[d];
    }
    for (int i = 0; i < t->children; i++)
        if (old[i] == MPI_DATATYPE_NULL)
            goto out;
    switch (t->kind) {
    case TREE_BASIC:
        return basic[t->basic];
    case TREE_CONTIGUOUS:
        MPI_Type_contiguous(t->count, old[0], &type);
        break;
    case TREE_VECTOR:
        MPI_Type_vector(t->count, t->length, (int)t->stride, old[0], &type);
        break;
    case TREE_HVECTOR:
        MPI_Type_create_hvector(t->count, t->length, t->stride, old[0], &type);
        break;
    case TREE_INDEXED:
        MPI_Type_indexed(t->count, t->lengths, at, old[0], &type);
        break;
    case TREE_HINDEXED:
        MPI_Type_create_hindexed(t->count, t->lengths, bytes, old[0], &type);
        break;
    case TREE_INDEXED_BLOCK:
        MPI_Type_create_indexed_block(t->count, t->length, at, old[0], &type);
        break;
    case TREE_HINDEXED_BLOCK:
        MPI_Type_create_hindexed_block(t->count, t->length, bytes, old[0], &type);
        break;
    case TREE_STRUCT:
        MPI_Type_create_struct(t->count, t->lengths, bytes, old, &type);
        break;
    case TREE_SUBARRAY:
        MPI_Type_create_subarray(t->count, t->sizes, t->subsizes, t->starts, order, old[0], &type);
        break;
    case TREE_DARRAY:
        MPI_Type_create_darray(t->ranks, t->rank, t->count, t->sizes, distribution, argument,
                               t->processes, order, old[0], &type);
        break;
    default:
        MPI_Type_create_resized(old[0], t->lb, t->extent, &type);
    }
    if (type == MPI_DATATYPE_NULL)
        *outcome = REFUSED;
    else if (is_odd(t, type)) {
        *outcome = ODD;
        MPI_Type_free(&type);
    }
out:
    for (int i = 0; i < t->children; i++)
        if (t->child[i]->kind != TREE_BASIC && old[i] != MPI_DATATYPE_NULL)
            MPI_Type_free(&old[i]);
    return type;
}

static void compare_bounds(const struct spin_type *ours, MPI_Datatype theirs) {
    MPI_Aint their_lb, their_extent;
    ptrdiff_t lb, extent;
    int size;
    MPI_Type_size(theirs, &size);
    CHECK_EQ(spin_type_size(ours), (uint64_t)size);
    if (size == 0)
        return; /* bounds of nothing mean nothing */
    MPI_Type_get_extent(theirs, &their_lb, &their_extent);
    spin_type_extent(ours, &lb, &extent);
    CHECK_EQ(lb, their_lb);
    CHECK_EQ(extent, their_extent);
    MPI_Type_get_true_extent(theirs, &their_lb, &their_extent);
    spin_type_true_extent(ours, &lb, &extent);
    CHECK_EQ(lb, their_lb);
    CHECK_EQ(extent, their_extent);
}

static void compare_bytes(const struct spin_layout *ours, MPI_Datatype theirs, int count,
                          bool overlaps, struct rng *r) {
    struct spin_layout_info info = spin_layout_info(ours);
    size_t span = info.true_extent, size = info.size;
    uint8_t *memory = malloc(span + 1), *mine = calloc(1, span + 1), *other = calloc(1, span + 1);
    uint8_t *packed = malloc(size + 1), *as_they_do = malloc(size + 1);
    int at = 0;
    for (size_t i = 0; i < span; i++)
        memory[i] = (uint8_t)rng_u32(r);
    spin_layout_pack(ours, memory - info.true_lb, 0, size, packed);
    MPI_Pack(memory - info.true_lb, count, theirs, as_they_do, (int)size, &at, MPI_COMM_SELF);
    CHECK_EQ((size_t)at, size);
    CHECK(memcmp(packed, as_they_do, size) == 0);
    at = 0;
    if (!overlaps) {
        spin_layout_unpack(ours, mine - info.true_lb, 0, size, packed);
        MPI_Unpack(packed, (int)size, &at, other - info.true_lb, count, theirs, MPI_COMM_SELF);
        CHECK(memcmp(mine, other, span) == 0);
    }
    free(memory);
    free(mine);
    free(other);
    free(packed);
    free(as_they_do);
}

static int compare(struct rng *r, struct tree_taste taste) {
    struct tree *t = tree_random(r, tree_between(r, 1, 4), taste);
    struct spin_type *ours = tree_type(t);
    struct spin_layout *layout;
    struct spin_error err;
    int outcome = COMPARED, count = tree_between(r, 1, 3);
    CHECK(ours);
    CHECK_EQ(spin_type_commit(ours, count, &layout, &err), PTL_OK);
    struct spin_layout_info info = spin_layout_info(layout);
    MPI_Datatype theirs = MPI_DATATYPE_NULL;
    if (info.size < MOST_BYTES && info.true_extent < MOST_SPAN)
        theirs = mpi_type(t, &outcome);
    else
        outcome = ODD;
    if (theirs != MPI_DATATYPE_NULL) {
        MPI_Type_commit(&theirs);
        compare_bounds(ours, theirs);
        compare_bytes(layout, theirs, count, taste.overlaps, r);
        if (t->kind != TREE_BASIC)
            MPI_Type_free(&theirs);
    }
    spin_layout_free(layout);
    spin_type_free(ours);
    tree_free(t);
    return outcome;
}

TEST(types_are_those_of_open_mpi) {
    const char *text = getenv("OPENSPIN_SEEDS");
    int types = text ? atoi(text) : 3000, outcomes[OUTCOMES] = {0};
    for (int i = 0; i < types; i++) {
        struct rng r = rng_seeded((uint64_t)i);
        snprintf(test_context, sizeof test_context, "seed %d", i);
        struct tree_taste taste = {.zeros = i % 3 == 0, .overlaps = i % 2 == 0};
        outcomes[compare(&r, taste)]++;
    }
    printf("# %d types are the same, %d odd, %d refused by Open MPI\n", outcomes[COMPARED],
           outcomes[ODD], outcomes[REFUSED]);
    CHECK(outcomes[COMPARED] > types * 3 / 4);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN); /* refused: no type */
    int status = test_main(argc, argv);
    MPI_Finalize();
    return status;
}
