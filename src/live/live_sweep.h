/* What processes leave that were started by themselves and killed: files in the user's own folder,
 * with their memory. */
#ifndef SPIN_LIVE_LIVE_SWEEP_H
#define SPIN_LIVE_LIVE_SWEEP_H

/* Removes it, unless somebody makes or removes files there right now. */
void live_sweep(void);

#endif
