/* Handlers for the tests of the simulated card. Packets begin with a struct head. */
#include <handler.h>
#include <packets.h>
#include <spin_conf.h>

struct head {
    uint32_t sequence, packets; /* of this packet; in the message */
    uint32_t what;              /* for bad_ph: which mistake */
    uint32_t address;           /* which it makes there */
};

/* What the handlers of a message leave in handler memory. */
struct record {
    volatile int32_t headers, payloads, completions, wrong, sum;
    volatile int32_t next; /* sequence expected, where there is one HPU */
    volatile int32_t out_of_order, pad;
};

static struct record *record_of(handler_args_t *args) {
    return (struct record *)args->task->handler_mem + args->task->flow_id;
}

__handler__ void empty_ph(handler_args_t *args) {
    (void)args;
}

__handler__ void empty_hh(handler_args_t *args) {
    (void)args;
}
__handler__ void empty_th(handler_args_t *args) {
    (void)args;
}

__handler__ void order_hh(handler_args_t *args) {
    struct record *r = record_of(args);
    rt_time_wait_cycles(200); /* time for a payload handler to come too early */
    if (r->payloads || r->completions || r->headers)
        amo_add(&r->wrong, 1);
    amo_add(&r->headers, 1);
}

__handler__ void order_ph(handler_args_t *args) {
    struct record *r = record_of(args);
    const struct head *head = (const struct head *)args->task->pkt_mem;
    const uint32_t *word = (const uint32_t *)args->task->pkt_mem;
    int32_t sum = 0;
    if (r->headers != 1 || r->completions)
        amo_add(&r->wrong, 1);
    if (r->next != (int32_t)head->sequence)
        amo_add(&r->out_of_order, 1);
    r->next = (int32_t)head->sequence + 1;
    for (uint32_t i = 0; i < args->task->pkt_mem_size / 4; i++)
        sum += (int32_t)word[i];
    amo_add(&r->sum, sum);
    amo_add(&r->payloads, 1);
}

__handler__ void order_th(handler_args_t *args) {
    struct record *r = record_of(args);
    const struct head *head = (const struct head *)args->task->pkt_mem;
    if (r->payloads != (int32_t)head->packets || r->headers != 1)
        amo_add(&r->wrong, 1);
    amo_add(&r->completions, 1);
}

/* Element-wise into the home cluster's scratchpad: one load and one amoadd per word. */
__handler__ void reduce_ph(handler_args_t *args) {
    task_t *task = args->task;
    const int32_t *from = (const int32_t *)task->pkt_mem;
    volatile int32_t *to = (volatile int32_t *)task->scratchpad[task->home_cluster_id];
    const int32_t *end = from + task->pkt_mem_size / 4;
    do
        amo_add(to++, *from++);
    while (from != end);
}

/* Into the own cluster's, with the instructions of the RTL's example as gcc 12 makes them: load,
 * amoadd, two additions, taken branch. The first 28 bytes are the header. */
__handler__ void reduce_local_ph(handler_args_t *args) {
    task_t *task = args->task;
    const int32_t *from = (const int32_t *)task->pkt_mem + 7, *end = from + 249;
    int32_t *to = (int32_t *)task->scratchpad[args->cluster_id], word;
    __asm__ volatile("1: lw %2, 0(%0)\n"
                     "amoadd.w zero, %2, (%1)\n"
                     "addi %0, %0, 4\n"
                     "addi %1, %1, 4\n"
                     "bne %0, %3, 1b"
                     : "+r"(from), "+r"(to), "=&r"(word)
                     : "r"(end)
                     : "memory");
}

/* 256 loads from L2 handler memory, as fast as they go. */
__handler__ void l2_ph(handler_args_t *args) {
    volatile uint32_t *memory = (volatile uint32_t *)args->task->handler_mem;
    for (uint32_t i = 0; i < 256; i += 8)
        (void)memory[i], (void)memory[i + 1], (void)memory[i + 2], (void)memory[i + 3],
            (void)memory[i + 4], (void)memory[i + 5], (void)memory[i + 6], (void)memory[i + 7];
}

