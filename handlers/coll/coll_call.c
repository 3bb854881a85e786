/* Collectives by name: which there are, what "auto" means, and the calls. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coll_private.h"

static const char *const kinds[] = {"broadcast", "reduce",    "allreduce",
                                    "barrier",   "allgather", "alltoall"};
static const char *const algorithms[] = {"binomial", "pipelined", "recursive-doubling", "ring"};
static const char *const variants[] = {"rdma", "triggered", "spin", NULL};

static const struct spin_coll_way ways[] = {
    {"barrier", "binomial"},
    {"barrier", "pipelined"},
    {"barrier", "recursive-doubling"},
    {"broadcast", "binomial"},
    {"broadcast", "pipelined"},
    {"reduce", "binomial"},
    {"reduce", "pipelined"},
    {"allreduce", "binomial"},
    {"allreduce", "pipelined"},
    {"allreduce", "recursive-doubling"},
    {"allreduce", "ring"},
    {"allgather", "recursive-doubling"},
    {"allgather", "ring"},
    {"alltoall", "ring"},
    {NULL, NULL},
};

const struct spin_coll_way *spin_coll_ways(void) {
    return ways;
}

const char *const *spin_coll_variants(void) {
    return variants;
}

const char *spin_coll_error(const struct spin_coll *c) {
    return c->error;
}

__attribute__((format(printf, 2, 3))) static int refuse(struct spin_coll *c, const char *format,
                                                        ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(c->error, sizeof c->error, format, arguments);
    va_end(arguments);
    return PTL_ARG_INVALID;
}

static int number_of(const char *name, const char *const *names, int count) {
    for (int i = 0; i < count; i++)
        if (strcmp(name, names[i]) == 0)
            return i;
    return -1;
}

static bool is_auto(const char *name) {
    return !name || strcmp(name, "auto") == 0;
}

/* ---- Choosing ---- */

static bool is_way(const char *collective, const char *algorithm) {
    for (const struct spin_coll_way *w = ways; w->collective; w++)
        if (strcmp(w->collective, collective) == 0 && strcmp(w->algorithm, algorithm) == 0)
            return true;
    return false;
}

/* The algorithms of a collective; or the collectives. */
static const char *list_of(const char *collective, char *text, size_t room) {
    size_t used = 0;
    *text = 0;
    for (const struct spin_coll_way *w = ways; w->collective; w++) {
        bool again = w > ways && strcmp(w->collective, w[-1].collective) == 0;
        const char *name = collective ? w->algorithm : w->collective;
        if ((collective ? strcmp(w->collective, collective) != 0 : again) || used >= room)
            continue;
        used += (size_t)snprintf(text + used, room - used, "%s%s", used ? ", " : "", name);
    }
    return text;
}

/* Short vectors want few steps, long ones every link busy; where a chain or ring would need more
 * steps than the vector has packets for each rank, trees are better again. */
static enum coll_algorithm choose_algorithm(const struct spin_coll *c, int kind, uint64_t bytes) {
    bool is_long = bytes >= 65536 && bytes / 4096 >= c->ranks;
    switch (kind) {
    case COLL_BARRIER:
        return COLL_DOUBLING;
    case COLL_ALLREDUCE:
        return is_long ? COLL_RING : COLL_DOUBLING;
    case COLL_ALLGATHER:
        return bytes * c->ranks >= 65536 ? COLL_RING : COLL_DOUBLING;
    case COLL_ALLTOALL:
        return COLL_RING;
    default:
        return is_long ? COLL_PIPELINED : COLL_BINOMIAL;
    }
}

/* One per block, by triggered operations. */
static bool takes_counters(int kind, int algorithm) {
    return kind != COLL_ALLTOALL && (algorithm == COLL_RING || kind == COLL_ALLGATHER);
}

/* What is fastest in `openspin experiment sc17/collectives`: counting and short sums need no
 * handler, what is forwarded is forwarded per packet, and long sums are the processors'. */
