#include "openspin.h"

#include "config.h"

const char *spin_version(void) {
    return OPENSPIN_VERSION;
}