/* As many stores beside them. */
__handler__ void l2_both_ph(handler_args_t *args) {
    volatile uint32_t *memory = (volatile uint32_t *)args->task->handler_mem;
    for (uint32_t i = 0; i < 256; i += 4) {
        (void)memory[i], (void)memory[i + 1], (void)memory[i + 2], (void)memory[i + 3];
        memory[256] = memory[257] = memory[258] = memory[259] = i;
    }
}

/* Four words under a lock, with plain loads and stores in L2. */
__handler__ void locked_ph(handler_args_t *args) {
    uint32_t *memory = (uint32_t *)args->task->handler_mem;
    const uint32_t *word = (const uint32_t *)args->task->pkt_mem;
    spin_lock_t *lock = (spin_lock_t *)memory;
    spin_lock_lock(lock);
    for (int i = 0; i < 4; i++)
        memory[1 + i] += word[i];
    spin_lock_unlock(lock);
}

__handler__ void pingpong_ph(handler_args_t *args) {
    spin_cmd_t handle;
    uint32_t *word = (uint32_t *)args->task->pkt_mem, first = word[0];
    word[0] = word[1];
    word[1] = first;
    spin_send_packet(args->task->pkt_mem, args->task->pkt_mem_size, &handle);
}

__handler__ void pingpong_l2_ph(handler_args_t *args) {
    spin_cmd_t handle;
    spin_send_packet(args->task->l2_pkt_mem, args->task->pkt_mem_size, &handle);
}

static uint64_t host(const task_t *task) {
    return (uint64_t)task->host_mem_high << 32 | task->host_mem_low;
}

__handler__ void to_host_ph(handler_args_t *args) {
    task_t *task = args->task;
    spin_cmd_t handle;
    spin_dma_to_host(host(task), (uint32_t)task->pkt_mem, task->pkt_mem_size, 1, &handle);
}

/* Fetches as many bytes as the packet has over it, waits for them, and sends them. */
__handler__ void fetch_send_ph(handler_args_t *args) {
    task_t *task = args->task;
    spin_cmd_t handle;
    spin_dma_from_host(host(task), (uint32_t)task->pkt_mem, task->pkt_mem_size, 1, &handle);
    spin_cmd_wait(handle);
    spin_send_packet(task->pkt_mem, task->pkt_mem_size, &handle);
}

/* One packet is sent; with the next one half a KiB comes from the host to the scratchpad. */
__handler__ void send_or_fetch_ph(handler_args_t *args) {
    task_t *task = args->task;
    const struct head *head = (const struct head *)task->pkt_mem;
    uint32_t scratchpad = (uint32_t)task->scratchpad[args->cluster_id];
    spin_cmd_t handle;
    if (head->sequence % 2)
        spin_dma_from_host(host(task), scratchpad, 512, 0, &handle);
    else
        spin_send_packet(task->pkt_mem, task->pkt_mem_size, &handle);
}

/* 64 B of L2 handler memory to the host, from the start of a line and from its middle. */
__handler__ void line_ph(handler_args_t *args) {
    spin_cmd_t handle;
    spin_dma_to_host(host(args->task), (uint32_t)args->task->handler_mem, 64, 0, &handle);
}
__handler__ void lines_ph(handler_args_t *args) {
    spin_cmd_t handle;
    spin_dma_to_host(host(args->task), (uint32_t)args->task->handler_mem + 4, 64, 0, &handle);
}

