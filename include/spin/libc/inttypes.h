/* inttypes.h for handlers: how printf names the types of stdint.h. */
#ifndef SPIN_LIBC_INTTYPES_H
#define SPIN_LIBC_INTTYPES_H

#include <stdint.h>

#ifdef __clang__
#define SPIN_PRI32 "" /* int */
#else
#define SPIN_PRI32 "l" /* long, by gcc */
#endif
#define PRId8   "d"
#define PRIu8   "u"
#define PRIx8   "x"
#define PRId16  "d"
#define PRIu16  "u"
#define PRIx16  "x"
#define PRId32  SPIN_PRI32 "d"
#define PRIi32  SPIN_PRI32 "i"
#define PRIu32  SPIN_PRI32 "u"
#define PRIx32  SPIN_PRI32 "x"
#define PRIX32  SPIN_PRI32 "X"
#define PRIo32  SPIN_PRI32 "o"
#define PRId64  "lld"
#define PRIi64  "lli"
#define PRIu64  "llu"
#define PRIx64  "llx"
#define PRIX64  "llX"
#define PRIo64  "llo"
#define PRIdPTR "d"
#define PRIuPTR "u"
#define PRIxPTR "x"

#endif
