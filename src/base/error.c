#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>

int spin_fail(struct spin_error *err, enum spin_code code, const char *format, ...) {
    if (err) {
        err->code = code;
        va_list args;
        va_start(args, format);
        vsnprintf(err->text, sizeof err->text, format, args);
        va_end(args);
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
