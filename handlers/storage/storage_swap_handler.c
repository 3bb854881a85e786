/* The handlers of storage nodes with a second request table in L2. */
#define STORAGE_SWAP 32768u

#include "storage_handler.c"

_Static_assert(STORAGE_SWAP == STORAGE_SWAP_SLOTS, "as hosts know it");
