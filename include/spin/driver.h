/* The registers of the HPU driver: how a handler gives commands to its card. Included by handlers
 * (through handler.h) and by the card. A command is: write the words, all that it has, write its
 * number to ISSUE, read RESULT; the words go with it, and are 0 afterwards. PsPIN's own way works
 * too, for its handlers: write the words in its layout, write INFO, read ISSUE, which gives the
 * handle, and leaves the words; what TEST found is read from TEST. */
#ifndef SPIN_DRIVER_H
#define SPIN_DRIVER_H

#define SPIN_DRIVER_BASE 0x1b205000u

/* The card's console: each byte stored here is printed, whichever address of the 4 KiB it is. */
#define SPIN_STDOUT 0x1a104000u

/* Handler interfaces, as the note of an image names them. */
#define SPIN_NOTE_P4SPIN 1 /* spin/handler.h */
#define SPIN_NOTE_PSPIN  2 /* spin/pspin/handler.h */

/* Task registers, as on PsPIN: they ignore writes. */
#define SPIN_REG_HANDLER_ADDRESS 0x00
#define SPIN_REG_HANDLER_SIZE    0x04
#define SPIN_REG_MEMORY_ADDRESS  0x08
#define SPIN_REG_MEMORY_SIZE     0x0c
#define SPIN_REG_PACKET_ADDRESS  0x10
#define SPIN_REG_PACKET_SIZE     0x14
#define SPIN_REG_SCRATCH_ADDRESS 0x18 /* of cluster 0; of cluster i at + 4 i, four of them */
#define SPIN_REG_SCRATCH_SIZE    0x28 /* likewise */
#define SPIN_REG_HOST_HIGH       0x38 /* address of the context's host memory */
#define SPIN_REG_HOST_LOW        0x3c
#define SPIN_REG_HOST_SIZE       0x40
#define SPIN_REG_L2_PACKET       0x44 /* the whole packet, in L2 */
#define SPIN_REG_HOME_CLUSTER    0x48
#define SPIN_REG_FLOW            0x4c
#define SPIN_TASK_REGISTERS      0x50 /* where they end */

/* Commands. */
#define SPIN_REG_ISSUE  0x80 /* W: the command's number; starts it */
#define SPIN_REG_WAIT   0x84 /* W: a handle; goes on when that command is complete */
#define SPIN_REG_TEST   0x88 /* W: a handle; then RESULT is 1 if complete, else 0 */
#define SPIN_REG_RESULT 0x8c /* R: a handle, a value, an address, or what TEST found */
#define SPIN_REG_INFO   0x8c /* W: PsPIN's CMD_INFO, for what its handlers write by hand */
#define SPIN_REG_WORD   0x90 /* W: word 0; word i is at 0x90 + 4 i */
#define SPIN_WORDS      12

/* Scratch memory of the running handler: write a size; then RESULT is an address (0: no more).
 * Given back when the handler ends. It may be read here too, as older images do. */
#define SPIN_REG_ALLOCATE 0xf0

/* number, name, number of words, what the words are, and the call that gives it. `compare`,
 * `result`, `event` and `before` are addresses that the card reads or writes; RESULT of CAS is 1 if
 * it swapped. From 16 on: what the calls of PsPIN need. There `high` and `low` are a host address
 * from SPIN_REG_HOST_HIGH and LOW upward, `event` asks for an event at the host, `direction` 0
 * copies source to dest, 1 dest to source. 22 and 23 are P4sPIN's again, and ours: RESULT of
 * STREAM_START is the stream, of STREAM_PUT 0 or PTL_FAIL. */
#define SPIN_MESSAGE_WORDS                                                                         \
    "length ct ack target match_low match_high remote_offset user hdr_low hdr_high"
#define SPIN_COMMANDS(X)                                                                           \
    X(1, DMA_TO_HOST, 4, "local offset length space", "PtlHandlerDMAToHost")                       \
    X(2, DMA_FROM_HOST, 4, "offset local length space", "PtlHandlerDMAFromHost")                   \
    X(3, DMA_CAS, 5, "offset compare swap_low swap_high space", "PtlHandlerDMACAS")                \
    X(4, DMA_FETCH_ADD, 7, "offset add_low add_high result result_bytes type space",               \
      "PtlHandlerDMAFetchAdd")                                                                     \
    X(5, PUT_FROM_HOST, 11, "offset " SPIN_MESSAGE_WORDS, "PtlHandlerPutFromHost")                 \
    X(6, PUT_FROM_DEVICE, 11, "local " SPIN_MESSAGE_WORDS, "PtlHandlerPutFromDevice")              \
    X(7, GET_TO_HOST, 11, "offset " SPIN_MESSAGE_WORDS, "PtlHandlerGetToHost")                     \
    X(8, GET_TO_DEVICE, 11, "local " SPIN_MESSAGE_WORDS, "PtlHandlerGetToDevice")                  \
    X(9, ATOMIC_FROM_HOST, 12, "offset " SPIN_MESSAGE_WORDS " operation_and_type",                 \
      "PtlHandlerAtomicFromHost")                                                                  \
    X(10, ATOMIC_FROM_DEVICE, 12, "local " SPIN_MESSAGE_WORDS " operation_and_type",               \
      "PtlHandlerAtomicFromDevice")                                                                \
    X(11, CT_INC, 2, "success failure", "PtlHandlerCTInc")                                         \
    X(12, CT_GET, 1, "event", "PtlHandlerCTGet")                                                   \
    X(13, CT_SET, 2, "success failure", "PtlHandlerCTSet")                                         \
    X(14, CAS, 5, "address compare_low compare_high swap_low swap_high", "PtlHandlerCAS")          \
    X(15, FETCH_ADD, 4, "address before increment_low increment_high", "PtlHandlerFAdd")           \
    X(16, NIC_SEND, 2, "local length", "spin_send_packet")                                         \
    X(17, RDMA_PUT, 3, "dest local length", "spin_rdma_put")                                       \
    X(18, HOST_DMA_TO, 5, "high low local length event", "spin_dma_to_host")                       \
    X(19, HOST_DMA_FROM, 5, "high low local length event", "spin_dma_from_host")                   \
    X(20, HOST_WRITE, 4, "high low data_low data_high", "spin_write_to_host")                      \
    X(21, LOCAL_DMA, 4, "source dest length direction", "spin_dma")                                \
    X(22, STREAM_START, 12, "local " SPIN_MESSAGE_WORDS " total", "PtlHandlerStreamStart")         \
    X(23, STREAM_PUT, 6, "local length ct ack stream offset", "PtlHandlerStreamPut")

enum spin_command_number {
#define SPIN_COMMAND_ROW(number, name, words, labels, call) SPIN_COMMAND_##name = number,
    SPIN_COMMANDS(SPIN_COMMAND_ROW)
#undef SPIN_COMMAND_ROW
};

#endif
