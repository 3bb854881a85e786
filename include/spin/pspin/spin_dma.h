/* spin_dma.h of PsPIN: handlers include it for spin_dma and its kin, which handler.h has. */
#include "handler.h"
