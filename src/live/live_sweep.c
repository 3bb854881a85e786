#include "live/live_sweep.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "live/live_book.h"
#include "live/live_box.h"
#include "live/live_names.h"
#include "live/live_seen.h"

void live_sweep(void) {
    struct live_folder f;
    struct stat is;
    live_folder_path(f.path);
    f.fd = open(f.path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    /* Who looks must not wait for one who was stopped in the middle. */
    int lock = f.fd < 0 || fstat(f.fd, &is) || is.st_uid != getuid()
                   ? -1
                   : openat(f.fd, "lock", O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (lock >= 0 && flock(lock, LOCK_EX | LOCK_NB) == 0) {
        box_sweep(&f);
        live_book_sweep(&f);
        live_seen_sweep(&f);
    }
    if (lock >= 0)
        live_folder_unlock(lock);
    live_folder_close(&f);
}
