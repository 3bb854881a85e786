/* What handlers print: bytes that they store at the card's stdout, gathered to lines per HPU, so
 * that lines of several HPUs do not mix. */
#ifndef SPIN_HPU_CONSOLE_H
#define SPIN_HPU_CONSOLE_H

#include <stdbool.h>
#include <stdint.h>

#define CONSOLE_BYTES 256

struct console {
    uint32_t length;
    char text[CONSOLE_BYTES];
};

/* Adds a byte; one that a terminal would obey is written as \xNN. True: there is a line to print (a
 * very long one in pieces). */
bool console_put(struct console *c, uint8_t byte);
/* The line, which is taken out. Valid until the next byte. */
const char *console_line(struct console *c);

#endif