/* Three writes that take long, the last of them of a word, and that word read again. */
__handler__ void write_read_ph(handler_args_t *args) {
    task_t *task = args->task;
    const struct head *head = (const struct head *)task->pkt_mem;
    uint32_t *word = (uint32_t *)task->pkt_mem + 8;
    spin_cmd_t handle;
    spin_dma_to_host(host(task), (uint32_t)task->pkt_mem, 2048, 0, &handle);
    spin_dma_to_host(host(task) + 2048, (uint32_t)task->pkt_mem, 2048, 0, &handle);
    uint64_t own = host(task) + 4096 + 8 * head->sequence;
    spin_write_to_host(own, 0x1000 + head->sequence, &handle);
    spin_dma_from_host(own, (uint32_t)word, 4, 0, &handle);
    spin_cmd_wait(handle);
    spin_dma_to_host(host(task) + 8192 + 4 * head->sequence, (uint32_t)word, 4, 0, &handle);
}

/* Six commands, more than there are places: reads a word, waits, writes its double. */
__handler__ void host_ph(handler_args_t *args) {
    task_t *task = args->task;
    uint32_t at = task->flow_id * 64;
    uint32_t *word = (uint32_t *)task->pkt_mem;
    spin_cmd_t handle[6];
    spin_dma_from_host(host(task) + at, (uint32_t)word, 4, 0, &handle[0]);
    spin_cmd_wait(handle[0]);
    word[1] = 2 * word[0];
    spin_dma_to_host(host(task) + at + 4, (uint32_t)&word[1], 4, 0, &handle[1]);
    for (uint32_t i = 2; i < 6; i++)
        spin_write_to_host(host(task) + at + 8 * i, i * 0x100000001ull, &handle[i]);
}

/* Cluster DMA from handler memory to the packet and back. */
__handler__ void dma_ph(handler_args_t *args) {
    task_t *task = args->task;
    uint32_t *memory = (uint32_t *)task->handler_mem + task->flow_id * 32;
    uint32_t *word = (uint32_t *)task->pkt_mem;
    spin_dma_t handle;
    spin_dma(memory, word, 32, 0, 0, &handle);
    spin_dma_wait(handle);
    word[8] = word[0] + 1;
    spin_dma(word, &memory[8], 64, 0, 0, &handle);
    spin_dma_wait(handle);
}

__handler__ void bad_ph(handler_args_t *args) {
    const struct head *head = (const struct head *)args->task->pkt_mem;
    struct record *r = record_of(args);
    int32_t sum = 0;
    switch (head->what) {
    case 1:
        for (;;)
            __asm__ volatile("");
    case 2:
        *(volatile uint32_t *)0x10000000 = 1;
        break;
    case 3: /* into the middle of an instruction, where there is none */
        __asm__ volatile(".option push\n.option norvc\n"
                         "lla t0, 1f\n addi t0, t0, 2\n jr t0\n"
                         "1: addi zero, zero, 0\n.option pop" ::
                             : "t0");
        break;
    case 4:
        *(volatile uint32_t *)0x1b205080 = 99;
        break;
    case 5:
        __asm__ volatile("ebreak");
        break;
    case 6:
        amo_add((volatile int32_t *)((uintptr_t)r + 2), 1);
        break;
    case 7: { /* DMA to where the context has no memory */
        spin_cmd_t handle;
        spin_dma_to_host(1, (uint32_t)args->task->pkt_mem, 4, 0, &handle);
        break;
    }
    case 8: /* believes the length that the packet claims */
        for (uint32_t i = 0; i < head->address / 4; i++)
            sum += ((volatile int32_t *)args->task->pkt_mem)[i];
        break;
    case 10:
        r->sum = *(volatile int32_t *)head->address;
        break;
    case 11:
        *(volatile uint8_t *)head->address = 1;
        break;
    case 9: /* jumps into nowhere */
        ((void (*)(void))0x1c000000)();
        break;
    }
    for (uint32_t i = 4; i < args->task->pkt_mem_size / 4; i++)
        sum += ((const int32_t *)args->task->pkt_mem)[i];
    amo_add(&r->sum, sum);
    amo_add(&r->payloads, 1);
}
