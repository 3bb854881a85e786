#include "live/live_seen.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/grow.h"
#include "live/live_sweep.h"

#define MAGIC    0x316e65736e697073ull /* "spinSeen", of version 1 */
#define SHOWN_NS (4 * LIVE_MS)
#define LOOKS    1000 /* at a page that changes meanwhile */

#define WORDS (sizeof(struct spin_live_card) / sizeof(uint64_t))
_Static_assert(sizeof(struct spin_live_card) % sizeof(uint64_t) == 0, "it is copied in words");

/* A seqlock: `changes` is odd while the words are written. */
struct seen_page {
    _Atomic uint64_t magic;
    _Atomic uint64_t changes;
    _Atomic uint64_t word[WORDS];
};

/* ---- the card's side ---- */

static uint64_t *word_of(struct spin_live_card *card) {
    return (uint64_t *)(void *)card;
}

void live_seen_sweep(const struct live_folder *folder) {
    int fd = openat(folder->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *all = fd < 0 ? NULL : fdopendir(fd);
    struct live_owner owner = {0};
    unsigned long long start;
    for (struct dirent *e; all && (e = readdir(all));) {
        if (sscanf(e->d_name, "seen-%u-%llu-", &owner.os_pid, &start) != 2)
            continue;
        owner.start = start;
        if (!live_owner_lives(owner))
            unlinkat(folder->fd, e->d_name, 0);
    }
    if (all)
        closedir(all);
}

static struct seen_page *make_page(struct live_seen *s) {
    struct live_owner self = live_owner_self();
    int fd = -1;
    for (unsigned n = 0; fd < 0 && n < LIVE_PIDS; n++) { /* a process may have several cards */
        snprintf(s->name, sizeof s->name, "seen-%u-%llu-%u", self.os_pid,
                 (unsigned long long)self.start, n);
        fd = openat(s->folder->fd, s->name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (fd < 0 && errno != EEXIST)
            return NULL;
    }
    if (fd < 0)
        return NULL;
    /* Its memory is there before it is written to: else a full /dev/shm would end the program. */
    void *page =
        posix_fallocate(fd, 0, sizeof(struct seen_page))
            ? MAP_FAILED
            : mmap(NULL, sizeof(struct seen_page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (page != MAP_FAILED)
        return page;
    unlinkat(s->folder->fd, s->name, 0);
    return NULL;
}

void live_seen_open(struct live_seen *s, struct live_folder *folder,
                    const struct spin_live_card *card) {
    pthread_mutex_init(&s->lock, NULL);
    s->folder = folder;
    s->card = *card;
    const char *job = strrchr(folder->path, '/');
    if (job && !strncmp(job, "/job-", 5))
        snprintf(s->card.job, sizeof s->card.job, "%.40s", job + 1);
    else /* in a job's folder all vanish with the job */
        live_seen_sweep(folder);
    s->page = make_page(s);
    if (!s->page)
        return;
    s->card.began_ns = live_now_ns();
    live_seen_show(s, s->card.began_ns);
    atomic_store(&s->page->magic, MAGIC);
}

void live_seen_leave(struct live_seen *s) {
    if (s->page)
        unlinkat(s->folder->fd, s->name, 0);
}

void live_seen_close(struct live_seen *s) {
    live_seen_leave(s);
    if (s->page)
        munmap(s->page, sizeof *s->page);
    pthread_mutex_destroy(&s->lock);
}

static void copy_handlers(struct live_seen *s) {
    struct spin_live_card *card = &s->card;
    card->handlers = atomic_load_explicit(&s->handlers, memory_order_acquire);
    card->counts.handlers = card->counts.handler_ns = 0;
    for (uint32_t i = 0; i < card->handlers; i++) {
        struct spin_live_handler *to = &card->handler[i];
        struct live_seen_handler *from = &s->handler[i];
        *to = from->is;
        to->runs = atomic_load_explicit(&from->begun, memory_order_relaxed) -
                   atomic_load_explicit(&from->again, memory_order_relaxed);
        to->faults = atomic_load_explicit(&from->faults, memory_order_relaxed);
        to->ns = atomic_load_explicit(&from->ns, memory_order_relaxed);
        card->counts.handlers += to->runs;
        card->counts.handler_ns += to->ns;
    }
}

void live_seen_show(struct live_seen *s, uint64_t now_ns) {
    struct seen_page *page = s->page;
    if (!page)
        return;
    s->due_ns = now_ns + SHOWN_NS;
    s->card.shown_ns = now_ns;
    copy_handlers(s);
    uint64_t changes = atomic_load_explicit(&page->changes, memory_order_relaxed);
    const uint64_t *word = word_of(&s->card);
    size_t words = offsetof(struct spin_live_card, handler) / sizeof *word +
                   s->card.handlers * sizeof(struct spin_live_handler) / sizeof *word;
    atomic_store_explicit(&page->changes, changes + 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    for (size_t i = 0; i < words; i++)
        atomic_store_explicit(&page->word[i], word[i], memory_order_relaxed);
    atomic_store_explicit(&page->changes, changes + 2, memory_order_release);
}

/* ---- handlers ---- */

static struct live_seen_handler *find(struct live_seen *s, const struct nic_task *task) {
    uint32_t handlers = atomic_load_explicit(&s->handlers, memory_order_acquire);
    for (uint32_t i = 0; i < handlers; i++) {
        if (live_seen_is(&s->handler[i], task))
            return &s->handler[i];
    }
    return handlers == SPIN_LIVE_HANDLERS ? &s->handler[SPIN_LIVE_HANDLERS - 1] : NULL;
}

static void name_handler(struct live_seen_handler *h, const struct nic_task *task, bool others) {
    const struct spin_function *f = spin_image_at(task->handlers->image, task->entry);
    h->entry = task->entry;
    h->is = (struct spin_live_handler){.interface = task->message->interface,
                                       .pt_index = task->message->pt_index,
                                       .kind = task->kind};
    snprintf(h->is.name, sizeof h->is.name, "%s", others ? "(others)" : f ? f->name : "?");
}

struct live_seen_handler *live_seen_handler(struct live_seen *s, const struct nic_task *task) {
    struct live_seen_handler *h = find(s, task);
    if (h)
        return h;
    pthread_mutex_lock(&s->lock);
    h = find(s, task);
    if (!h) {
        uint32_t handlers = atomic_load_explicit(&s->handlers, memory_order_relaxed);
        h = &s->handler[handlers];
        name_handler(h, task, handlers == SPIN_LIVE_HANDLERS - 1);
        atomic_store_explicit(&s->handlers, handlers + 1, memory_order_release);
    }
    pthread_mutex_unlock(&s->lock);
    return h;
}

uint64_t live_seen_begins(struct live_seen_handler *h, bool again, bool alone) {
    uint64_t run = alone ? atomic_load_explicit(&h->begun, memory_order_relaxed)
                         : atomic_fetch_add_explicit(&h->begun, 1, memory_order_relaxed);
    if (alone)
        atomic_store_explicit(&h->begun, run + 1, memory_order_relaxed);
    if (again)
        atomic_fetch_add_explicit(&h->again, 1, memory_order_relaxed);
    return run < SEEN_EXACT || run % SEEN_SAMPLE == 0 ? live_now_ns() : 0;
}

void live_seen_ends(struct live_seen_handler *h, uint64_t began_ns, bool fault) {
    if (fault)
        atomic_fetch_add_explicit(&h->faults, 1, memory_order_relaxed);
    if (!began_ns)
        return;
    bool exact = atomic_load_explicit(&h->begun, memory_order_relaxed) <= SEEN_EXACT;
    uint64_t ns = (live_now_ns() - began_ns) * (exact ? 1 : SEEN_SAMPLE);
    atomic_fetch_add_explicit(&h->ns, ns, memory_order_relaxed);
}

/* ---- who looks ---- */

struct looker {
    struct spin_live_card *card;
    uint32_t cards, room;
    bool no_memory;
};

/* False: it is not there, or is written all the time. */
static bool read_page(struct seen_page *page, struct spin_live_card *card) {
    uint64_t *word = word_of(card);
    if (atomic_load(&page->magic) != MAGIC)
        return false;
    for (int look = 0; look < LOOKS; look++) {
        uint64_t before = atomic_load_explicit(&page->changes, memory_order_acquire);
        for (size_t i = 0; i < WORDS; i++)
            word[i] = atomic_load_explicit(&page->word[i], memory_order_relaxed);
        atomic_thread_fence(memory_order_acquire);
        if (!(before & 1) && atomic_load_explicit(&page->changes, memory_order_relaxed) == before)
            return true;
        live_pause();
    }
    return false;
}

/* Nothing in a file is believed: another version may have written it. */
static void make_sane(struct spin_live_card *card, uint32_t os_pid, const char *job) {
    card->os_pid = os_pid;
    card->program[sizeof card->program - 1] = 0;
    card->transport[sizeof card->transport - 1] = 0;
    snprintf(card->job, sizeof card->job, "%.47s", job);
    if (card->handlers > SPIN_LIVE_HANDLERS)
        card->handlers = SPIN_LIVE_HANDLERS;
    for (uint32_t i = 0; i < card->handlers; i++)
        card->handler[i].name[sizeof card->handler[i].name - 1] = 0;
}

static void look_at(struct looker *l, int folder, const char *name, const char *job) {
    struct live_owner owner = {0};
    unsigned long long start;
    struct stat is;
    if (sscanf(name, "seen-%u-%llu-", &owner.os_pid, &start) != 2)
        return;
    owner.start = start;
    if (!live_owner_lives(owner))
        return;
    if (!ROOM_FOR_ONE(l->card, l->cards, l->room, 16)) {
        l->no_memory = true;
        return;
    }
    int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    void *page = fd < 0 || fstat(fd, &is) || is.st_size != sizeof(struct seen_page)
                     ? MAP_FAILED
                     : mmap(NULL, sizeof(struct seen_page), PROT_READ, MAP_SHARED, fd, 0);
    if (fd >= 0)
        close(fd);
    if (page == MAP_FAILED)
        return;
    if (read_page(page, &l->card[l->cards])) {
        make_sane(&l->card[l->cards], owner.os_pid, job);
        l->cards++;
    }
    munmap(page, sizeof(struct seen_page));
}

static void look_into(struct looker *l, int base, const char *name, const char *job, bool inside) {
    int fd = openat(base, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *all = fd < 0 ? NULL : fdopendir(fd);
    if (!all && fd >= 0)
        close(fd);
    for (struct dirent *e; all && (e = readdir(all));) {
        look_at(l, dirfd(all), e->d_name, job);
        if (inside && !strncmp(e->d_name, "job-", 4))
            look_into(l, dirfd(all), e->d_name, e->d_name, false);
    }
    if (all)
        closedir(all);
}

static int by_job_and_pid(const void *one, const void *two) {
    const struct spin_live_card *a = one, *b = two;
    int order = strcmp(a->job, b->job);
    if (order)
        return order;
    if (a->nid != b->nid)
        return a->nid < b->nid ? -1 : 1;
    return a->pid != b->pid ? (a->pid < b->pid ? -1 : 1) : (a->os_pid > b->os_pid) * 2 - 1;
}

int spin_live_cards(const char *job, struct spin_live_card **cards, uint32_t *count,
                    struct spin_error *err) {
    struct looker l = {0};
    char path[LIVE_PATH_BYTES];
    live_folder_path(path);
    *cards = NULL;
    *count = 0;
    live_sweep();
    int base = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (job && (base < 0 || strncmp(job, "job-", 4) || strchr(job, '/') ||
                faccessat(base, job, X_OK, 0))) {
        if (base >= 0)
            close(base);
        return spin_fail(err, SPIN_EARG, "there is no job '%.60s' of `openspin launch`", job);
    }
    if (base < 0)
        return 0; /* there has never been one */
    look_into(&l, base, job ? job : ".", job ? job : "", !job);
    close(base);
    if (l.no_memory) {
        free(l.card);
        return spin_fail(err, SPIN_ENOMEM, "out of memory");
    }
    if (l.cards)
        qsort(l.card, l.cards, sizeof *l.card, by_job_and_pid);
    *cards = l.card;
    *count = l.cards;
    return 0;
}
