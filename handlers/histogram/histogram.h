/* Handler memory and scratchpads of histogram. */
#ifndef HISTOGRAM_H
#define HISTOGRAM_H

#include <stdint.h>

#define HISTOGRAM_BINS 1025u /* values 0 to 1024 */

typedef struct {
    int32_t messages;      /* that there will be */
    volatile int32_t done; /* that are complete */
} histogram_state_t;

typedef struct {
    volatile int32_t count[HISTOGRAM_BINS]; /* of the packets that this cluster had */
    int32_t total[HISTOGRAM_BINS];          /* of all, where the last completion handler ran */
} histogram_pad_t;

#endif
