/* string.h for handlers. */
#ifndef SPIN_LIBC_STRING_H
#define SPIN_LIBC_STRING_H

#include "spin/target.h" /* size_t, memcpy, memmove, memset, memcmp */

#ifdef __cplusplus
extern "C" {
#endif

void *memchr(const void *in, int byte, size_t size);
size_t strlen(const char *text);
size_t strnlen(const char *text, size_t most);
int strcmp(const char *a, const char *b);
int strncmp(const char *a, const char *b, size_t most);
char *strcpy(char *to, const char *from);
char *strncpy(char *to, const char *from, size_t size);
char *strcat(char *to, const char *from);
char *strncat(char *to, const char *from, size_t most);
char *strchr(const char *text, int c);
char *strrchr(const char *text, int c);
char *strstr(const char *text, const char *part);

#ifdef __cplusplus
}
#endif

#endif
