#include "base/json.h"

#include <math.h>

#include "base/text.h"

void json_quote(FILE *out, const char *text) {
    fputc('"', out);
    while (*text) {
        size_t length = text_character(text);
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            fprintf(out, "\\%c", c);
        else if (length)
            fwrite(text, 1, length, out);
        else if (c < 0x20 || c == 0x7f)
            fprintf(out, "\\u%04x", c);
        else
            fprintf(out, "\\\\x%02x", c);
        text += length ? length : 1;
    }
    fputc('"', out);
}

static void member(struct json *j, const char *key) {
    if (j->depth > 0)
        fprintf(j->out, "%s\n%*s", j->first ? "" : ",", 2 * j->depth, "");
    j->first = false;
    if (key) {
        json_quote(j->out, key);
        fputs(": ", j->out);
    }
}

static void open_with(struct json *j, const char *key, char bracket) {
    member(j, key);
    fputc(bracket, j->out);
    j->depth++;
    j->first = true;
}

static void close_with(struct json *j, char bracket) {
    j->depth--;
    if (!j->first)
        fprintf(j->out, "\n%*s", 2 * j->depth, "");
    fputc(bracket, j->out);
    if (j->depth == 0)
        fputc('\n', j->out);
    j->first = false;
}

void json_object(struct json *j, const char *key) {
    open_with(j, key, '{');
}
void json_array(struct json *j, const char *key) {
    open_with(j, key, '[');
}
void json_end_object(struct json *j) {
    close_with(j, '}');
}
void json_end_array(struct json *j) {
    close_with(j, ']');
}

void json_string(struct json *j, const char *key, const char *value) {
    member(j, key);
    json_quote(j->out, value);
}

void json_u64(struct json *j, const char *key, uint64_t value) {
    member(j, key);
    fprintf(j->out, "%llu", (unsigned long long)value);
}

void json_i64(struct json *j, const char *key, int64_t value) {
    member(j, key);
    fprintf(j->out, "%lld", (long long)value);
}

void json_real(struct json *j, const char *key, double value, int decimals) {
    member(j, key);
    if (isfinite(value))
        fprintf(j->out, "%.*f", decimals, value);
    else
        fputs("null", j->out); /* JSON has no infinity */
}

void json_bool(struct json *j, const char *key, bool value) {
    member(j, key);
    fputs(value ? "true" : "false", j->out);
}

void json_hex(struct json *j, const char *key, const uint8_t *bytes, uint64_t length) {
    member(j, key);
    fputc('"', j->out);
    for (uint64_t i = 0; i < length; i++)
        fprintf(j->out, "%02x", bytes[i]);
    fputc('"', j->out);
}
