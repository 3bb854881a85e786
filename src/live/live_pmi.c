#include "live/live_pmi.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/grow.h"

#define KVS_NAME   "openspin"
#define LINE_BYTES 4096
#define KEY_MAX    256
#define VALUE_MAX  1024
#define PAIRS_MAX  1000000u

struct pair {
    char *key, *value;
};

struct rank {
    int fd;
    bool at_barrier;
    uint32_t filled;
    char line[LINE_BYTES];
};

struct live_pmi {
    uint32_t ranks, at_barrier, present;
    struct pair *pair;
    uint32_t pairs, room;
    struct rank rank[];
};

struct live_pmi *live_pmi_new(uint32_t ranks) {
    struct live_pmi *pmi = calloc(1, sizeof *pmi + ranks * sizeof pmi->rank[0]);
    if (!pmi)
        return NULL;
    pmi->ranks = ranks;
    for (uint32_t i = 0; i < ranks; i++)
        pmi->rank[i].fd = -1;
    return pmi;
}

void live_pmi_free(struct live_pmi *pmi) {
    if (!pmi)
        return;
    for (uint32_t i = 0; i < pmi->ranks; i++)
        live_pmi_left(pmi, i);
    for (uint32_t i = 0; i < pmi->pairs; i++) {
        free(pmi->pair[i].key);
        free(pmi->pair[i].value);
    }
    free(pmi->pair);
    free(pmi);
}

void live_pmi_add(struct live_pmi *pmi, uint32_t rank, int fd) {
    pmi->rank[rank].fd = fd;
    pmi->present++;
}

int live_pmi_fd(const struct live_pmi *pmi, uint32_t rank) {
    return pmi->rank[rank].fd;
}

bool live_pmi_waits(const struct live_pmi *pmi, uint32_t rank) {
    return pmi->rank[rank].at_barrier;
}

/* A rank that does not read its answers is not waited for. */
static void answer(struct rank *r, const char *text) {
    size_t length = strlen(text);
    if (r->fd >= 0 && send(r->fd, text, length, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)length)
        shutdown(r->fd, SHUT_RDWR);
}

static void open_barrier(struct live_pmi *pmi) {
    if (!pmi->at_barrier || pmi->at_barrier < pmi->present)
        return;
    pmi->at_barrier = 0;
    for (uint32_t i = 0; i < pmi->ranks; i++)
        if (pmi->rank[i].at_barrier) {
            pmi->rank[i].at_barrier = false;
            answer(&pmi->rank[i], "cmd=barrier_out\n");
        }
}

void live_pmi_left(struct live_pmi *pmi, uint32_t rank) {
    struct rank *r = &pmi->rank[rank];
    if (r->fd < 0)
        return;
    close(r->fd);
    r->fd = -1;
    pmi->present--;
    pmi->at_barrier -= r->at_barrier;
    r->at_barrier = false;
    open_barrier(pmi);
}

/* ---- the store ---- */

static struct pair *find(struct live_pmi *pmi, const char *key) {
    for (uint32_t i = pmi->pairs; i--;)
        if (strcmp(pmi->pair[i].key, key) == 0)
            return &pmi->pair[i];
    return NULL;
}

static bool put(struct live_pmi *pmi, const char *key, const char *value) {
    struct pair *there = find(pmi, key);
    char *copy = strdup(value);
    if (there && copy) {
        free(there->value);
        there->value = copy;
        return true;
    }
    bool has_room = (pmi->pairs < pmi->room || pmi->pairs < PAIRS_MAX) &&
                    ROOM_FOR_ONE(pmi->pair, pmi->pairs, pmi->room, 64);
    char *name = has_room ? strdup(key) : NULL;
    if (!name || !copy) {
        free(name);
        free(copy);
        return false;
    }
    pmi->pair[pmi->pairs++] = (struct pair){name, copy};
    return true;
}

/* ---- lines ---- */

