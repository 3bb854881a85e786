/* openspin.h: embedding. Everything that the command `openspin` does, a program can do through this
 * header. No globals: any number of images, HPUs and worlds live side by side in one process. */
#ifndef OPENSPIN_H
#define OPENSPIN_H

#include "openspin/spin_error.h"   /* codes, and what went wrong in one line */
#include "openspin/spin_image.h"   /* handler images */
#include "openspin/spin_rig.h"     /* one handler at a time on one HPU */
#include "openspin/spin_network.h" /* parameters of networks and hosts */
#include "openspin/spin_goal.h"    /* schedules and their replay */
#include "openspin/spin_card.h"    /* the simulated PsPIN card */
#include "openspin/spin_world.h"   /* ranks, cards and a network */
#include "openspin/spin_area.h"    /* area and power of a card */
#include "openspin/spin_launch.h"  /* programs on live cards */
#include "openspin/spin_live.h"    /* live cards that run now */

#endif
