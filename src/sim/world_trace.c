/* What was busy when, as pictures: a row each for a rank's CPU, the card's port out and in, DMA and
 * HPUs. Noted during the run and written at its end, as a Perfetto trace and as SVG. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "sim/trace.h"
#include "sim/world_private.h"

#define MOST_BOXES 20000000ull

void world_note(struct spin_world *w, uint32_t rank, uint32_t row, const char *name,
                uint64_t start_ps, uint64_t end_ps, uint64_t bytes, int64_t peer) {
    if (!w->trace_path && !w->picture_path)
        return;
    if (w->boxes == w->box_room) {
        uint64_t room = w->box_room ? 2 * w->box_room : 1024;
        struct world_box *larger =
            room <= 2 * MOST_BOXES ? realloc(w->box, room * sizeof *larger) : NULL;
        if (!larger) {
            world_fail(w, SPIN_ELIMIT,
                       "a picture of more than %" PRIu64 " boxes; run fewer ranks or messages",
                       w->boxes);
            return;
        }
        w->box = larger;
        w->box_room = room;
    }
    struct world_box *b = &w->box[w->boxes++];
    *b = (struct world_box){start_ps, end_ps - start_ps, bytes, peer, rank, row, ""};
    snprintf(b->name, sizeof b->name, "%s", name);
}

static uint32_t row_count(const struct spin_world *w) {
    return ROW_HPU + (uint32_t)w->params.hpus;
}

static void row_name(uint32_t row, char *name, size_t room) {
    static const char *const names[] = {"CPU", "NIC out", "NIC in", "DMA"};
    if (row < ROW_HPU)
        snprintf(name, room, "%s", names[row]);
    else
        snprintf(name, room, "HPU %u", row - ROW_HPU);
}

/* ---- Perfetto ---------------------------------------------------------------------------------
 */

static int write_trace(struct spin_world *w, struct spin_error *err) {
    struct trace t;
    int code = trace_open(&t, w->trace_path, err);
    if (code)
        return code;
    for (uint32_t i = 0; i < w->ranks; i++) {
        trace_process(&t, i, "rank");
        for (uint32_t row = 0; row < row_count(w); row++) {
            char name[16];
            row_name(row < ROW_HPU ? row : ROW_HPU, name, sizeof name);
            if (row >= ROW_HPU)
                name[3] = 0; /* the number is added */
            trace_row(&t, i, row + 1, name, row < ROW_HPU ? 0 : row - ROW_HPU);
        }
    }
    for (uint64_t i = 0; i < w->boxes; i++) {
        const struct world_box *b = &w->box[i];
        trace_box(&t, b->rank, b->row + 1, b->name, b->start_ps, b->length_ps, b->bytes, b->peer);
    }
    return trace_close(&t, true, err);
}

/* ---- SVG --------------------------------------------------------------------------------------
 */

enum { LEFT = 110, WIDTH = 1100, ROW_HEIGHT = 15, RANK_GAP = 8, TOP = 30 };

struct drawing {
    FILE *out;
    uint64_t end_ps;
    uint32_t *y; /* [rank][row]: its top, or 0 for a row that is not drawn */
    uint32_t rows, bottom;
};

static double x_of(const struct drawing *d, uint64_t ps) {
    return LEFT + (double)ps * WIDTH / (double)d->end_ps;
}

/* From the top: rank 0 first, as Perfetto has them. HPUs that never run have no row. */
static void lay_out(const struct spin_world *w, struct drawing *d) {
    for (uint64_t i = 0; i < w->boxes; i++) {
        const struct world_box *b = &w->box[i];
        d->y[b->rank * d->rows + b->row] = 1;
        d->end_ps = world_later(d->end_ps, b->start_ps + b->length_ps);
    }
    d->bottom = TOP;
    for (uint32_t rank = 0; rank < w->ranks; rank++) {
        for (uint32_t row = 0; row < d->rows; row++) {
            uint32_t *y = &d->y[rank * d->rows + row];
            if (!*y && row >= ROW_HPU)
                continue;
            *y = d->bottom;
            d->bottom += ROW_HEIGHT;
        }
        d->bottom += RANK_GAP;
    }
}

