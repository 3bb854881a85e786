/* stdio.h for handlers: text goes to the card's console, whose lines the simulator prints. It costs
 * the instructions that it takes and a store per byte, and up to 300 bytes of the 1 KiB stack. */
#ifndef SPIN_LIBC_STDIO_H
#define SPIN_LIBC_STDIO_H

#include <stdarg.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define EOF (-1)

/* There is one stream; stderr is another name for it. */
typedef struct spin_stream FILE;
#define stdout ((FILE *)0)
#define stderr ((FILE *)0)

/* Flags - 0 + space #, width and precision (also *), hh h l ll j z t, and d i u x X o c s p f F e E
 * g G %: 17 digits of a double are exact. They return the length, as in C. */
int printf(const char *format, ...) __attribute__((format(printf, 1, 2)));
int vprintf(const char *format, va_list list) __attribute__((format(printf, 1, 0)));
int fprintf(FILE *stream, const char *format, ...) __attribute__((format(printf, 2, 3)));
int sprintf(char *to, const char *format, ...) __attribute__((format(printf, 2, 3)));
int snprintf(char *to, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));
int vsprintf(char *to, const char *format, va_list list) __attribute__((format(printf, 2, 0)));
int vsnprintf(char *to, size_t size, const char *format, va_list list)
    __attribute__((format(printf, 3, 0)));
int puts(const char *text);
int fputs(const char *text, FILE *stream);
int putchar(int c);
int fputc(int c, FILE *stream);
int putc(int c, FILE *stream);
size_t fwrite(const void *from, size_t size, size_t count, FILE *stream);
int fflush(FILE *stream); /* nothing: a line is printed when it ends, or the handler does */

#ifdef __cplusplus
}
#endif

#endif
