/* Entry points for the tests of the card's logic. What they do is a function of the test: these are
 * never run. */
#include <spin/handler.h>

__handler int nic_header_handler(const ptl_header_t h, void *state) {
    (void)state;
    return h.length ? FAIL : SEGV;
}

__handler int nic_payload_handler(const ptl_payload_t p, void *state) {
    (void)state;
    return p.length ? FAIL : SEGV;
}

__handler int nic_completion_handler(int dropped_bytes, bool flow_control_triggered, void *state) {
    (void)state;
    return dropped_bytes || flow_control_triggered ? FAIL : SEGV;
}

__handler int nic_cleanup_handler(int dropped_bytes, bool flow_control_triggered, void *state) {
    (void)state;
    return dropped_bytes || flow_control_triggered ? FAIL : SEGV;
}
