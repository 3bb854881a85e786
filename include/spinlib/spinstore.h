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

#ifdef __cplusplus
}
#endif

#endif
