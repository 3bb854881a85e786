/* Does nothing: what a packet costs by itself. */
#include <handler.h>

__handler__ void empty_ph(handler_args_t *args) {
    (void)args;
}
