/* Writes JSON: commas, quotes and indentation are kept right by the writer. And reads it. */
#ifndef SPIN_BASE_JSON_H
#define SPIN_BASE_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct json {
    FILE *out;
    int depth;
    bool first; /* nothing written at this depth yet */
};

/* `key` is NULL inside an array and at the top. */
void json_object(struct json *j, const char *key);
void json_array(struct json *j, const char *key);
void json_end_object(struct json *j);
void json_end_array(struct json *j);
void json_string(struct json *j, const char *key, const char *value);
void json_u64(struct json *j, const char *key, uint64_t value);
void json_i64(struct json *j, const char *key, int64_t value);
void json_real(struct json *j, const char *key, double value, int decimals);
void json_bool(struct json *j, const char *key, bool value);
/* Lower-case hexadecimal digits as a string. */
void json_hex(struct json *j, const char *key, const uint8_t *bytes, uint64_t length);

/* "text", for those who write lines of JSON themselves. Bytes that are no UTF-8 appear as text
 * (base/text.h): a reader gets JSON in every case. */
void json_quote(FILE *out, const char *text);

/* Called with every number, string, true, false and null of a text, in order: its path
 * ("network.links", "ranks.0.finish_ps"), its value (strings unescaped, the rest as written), and
 * whether it lies in an array. */
typedef void json_visit(void *user, const char *path, const char *value, bool in_array);
/* False when the text is not JSON, or there is no memory; `each` may have been called before. */
bool json_read(const char *text, size_t length, json_visit *each, void *user);

#endif
