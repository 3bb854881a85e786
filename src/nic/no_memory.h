/* Memory that the card cannot go on without: what is in flight has nowhere to go. */
#ifndef SPIN_NIC_NO_MEMORY_H
#define SPIN_NIC_NO_MEMORY_H

#include <stdio.h>
#include <stdlib.h>

static inline void *need(void *memory) {
    if (!memory) {
        fprintf(stderr, "openspin: out of memory for packets in flight\n");
        abort();
    }
    return memory;
}

#endif
