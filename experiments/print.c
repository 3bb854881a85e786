/* A sheet as text, CSV and JSON. */
#include "experiment.h"

#include <math.h>
#include <string.h>

#include "base/json.h"

static int width_of(const struct sheet_panel *p, int column) {
    size_t width = strlen(p->column[column].name);
    if (strlen(p->column[column].unit) > width)
        width = strlen(p->column[column].unit);
    for (int r = 0; r < p->rows; r++) {
        char text[64];
        int length = column == 0 && p->by_name
                         ? (int)strlen(p->row[r].label)
                         : snprintf(text, sizeof text, "%.*f", p->column[column].decimals,
                                    p->row[r].value[column]);
        if ((size_t)length > width)
            width = (size_t)length;
    }
    return (int)width;
}

static void print_panel(const struct sheet_panel *p, FILE *out) {
    int width[SHEET_COLUMNS];
    fprintf(out, "%s\n", p->title);
    for (int c = 0; c < p->columns; c++)
        width[c] = width_of(p, c);
    for (int c = 0; c < p->columns; c++)
        fprintf(out, "  %*s", c == 0 && p->by_name ? -width[c] : width[c], p->column[c].name);
    fputc('\n', out);
    for (int c = 0; c < p->columns; c++)
        fprintf(out, "  %*s", c == 0 && p->by_name ? -width[c] : width[c], p->column[c].unit);
    fputc('\n', out);
    for (int r = 0; r < p->rows; r += p->every) {
        for (int c = 0; c < p->columns; c++) {
            double v = p->row[r].value[c];
            if (c == 0 && p->by_name)
                fprintf(out, "  %-*s", width[c], p->row[r].label);
            else if (isnan(v))
                fprintf(out, "  %*s", width[c], "-");
            else
                fprintf(out, "  %*.*f", width[c], p->column[c].decimals, v);
        }
        fputc('\n', out);
    }
    if (p->every > 1)
        fprintf(out, "  (one row in %d; --csv and --out have all)\n", p->every);
    fputc('\n', out);
}

/* Four significant digits, as published values have at most. */
static void number(char *text, size_t room, double value) {
    if (isnan(value))
        snprintf(text, room, "-");
    else if (fabs(value) >= 1000)
        snprintf(text, room, "%.0f", value);
    else
        snprintf(text, room, "%.4g", value);
}

static void print_claims(const struct sheet *s, FILE *out) {
    int what = 9;
    for (int i = 0; i < s->claims; i++)
        if ((int)strlen(s->claim[i].what) > what)
            what = (int)strlen(s->claim[i].what);
    fprintf(out, "%-4s  %-*s  %8s  %9s  %-8s  %5s  verdict\n", "id", what, "published", "ours",
            "published", "unit", "ratio");
    for (int i = 0; i < s->claims; i++) {
        const struct sheet_claim *c = &s->claim[i];
        char ours[32], published[32], ratio[32] = "-";
        if (c->is_shape) {
            snprintf(ours, sizeof ours, "%s", c->ours != 0 ? "so" : "not so");
            snprintf(published, sizeof published, "so");
        } else {
            number(ours, sizeof ours, c->ours);
            number(published, sizeof published, c->published);
            if (isfinite(sheet_ratio(c)))
                snprintf(ratio, sizeof ratio, "%.3f", sheet_ratio(c));
        }
        fprintf(out, "%-4s  %-*s  %8s  %9s  %-8s  %5s  %s%s%s\n", c->id, what, c->what, ours,
                published, c->unit, ratio, sheet_verdict_name(c->verdict), c->note[0] ? ": " : "",
                c->note);
    }
}

void sheet_print(const struct experiment *experiment, const struct sheet *sheet, FILE *out) {
    char line[2000];
    fprintf(out, "%s: %s (%s)\n", experiment->id, experiment->title, experiment->source);
    if (*sheet->changed)
        fprintf(out, "not the published set-up:%s\n", sheet->changed);
    putc('\n', out);
    for (int i = 0; i < sheet->panels; i++)
        print_panel(&sheet->panel[i], out);
    if (sheet->claims)
        print_claims(sheet, out);
    for (int i = 0; i < sheet->notes; i++)
        fprintf(out, "%s%s\n", i || !sheet->claims ? "" : "\n", sheet->note[i]);
    sheet_verdict(sheet, line, sizeof line);
    fprintf(out, "\nverdict: %s\n", line);
}

