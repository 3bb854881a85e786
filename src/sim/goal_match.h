/* Matching of messages and receives by (source, tag), oldest first, with wildcards, at a cost that
 * does not depend on how many wait. One object serves all ranks of a replay. */
#ifndef SPIN_SIM_GOAL_MATCH_H
#define SPIN_SIM_GOAL_MATCH_H

#include <stdbool.h>
#include <stdint.h>

#define GOAL_MATCH_ANY UINT32_MAX

struct goal_match;

/* The operation that was waiting, and for a message the rank that sent it. */
struct goal_found {
    uint32_t op, source;
};

/* `wildcards`: some source or tag may be GOAL_MATCH_ANY; without, matching is one look-up. */
struct goal_match *goal_match_new(bool wildcards, uint32_t ranks);
/* Before anything waits: so many receives will do so at once, give or take. It saves the table from
 * growing on the way. */
void goal_match_expect(struct goal_match *m, uint64_t receives);
void goal_match_free(struct goal_match *m);

/* A receive is posted at `rank`: true and the oldest unexpected message that fits, which is taken
 * out; or false, and the receive waits. */
bool goal_match_receive(struct goal_match *m, uint32_t rank, uint32_t source, uint32_t tag,
                        uint32_t op, struct goal_found *found);
/* A message reaches `rank`: likewise against the posted receives. Its tag may be GOAL_MATCH_ANY. */
bool goal_match_message(struct goal_match *m, uint32_t rank, uint32_t source, uint32_t tag,
                        uint32_t op, struct goal_found *found);
/* A call ran out of memory; its receive or message is lost. */
bool goal_match_out_of_memory(const struct goal_match *m);
uint64_t goal_match_unexpected(const struct goal_match *m); /* messages that no receive has taken */
uint64_t goal_match_bytes(const struct goal_match *m);
/* Brings the entry of (source, tag) near before it is looked up. */
void goal_match_prefetch(const struct goal_match *m, uint32_t rank, uint32_t source, uint32_t tag,
                         bool message);
/* Once that is near: the operation that waits there, if it is alone and easy to see; GOAL_MATCH_ANY
 * if not. A guess, for prefetching. */
uint32_t goal_match_peek(const struct goal_match *m, uint32_t rank, uint32_t source, uint32_t tag,
                         bool message);

#endif
