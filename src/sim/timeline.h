/* A run as a picture: boxes on rows of ranks, and arrows between them, noted while it runs and
 * written at its end, as SVG or as a Perfetto trace. A view chooses ranks and times. */
#ifndef SPIN_SIM_TIMELINE_H
#define SPIN_SIM_TIMELINE_H

#include <stdbool.h>
#include <stdint.h>

#include "openspin.h"
#include "base/trace.h"

struct timeline_view {
    uint8_t *chosen; /* a bit per rank; NULL: all */
    uint64_t from_ps, to_ps;
};

/* SPIN_EARG for ranks that are not there and times in the wrong order. */
int timeline_view_new(struct timeline_view *view, const struct spin_view *of, uint32_t ranks,
                      struct spin_error *err);
void timeline_view_free(struct timeline_view *view);
static inline bool timeline_view_rank(const struct timeline_view *v, uint32_t rank) {
    return !v->chosen || (v->chosen[rank / 8] >> rank % 8 & 1);
}
static inline bool timeline_view_shows(const struct timeline_view *v, uint32_t rank,
                                       uint64_t start_ps, uint64_t end_ps) {
    return timeline_view_rank(v, rank) && end_ps >= v->from_ps && start_ps <= v->to_ps;
}

struct timeline_box {
    uint64_t start_ps, length_ps, bytes;
    int64_t peer; /* negative: none */
    uint32_t rank, row;
    bool marked; /* drawn as a frame: a step of the critical path */
    char name[32];
    const char *fault; /* that ended it, which is shown behind the name and in red; NULL: none */
};

struct timeline_arrow {
    struct trace_end from, to;
    bool marked;
};

struct timeline {
    struct timeline_view view;
    struct timeline_box *box;
    struct timeline_arrow *arrow;
    uint64_t boxes, box_room, arrows, arrow_room;
    bool lacks; /* something for which there was no room */
};

/* What the view does not show is not kept. False: more than fits into memory or a picture. */
bool timeline_box(struct timeline *t, const struct timeline_box *box);
bool timeline_arrow(struct timeline *t, struct trace_end from, struct trace_end to, bool marked);
/* SPIN_OK, or why it does not hold all that was noted; then it is not written either. */
int timeline_whole(const struct timeline *t, struct spin_error *err);
void timeline_free(struct timeline *t); /* the view too */

/* The rows of every rank. Those from `optional` on are drawn where they have a box. */
struct timeline_rows {
    uint32_t ranks, rows, optional;
    void (*name)(const void *user, uint32_t row, char *name, size_t room);
    unsigned (*colour)(const void *user, uint32_t row); /* 0 to 4 */
    const void *user;
};
int timeline_svg(const struct timeline *t, const struct timeline_rows *rows, const char *path,
                 struct spin_error *err);
int timeline_trace(const struct timeline *t, const struct timeline_rows *rows, const char *path,
                   struct spin_error *err);

#endif
