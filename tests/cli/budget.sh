# openspin budget beside openspin card run: the same verdict, units, options and memory.
. "$SOURCE/tests/lib/tap.sh"
card() { "$OPENSPIN" card run "$@"; }
budget() { "$OPENSPIN" budget "$@"; }
export -f card budget
export OPENSPIN SOURCE
cat >grid.c <<'C'
#include <handler.h>
__handler__ void empty_ph(handler_args_t *args) { (void)args; }
__handler__ void sum_ph(handler_args_t *args) {
    volatile uint32_t *word = args->task->pkt_mem;
    uint32_t sum = 0;
    for (uint32_t i = 0; i < args->task->pkt_mem_size / 4; i++)
        sum += word[i];
    word[0] = sum;
}
__handler__ void back_ph(handler_args_t *args) {
    spin_cmd_t put;
    spin_send_packet(args->task->pkt_mem, args->task->pkt_mem_size, &put);
}
__handler__ void host_ph(handler_args_t *args) {
    spin_cmd_t dma;
    uint64_t host = (uint64_t)args->task->host_mem_high << 32 | args->task->host_mem_low;
    spin_dma_to_host(host, (uint32_t)args->task->pkt_mem, args->task->pkt_mem_size, 0, &dma);
}
C
"$OPENSPIN" cc --pspin -O2 grid.c -o grid.spin || exit 1

# --- the card of a file, of options and of --set is one card ---
card --parameters -s clusters=2 -s cycle=0.5ns -s network_rate=200Gbit/s >half.txt
budget grid.spin --entry back_ph --params half.txt >file.txt
budget grid.spin --entry back_ph --hpus 16 --clock 2GHz --set network_rate=200Gbit/s \
    --rate 200 >said.txt
cmp -s file.txt said.txt && pass "parameters of a file" ||
    fail "parameters of a file" "$(diff file.txt said.txt)"
check "HPUs, clock and rate are the card's" 0 \
    '^time budget +327.7 ns per packet: 16 HPUs, a packet every 20.48 ns at 200 Gbit/s' cat file.txt
check "also those of --set" 0 ' ns per packet: 8 HPUs, ' \
    budget grid.spin --entry back_ph --set clusters=1
check "exec has the clock" 0 '^time +[0-9.]+ ns at 2 GHz' \
    "$OPENSPIN" exec grid.spin --entry sum_ph --clock 2GHz
check "JSON into a file" 0 '^instructions' \
    "$OPENSPIN" exec grid.spin --entry sum_ph --json=exec.json --profile
check "is JSON" 0 '"instructions": [0-9]+' python3 -m json.tool exec.json
check "of budget as well" 0 '^line rate' \
    "$OPENSPIN" budget grid.spin --entry sum_ph --json budget.json
check "is JSON too" 0 '"hpus_needed": [0-9]+' python3 -m json.tool budget.json
refuse "an input is kept" 2 'grid.spin is also read' \
    "$OPENSPIN" exec grid.spin --entry sum_ph --json=grid.spin
refuse "JSON among a profile" 2 'or into a file: --json=FILE' "$OPENSPIN" exec grid.spin \
    --entry sum_ph --json --profile
check "in JSON too" 0 '"time_ns": [0-9]+' \
    "$OPENSPIN" exec grid.spin --entry sum_ph --clock 2GHz --json
refuse "no clock" 2 "--clock: 'soon'" "$OPENSPIN" exec grid.spin --entry sum_ph --clock soon
refuse "a packet of nothing" 2 '--packet-size: 0 is outside 1 to 32704' \
    "$OPENSPIN" exec grid.spin --entry sum_ph --packet-size 0
refuse "a message shorter than its packet" \
    2 '--message-size: 10 bytes, and its packet alone has 512$' \
    "$OPENSPIN" exec grid.spin --entry sum_ph --message-size 10
refuse "a runtime beside the card's" 2 '--runtime is for --cycles' budget grid.spin --entry sum_ph \
    --runtime 9
refuse "a file without a card" 2 '--params: --cycles runs nothing on a card' \
    budget --cycles 9 --params half.txt

# --- held in one is held in the other, over handlers, sizes, rates and clocks ---
sizes="64 256 1024" loads=72
[ -z "$SANITIZED" ] || sizes=256 loads=24
for handler in empty_ph sum_ph back_ph host_ph; do
    for size in $sizes; do
        for rate in 100Gbit/s 200 400Gbit/s; do
            for clock in 1GHz 2GHz; do
                echo "$handler $size $rate $clock"
                budget grid.spin --entry $handler --packet-size $size --rate $rate --clock $clock \
                    --json | tr -d '\n'; echo
                card -H grid.spin --ph $handler -T gen:packets=8000,size=$size,rate=$rate \
                    --clock $clock --json | tr -d '\n'; echo
            done
        done
    done
done >grid.txt 2>grid.err
python3 - $loads >checks.txt 2>&1 <<'P'
import json, sys
loads = int(sys.argv[1])
lines = open("grid.txt").read().split("\n")[:-1]
assert len(lines) == 3 * loads, (len(lines), open("grid.err").read())
held = 0
for what, b, c in zip(lines[::3], lines[1::3], lines[2::3]):
    b, c = json.loads(b), json.loads(c)
    part = c["throughput_gbit_s"] / b["rate_gbit"]
    assert part >= 0.97 if b["holds_line_rate"] else part < 0.995, (what, b, c["throughput_gbit_s"])
    held += b["holds_line_rate"]
    if not b["holds_line_rate"]:
        assert b["card"]["limit"], what
        assert (abs(b["sustained_gbit"] / c["throughput_gbit_s"] - 1)
                < 0.05), (what, b["sustained_gbit"], c["throughput_gbit_s"])
