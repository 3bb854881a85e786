/* What the C library has under a name that libportals-world.so takes: for processes that are no
 * ranks, and for what takes no virtual time. */
#ifndef SPIN_PORTALS_CHANNEL_REAL_H
#define SPIN_PORTALS_CHANNEL_REAL_H

#include <dlfcn.h>

/* Of two versions of a name that of today. */
static inline void *channel_real(const char *name) {
    void *at = dlvsym(RTLD_NEXT, name, "GLIBC_2.3.2");
    return at ? at : dlsym(RTLD_NEXT, name);
}

#define REAL(name, ...)                                                                            \
    ({                                                                                             \
        static __typeof__(name) *_Atomic real;                                                     \
        if (!real)                                                                                 \
            *(void **)&real = channel_real(#name);                                                 \
        real(__VA_ARGS__);                                                                         \
    })

#endif