static void draw_axis(const struct drawing *d) {
    uint64_t step = 1; /* at most ten of them */
    while (step * 10 < d->end_ps)
        step *= 10;
    if (step * 4 > d->end_ps)
        step = step / 4 ? step / 4 : 1;
    for (uint64_t at = 0; at <= d->end_ps; at += step) {
        fprintf(d->out,
                "<line x1='%.1f' y1='%d' x2='%.1f' y2='%u' stroke='#ddd'/>"
                "<text x='%.1f' y='%d' text-anchor='middle'>%.10g</text>\n",
                x_of(d, at), TOP - 6, x_of(d, at), d->bottom, x_of(d, at), TOP - 10,
                (double)at / 1000);
    }
    fprintf(d->out, "<text x='%d' y='%d' text-anchor='end'>ns</text>\n", LEFT - 20, TOP - 10);
}

static void draw_rows(const struct spin_world *w, const struct drawing *d) {
    for (uint32_t rank = 0; rank < w->ranks; rank++)
        for (uint32_t row = 0; row < d->rows; row++) {
            char name[16];
            uint32_t y = d->y[rank * d->rows + row];
            if (!y)
                continue;
            row_name(row, name, sizeof name);
            fprintf(d->out,
                    "<text x='%d' y='%u' text-anchor='end'>rank %u %s</text>"
                    "<line x1='%d' y1='%u' x2='%d' y2='%u' stroke='#eee'/>\n",
                    LEFT - 6, y + 11, rank, name, LEFT, y + ROW_HEIGHT - 1, LEFT + WIDTH,
                    y + ROW_HEIGHT - 1);
        }
}

static void draw_boxes(const struct spin_world *w, const struct drawing *d) {
    static const char *const colours[] = {"#c0504d", "#4f81bd", "#8db4e2", "#9bbb59", "#8064a2"};
    for (uint64_t i = 0; i < w->boxes; i++) {
        const struct world_box *b = &w->box[i];
        double x = x_of(d, b->start_ps), width = x_of(d, b->start_ps + b->length_ps) - x;
        fprintf(d->out,
                "<rect x='%.2f' y='%u' width='%.2f' height='%d' fill='%s' fill-opacity='0.75'>"
                "<title>%s, %.10g to %.10g ns",
                x, d->y[b->rank * d->rows + b->row] + 1, width < 0.6 ? 0.6 : width, ROW_HEIGHT - 3,
                colours[b->row < ROW_HPU ? b->row : ROW_HPU], b->name, (double)b->start_ps / 1000,
                (double)(b->start_ps + b->length_ps) / 1000);
        if (b->bytes)
            fprintf(d->out, ", %" PRIu64 " bytes", b->bytes);
        if (b->peer >= 0)
            fprintf(d->out, ", rank %" PRId64, b->peer);
        fputs("</title></rect>\n", d->out);
    }
}

static int write_picture(struct spin_world *w, struct spin_error *err) {
    struct drawing d = {.end_ps = 1, .rows = row_count(w)};
    struct file_out file;
    d.y = calloc((size_t)w->ranks * d.rows, sizeof *d.y);
    if (!d.y)
        return spin_fail(err, SPIN_ENOMEM, "out of memory for a picture of %u ranks", w->ranks);
    int code = file_out_open(&file, w->picture_path, err);
    if (code) {
        free(d.y);
        return code;
    }
    d.out = file.stream;
    lay_out(w, &d);
    fprintf(d.out,
            "<svg xmlns='http://www.w3.org/2000/svg' width='%d' height='%u' "
            "font-family='sans-serif' font-size='10'>\n"
            "<rect width='100%%' height='100%%' fill='white'/>\n",
            LEFT + WIDTH + 30, d.bottom + 10);
    draw_axis(&d);
    draw_rows(w, &d);
    draw_boxes(w, &d);
    fputs("</svg>\n", d.out);
    free(d.y);
    return file_out_commit(&file, err);
}

int world_draw(struct spin_world *w, struct spin_error *err) {
    int code = w->trace_path ? write_trace(w, err) : SPIN_OK;
    return !code && w->picture_path ? write_picture(w, err) : code;
}
