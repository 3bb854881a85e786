/* stdlib.h for handlers. There is no heap here: P4sPIN's malloc and free are in spin/handler.h, and
 * PsPIN has none. */
#ifndef SPIN_LIBC_STDLIB_H
#define SPIN_LIBC_STDLIB_H

#include "spin/target.h" /* size_t, abort */

#ifdef __cplusplus
extern "C" {
#endif

#define EXIT_SUCCESS 0
#define EXIT_FAILURE 1
#define RAND_MAX     0x7fffffff

int abs(int n);
long labs(long n);
int atoi(const char *text);
long atol(const char *text);
long strtol(const char *text, char **end, int base);
unsigned long strtoul(const char *text, char **end, int base);
/* One sequence for all HPUs, which race for it: for tests, not for drawing lots. */
int rand(void);
void srand(unsigned seed);

#ifdef __cplusplus
}
#endif

#endif
