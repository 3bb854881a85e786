#include "live/live_fresh.h"

#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "live/live_clock.h"

/* The mapping at an address, by /proc/self/maps (Linux 6.11). */
struct map_query {
    uint64_t size, flags, address;
    uint64_t from, to, of, page_bytes, offset, inode;
    uint32_t major, minor, name_bytes, build_bytes;
    uint64_t name, build;
};
#define MAP_QUERY _IOWR('f', 17, struct map_query)

#define SWAPPED    (1ull << 62) /* of an entry of /proc/self/pagemap */
#define SLOW_NS    200000       /* the system looks for memory, or clears a huge page: then */
#define PAUSE      2            /* epochs without touching, which others have */
#define MAP_EPOCHS 4            /* for which a mapping is taken to be the same */

void live_fresh_open(struct live_fresh *f, uint32_t page_bits) {
    *f = (struct live_fresh){.page_bits = page_bits, .refused = UINT32_MAX / 2};
    f->maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    f->pages = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
}

void live_fresh_close(struct live_fresh *f) {
    if (f->maps >= 0)
        close(f->maps);
    if (f->pages >= 0)
        close(f->pages);
}

/* Not a file's, nor shared: there an absent page may be anywhere. */
static bool is_anonymous(struct live_fresh *f, uintptr_t from, uintptr_t to, uint32_t epoch) {
    if (epoch - f->known >= MAP_EPOCHS || from < f->from || to > f->to) {
        struct map_query q = {.size = sizeof q, .address = from};
        f->known = epoch;
        f->from = f->to = 0;
        if (ioctl(f->maps, MAP_QUERY, &q) != 0 || q.inode)
            return false;
        f->from = q.from;
        f->to = q.to;
    }
    return from >= f->from && to <= f->to;
}

static bool is_swapped(const struct live_fresh *f, uint64_t first, uint64_t last) {
    uint64_t entry[LIVE_FRESH_PAGES] = {0};
    size_t bytes = (size_t)(last - first + 1) * sizeof entry[0];
    if (pread(f->pages, entry, bytes, (off_t)(first * sizeof entry[0])) != (ssize_t)bytes)
        return true;
    return (entry[0] | entry[1]) & SWAPPED;
}

enum live_touched live_fresh_touch(struct live_fresh *f, uint64_t first, uint64_t last, bool write,
                                   enum guarded how, uint32_t epoch) {
    uintptr_t from = (uintptr_t)(first << f->page_bits),
              to = (uintptr_t)((last + 1) << f->page_bits);
    if (f->maps < 0 || f->pages < 0 || epoch - f->refused < PAUSE ||
        last - first >= LIVE_FRESH_PAGES || !is_anonymous(f, from, to, epoch) ||
        is_swapped(f, first, last))
        return LIVE_NOT_FRESH;
    uint64_t began_ns = live_now_ns();
    uint8_t byte[2];
    const uint8_t *at = (const uint8_t *)from;
    bool there = write ? guarded_touch(how, (void *)from, to - from)
                       : guarded_read(how, &byte[0], at, 1) &&
                             guarded_read(how, &byte[1], at + (to - from) - 1, 1);
    if (live_now_ns() - began_ns > SLOW_NS)
        f->refused = epoch;
    return there ? LIVE_TOUCHED : LIVE_UNTOUCHABLE;
}
