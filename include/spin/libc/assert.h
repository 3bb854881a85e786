/* assert.h for handlers: a check that fails ends the handler. */
#include "spin/target.h"
