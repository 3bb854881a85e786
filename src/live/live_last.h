/* In libportals alone: a program ends with the last of its own threads. */
#ifndef SPIN_LIVE_LIVE_LAST_H
#define SPIN_LIVE_LIVE_LAST_H

/* Before main. */
void live_last_expect_main(void);

#endif