static enum coll_variant_number choose_variant(const struct spin_coll *c, int kind,
                                               uint64_t bytes) {
    bool reduces = kind == COLL_REDUCE || kind == COLL_ALLREDUCE;
    bool counts = kind == COLL_BARRIER || kind == COLL_ALLTOALL || (reduces && bytes <= 4096);
    enum coll_variant_number wanted = counts ? COLL_TRIGGERED : reduces ? COLL_RDMA : COLL_SPIN;
    return c->opened[wanted] == PTL_OK ? wanted : COLL_RDMA;
}

static int choose(struct spin_coll *c, const struct spin_coll_call *call,
                  struct spin_coll_request *r) {
    char list[120];
    int kind = call->collective ? number_of(call->collective, kinds, 6) : -1;
    if (kind < 0)
        return refuse(c, "there is no collective %s; there are %s",
                      call->collective ? call->collective : "NULL",
                      list_of(NULL, list, sizeof list));
    int algorithm = (int)choose_algorithm(c, kind, r->bytes);
    if (!is_auto(call->how.algorithm)) {
        if (!is_way(call->collective, call->how.algorithm))
            return refuse(c, "there is no %s by %s; there are auto, %s", call->collective,
                          call->how.algorithm, list_of(call->collective, list, sizeof list));
        algorithm = number_of(call->how.algorithm, algorithms, 4);
    }
    int variant = (int)choose_variant(c, kind, r->bytes);
    if (variant == COLL_TRIGGERED && takes_counters(kind, algorithm) && c->ranks > c->counters)
        variant = COLL_RDMA;
    if (!is_auto(call->how.variant))
        variant = number_of(call->how.variant, variants, COLL_VARIANTS);
    if (variant < 0)
        return refuse(c, "there is no variant %s; there are auto, rdma, triggered, spin",
                      call->how.variant);
    if (variant == COLL_TRIGGERED && takes_counters(kind, algorithm) && c->ranks > c->counters)
        return refuse(c,
                      "%s by %s takes a counter per rank: with triggered operations, at most %u "
                      "ranks; take spin or rdma, or another algorithm",
                      call->collective, algorithms[algorithm], COLL_TRIGGERED_BLOCKS);
    if (c->opened[variant] != PTL_OK) {
        refuse(c, "the variant %s could not be opened here (%s); take another", variants[variant],
               PtlToStr(c->opened[variant], PTL_STR_ERROR));
        return c->opened[variant];
    }
    r->kind = (uint8_t)kind;
    r->algorithm = (uint8_t)algorithm;
    r->variant = (uint8_t)variant;
    return PTL_OK;
}

/* Bytes of an element; 0: it is not a type of reductions. */
static uint32_t element_bytes(ptl_datatype_t type) {
    switch (type) {
    case PTL_INT32_T:
    case PTL_FLOAT:
        return 4;
    case PTL_INT64_T:
    case PTL_UINT64_T:
    case PTL_DOUBLE:
        return 8;
    }
    return 0;
}

static bool is_operation(ptl_op_t operation, ptl_datatype_t type) {
    bool bits = operation == PTL_BAND || operation == PTL_BOR || operation == PTL_BXOR;
    return operation == PTL_SUM || operation == PTL_MIN || operation == PTL_MAX ||
           (bits && type != PTL_FLOAT && type != PTL_DOUBLE);
}

