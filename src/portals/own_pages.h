/* What a program does to its own pages: spin_touch, spin_pin, spin_discard (openspin.h). */
#ifndef SPIN_PORTALS_OWN_PAGES_H
#define SPIN_PORTALS_OWN_PAGES_H

#include <stdint.h>

#include "portals/process.h"

/* By the system's calls. */
int own_pages_use(enum portals_memory how, const void *at, uint64_t bytes);
/* As the program asks for it: rank.c, or channel_calls.c for a rank whose card is elsewhere. */
int own_pages_call(enum portals_memory how, const void *at, uint64_t bytes);

#endif
