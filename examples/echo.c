/* Sends every UDP packet back to where it came from, and counts packets and bytes. Addresses and
 * ports change places, so both checksums stay right. For `openspin cc --pspin`. */
#include <handler.h>

struct totals {
    volatile int32_t packets, bytes, messages;
};

__handler__ void echo_ph(handler_args_t *args) {
    task_t *task = args->task;
    uint32_t *ip = task->pkt_mem;
    struct totals *totals = task->handler_mem;

    uint32_t source = ip[3], ports = ip[5];
    ip[3] = ip[4];
    ip[4] = source;
    ip[5] = ports << 16 | ports >> 16;

    amo_add(&totals->packets, 1);
    amo_add(&totals->bytes, (int32_t)task->pkt_mem_size);
    spin_cmd_t sending;
    spin_send_packet(ip, task->pkt_mem_size, &sending);
}

__handler__ void echo_th(handler_args_t *args) {
    struct totals *totals = args->task->handler_mem;
    amo_add(&totals->messages, 1);
}
