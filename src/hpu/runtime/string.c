/* Runs on the card: string.h. */
#include <string.h>

void *memchr(const void *in, int byte, size_t size) {
    const uint8_t *p = in;
    for (; size--; p++)
        if (*p == (uint8_t)byte)
            return (void *)(uintptr_t)p;
    return NULL;
}

size_t strnlen(const char *text, size_t most) {
    size_t length = 0;
    while (length < most && text[length])
        length++;
    return length;
}

size_t strlen(const char *text) {
    return strnlen(text, SIZE_MAX);
}

int strncmp(const char *a, const char *b, size_t most) {
    for (; most--; a++, b++)
        if (*a != *b || !*a)
            return (uint8_t)*a - (uint8_t)*b;
    return 0;
}

int strcmp(const char *a, const char *b) {
    return strncmp(a, b, SIZE_MAX);
}

char *strcpy(char *to, const char *from) {
    return memcpy(to, from, strlen(from) + 1);
}

char *strncpy(char *to, const char *from, size_t size) {
    size_t length = strnlen(from, size);
    memcpy(to, from, length);
    memset(to + length, 0, size - length);
    return to;
}

char *strncat(char *to, const char *from, size_t most) {
    size_t end = strlen(to), length = strnlen(from, most);
    memcpy(to + end, from, length);
    to[end + length] = 0;
    return to;
}

char *strcat(char *to, const char *from) {
    return strncat(to, from, SIZE_MAX);
}

char *strchr(const char *text, int c) {
    for (;; text++) {
        if (*text == (char)c)
            return (char *)(uintptr_t)text;
        if (!*text)
            return NULL;
    }
}

char *strrchr(const char *text, int c) {
    const char *last = NULL;
    for (;; text++) {
        if (*text == (char)c)
            last = text;
        if (!*text)
            return (char *)(uintptr_t)last;
    }
}

char *strstr(const char *text, const char *part) {
    size_t length = strlen(part);
    for (;; text++) {
        if (strncmp(text, part, length) == 0)
            return (char *)(uintptr_t)text;
        if (!*text)
            return NULL;
    }
}
