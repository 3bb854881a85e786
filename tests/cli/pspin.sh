# Handlers of PsPIN: cc --pspin, exec of them, what every call does, and what is refused.
. "$SOURCE/tests/lib/tap.sh"

run "$OPENSPIN" cc --pspin "$SOURCE/tests/handlers/pspin_calls.c" -o calls.spin
[ "$status$out$err" = 0 ] && pass "cc --pspin, without a warning" ||
    fail "cc --pspin, without a warning" "$out" "$err"
check "the image says so" 0 'calls.spin: PsPIN handler image' "$OPENSPIN" image calls.spin
check "in JSON too" 0 '"pspin": *true' "$OPENSPIN" image calls.spin --json
"$OPENSPIN" cc "$SOURCE/examples/word_sum.c" -o sum.spin
check "another image does not" 0 '"pspin": *false' "$OPENSPIN" image sum.spin --json

calls() { "$OPENSPIN" exec calls.spin --entry "$@"; }
check "the kind comes from the image" 0 '^handler +task_ph \(pspin\), 512 bytes' \
    calls task_ph --scratchpad-size 64
check "a handler is void" 0 '^result +returned$' calls task_ph --scratchpad-size 64

# Registers of the task: packet of 8 bytes on HPU 13, cluster 1.
run calls task_ph --hex 1122334455667788 --hpu 13 --state-size 128 --scratchpad-size 256 \
    --host-size 4KiB --home-cluster 2 --flow 77 --json
