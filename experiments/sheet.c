#include "experiment.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/grow.h"

struct sheet_panel *sheet_panel(struct sheet *sheet, const char *name, const char *title) {
    if (sheet->panels == SHEET_PANELS) {
        sheet->overflow = true;
        return &sheet->panel[SHEET_PANELS - 1];
    }
    struct sheet_panel *p = &sheet->panel[sheet->panels++];
    snprintf(p->name, sizeof p->name, "%s", name);
    snprintf(p->title, sizeof p->title, "%s", title);
    p->every = 1;
    return p;
}

void sheet_column(struct sheet_panel *panel, const char *unit, int decimals, const char *format,
                  ...) {
    if (panel->columns == SHEET_COLUMNS) {
        panel->too_many = true;
        return;
    }
    struct sheet_column *c = &panel->column[panel->columns++];
    c->unit = unit;
    c->decimals = decimals;
    va_list args;
    va_start(args, format);
    vsnprintf(c->name, sizeof c->name, format, args);
    va_end(args);
}

struct sheet_row *sheet_row(struct sheet *sheet, struct sheet_panel *panel, const char *label) {
    static _Thread_local struct sheet_row nowhere;
    if (!ROOM_FOR_ONE(panel->row, panel->rows, panel->room, 32)) {
        sheet->no_memory = true;
        return &nowhere;
    }
    struct sheet_row *r = &panel->row[panel->rows++];
    snprintf(r->label, sizeof r->label, "%s", label ? label : "");
    for (int i = 0; i < SHEET_COLUMNS; i++)
        r->value[i] = NAN;
    return r;
}

static struct sheet_claim *new_claim(struct sheet *sheet, const char *id, const char *format,
                                     va_list args) {
    if (sheet->claims == SHEET_CLAIMS) {
        sheet->overflow = true;
        return &sheet->claim[SHEET_CLAIMS - 1];
    }
    struct sheet_claim *c = &sheet->claim[sheet->claims++];
    *c = (struct sheet_claim){.id = id, .unit = "", .tolerance = SHEET_WITHIN};
    vsnprintf(c->what, sizeof c->what, format, args);
    return c;
}

struct sheet_claim *sheet_claim(struct sheet *sheet, const char *id, const char *unit, double ours,
                                double published, const char *format, ...) {
    va_list args;
    va_start(args, format);
    struct sheet_claim *c = new_claim(sheet, id, format, args);
    va_end(args);
    c->unit = unit;
    c->ours = ours;
    c->published = published;
    if (isnan(ours))
        c->verdict = SHEET_MISSING;
    else
        c->verdict = fabs(sheet_ratio(c) - 1) <= c->tolerance ? SHEET_AGREES : SHEET_DIFFERS;
    return c;
}

struct sheet_claim *sheet_bound(struct sheet *sheet, const char *id, const char *unit, double ours,
                                double published, bool most, const char *format, ...) {
    va_list args;
    va_start(args, format);
    struct sheet_claim *c = new_claim(sheet, id, format, args);
    va_end(args);
    c->unit = unit;
    c->ours = ours;
    c->published = published;
    double over = most ? 1 - sheet_ratio(c) : sheet_ratio(c) - 1;
    c->verdict = isnan(ours) ? SHEET_MISSING : over >= -c->tolerance ? SHEET_AGREES : SHEET_DIFFERS;
    return c;
}

struct sheet_claim *sheet_shape(struct sheet *sheet, const char *id, bool holds, const char *format,
                                ...) {
    va_list args;
    va_start(args, format);
    struct sheet_claim *c = new_claim(sheet, id, format, args);
    va_end(args);
    c->is_shape = true;
    c->ours = holds;
    c->published = 1;
    c->verdict = holds ? SHEET_AGREES : SHEET_DIFFERS;
    return c;
}

void sheet_within(struct sheet_claim *claim, double difference) {
    claim->tolerance = difference / claim->published;
    if (claim->verdict != SHEET_MISSING)
        claim->verdict =
            fabs(sheet_ratio(claim) - 1) <= claim->tolerance + 1e-9 ? SHEET_AGREES : SHEET_DIFFERS;
}