static int check_data(struct spin_coll *c, const struct spin_coll_call *call,
                      struct spin_coll_request *r) {
    bool reduces = r->kind == COLL_REDUCE || r->kind == COLL_ALLREDUCE;
    if (call->root >= c->ranks)
        return refuse(c, "rank %u is the root; there are ranks 0 to %u", call->root, c->ranks - 1);
    if (reduces && !r->element)
        return refuse(c, "type %u is none of int32, int64, uint64, float, double", call->type);
    if (reduces && !is_operation(call->operation, call->type))
        return refuse(c,
                      "operation %u on type %u is none of sum, min, max and, of integers, and, "
                      "or, exclusive or",
                      call->operation, call->type);
    bool needs_in = r->kind != COLL_BROADCAST && r->kind != COLL_BARRIER;
    bool needs_out = r->kind == COLL_REDUCE ? c->rank == call->root : r->kind != COLL_BARRIER;
    if (r->bytes && ((needs_in && !call->in) || (needs_out && !call->out)))
        return refuse(c, "there is no memory for %llu bytes", (unsigned long long)r->bytes);
    return PTL_OK;
}

/* ---- Calls ---- */

int coll_check(struct spin_coll *c, const struct spin_coll_call *call,
               struct spin_coll_request *r) {
    int kind = call->collective ? number_of(call->collective, kinds, 6) : -1;
    bool reduces = kind == COLL_REDUCE || kind == COLL_ALLREDUCE;
    *r = (struct spin_coll_request){
        .element = reduces ? element_bytes(call->type) : 1,
        .operation = call->operation,
        .type = call->type,
        .root = call->root,
        .in = call->in,
        .out = call->out,
    };
    if (kind == COLL_BROADCAST)
        r->in = call->out;
    if (r->element && call->count > UINT64_MAX / 16 / r->element)
        return refuse(c, "%llu elements are too many", (unsigned long long)call->count);
    r->bytes = kind == COLL_BARRIER ? 0 : call->count * r->element;
    int code = choose(c, call, r);
    if (code == PTL_OK)
        code = check_data(c, call, r);
    if (r->kind != COLL_BROADCAST && r->kind != COLL_REDUCE)
        r->root = 0;
    return code;
}

static int do_it(struct spin_coll *c, const struct spin_coll_how *how,
                 struct spin_coll_call *call) {
    struct spin_coll_request *request;
    if (how)
        call->how = *how;
    int code = spin_coll_start(c, call, &request);
    return code == PTL_OK ? spin_coll_wait(c, request) : code;
}

int spin_coll_barrier(struct spin_coll *c, const struct spin_coll_how *how) {
    return do_it(c, how, &(struct spin_coll_call){.collective = "barrier"});
}

int spin_coll_broadcast(struct spin_coll *c, const struct spin_coll_how *how, void *data,
                        uint64_t bytes, uint32_t root) {
    return do_it(c, how,
                 &(struct spin_coll_call){
                     .collective = "broadcast", .out = data, .count = bytes, .root = root});
}

int spin_coll_reduce(struct spin_coll *c, const struct spin_coll_how *how, const void *in,
                     void *out, uint64_t count, ptl_datatype_t type, ptl_op_t operation,
                     uint32_t root) {
    return do_it(c, how,
                 &(struct spin_coll_call){.collective = "reduce",
                                          .in = in,
                                          .out = out,
                                          .count = count,
                                          .type = type,
                                          .operation = operation,
                                          .root = root});
}

int spin_coll_allreduce(struct spin_coll *c, const struct spin_coll_how *how, const void *in,
                        void *out, uint64_t count, ptl_datatype_t type, ptl_op_t operation) {
    return do_it(c, how,
                 &(struct spin_coll_call){.collective = "allreduce",
                                          .in = in,
                                          .out = out,
                                          .count = count,
                                          .type = type,
                                          .operation = operation});
}

int spin_coll_allgather(struct spin_coll *c, const struct spin_coll_how *how, const void *in,
                        void *out, uint64_t bytes) {
    return do_it(
        c, how,
        &(struct spin_coll_call){.collective = "allgather", .in = in, .out = out, .count = bytes});
}

int spin_coll_alltoall(struct spin_coll *c, const struct spin_coll_how *how, const void *in,
                       void *out, uint64_t bytes) {
    return do_it(
        c, how,
        &(struct spin_coll_call){.collective = "alltoall", .in = in, .out = out, .count = bytes});
}
