#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/text.h"

/* Names and paths in it come from files and from whoever called: they are shown here, where none
 * can be forgotten. */
int spin_fail(struct spin_error *err, enum spin_code code, const char *format, ...) {
    if (err) {
        char text[sizeof err->text];
        va_list args;
        va_start(args, format);
        vsnprintf(text, sizeof text, format, args);
        va_end(args);
        err->code = code;
        text_show(err->text, sizeof err->text, text);
    }
    return code;
}

const char *spin_code_name(int code) {
    switch (code) {
#define ROW(name, value, text)                                                                     \
    case value:                                                                                    \
        return #name;
        SPIN_CODES(ROW)
#undef ROW
    }
    return "unknown code";
}

const char *spin_code_text(int code) {
    switch (code) {
#define ROW(name, value, text)                                                                     \
    case value:                                                                                    \
        return text;
        SPIN_CODES(ROW)
#undef ROW
    }
    return "unknown code";
}
