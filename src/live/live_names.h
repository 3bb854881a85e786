/* Where the processes of one job on one machine find each other: a folder that only this user can
 * open, in memory (/dev/shm). A process is a file there, NID.PID, which holds what its peers map
 * (live_shm.h); `key` is the job's key. The folder is the user's own for all programs that are
 * started by hand or by another launcher, or a job's of `openspin launch`.
 *
 * Files vanish when their process ends; after a kill whoever comes next finds that the owner is
 * gone, by its process number and start time, and removes them. */
#ifndef SPIN_LIVE_LIVE_NAMES_H
#define SPIN_LIVE_LIVE_NAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "openspin.h"

#define LIVE_KEY_BYTES  16
#define LIVE_PIDS       1024 /* PTL_PID_MAX */
#define LIVE_PATH_BYTES 256

struct live_folder {
    int fd; /* the folder, open */
    char path[LIVE_PATH_BYTES];
    uint8_t key[LIVE_KEY_BYTES];
};

/* An owner: a process of the system, in this life, with the program that it runs: `exec` leaves
 * nothing of a card. */
struct live_owner {
    uint32_t os_pid;
    uint32_t image; /* of all that this process has been; 0: whichever */
    uint64_t start; /* in the system's ticks since it booted */
};

/* The path of the user's own, whether it is there or not. */
void live_folder_path(char path[LIVE_PATH_BYTES]);

#define LIVE_ADDRESS_BYTES 256u
#define LIVE_FABRIC_FILE   "fabric." /* its pid follows: a struct live_entry */

/* How a process is reached by libfabric. */
struct live_entry {
    uint64_t life;           /* of the process: another is another process */
    struct live_owner owner; /* os_pid 0: on another machine */
    uint32_t nid;
    char provider[32]; /* both must have the same */
    uint32_t bytes;
    uint8_t address[LIVE_ADDRESS_BYTES];
};

/* job NULL: the user's own; else the name of a job's folder, made by live_folder_make. */
int live_folder_open(struct live_folder *folder, const char *job, struct spin_error *err);
/* Makes a job's folder with a key of its own; `name` takes what the ranks are told. */
int live_folder_make(struct live_folder *folder, char *name, uint32_t room, struct spin_error *err);
/* With all that is in it. */
void live_folder_remove(struct live_folder *folder);
void live_folder_close(struct live_folder *folder);

/* A file in it; of one with an entry also what the provider has left of that process. */
void live_folder_remove_file(int folder_fd, const char *name);
bool live_folder_read_entry(int folder_fd, const char *name, struct live_entry *e);

/* The key is from this file instead, so that machines can share it. */
int live_folder_key(struct live_folder *folder, const char *path, struct spin_error *err);

/* While one process holds it, none of the others makes or removes files. */
bool live_folder_lock(struct live_folder *folder, int *lock);
void live_folder_unlock(int lock);

struct live_owner live_owner_self(void);
bool live_owner_lives(struct live_owner owner);

/* A new one, which nobody can guess. */
int live_key_make(uint8_t *key, struct spin_error *err);
/* Compares in a time that does not depend on where they differ. */
bool live_key_equal(const uint8_t *a, const uint8_t *b);

#endif
