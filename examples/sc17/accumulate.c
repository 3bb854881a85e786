/* SC'17 appendix C.3.2: multiplies an array of complex numbers in host memory by the one that comes
 * in. As printed it allocates as many bytes as there are numbers, a quarter of what it uses: it
 * runs, because a handler's scratch memory is one segment, and `--check` finds it. */
#include <spin/handler.h>

typedef struct {
    ptl_size_t offset;
    bool pong;
    ptl_process_t source;
} accumulate_info_t;

int accumulate_header_handler(const ptl_header_t h, void *state) {
    accumulate_info_t *i = state;
    if (i->pong)
        i->source = h.source_id;
    return PROCESS_DATA;
}

int accumulate_payload_handler(const ptl_payload_t p, void *state) {
    accumulate_info_t *i = (accumulate_info_t *)state;
    float *buf = malloc(p.length / sizeof(float));
    PtlHandlerDMAFromHostB(i->offset + p.offset, buf, p.length, PTL_ME_HOST_MEM);

    float *data = (float *)p.base;
    for (uint32_t j = 0; j < p.length / sizeof(float); j += 2) {
        float real = buf[j];
        buf[j] = data[j] * real - data[j + 1] * buf[j + 1];
        buf[j + 1] = data[j] * buf[j + 1] + data[j + 1] * real;
    }

    PtlHandlerDMAToHostB(buf, i->offset + p.offset, p.length, PTL_ME_HOST_MEM);
    if (i->pong)
        PtlHandlerPutFromDevice(buf, p.length, 1, 0, i->source, 10, 0, NULL, 0);
    free(buf);
    return SUCCESS;
}