/* The value of `name` in "cmd=put kvsname=x key=k value=v"; the last value may hold blanks. */
static bool value_of(const char *line, const char *name, char *value, size_t room) {
    size_t length = strlen(name);
    for (const char *at = line; *at;) {
        while (*at == ' ')
            at++;
        bool is_it = strncmp(at, name, length) == 0 && at[length] == '=';
        size_t word = strcspn(at, " ");
        if (is_it) {
            bool rest = strcmp(name, "value") == 0;
            size_t bytes = rest ? strlen(at) : word;
            if (bytes - length - 1 >= room)
                return false;
            memcpy(value, at + length + 1, bytes - length - 1);
            value[bytes - length - 1] = 0;
            return true;
        }
        at += word;
    }
    return false;
}

static void do_put(struct live_pmi *pmi, struct rank *r, const char *line) {
    char key[KEY_MAX + 1], value[VALUE_MAX + 1];
    bool good = value_of(line, "key", key, sizeof key) &&
                value_of(line, "value", value, sizeof value) && put(pmi, key, value);
    answer(r, good ? "cmd=put_result rc=0 msg=success\n" : "cmd=put_result rc=-1 msg=refused\n");
}

static void do_get(struct live_pmi *pmi, struct rank *r, const char *line) {
    char key[KEY_MAX + 1], text[VALUE_MAX + 64];
    const struct pair *pair = value_of(line, "key", key, sizeof key) ? find(pmi, key) : NULL;
    if (pair)
        snprintf(text, sizeof text, "cmd=get_result rc=0 msg=success value=%s\n", pair->value);
    else
        snprintf(text, sizeof text, "cmd=get_result rc=-1 msg=key_not_found value=unknown\n");
    answer(r, text);
}

/* False: the job shall end. */
static bool obey(struct live_pmi *pmi, struct rank *r, const char *line, int *status) {
    char command[64], text[200];
    if (!value_of(line, "cmd", command, sizeof command))
        return true;
    if (strcmp(command, "init") == 0) {
        answer(r, "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n");
    } else if (strcmp(command, "get_maxes") == 0) {
        snprintf(text, sizeof text, "cmd=maxes kvsname_max=%d keylen_max=%d vallen_max=%d\n",
                 KEY_MAX, KEY_MAX, VALUE_MAX);
        answer(r, text);
    } else if (strcmp(command, "get_appnum") == 0) {
        answer(r, "cmd=appnum appnum=0\n");
    } else if (strcmp(command, "get_universe_size") == 0) {
        snprintf(text, sizeof text, "cmd=universe_size size=%u\n", pmi->ranks);
        answer(r, text);
    } else if (strcmp(command, "get_my_kvsname") == 0) {
        answer(r, "cmd=my_kvsname kvsname=" KVS_NAME "\n");
    } else if (strcmp(command, "put") == 0) {
        do_put(pmi, r, line);
    } else if (strcmp(command, "get") == 0) {
        do_get(pmi, r, line);
    } else if (strcmp(command, "barrier_in") == 0) {
        pmi->at_barrier += !r->at_barrier;
        r->at_barrier = true;
        open_barrier(pmi);
    } else if (strcmp(command, "finalize") == 0) {
        answer(r, "cmd=finalize_ack\n");
    } else if (strcmp(command, "abort") == 0) {
        *status = value_of(line, "exitcode", text, sizeof text) ? atoi(text) : 1;
        return false;
    } else {
        snprintf(text, sizeof text, "cmd=%s_result rc=-1 msg=not_supported\n", command);
        answer(r, text);
    }
    return true;
}

bool live_pmi_serve(struct live_pmi *pmi, uint32_t rank, int *status) {
    struct rank *r = &pmi->rank[rank];
    ssize_t got = recv(r->fd, r->line + r->filled, LINE_BYTES - 1 - r->filled, MSG_DONTWAIT);
    if (got <= 0) {
        if (got == 0 || (errno != EAGAIN && errno != EINTR))
            live_pmi_left(pmi, rank);
        return true;
    }
    r->filled += (uint32_t)got;
    r->line[r->filled] = 0;
    for (char *end; (end = memchr(r->line, '\n', r->filled));) {
        *end = 0;
        if (!obey(pmi, r, r->line, status))
            return false;
        r->filled -= (uint32_t)(end + 1 - r->line);
        memmove(r->line, end + 1, r->filled);
    }
    if (r->filled == LINE_BYTES - 1)
        r->filled = 0; /* no command is that long */
    return true;
}
