#include "sim/timeline.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/grow.h"
#include "sim/rank_set.h"

#define MOST_BOXES 20000000ull

/* ---- views ---- */

int timeline_view_new(struct timeline_view *view, const struct spin_view *of, uint32_t ranks,
                      struct spin_error *err) {
    *view =
        (struct timeline_view){.from_ps = of->from_ps, .to_ps = of->to_ps ? of->to_ps : UINT64_MAX};
    if (view->from_ps >= view->to_ps)
        return spin_fail(err, SPIN_EARG, "nothing to show: from %llu ps to %llu ps",
                         (unsigned long long)view->from_ps, (unsigned long long)view->to_ps);
    int code = of->ranks ? rank_set_read(&view->chosen, of->ranks, ranks, err) : SPIN_OK;
    if (code)
        timeline_view_free(view);
    return code;
}

void timeline_view_free(struct timeline_view *view) {
    free(view->chosen);
    view->chosen = NULL;
}

/* ---- what was noted ---- */

static bool is_most(uint64_t count, uint64_t room) {
    return count == room && room > MOST_BOXES;
}

static bool lack(struct timeline *t) {
    t->lacks = true;
    return false;
}

bool timeline_box(struct timeline *t, const struct timeline_box *box) {
    if (!timeline_view_shows(&t->view, box->rank, box->start_ps, box->start_ps + box->length_ps))
        return true;
    if (is_most(t->boxes, t->box_room) || !ROOM_FOR_ONE(t->box, t->boxes, t->box_room, 1024))
        return lack(t);
    t->box[t->boxes++] = *box;
    return true;
}

bool timeline_arrow(struct timeline *t, struct trace_end from, struct trace_end to, bool marked) {
    if (!timeline_view_shows(&t->view, from.rank, from.at_ps, to.at_ps) ||
        !timeline_view_rank(&t->view, to.rank))
        return true;
    if (is_most(t->arrows, t->arrow_room) ||
        !ROOM_FOR_ONE(t->arrow, t->arrows, t->arrow_room, 1024))
        return lack(t);
    t->arrow[t->arrows++] = (struct timeline_arrow){from, to, marked};
    return true;
}

int timeline_whole(const struct timeline *t, struct spin_error *err) {
    bool too_many = is_most(t->boxes, t->box_room) || is_most(t->arrows, t->arrow_room);
    return t->lacks ? spin_fail(err, too_many ? SPIN_ELIMIT : SPIN_ENOMEM,
                                "%sa picture of more than %llu boxes; choose ranks or times, or "
                                "run less",
                                too_many ? "" : "out of memory for ", (unsigned long long)t->boxes)
                    : SPIN_OK;
}

void timeline_free(struct timeline *t) {
    timeline_view_free(&t->view);
    free(t->box);
    free(t->arrow);
    *t = (struct timeline){0};
}

/* ---- Perfetto ---- */

/* "forward_payload_handler" or "forward_payload_handler: SEGV" */
static const char *label(const struct timeline_box *b, char *text, size_t room) {
    snprintf(text, room, "%s%s%s", b->name, b->fault ? ": " : "", b->fault ? b->fault : "");
    return text;
}

int timeline_trace(const struct timeline *t, const struct timeline_rows *rows, const char *path,
                   struct spin_error *err) {
    struct trace out;
    int code = timeline_whole(t, err);
    if (!code)
        code = trace_open(&out, path, err);
    if (code)
        return code;
    for (uint32_t rank = 0; rank < rows->ranks; rank++) {
        if (!timeline_view_rank(&t->view, rank))
            continue;
        trace_process(&out, rank, "rank");
        for (uint32_t row = 0; row < rows->rows; row++) {
            char name[40];
            unsigned number = 0;
            rows->name(rows->user, row, name, sizeof name);
            char *blank = strrchr(name, ' '); /* "HPU 3": the trace adds the number itself */
            if (blank && isdigit((unsigned char)blank[1])) {
                number = (unsigned)atoi(blank + 1);
                *blank = 0;
            }
            trace_row(&out, rank, row + 1, name, number);
        }
    }
    for (uint64_t i = 0; i < t->boxes; i++) {
        const struct timeline_box *b = &t->box[i];
        char text[80];
        trace_box(&out, b->rank, b->row + 1, label(b, text, sizeof text), b->start_ps, b->length_ps,
                  b->bytes, b->peer);
    }
    for (uint64_t i = 0; i < t->arrows; i++) {
        struct timeline_arrow a = t->arrow[i];
        a.from.row++;
        a.to.row++;
        trace_arrow(&out, i + 1, a.from, a.to);
    }
    return trace_close(&out, true, err);
}