printf '%s' "$out" | python3 -c '
import json, struct, sys
d = json.load(sys.stdin)
assert d["kind"] == "pspin" and d["ending"] == "returned" and "value" not in d, d
memory = bytearray(128)
for c in d["changed"]:
    if c["memory"] == "state":
        memory[c["offset"]:c["offset"] + len(c["now"]) // 2] = bytes.fromhex(c["now"])
w = struct.unpack("<32I", memory)
assert w[0] >> 22 == 0x1c000000 >> 22 and w[1] == 128, w
assert w[2] == 0x10400000 + 0x4440 and w[3] == 8, w                     # L1 of cluster 1
assert [a >> 22 for a in w[4:8]] == [(0x10000000 >> 22) + i for i in range(4)], w
assert w[8:12] == (256,) * 4, w
assert w[12:15] == (0x10000000, 0, 4096), w
assert w[15:18] == (0x1c400000, 2, 77), w
assert w[18:22] == (13, 1, 5, 1 << 16 | 5), w
assert w[22] == 0x44332211, w
pads = {c["memory"]: c["now"] for c in d["changed"] if c["memory"].startswith("scratchpad")}
assert pads == {f"scratchpad {i}": f"0{i + 1}" for i in range(4)}, pads
regions = {r["region"]: (r["loads"], r["stores"]) for r in d["accesses"]}
assert regions["remote L1"] == (0, 3) and regions["HPU driver"][0] >= 18, regions
' && pass "the task's registers" || fail "the task's registers" "$out" "$err"

check "every atomic" 0 'state\+0x0, 5 bytes: 00000000 00 -> 07000000 0e' calls atomics_ph
check "locks and reader-writer locks" 0 'state\+0xc, 1 byte: 00 -> 08' calls locks_ph
check "a writer waits for the readers' lock" 1 'ended: cycle budget exceeded' calls stuck_ph
check "and looks at nothing but it" 0 'state\+0x0, 5 bytes: 00000000 00 -> 01000000 20' \
    calls writer_ph
check "waiting by cycles" 0 'state\+0x0, 1 byte: 00 -> 01' calls wait_ph

# 28 bytes of headers as PsPIN writes them, and 8 of payload.
packet=5400240000000000ff110000010203040506070811112222100000000102030405060708
check "DMA to the host" 0 'ME host memory\+0x10, 8 bytes: .* -> 01020304 05060708' \
    calls commands_ph --hex $packet
check "HostDirect" 0 'ME host memory\+0x40, 9 bytes: .* -> 88776655 44332211 08' \
    calls commands_ph --hex $packet
check "DMA from the host, test, and between L2 and L1" \
    0 'state\+0x0, 11 bytes: .* -> 03040506 01000000 540024' calls commands_ph --hex $packet
check "a send carries address and length" 0 'NIC_SEND local=0x10004440 length=0x24' \
    calls commands_ph --hex $packet
check "a put carries its destination" 0 'RDMA_PUT dest=0x3 local=0x1000445c length=0x8' \
    calls commands_ph --hex $packet
check "an event is asked for" \
    0 'HOST_DMA_TO high=0x10000000 low=0x10 local=0x1000445c length=0x8 event=0x1' \
    calls commands_ph --hex $packet
check "functional mode does the same" \
    0 'ME host memory\+0x40, 9 bytes: .* -> 88776655 44332211 08' \
    calls commands_ph --hex $packet --functional

hand='calls by_hand_ph --hex '$packet
check "registers by hand: DMA to the host" \
    0 'ME host memory\+0x10, 8 bytes: .* -> 01020304 05060708' $hand
check "HostDirect, and again with one word changed" \
    0 'ME host memory\+0x40, 16 bytes: .* -> 88776655 44332211 88776655 44332211' $hand
check "DMA from the host, and TEST read where it was written" \
    0 'state\+0x0, 5 bytes: .* -> 03040506 01' $hand
check "a send by hand" 0 'NIC_SEND local=0x10004440 length=0x24' $hand
check "a put by hand" 0 'RDMA_PUT dest=0x3 local=0x1000445c length=0x8' $hand
check "its event" 0 'HOST_DMA_TO high=0x10000000 low=0x10 local=0x1000445c length=0x8 event=0x1' \
    $hand
check "by hand in generated code" \
    0 'ME host memory\+0x40, 16 bytes: .* -> 88776655 44332211 88776655 44332211' $hand --jit=force
check "a kind that does not exist" 1 'CMD_INFO is 0x6: kind 3 does not exist' calls by_hand_kind_ph
check "HostDirect of another size" 1 'HostDirect of 4 bytes to the host: it writes 8' \
    calls by_hand_short_ph
check "a send from the host" 1 'data at 0x0000100000000000: sends are from' calls by_hand_far_ph

check "DMA past the host's memory" 1 'ended: DMA outside host memory' calls outside_ph
check "a write below it" 1 'ended: DMA outside host memory' calls below_ph
check "a send of more than the packet" 1 'ended: SEGV' calls send_ph
check "the task's registers ignore writes" 0 'state\+0x0, 1 byte: 00 -> 4d' \
    calls write_task_ph --flow 77
check "in generated code too" 0 'state\+0x0, 1 byte: 00 -> 4d' \
    calls write_task_ph --flow 77 --jit=force
check "without a scratchpad there is none" 1 'ended: SEGV' calls task_ph
refuse "a scratchpad over the limit" 1 'scratchpad of 1048576 bytes, the L1 of a cluster has' \
    calls task_ph --scratchpad-size 1MiB
refuse "scratchpads of another interface" 2 'scratchpad-size: only PsPIN handlers have them' \
    "$OPENSPIN" exec sum.spin --entry sum_payload_handler --scratchpad-size 64
check "--kind pspin on any image" 1 'sum_payload_handler \(pspin\)' \
    "$OPENSPIN" exec sum.spin --entry sum_payload_handler --kind pspin
check "--kind function on a PsPIN image" 0 '^handler +init_handlers \(function\)' \
    calls init_handlers --kind function --arg state --arg state --arg state --arg state
check "budget of a PsPIN handler" 0 '^HPUs needed' "$OPENSPIN" budget calls.spin --entry atomics_ph

# The note is read strictly: interface 9, and a version that is not ours.
printf '#include <spin/handler.h>\nint f(void) { return 0; }\n' >plain.c
"$OPENSPIN" cc plain.c -o plain.spin
patch_note() { # OFFSET VALUE: of a word of the note
    python3 - "$1" "$2" <<'P'
import sys
b = bytearray(open("plain.spin", "rb").read())
at = b.index(b"openspn\0") + int(sys.argv[1])
b[at] = int(sys.argv[2])
open("patched.spin", "wb").write(b)
P
}
patch_note -4 9
refuse "an interface that does not exist" \
    1 'patched.spin: compiled for handler interface 9, this card has 1 \(P4sPIN\) and 2 \(PsPIN\)' \
    "$OPENSPIN" image patched.spin
patch_note 8 7
refuse "a version that does not exist" 1 'compiled for version 7' "$OPENSPIN" image patched.spin
patch_note -4 2
check "the note decides" 0 '^handler +f \(pspin\)' "$OPENSPIN" exec patched.spin --entry f
cat >maths.c <<'C'
#include <handler.h>
#include <math.h>
__handler__ void maths_ph(handler_args_t *args) {
    double x = *(uint8_t *)args->task->pkt_mem;
    printf("%.13g %.13g %.13g %.13g %g %g\n", sqrt(x), sin(x), pow(x, 0.3), atan2(x, -1),
           (double)logf(x), floor(-x / 3));
}
C
for c in clang gcc; do
    check "$c: math.h" 0 '' "$OPENSPIN" cc --pspin --compiler $c maths.c -lm -o maths.spin
    check "$c: on an HPU" \
        0 '^\[0,0\] 3.162277660168 -0.5440211108894 1.995262314969 1.670464979286 2.30259 -4$' \
        "$OPENSPIN" exec maths.spin --entry maths_ph --hex 0a
done
cat >heap.c <<'C'
#include <handler.h>
__handler__ void heap_ph(handler_args_t *args) { *(void **)args->task->handler_mem = malloc(4); }
C
check "a heap is not there" 1 'PsPIN has no heap: use handler memory' "$OPENSPIN" cc --pspin heap.c
check "unless the image has one" 0 'state\+0x0, 1 byte: 00 -> 05' \
    bash -c "echo 'void *malloc(unsigned long n) { return (char *)1 + n; }' >own.c &&
    '$OPENSPIN' cc --pspin -w heap.c own.c -o heap.spin && '$OPENSPIN' exec heap.spin --entry "\
"heap_ph"
cat >placed.c <<'C'
#include <handler.h>
volatile __attribute__((section(".l2_handler_data"))) uint8_t placed[] = {0xde, 0xad, 0xbe, 0xef};
__handler__ void placed_ph(handler_args_t *args) {
    *(uint32_t *)args->task->handler_mem = *(volatile uint32_t *)placed;
    printf("%p %x\n", (void *)placed, placed[0]++);
}
C
check ".l2_handler_data" 0 '' "$OPENSPIN" cc --pspin placed.c
check "is at its address" 0 '^\[0,0\] 0x1c300000 de$' "$OPENSPIN" exec placed.spin --entry placed_ph
check "on the card too" 0 '^\[0,[0-9]\] 0x1c300000 e1$' \
    "$OPENSPIN" card run -H placed.spin,ph=placed_ph -T gen:packets=4,messages=1,gap=10us
refuse "memory that reaches into it" \
    1 'placed.spin: 1048576 bytes of handler memory at 0x1c300000 reach into its .l2_handler_data' \
    "$OPENSPIN" card run -H placed.spin,ph=placed_ph,memory=1MiB -T gen:packets=4
sed -e 's/<handler/<spin\/handler/' -e '/^__/,$d' placed.c >p4placed.c
echo 'int f(void) { return placed[0]; }' >>p4placed.c
refuse "of another interface" 1 'p4placed.spin: has .l2_handler_data, which only PsPIN' \
    "$OPENSPIN" cc p4placed.c
check "a card of another shape" 0 '' "$OPENSPIN" cc --pspin "$SOURCE/tests/handlers/pspin_calls.c" \
    -o small.spin -DNB_CLUSTERS=1
refuse "is carried by the image" 1 'small.spin: compiled for 8 HPUs' "$OPENSPIN" image small.spin
cat >habits.c <<'C'
/* What handlers of that card do: pointers as addresses, printf, a table of handlers. */
#ifndef HOST
#include <handler.h>
#else
#include <handler_profiler.h>
#endif
#include <packets.h>
#include <spin_conf.h>
#include <spin_dma.h>
__handler__ void habit_ph(handler_args_t *args)
{
    task_t* task = args->task;
    spin_cmd_t cpy;
    uint64_t host_address = task->host_mem_high;
    host_address = (host_address << 32) | (task->host_mem_low);
    printf("HPU %d: %p\n", args->hpu_id, task->pkt_mem);
    *((uint32_t *) task->l2_pkt_mem) = 0x11223344;
    spin_dma_to_host(host_address, task->l2_pkt_mem, task->pkt_mem_size, 0, &cpy);
}
__handler__ void habit_th(handler_args_t *args)
{
    task_t* task = args->task;
    uint64_t host_address = task->host_mem_high;
    host_address = (host_address << 32) | (task->host_mem_low);
    spin_host_write(host_address, (uint64_t) 1, false);
}
void init_handlers(handler_fn * hh, handler_fn *ph, handler_fn *th, void **handler_mem_ptr)
{
    volatile handler_fn handlers[] = {NULL, habit_ph, habit_th};
    *hh = handlers[0];
    *ph = handlers[1];
    *th = handlers[2];
}
C
check "habits of such handlers compile" 0 '' "$OPENSPIN" cc --pspin habits.c -o habits.spin
check "the packet in L2 goes to the host" \
    0 'ME host memory\+0x0, 16 bytes: .* -> 44332211 55667788 99aabbcc ddeeff01' \
    "$OPENSPIN" exec habits.spin --entry habit_ph --hex 112233445566778899aabbccddeeff01
check "the completion handler tells the host" 0 'ME host memory\+0x0, 1 byte: 00 -> 01' \
    "$OPENSPIN" exec habits.spin --entry habit_th
# A program for the driver interface, linked with libpspin alone.
driver=(${MESON_EXE_WRAPPER:-} "$BUILD/pspin_driver")
check "a driver of ping-pong" 0 '^32 packets back, 0 writes to the host, latency [0-9.]+ ns' \
    "${driver[@]}" "$BUILD/ping_pong.spin" ping_pong_ph
latency() { # RTL_MEAN PERCENT IMAGE HANDLER BYTES WAIT: the mean of 32 packets is near the RTL's
    local mean
    run "${driver[@]}" "$BUILD/$3.spin" "$4" 32 "$5" "$6"
    mean=$(sed -n 's/^latency from NIC arrival: mean \([0-9.]*\) ns.*/\1/p' stdout.txt)
    python3 -c "import sys; sys.exit(not abs(float('${mean:-0}') / $1 - 1) <= $2 / 100)" &&
        pass "$4, $5 B: $mean ns, RTL $1" || fail "$4, $5 B: $mean ns, RTL $1" "$out" "$err"
}
latency 62.5 2 empty empty_ph 1024 200
latency 32.5 5 empty empty_ph 64 200
latency 62.5 2 empty empty_ph 1024 20
latency 119.3 10 ping_pong ping_pong_ph 1024 20
latency 114.8 10 copy_to_host copy_to_host_start_ph 1024 20
check "its statistics" 0 '^packets: 32 in, 32 completed, 0 dropped, 32 out' "${driver[@]}" \
    "$BUILD/ping_pong.spin" ping_pong_ph
check "a driver of copies to the host" 0 '^0 packets back, 10 writes' "${driver[@]}" \
    "$BUILD/copy_to_host.spin" copy_to_host_ph 10 64
refuse "a driver without its image" 1 'pspin: none.spin: cannot open image' "${driver[@]}" \
    none.spin x_ph
refuse "an image of another interface" 1 'pspin: sum.spin: is no PsPIN image' "${driver[@]}" \
    sum.spin sum_payload_handler
check "C++ handlers" 0 '' bash -c "printf '#include <handler.h>\n__handler__ void "\
"x_ph(handler_args_t *a) { spin_cmd_t c; spin_send_packet(a->task->pkt_mem, "\
"a->task->pkt_mem_size, &c); }\n' >x.cpp; '$OPENSPIN' cc --pspin x.cpp -o x.spin"
check "run" 0 'NIC_SEND' "$OPENSPIN" exec x.spin --entry x_ph
finish