static void csv_text(FILE *out, const char *text) {
    if (!strpbrk(text, ",\"\n")) {
        fputs(text, out);
        return;
    }
    fputc('"', out);
    for (; *text; text++) {
        if (*text == '"')
            fputc('"', out);
        fputc(*text, out);
    }
    fputc('"', out);
}

static void csv_number(FILE *out, double value, int decimals) {
    if (!isnan(value))
        fprintf(out, "%.*f", decimals, value);
}

void sheet_print_csv(const struct sheet_panel *p, FILE *out) {
    for (int c = 0; c < p->columns; c++) {
        char header[80];
        const char *unit = p->column[c].unit;
        snprintf(header, sizeof header, "%s%s%s%s", p->column[c].name, *unit ? " (" : "", unit,
                 *unit ? ")" : "");
        if (c)
            fputc(',', out);
        csv_text(out, header);
    }
    fputc('\n', out);
    for (int r = 0; r < p->rows; r++) {
        for (int c = 0; c < p->columns; c++) {
            if (c)
                fputc(',', out);
            if (c == 0 && p->by_name)
                csv_text(out, p->row[r].label);
            else
                csv_number(out, p->row[r].value[c], p->column[c].decimals);
        }
        fputc('\n', out);
    }
}

void sheet_print_claims_csv(const struct sheet *sheet, FILE *out) {
    fputs("id,what,unit,ours,published,ratio,verdict,note\n", out);
    for (int i = 0; i < sheet->claims; i++) {
        const struct sheet_claim *c = &sheet->claim[i];
        csv_text(out, c->id);
        fputc(',', out);
        csv_text(out, c->what);
        fputc(',', out);
        csv_text(out, c->unit);
        fputc(',', out);
        csv_number(out, c->ours, 4);
        fputc(',', out);
        csv_number(out, c->published, 4);
        fputc(',', out);
        csv_number(out, sheet_ratio(c), 4);
        fputc(',', out);
        csv_text(out, sheet_verdict_name(c->verdict));
        fputc(',', out);
        csv_text(out, c->note);
        fputc('\n', out);
    }
}

static void json_panel(struct json *j, const struct sheet_panel *p) {
    json_object(j, NULL);
    json_string(j, "name", p->name);
    json_string(j, "title", p->title);
    json_array(j, "columns");
    for (int c = 0; c < p->columns; c++) {
        json_object(j, NULL);
        json_string(j, "name", p->column[c].name);
        json_string(j, "unit", p->column[c].unit);
        json_end_object(j);
    }
    json_end_array(j);
    json_array(j, "rows");
    for (int r = 0; r < p->rows; r++) {
        json_array(j, NULL);
        for (int c = 0; c < p->columns; c++) {
            if (c == 0 && p->by_name)
                json_string(j, NULL, p->row[r].label);
            else
                json_real(j, NULL, p->row[r].value[c], p->column[c].decimals);
        }
        json_end_array(j);
    }
    json_end_array(j);
    json_end_object(j);
}

static void json_claim(struct json *j, const struct sheet_claim *c) {
    json_object(j, NULL);
    json_string(j, "id", c->id);
    json_string(j, "what", c->what);
    if (c->is_shape) {
        json_bool(j, "holds", c->ours != 0);
    } else {
        json_string(j, "unit", c->unit);
        json_real(j, "ours", c->ours, 4);
        json_real(j, "published", c->published, 4);
        json_real(j, "ratio", sheet_ratio(c), 4);
    }
    json_string(j, "verdict", sheet_verdict_name(c->verdict));
    if (c->note[0])
        json_string(j, "note", c->note);
    json_end_object(j);
}

void sheet_print_json(const struct experiment *experiment, const struct sheet *sheet, FILE *out) {
    struct json j = {.out = out};
    char line[2000];
    json_object(&j, NULL);
    json_string(&j, "experiment", experiment->id);
    json_string(&j, "title", experiment->title);
    if (*sheet->changed)
        json_string(&j, "changed", sheet->changed + 1);
    json_string(&j, "source", experiment->source);
    json_array(&j, "panels");
    for (int i = 0; i < sheet->panels; i++)
        json_panel(&j, &sheet->panel[i]);
    json_end_array(&j);
    json_array(&j, "published");
    for (int i = 0; i < sheet->claims; i++)
        json_claim(&j, &sheet->claim[i]);
    json_end_array(&j);
    json_array(&j, "notes");
    for (int i = 0; i < sheet->notes; i++)
        json_string(&j, NULL, sheet->note[i]);
    json_end_array(&j);
    sheet_verdict(sheet, line, sizeof line);
    json_string(&j, "verdict", line);
    json_end_object(&j);
}
