/* A committed layout. */
#ifndef DATATYPE_LAYOUT_H
#define DATATYPE_LAYOUT_H

#include "dataloop.h"
#include "spinlib/datatype.h"

struct spin_layout {
    struct spin_layout_info info;
    uint32_t *dataloop; /* info.dataloop_bytes */
};

#endif
