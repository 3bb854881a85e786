/* SC'17 appendix C.3.3: broadcast on a binomial tree. A message of one packet is forwarded from the
 * card, and stays in no host memory; a longer one is stored and forwarded from there. */
#include <spin/handler.h>

#define PTL_MAX_SIZE 4096
#define STREAMING    1

typedef struct {
    ptl_size_t offset;
    ptl_process_t my_rank;
    ptl_process_t p; /* how many ranks there are */
    bool stream;
    ptl_size_t length;
} bcast_info_t;

int bcast_header_handler(const ptl_header_t h, void *state) {
    bcast_info_t *i = state;
    if (h.length > PTL_MAX_SIZE || !STREAMING) {
        i->stream = false;
        i->length = h.length;
        return PROCEED;
    }
    i->stream = true;
    return PROCESS_DATA;
}

int bcast_payload_handler(const ptl_payload_t p, void *state) {
    bcast_info_t *i = state;
    for (uint32_t half = i->p / 2; half >= 1; half /= 2)
        if (i->my_rank % (half * 2) == 0)
            PtlHandlerPutFromDevice(p.base, p.length, PTL_LOCAL_ME_CT, 0, i->my_rank + half, 10, 0,
                                    NULL, 0);
    return SUCCESS;
}

int bcast_completion_handler(int dropped_bytes, bool flow_control_triggered, void *state) {
    bcast_info_t *i = state;
    (void)dropped_bytes, (void)flow_control_triggered;
    if (!i->stream)
        for (uint32_t half = i->p / 2; half >= 1; half /= 2)
            if (i->my_rank % (half * 2) == 0)
                PtlHandlerPutFromHost(i->offset, i->length, PTL_LOCAL_ME_CT, 0, i->my_rank + half,
                                      10, 0, NULL, 0);
    return SUCCESS;
}