/* ---- SVG ---- */

enum { LEFT = 130, WIDTH = 1100, ROW_HEIGHT = 15, RANK_GAP = 8, TOP = 30 };

struct drawing {
    FILE *out;
    const struct timeline *t;
    const struct timeline_rows *rows;
    uint64_t from_ps, end_ps;
    uint32_t *y; /* [rank][row]: its top, or 0 for a row that is not drawn */
    uint32_t bottom;
};

static double x_of(const struct drawing *d, uint64_t ps) {
    if (ps < d->from_ps)
        return LEFT;
    if (ps > d->end_ps)
        ps = d->end_ps;
    return LEFT + (double)(ps - d->from_ps) * WIDTH / (double)(d->end_ps - d->from_ps);
}

static uint32_t y_of(const struct drawing *d, uint32_t rank, uint32_t row) {
    return d->y[(size_t)rank * d->rows->rows + row];
}

/* From the top: rank 0 first, as Perfetto has them. */
static void lay_out(struct drawing *d) {
    const struct timeline *t = d->t;
    for (uint64_t i = 0; i < t->boxes; i++) {
        const struct timeline_box *b = &t->box[i];
        uint64_t end = b->start_ps + b->length_ps;
        d->y[(size_t)b->rank * d->rows->rows + b->row] = 1;
        d->end_ps = end > d->end_ps ? end : d->end_ps;
    }
    if (d->end_ps > t->view.to_ps)
        d->end_ps = t->view.to_ps;
    d->bottom = TOP;
    for (uint32_t rank = 0; rank < d->rows->ranks; rank++) {
        if (!timeline_view_rank(&t->view, rank))
            continue;
        for (uint32_t row = 0; row < d->rows->rows; row++) {
            uint32_t *y = &d->y[(size_t)rank * d->rows->rows + row];
            if (!*y && row >= d->rows->optional)
                continue;
            *y = d->bottom;
            d->bottom += ROW_HEIGHT;
        }
        d->bottom += RANK_GAP;
    }
}

static void draw_axis(const struct drawing *d) {
    uint64_t length = d->end_ps - d->from_ps, step = 1; /* at most ten of them */
    while (step * 10 < length)
        step *= 10;
    if (step * 4 > length)
        step = step / 4 ? step / 4 : 1;
    for (uint64_t at = (d->from_ps + step - 1) / step * step; at <= d->end_ps; at += step)
        fprintf(d->out,
                "<line x1='%.1f' y1='%d' x2='%.1f' y2='%u' stroke='#ddd'/>"
                "<text x='%.1f' y='%d' text-anchor='middle'>%.10g</text>\n",
                x_of(d, at), TOP - 6, x_of(d, at), d->bottom, x_of(d, at), TOP - 10,
                (double)at / 1000);
    fprintf(d->out, "<text x='%d' y='%d' text-anchor='end'>ns</text>\n", LEFT - 20, TOP - 10);
}

static void draw_rows(const struct drawing *d) {
    for (uint32_t rank = 0; rank < d->rows->ranks; rank++)
        for (uint32_t row = 0; row < d->rows->rows; row++) {
            char name[40];
            uint32_t y = y_of(d, rank, row);
            if (!y)
                continue;
            d->rows->name(d->rows->user, row, name, sizeof name);
            fprintf(d->out,
                    "<text x='%d' y='%u' text-anchor='end'>rank %u %s</text>"
                    "<line x1='%d' y1='%u' x2='%d' y2='%u' stroke='#eee'/>\n",
                    LEFT - 6, y + 11, rank, name, LEFT, y + ROW_HEIGHT - 1, LEFT + WIDTH,
                    y + ROW_HEIGHT - 1);
        }
}

/* Names come from programs' symbols. */
static void put_escaped(FILE *out, const char *text) {
    for (; *text; text++) {
        if (*text == '<' || *text == '>' || *text == '&' || (unsigned char)*text < 0x20)
            fprintf(out, "&#%u;", (unsigned char)*text < 0x20 ? '?' : (unsigned char)*text);
        else
            fputc(*text, out);
    }
}

