/* MPI_Finalize: tags get numbers that all ranks agree on, and rank 0 writes the file. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mpi_trace.h"

/* Tags of the program on MPI_COMM_WORLD stay what they are below this; all other messages get
 * numbers from here on. */
#define FIRST_NUMBER (1u << 30)
#define PIECE        (64u << 20) /* bytes of a message to rank 0 */

static bool keeps_its_tag(const struct trace_key *k) {
    return k->comm == 0 && !k->collective && k->tag >= 0 && (uint32_t)k->tag < FIRST_NUMBER;
}

static int key_order(const void *a, const void *b) {
    return memcmp(a, b, sizeof(struct trace_key));
}

/* On rank 0: the number of each key, for `count` keys of all ranks. */
static bool number_keys(const struct trace_key *keys, int count, uint32_t *numbers) {
    struct trace_key *sorted = malloc(((size_t)count + 1) * sizeof *sorted);
    if (!sorted)
        return false;
    int distinct = 0;
    memcpy(sorted, keys, (size_t)count * sizeof *sorted);
    qsort(sorted, (size_t)count, sizeof *sorted, key_order);
    for (int i = 0; i < count; i++)
        if (!distinct || key_order(&sorted[distinct - 1], &sorted[i]))
            sorted[distinct++] = sorted[i];
    for (int i = 0; i < count; i++) {
        const struct trace_key *at =
            bsearch(&keys[i], sorted, (size_t)distinct, sizeof *sorted, key_order);
        numbers[i] = keeps_its_tag(&keys[i]) ? (uint32_t)keys[i].tag
                                             : FIRST_NUMBER + (uint32_t)(at - sorted);
    }
    free(sorted);
    return true;
}

/* What rank 0 needs to number the keys of all ranks. */
struct gathered {
    int *counts, *at, *bytes, *bytes_at;
    struct trace_key *keys;
    uint32_t *numbers;
    int total;
};

static bool gathered_room(struct gathered *g, int ranks) {
    size_t n = (size_t)ranks;
    g->at = calloc(n, sizeof(int));
    g->bytes = calloc(n, sizeof(int));
    g->bytes_at = calloc(n, sizeof(int));
    if (!g->at || !g->bytes || !g->bytes_at)
        return false;
    int64_t total = 0;
    for (int r = 0; r < ranks; r++) {
        g->at[r] = (int)total;
        g->bytes_at[r] = (int)(total * (int)sizeof(struct trace_key));
        g->bytes[r] = g->counts[r] * (int)sizeof(struct trace_key);
        total += g->counts[r];
    }
    if (total > INT32_MAX / (int)sizeof(struct trace_key))
        return false;
    g->total = (int)total;
    g->keys = malloc(((size_t)total + 1) * sizeof *g->keys);
    g->numbers = malloc(((size_t)total + 1) * sizeof *g->numbers);
    return g->keys && g->numbers;
}

static void gathered_free(struct gathered *g) {
    free(g->counts);
    free(g->at);
    free(g->bytes);
    free(g->bytes_at);
    free(g->keys);
    free(g->numbers);
}

