/* Sums of intermediate parities that the host of a parity node makes, because its card had no
 * accumulator for them: see storage_parity.h. */
#ifndef STORE_SUMS_H
#define STORE_SUMS_H

#include <stdint.h>

struct store_sums;
struct store_sum {
    uint32_t at, bytes; /* where it belongs on the medium */
    const uint8_t *data;
    uint32_t write, generation; /* whose it is, for the card */
};

/* At most `most` sums at a time. NULL: no memory. */
struct store_sums *store_sums_new(uint32_t most);
void store_sums_free(struct store_sums *sums);

enum store_sums_result {
    STORE_SUM_OPEN,     /* other parts are missing */
    STORE_SUM_COMPLETE, /* *sum is valid until the next call: write it, tell the card */
    STORE_SUM_REFUSED,  /* no such piece, or no room for one more sum */
};
/* A piece as the card has put it, with the match bits and header data of the event. Sums that have
 * had no piece since `now` - `oldest` are of writes that came to nothing; they go when there is no
 * room. */
enum store_sums_result store_sums_add(struct store_sums *sums, uint64_t match_bits,
                                      uint64_t hdr_data, const uint8_t *data, uint64_t bytes,
                                      uint32_t now, uint32_t oldest, struct store_sum *sum);
uint32_t store_sums_count(const struct store_sums *sums);

#endif