static void draw_box(const struct drawing *d, const struct timeline_box *b) {
    static const char *const colours[] = {"#c0504d", "#4f81bd", "#8db4e2", "#9bbb59", "#8064a2"};
    double x = x_of(d, b->start_ps), width = x_of(d, b->start_ps + b->length_ps) - x;
    char text[80];
    fprintf(d->out, "<rect x='%.2f' y='%u' width='%.2f' height='%d' ", x,
            y_of(d, b->rank, b->row) + 1, width < 0.6 ? 0.6 : width, ROW_HEIGHT - 3);
    if (b->marked)
        fputs("class='critical' fill='none' stroke='#e00000' stroke-width='1.5'>", d->out);
    else
        fprintf(d->out, "fill='%s' fill-opacity='0.75'>",
                b->fault ? "#ff0000" : colours[d->rows->colour(d->rows->user, b->row)]);
    fputs("<title>", d->out);
    put_escaped(d->out, label(b, text, sizeof text));
    fprintf(d->out, ", %.10g to %.10g ns", (double)b->start_ps / 1000,
            (double)(b->start_ps + b->length_ps) / 1000);
    if (b->bytes)
        fprintf(d->out, ", %" PRIu64 " bytes", b->bytes);
    if (b->peer >= 0)
        fprintf(d->out, ", rank %" PRId64, b->peer);
    fputs("</title></rect>\n", d->out);
}

static void draw_arrow(const struct drawing *d, const struct timeline_arrow *a) {
    uint32_t from = y_of(d, a->from.rank, a->from.row), to = y_of(d, a->to.rank, a->to.row);
    if (!from || !to)
        return;
    fprintf(d->out, "<line x1='%.2f' y1='%u' x2='%.2f' y2='%u' %s marker-end='url(#%s)'/>\n",
            x_of(d, a->from.at_ps), from + ROW_HEIGHT / 2, x_of(d, a->to.at_ps),
            to + ROW_HEIGHT / 2,
            a->marked ? "class='critical' stroke='#e00000' stroke-width='1.5'"
                      : "class='message' stroke='#555' stroke-width='0.6'",
            a->marked ? "red" : "grey");
}

static void draw(struct drawing *d) {
    lay_out(d);
    fprintf(d->out,
            "<svg xmlns='http://www.w3.org/2000/svg' width='%d' height='%u' "
            "font-family='sans-serif' font-size='10'>\n<defs>",
            LEFT + WIDTH + 30, d->bottom + 10);
    for (int marked = 0; marked < 2; marked++)
        fprintf(d->out,
                "<marker id='%s' viewBox='0 0 8 8' refX='8' refY='4' markerWidth='6' "
                "markerHeight='6' orient='auto' markerUnits='userSpaceOnUse'>"
                "<path d='M0,0 L8,4 L0,8 z' fill='%s'/></marker>",
                marked ? "red" : "grey", marked ? "#e00000" : "#555");
    fputs("</defs>\n<rect width='100%' height='100%' fill='white'/>\n", d->out);
    draw_axis(d);
    draw_rows(d);
    for (uint64_t i = 0; i < d->t->boxes; i++)
        draw_box(d, &d->t->box[i]);
    for (uint64_t i = 0; i < d->t->arrows; i++)
        draw_arrow(d, &d->t->arrow[i]);
    fputs("</svg>\n", d->out);
}

int timeline_svg(const struct timeline *t, const struct timeline_rows *rows, const char *path,
                 struct spin_error *err) {
    struct drawing d = {
        .t = t, .rows = rows, .from_ps = t->view.from_ps, .end_ps = t->view.from_ps + 1};
    struct file_out file;
    int code = timeline_whole(t, err);
    if (code)
        return code;
    d.y = calloc((size_t)rows->ranks * rows->rows, sizeof *d.y);
    if (!d.y)
        return spin_fail(err, SPIN_ENOMEM, "out of memory for a picture of %u ranks", rows->ranks);
    code = file_out_open(&file, path, err);
    if (!code) {
        d.out = file.stream;
        draw(&d);
        code = file_out_commit(&file, err);
    }
    free(d.y);
    return code;
}