/* The numbers of this rank's keys; NULL on all ranks if rank 0 has no memory. */
static uint32_t *agree_on_tags(struct mpi_trace *t) {
    struct gathered g = {0};
    int count = (int)t->key_count, good = 1;
    uint32_t *own = malloc(((size_t)count + 1) * sizeof *own);
    if (t->rank == 0)
        g.counts = calloc((size_t)t->ranks, sizeof(int));
    good = own && (t->rank != 0 || g.counts);
    PMPI_Allreduce(MPI_IN_PLACE, &good, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD);
    if (good) {
        PMPI_Gather(&count, 1, MPI_INT, g.counts, 1, MPI_INT, 0, MPI_COMM_WORLD);
        good = t->rank != 0 || gathered_room(&g, t->ranks);
        PMPI_Bcast(&good, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    if (good) {
        PMPI_Gatherv(t->keys, count * (int)sizeof *t->keys, MPI_BYTE, g.keys, g.bytes, g.bytes_at,
                     MPI_BYTE, 0, MPI_COMM_WORLD);
        good = t->rank != 0 || number_keys(g.keys, g.total, g.numbers);
        PMPI_Bcast(&good, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    if (good)
        PMPI_Scatterv(g.numbers, g.counts, g.at, MPI_UINT32_T, own, count, MPI_UINT32_T, 0,
                      MPI_COMM_WORLD);
    gathered_free(&g);
    if (good)
        return own;
    free(own);
    return NULL;
}

/* ---- text ---- */

static void print_op(const struct mpi_trace *t, uint32_t i, const uint32_t *numbers, FILE *out) {
    const struct trace_op *o = &t->ops[i];
    if (o->type == TRACE_CALC)
        fprintf(out, "l%u: calc %" PRIu64 "\n", i + 1, o->size);
    else if (o->type == TRACE_SEND)
        fprintf(out, "l%u: send %" PRIu64 "b to %u tag %u\n", i + 1, o->size, o->peer,
                numbers[o->key]);
    else if (o->peer == TRACE_NONE)
        fprintf(out, "l%u: recv %" PRIu64 "b from -1 tag %u\n", i + 1, o->size, numbers[o->key]);
    else
        fprintf(out, "l%u: recv %" PRIu64 "b from %u tag %u\n", i + 1, o->size, o->peer,
                numbers[o->key]);
    uint32_t end = i + 1 < t->op_count ? t->ops[i + 1].first_edge : t->edges.count;
    for (uint32_t e = o->first_edge; e < end; e++)
        fprintf(out, "l%u %s l%u\n", i + 1, t->edges.list[e].on_start ? "irequires" : "requires",
                t->edges.list[e].op + 1);
}

/* This rank as text, in new memory; NULL: there is none. */
static char *rank_text(const struct mpi_trace *t, const uint32_t *numbers, size_t *length) {
    char *text = NULL;
    FILE *out = open_memstream(&text, length);
    if (!out)
        return NULL;
    fprintf(out, "rank %d {\n", t->rank);
    for (uint32_t i = 0; i < t->op_count; i++)
        print_op(t, i, numbers, out);
    fputs("}\n", out);
    bool bad = ferror(out) != 0;
    if (fclose(out) || bad) {
        free(text);
        return NULL;
    }
    return text;
}

/* ---- to rank 0 ---- */

static void hand_over(const char *text, uint64_t length) {
    PMPI_Send(&length, 1, MPI_UINT64_T, 0, 0, MPI_COMM_WORLD);
    for (uint64_t at = 0; at < length; at += PIECE)
        PMPI_Send(text + at, (int)(length - at < PIECE ? length - at : PIECE), MPI_BYTE, 0, 0,
                  MPI_COMM_WORLD);
}

/* Takes all that a rank has, also when it cannot be written any more. */
static bool take_over(int from, char *piece, FILE *out) {
    uint64_t length;
    PMPI_Recv(&length, 1, MPI_UINT64_T, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (uint64_t at = 0; at < length; at += PIECE) {
        size_t bytes = length - at < PIECE ? length - at : PIECE;
        PMPI_Recv(piece, (int)bytes, MPI_BYTE, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (out && fwrite(piece, 1, bytes, out) != bytes)
            out = NULL;
    }
    return out != NULL;
}

static void write_file(const struct mpi_trace *t, const char *text, size_t length, char *piece) {
    size_t room = strlen(t->path) + 32;
    char *part = malloc(room);
    FILE *out = NULL;
    if (part) {
        snprintf(part, room, "%s.part%d", t->path, (int)getpid());
        out = fopen(part, "w");
    }
    bool good = out && fprintf(out, "num_ranks %d\n", t->ranks) > 0 &&
                fwrite(text, 1, length, out) == length;
    for (int r = 1; r < t->ranks; r++)
        good &= take_over(r, piece, good ? out : NULL);
    if (out)
        good &= fclose(out) == 0;
    if (good)
        good = rename(part, t->path) == 0;
    if (!good) {
        fprintf(stderr, "openspin goal: %s: ", t->path);
        perror("the schedule cannot be written");
        if (part)
            unlink(part);
    }
    free(part);
}

/* Whether all ranks have a schedule; rank 0 says why one has not. */
static bool all_good(struct mpi_trace *t) {
    int first = t->failed[0] ? t->rank : t->ranks, all;
    PMPI_Allreduce(&first, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (all == t->ranks)
        return true;
    PMPI_Bcast(t->failed, (int)sizeof t->failed, MPI_BYTE, all, MPI_COMM_WORLD);
    if (t->rank == 0)
        fprintf(stderr, "openspin goal: no schedule: %s (rank %d)\n", t->failed, all);
    return false;
}

void trace_write(void) {
    struct mpi_trace *t = trace_of_process();
    trace_wait(trace_add(TRACE_CALC, 0, 0, 0)); /* computation after the last message */
    t->on = false;
    if (!all_good(t))
        return;
    uint32_t *numbers = agree_on_tags(t);
    size_t length = 0;
    char *text = numbers ? rank_text(t, numbers, &length) : NULL;
    char *piece = t->rank == 0 ? malloc(PIECE) : text;
    if (!text || !piece)
        trace_fail("there is no memory for the text");
    if (all_good(t)) {
        if (t->rank == 0)
            write_file(t, text, length, piece);
        else
            hand_over(text, length);
    }
    if (t->rank == 0)
        free(piece);
    free(text);
    free(numbers);
}
