/* spinlib/spinstore.h: a store of objects whose nodes' cards check, write, replicate and code what
 * comes ("Building Blocks for Network-Accelerated Distributed File Systems", SC'22). One rank is
 * the service (management and metadata), some are storage nodes, all others are clients. See
 * docs/storage.md. */
#ifndef SPINLIB_SPINSTORE_H
#define SPINLIB_SPINSTORE_H

#include "spinlib.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SPINSTORE_NAME 63 /* bytes of an object's name, at most */

/* How an object is kept: by one node; by k nodes, each of which has all of it, written along a ring
 * or a binary tree (k up to 8); in k parts with m parities (m up to 4, k + m up to 14). */
enum spinstore_strategy { SPINSTORE_PLAIN, SPINSTORE_RING, SPINSTORE_TREE, SPINSTORE_RS };
struct spinstore_policy {
    enum spinstore_strategy strategy;
    uint32_t k, m; /* plain: neither; replicas: k */
};

/* Whom nodes believe: all clients and the network; the network, so clients show a capability that
 * the service has signed; nobody, so that every packet is signed as well. */
enum spinstore_trust { SPINSTORE_CAPABILITIES, SPINSTORE_TRUSTED, SPINSTORE_AUTHENTICATED };

struct spinstore_options {
    uint32_t service; /* rank */
    uint32_t first_node,
        nodes;           /* ranks of the storage nodes, one after the other; first_node 0: 1 */
    uint64_t node_bytes; /* of each node's medium, less than 4 GiB (0: 64 MiB) */
    const char *file;    /* a node's medium, which stays when it ends; NULL: its memory */
    /* The service: a file for names, layouts and checksums, which it reads when it begins and adds
     * to before it says that something is done; NULL: they end with it. Start it with the nodes
     * whose files it was used with, and the same nodes and node_bytes. */
    const char *journal;
    enum spinstore_trust trust;
    /* Of this rank: the service has the store's secret, everybody else spinstore_secret() of it.
     * With it messages of the services are signed, and keys in them are hidden (0: neither). All
     * ranks have one, or none has. */
    uint64_t secret;
    uint32_t lifetime_s;  /* of capabilities (0: 10) */
    uint32_t patience_ms; /* that a client waits for nodes before it asks the service (0: 2,000) */
    uint32_t silence_ms;  /* after which a node that does not answer is dead (0: 10,000) */
};

/* What a rank that is not the service has as its secret: nobody can speak for the service, or for
 * another rank, with it. */
uint64_t spinstore_secret(uint64_t of_the_store, uint32_t rank);

struct spinstore;
struct spinstore_object;

/* All ranks call it, in the same order as other calls that take a portal table entry, and meet
 * (spin_barrier) before a client opens an object. PTL_FAIL: the file or the journal cannot be used;
 * a line on stderr says why, and what was in it stays. */
int spinstore_join(ptl_handle_ni_t ni, const struct spinstore_options *options,
                   struct spinstore **store);
void spinstore_leave(struct spinstore *store);

/* The service and the nodes: until a client calls spinstore_stop; or what there is to do now and
 * within so many milliseconds (then *stopped says whether it was the last). */
int spinstore_serve(struct spinstore *store);
int spinstore_work(struct spinstore *store, ptl_time_t timeout_ms, bool *stopped);
/* A node's medium. */
void *spinstore_memory(struct spinstore *store, uint64_t *bytes);

/* ---- Clients, one call at a time ----
 * PTL_FAIL: the service or too many nodes are gone, or what they answer is wrong. PTL_NO_SPACE: the
 * nodes are full, or fewer live than the policy asks for. */

/* An object, which is made if it is not there and `policy` is given; one that is there keeps its
 * own. PTL_ARG_INVALID: no such object, name or policy. */
int spinstore_open(struct spinstore *store, const char *name, const struct spinstore_policy *policy,
                   struct spinstore_object **object);
void spinstore_close(struct spinstore_object *object);
/* When this returns PTL_OK the data is durable on every node that the policy asks for, and whoever
 * reads sees all of it. After PTL_FAIL it may become visible, but then all of it. At most 256 MiB.
 * Writes and reads of an object are linearizable. */
int spinstore_write(struct spinstore_object *object, uint64_t offset, const void *data,
                    uint64_t bytes);
/* *got: bytes up to the end of the object. What was never written is zero. Every byte is checked
 * against the checksum that its writer made. */
int spinstore_read(struct spinstore_object *object, uint64_t offset, void *data, uint64_t bytes,
                   uint64_t *got);
/* Writes are durable when they return; this asks the service whether it knows of all of ours. */
int spinstore_flush(struct spinstore_object *object);
uint64_t spinstore_size(const struct spinstore_object *object); /* when it was last asked for */
/* What it held is freed when nobody may read it any more. */
int spinstore_remove(struct spinstore *store, const char *name);

/* Puts what was on dead nodes onto others, from copies and parities. */
struct spinstore_repaired {
    uint64_t parts, bytes;
    uint64_t lost; /* extents of which too little is left */
};
int spinstore_repair(struct spinstore *store, struct spinstore_repaired *repaired);

/* A new key for capabilities; those of the one before are good until they expire. */
int spinstore_rotate(struct spinstore *store, uint32_t *generation);

struct spinstore_status {
    uint32_t objects, extents;
    uint32_t nodes, dead;
    uint32_t damaged; /* extents that have a part on a dead node */
};
int spinstore_ask(struct spinstore *store, struct spinstore_status *status);
/* What this client, or node, met. */
struct spinstore_counts {
    uint64_t writes_again;  /* a node did not answer, or a capability had expired */
    uint64_t reads_again;   /* from another copy: a node was gone, or a checksum was wrong */
    uint64_t wrong_sums;    /* of those */
    uint64_t reconstructed; /* extents */
    uint64_t forged;        /* answers, data and messages of the services whose signature is wrong,
                               or that are old: they are not believed */
    uint64_t given_up;      /* a node: requests that had begun and whose rest has not come */
};
struct spinstore_counts spinstore_counts(const struct spinstore *store);

/* The service and all nodes return from spinstore_serve. */
int spinstore_stop(struct spinstore *store);

#ifdef __cplusplus
}
#endif

#endif
