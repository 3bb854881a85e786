#include "hpu/console.h"

#include <stdio.h>

/* The longest that one byte becomes. */
#define ESCAPE_BYTES 4u

bool console_put(struct console *c, uint8_t byte) {
    if (byte == '\n')
        return true;
    if ((byte >= ' ' && byte < 0x7f) || byte == '\t')
        c->text[c->length++] = (char)byte;
    else
        c->length += (uint32_t)snprintf(c->text + c->length, ESCAPE_BYTES + 1, "\\x%02x", byte);
    return c->length + ESCAPE_BYTES + 1 > CONSOLE_BYTES;
}

const char *console_line(struct console *c) {
    c->text[c->length] = 0;
    c->length = 0;
    return c->text;
}
