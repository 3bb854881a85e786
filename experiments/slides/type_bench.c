#include "slides/type_bench.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

struct scene {
    struct type_bench *bench;
    struct spin_layout *packed;
    uint8_t *data, *expected; /* packed; and as it shall be in memory, gaps of 0 */
    uint64_t start_ps;
};

static int send_packed(struct spin_types *types, struct scene *s) {
    struct spin_send *send;
    struct spin_error err;
    if (spin_send_open(types, s->data, s->packed, SPIN_SEND_PACK, &send, &err) != PTL_OK)
        return 2;
    spin_barrier();
    s->start_ps = spin_now_ps();
    int code = PTL_OK;
    if (!s->bench->refused)
        code = spin_send_start(send, spin_rank() + 1, 1);
    if (code == PTL_OK && !s->bench->refused)
        code = spin_send_wait(send);
    spin_barrier();
    spin_send_close(send);
    return code == PTL_OK ? 0 : 3;
}

static int receive_typed(struct spin_types *types, struct scene *s) {
    struct type_bench *b = s->bench;
    struct spin_layout_info info = spin_layout_info(b->layout);
    struct spin_receive *receive;
    struct spin_error err;
    uint8_t *into = calloc(1, info.true_extent + 1);
    uint64_t before = spin_now_ps();
    int code = !into ? PTL_FAIL
                     : spin_receive_open(types, into - info.true_lb, b->layout, 1, &b->options,
                                         &receive, &err);
    b->refused |= code == PTL_NO_SPACE;
    if (code != PTL_OK) {
        spin_barrier();
        spin_barrier();
        free(into);
        return b->refused ? 0 : 4;
    }
    b->setup_ps = spin_now_ps() - before;
    spin_barrier();
    code = b->refused ? PTL_OK : spin_receive_wait(receive);
    uint64_t time = spin_now_ps() - s->start_ps;
    if (time > b->time_ps)
        b->time_ps = time;
    spin_barrier();
    spin_receive_close(receive);
    bool right = memcmp(into, s->expected, info.true_extent) == 0;
    free(into);
    return code != PTL_OK ? 5 : right || b->refused ? 0 : 6;
}

static int rank(void *argument) {
    struct scene *s = argument;
    struct spin_job job;
    struct spin_types *types;
    if (spin_job_open(&job) != PTL_OK)
        return 1;
    int status = 1;
    if (spin_types_open(job.ni, &types) == PTL_OK) {
        status = job.rank % 2 ? receive_typed(types, s) : send_packed(types, s);
        spin_types_close(types);
    }
    spin_job_close(&job);
    return status;
}

static int make_scene(struct scene *s, struct spin_error *err) {
    struct spin_layout_info info = spin_layout_info(s->bench->layout);
    struct spin_type *byte = NULL;
    int code = spin_type_basic(1, 1, &byte);
    if (code == PTL_OK)
        code = spin_type_commit(byte, (int)info.size, &s->packed, err);
    spin_type_free(byte);
    s->data = malloc(info.size + 1);
    s->expected = calloc(1, info.true_extent + 1);
    if (code != PTL_OK || !s->data || !s->expected)
        return spin_fail(err, SPIN_ENOMEM, "no memory for %llu B and what they become",
                         (unsigned long long)info.size);
    for (uint64_t i = 0; i < info.size; i++)
        s->data[i] = (uint8_t)(i * 11 + i / 241 + 3);
    spin_layout_unpack(s->bench->layout, s->expected - info.true_lb, 0, info.size, s->data);
    return SPIN_OK;
}

int type_bench(const struct experiment_context *context, const struct spin_world_options *base,
               struct type_bench *bench, struct spin_error *err) {
    struct scene s = {.bench = bench};
    struct spin_world_options o = *base;
    o.ranks = bench->ranks ? bench->ranks : 2;
    bench->time_ps = 0;
    int code = make_scene(&s, err);
    if (!code)
        code = experiment_ranks_counted(context, "datatype_handler", &o, rank, &s, &bench->counts,
                                        err);
    if (bench->refused)
        bench->time_ps = 0;
    spin_layout_free(s.packed);
    free(s.data);
    free(s.expected);
    return code;
}

int type_bench_vector(uint64_t blocks, uint64_t block, uint64_t stride, struct spin_layout **layout,
                      struct spin_error *err) {
    struct spin_type *byte = NULL, *vector = NULL;
    int code = spin_type_basic(1, 1, &byte);
    if (code == PTL_OK)
        code = spin_type_hvector((int)blocks, (int)block, (ptrdiff_t)stride, byte, &vector);
    if (code == PTL_OK)
        code = spin_type_commit(vector, 1, layout, err);
    else
        spin_fail(err, SPIN_ENOMEM, "no memory for a vector");
    spin_type_free(vector);
    spin_type_free(byte);
    return code == PTL_OK ? SPIN_OK : SPIN_ELIMIT;
}