void sheet_because(struct sheet_claim *claim, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(claim->note, sizeof claim->note, format, args);
    va_end(args);
}

void sheet_calibrated(struct sheet_claim *claim, const char *format, ...) {
    if (claim->verdict == SHEET_AGREES)
        claim->verdict = SHEET_CALIBRATED; /* what was fitted and yet differs, differs */
    va_list args;
    va_start(args, format);
    vsnprintf(claim->note, sizeof claim->note, format, args);
    va_end(args);
}

void sheet_note(struct sheet *sheet, const char *format, ...) {
    if (sheet->notes == SHEET_NOTES) {
        sheet->overflow = true;
        return;
    }
    va_list args;
    va_start(args, format);
    vsnprintf(sheet->note[sheet->notes++], sizeof sheet->note[0], format, args);
    va_end(args);
}

double sheet_ratio(const struct sheet_claim *claim) {
    if (claim->is_shape || claim->published == 0)
        return NAN;
    return claim->ours / claim->published;
}

const char *sheet_verdict_name(enum sheet_verdict verdict) {
    static const char *const names[] = {"agrees", "differs", "calibrated", "not there yet"};
    return names[verdict];
}

/* Adds "a, b, c" of the claims with a verdict, by id and what they say. */
static size_t add_claims(const struct sheet *sheet, enum sheet_verdict verdict, const char *before,
                         char *line, size_t used, size_t room) {
    const char *separator = before;
    for (int i = 0; i < sheet->claims && used < room; i++) {
        const struct sheet_claim *c = &sheet->claim[i];
        if (c->verdict != verdict)
            continue;
        used += (size_t)snprintf(line + used, room - used, "%s%s %s", separator, c->id, c->what);
        double ratio = sheet_ratio(c);
        if (used < room && isfinite(ratio))
            used += (size_t)snprintf(line + used, room - used, " (x %.2f)", ratio);
        separator = ", ";
    }
    return used;
}

void sheet_verdict(const struct sheet *sheet, char *line, size_t room) {
    int count[4] = {0};
    for (int i = 0; i < sheet->claims; i++)
        count[sheet->claim[i].verdict]++;
    size_t used = 0;
    if (!sheet->claims)
        used = (size_t)snprintf(line, room, "nothing published to compare with");
    else
        used = (size_t)snprintf(line, room, "%d of %d agree", count[SHEET_AGREES], sheet->claims);
    used = add_claims(sheet, SHEET_CALIBRATED, "; fitted to the paper, so no proof: ", line, used,
                      room);
    used = add_claims(sheet, SHEET_DIFFERS, "; differ: ", line, used, room);
    add_claims(sheet, SHEET_MISSING, "; not there yet: ", line, used, room);
}

void sheet_free(struct sheet *sheet) {
    for (int i = 0; i < sheet->panels; i++)
        free(sheet->panel[i].row);
    *sheet = (struct sheet){0};
}

int experiment_run(const struct experiment *experiment, const struct experiment_context *context,
                   struct sheet *sheet, struct spin_error *err) {
    *sheet = (struct sheet){0};
    int code = experiment_check(experiment, &context->setup, err);
    if (code)
        return code;
    experiment_changes(&context->setup, sheet->changed, sizeof sheet->changed);
    code = experiment->run(context, sheet, err);
    for (int i = 0; i < sheet->panels && !code; i++)
        if (sheet->panel[i].too_many)
            sheet->overflow = true;
    if (!code && sheet->no_memory)
        code = spin_fail(err, SPIN_ENOMEM, "%s: out of memory", experiment->id);
    if (!code && sheet->overflow)
        code = spin_fail(err, SPIN_ELIMIT,
                         "%s: more panels, columns, claims or notes than a "
                         "sheet holds; raise SHEET_... in experiment.h",
                         experiment->id);
    if (code)
        sheet_free(sheet);
    return code;
}