assert 0.28 * loads < held < 0.97 * loads, held  # both kinds are there
P
if [ $? = 0 ]; then
    pass "budget and card run agree on $loads loads"
else
    fail "budget and card run agree on $loads loads" "$(cat checks.txt)"
fi
check "the HPUs are the limit" \
    0 '^limit +HPUs: [0-9.]+ ns per packet, and one comes every 1.28 ns$' \
    budget grid.spin --entry sum_ph --packet-size 64
check "or another unit is, by name" 0 '^limit +[a-zA-Z].*: ' \
    budget grid.spin --entry back_ph --packet-size 64 --rate 800Gbit/s

# --- units and names ---
budget grid.spin --entry back_ph --rate 12.5 --clock 2000 >one.txt
budget grid.spin --entry back_ph --rate 12.5Gbit/s --clock 2GHz >two.txt
cmp -s one.txt two.txt && grep -q 'at 2 GHz' one.txt && pass "12.5 is 12.5Gbit/s, 2000 is 2GHz" ||
    fail "12.5 is 12.5Gbit/s, 2000 is 2GHz" "$(diff one.txt two.txt)"
card -H grid.spin --ph back_ph --rate 12.5 --packet-size 256 --clock 2GHz --hpus 16 |
    sed 1d >one.txt
card -H grid.spin --ph back_ph -T gen:packets=1000,size=256,rate=12.5Gbit/s --set cycle=0.5ns \
    --set clusters=2 | sed 1d >two.txt
cmp -s one.txt two.txt &&
    grep -q 'clusters = 2, cycle = 0.5 ns' one.txt && pass "the same options in card run" ||
    fail "the same options in card run" "$(diff one.txt two.txt)"
refuse "a rate that is none" 2 "^openspin budget: --rate: 'fast' is no rate" \
    budget grid.spin --entry back_ph --rate fast
refuse "a clock that is none" 2 "^openspin card run: --clock: '2ns' is no frequency" \
    card -H grid.spin --ph back_ph --rate 1 --clock 2ns
refuse "rate beside traffic" 2 'stand for --traffic' card -H grid.spin --ph back_ph --rate 1 -T gen:

# --- state and memory: given, saved and read back ---
cat >count.c <<'C'
#include <spin/handler.h>
__handler int c_payload_handler(const ptl_payload_t p, void *state) {
    (void)p;
    __atomic_fetch_add((uint32_t *)state, 1, __ATOMIC_RELAXED);
    return SUCCESS;
}
C
"$OPENSPIN" cc -O2 count.c -o count.spin || exit 1
printf '\144\0\0\0' >hundred.bin
word() { od -An -tu4 -N4 "$1" | tr -d ' '; }
"$OPENSPIN" exec count.spin --entry c_payload_handler --state hundred.bin \
    --dump state=after.bin >/dev/null
[ "$(word after.bin)" = 101 ] && pass "exec saves the state" ||
    fail "exec saves the state" "$(od -tu4 after.bin)"
card -H count.spin -T gen:packets=20,size=64 --state after.bin --dump state=later.bin >text.txt
[ "$(word later.bin)" = 121 ] && pass "card run reads it and saves it" ||
    fail "card run reads it and saves it" "$(od -tu4 later.bin | head -2)"
check "and says where it is" 0 "state in the scratchpad of the message's home cluster" cat text.txt
budget count.spin --entry c_payload_handler --state later.bin --dump state=last.bin >/dev/null
[ "$(word last.bin)" -gt 121 ] && pass "budget reads it and saves it" ||
    fail "budget reads it and saves it"
printf 'abcd' >four.bin
card -H grid.spin,ph=empty_ph -H count.spin -m 'any -> ctx0' \
    -T gen:packets=1 --fill ctx1:scratchpad2+8=four.bin --fill ctx0:host+1K=four.bin \
    --dump ctx1:scratchpad2+6,8=pad.bin --dump host+1024,4=host.bin >/dev/null
[ "$(tr '\0' . <pad.bin)" = ..abcd.. ] &&
    [ "$(cat host.bin)" = abcd ] && pass "regions of contexts are filled and dumped" ||
    fail "regions of contexts are filled and dumped" "$(od -c pad.bin)"
refuse "no such region" 2 "'nothing=x' is not \[ctxN:\]REGION" \
    card -H grid.spin --ph empty_ph -T gen: --dump nothing=x
refuse "no such context" 2 "'ctx1:state=x': ctx1 does not exist: there is 1 context, from ctx0$" \
    card -H grid.spin --ph empty_ph -T gen: --dump ctx1:state=x
refuse "beyond its end" 1 'the memory has 4096' \
    card -H grid.spin --ph empty_ph -T gen: --fill state+4094=four.bin
refuse "two outputs of one name" 2 'both write' \
    card -H grid.spin --ph empty_ph -T gen: --dump state=x --packets x
refuse "an output that is an input" 2 'is also read' \
    card -H grid.spin --ph empty_ph -T gen: --state four.bin --dump state=four.bin

finish
