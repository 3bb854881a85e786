/* Matching of messages and receives by (source, tag), oldest first, with wildcards, at a cost that
 * does not depend on how many wait. One object serves all ranks of a replay. */
#ifndef SPIN_SIM_MATCH_H
#define SPIN_SIM_MATCH_H

#include <stdbool.h>
#include <stdint.h>

#define MATCH_ANY UINT32_MAX

struct match_table;

/* The operation that was waiting, and for a message the rank that sent it. */
struct match_found {
    uint32_t op, source;
};

/* `wildcards`: some source or tag may be MATCH_ANY; without, matching is one look-up. */
struct match_table *match_new(bool wildcards, uint32_t ranks);
/* Before anything waits: so many receives will do so at once, give or take. It saves the table from
 * growing on the way. */
void match_expect(struct match_table *m, uint64_t receives);
void match_free(struct match_table *m);

/* A receive is posted at `rank`: true and the oldest unexpected message that fits, which is taken
 * out; or false, and the receive waits. */
bool match_receive(struct match_table *m, uint32_t rank, uint32_t source, uint32_t tag, uint32_t op,
                   struct match_found *found);
/* A message reaches `rank`: likewise against the posted receives. Its tag may be MATCH_ANY. */
bool match_message(struct match_table *m, uint32_t rank, uint32_t source, uint32_t tag, uint32_t op,
                   struct match_found *found);
/* A call ran out of memory; its receive or message is lost. */
bool match_out_of_memory(const struct match_table *m);
uint64_t match_unexpected(const struct match_table *m); /* messages that no receive has taken */
uint64_t match_bytes(const struct match_table *m);
/* Brings the entry of (source, tag) near before it is looked up. */
void match_prefetch(const struct match_table *m, uint32_t rank, uint32_t source, uint32_t tag,
                    bool message);
/* Once that is near: the operation that waits there, if it is alone and easy to see; MATCH_ANY if
 * not. A guess, for prefetching. */
uint32_t match_peek(const struct match_table *m, uint32_t rank, uint32_t source, uint32_t tag,
                    bool message);

#endif
