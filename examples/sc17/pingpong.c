/* SC'17 appendix C.3.1: a message of one packet goes back from the card, a longer one from host
 * memory once it is there. The host says where (offset, source) in the initial state. */
#include <spin/handler.h>

#define PTL_MAX_SIZE 4096
#define STREAMING    1

typedef struct {
    ptl_size_t offset;
    ptl_process_t source;
    ptl_size_t length;
    bool stream;
} pingpong_info_t;

int pingpong_header_handler(const ptl_header_t h, void *state) {
    pingpong_info_t *i = state;
    if (h.length > PTL_MAX_SIZE || !STREAMING) {
        i->stream = false;
        i->length = h.length;
        return PROCEED; /* no other handler but completion */
    }
    i->source = h.source_id;
    i->stream = true;
    return PROCESS_DATA; /* the payload handler puts from the device */
}

int pingpong_payload_handler(const ptl_payload_t p, void *state) {
    pingpong_info_t *i = state;
    PtlHandlerPutFromDevice(p.base, p.length, 1, 0, i->source, 10, 0, NULL, 0);
    return SUCCESS;
}

int pingpong_completion_handler(int dropped_bytes, bool flow_control_triggered, void *state) {
    pingpong_info_t *i = state;
    (void)dropped_bytes, (void)flow_control_triggered;
    if (!i->stream)
        PtlHandlerPutFromHost(i->offset, i->length, 1, 0, i->source, 10, 0, NULL, 0);
    return SUCCESS;
}
