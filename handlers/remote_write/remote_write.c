/* Writes messages into a window of host memory: the header handler judges the request, payload
 * handlers write what it has granted, the completion handler tells the host. */
#include <handler.h>
#include <packets.h>

#include "remote_write.h"

static remote_write_message_t *message_of(const task_t *task) {
    remote_write_state_t *state = (remote_write_state_t *)task->handler_mem;
    return &state->message[task->flow_id % REMOTE_WRITE_MESSAGES];
}

static uint64_t host_of(const task_t *task) {
    return (uint64_t)task->host_mem_high << 32 | task->host_mem_low;
}

__handler__ void remote_write_hh(handler_args_t *args) {
    task_t *task = args->task;
    const remote_write_state_t *state = (const remote_write_state_t *)task->handler_mem;
    const remote_write_head_t *head =
        (const remote_write_head_t *)((const pkt_hdr_t *)task->pkt_mem + 1);
    remote_write_message_t *message = message_of(task);
    message->place = head->place;
    message->bytes = head->bytes;
    message->arrived = 0;
    message->granted = head->key == state->key && head->place <= state->window &&
                       head->bytes <= state->window - head->place;
}

__handler__ void remote_write_ph(handler_args_t *args) {
    task_t *task = args->task;
    remote_write_message_t *message = message_of(task);
    uint8_t *payload;
    uint32_t bytes;
    if (!message->granted)
        return;
    GET_IP_UDP_PLD(task->pkt_mem, payload, bytes);
    const remote_write_head_t *head = (const remote_write_head_t *)payload;
    uint32_t length = bytes - sizeof *head;
    /* The packet may say anything. */
    if (bytes < sizeof *head || head->offset > message->bytes ||
        length > message->bytes - head->offset)
        return;
    spin_cmd_t writing;
    spin_dma_to_host(host_of(task) + message->place + head->offset, (uint32_t)(head + 1), length,
                     false, &writing);
    amo_add(&message->arrived, (int32_t)length);
}

__handler__ void remote_write_th(handler_args_t *args) {
    task_t *task = args->task;
    const remote_write_state_t *state = (const remote_write_state_t *)task->handler_mem;
    const remote_write_message_t *message = message_of(task);
    uint64_t over = (uint64_t)message->granted << 32 | (uint32_t)message->arrived;
    spin_cmd_t telling;
    spin_write_to_host(host_of(task) + state->window + 8 * (task->flow_id % REMOTE_WRITE_MESSAGES),
                       over, &telling);
}
