# openspin card run: what a user does with it, and what goes wrong.
. "$SOURCE/tests/lib/tap.sh"
golden=$SOURCE/tests/golden
pcap() { python3 "$SOURCE/tests/lib/pcap_tool.py" "$@"; }
card() { "$OPENSPIN" card run "$@"; }
export -f card pcap
export OPENSPIN SOURCE
"$OPENSPIN" cc --pspin -O2 "$SOURCE/examples/echo.c" -o echo.spin || exit 1
"$OPENSPIN" cc -O2 "$SOURCE/examples/word_sum.c" -o sum.spin || exit 1

# --- a small run; the parameters have a test of their own ---
same "a small run" "$golden/card_run.txt" \
    card -H echo.spin -T gen:messages=4,packets=8,size=256,rate=100Gbit/s
card -H echo.spin -T gen:messages=64,packets=400,size=256 --jit=off >interpreted.txt
card -H echo.spin -T gen:messages=64,packets=400,size=256 --jit=force >compiled.txt 2>err.txt
if grep -q 'built without LLVM' err.txt; then
    skip "the same when handlers are compiled" "built without LLVM"
else
    cmp -s interpreted.txt compiled.txt && pass "the same when handlers are compiled" ||
        fail "the same when handlers are compiled" "$(diff interpreted.txt compiled.txt | head -5)"
fi
check "parameters with unit and source" 0 "^  cycle = 1 ns, clock period \(ISCA'21" \
    card --parameters
check "a parameter that was set" 0 "^  clusters = 2, .*\(set by the user" \
    card --parameters --set clusters=2
check "a run names what differs from the preset" \
    0 "^  not the preset's: clusters = 2, policy = drop$" \
    card -H echo.spin -T gen:packets=1 --set clusters=2 --set policy=drop
check "or that nothing does" 0 "^  all parameters are the preset's" \
    card -H echo.spin -T gen:packets=1 --set clusters=4
check "the list of parameters" 0 '^  cluster_hpus = 8, ' card --parameters
check "the list of fields" 0 '^udp.dport ' card --fields
check "CSV" 0 '^latency_p99,[1-9][0-9]*,ps$' card -H echo.spin -T gen:packets=9 --csv
card -H echo.spin -T gen:packets=9 --json=r.json --csv r.csv --profile >r.txt &&
    card -H echo.spin -T gen:packets=9 --csv | cmp -s - r.csv &&
    card -H echo.spin -T gen:packets=9 --json | cmp -s - r.json && grep -q '^throughput ' r.txt &&
    grep -q '^profile of ctx0' r.txt && pass "JSON and CSV as files, the text beside them" ||
    fail "JSON and CSV as files, the text beside them" "$(cat r.txt)"
refuse "a result over an input" 2 '--json: echo.spin is also read' \
    card -H echo.spin -T gen: --json=echo.spin
check "CSV has bank conflicts" 0 '^conflict_cycles,[0-9]+,cycles$' \
    card -H echo.spin -T gen:packets=9 --csv

# --- figures that must agree with each other ---
card -H echo.spin -T gen:messages=16,packets=20,size=64-1500,interleave=4,seed=3 \
    --json --trace t.json --packets p.csv -o out.pcap >run.json 2>err.txt
python3 - >checks.txt 2>&1 <<'P'
import csv, json
r = json.load(open("run.json"))
assert r["packets"] == r["taken"] == r["completed"] == 320 and r["refused"] == r["dropped"] == 0
assert r["messages_completed"] == 16 and r["packets_out"] == 320 and r["bytes_out"] == r["bytes"]
assert (r["handlers"]["payload"]["runs"] == 320 and r["handlers"]["completion"]["runs"] == 16
        and r["handlers"]["header"]["runs"] == 0)
l = r["latency_ps"]
assert l["latency"]["min"] <= l["latency"]["p50"] <= l["latency"]["p99"] <= l["latency"]["max"]
assert l["latency"]["count"] == l["latency_from_nic"]["count"] == 320
parts = [k for k in l if k not in ("latency", "latency_from_nic", "write_to_l2")]
assert len(parts) == 9 and abs(sum(l[k]["mean"] for k in parts) - l["latency"]["mean"]) < 0.01, l
assert abs(l["latency"]["mean"] + l["write_to_l2"]["mean"] - l["latency_from_nic"]["mean"]) < 0.01
rows = list(csv.DictReader(open("p.csv")))
assert len(rows) == 320 and {int(x["packet"]) for x in rows} == set(range(320))
assert (sum(int(x["bytes"]) for x in rows) == r["bytes"]
        and all(x["outcome"] == "done" for x in rows))
waits = [int(x["completion_ps"]) - int(x["request_ps"]) for x in rows]
waits.sort()
for p, at in ((50, "p50"), (90, "p90"), (99, "p99")):  # exactly, by nearest rank
    assert waits[(320 * p + 99) // 100 - 1] == l["latency"][at], (at, l["latency"])
assert max(waits) == l["latency"]["max"] and abs(sum(waits) / 320 - l["latency"]["mean"]) < 1
assert (max(int(x["completion_ps"]) for x in rows) - min(int(x["arrival_ps"]) for x in rows)
        == r["elapsed_ps"])
events = json.load(open("t.json"))["traceEvents"]
names = {(e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
assert {"HPU 0", "HPU 31", "cluster DMA 3", "inbound link 0", "outbound link 0", "host interface 0",
        "host interface 1", "done 0", "refused 0"} <= set(names.values()), names
boxes = [e for e in events if e["ph"] == "X"]
assert all(e["tid"] in names for e in boxes), "every box is on a row with a name"
hpu = [e for e in boxes if names[e["tid"]].startswith("HPU")]
assert len(hpu) == 336, len(hpu)
for row in set(e["tid"] for e in hpu):  # an HPU does one thing at a time
    mine = sorted((e["ts"], e["ts"] + e["dur"]) for e in hpu if e["tid"] == row)
    assert all(a[1] <= b[0] + 1e-9 for a, b in zip(mine, mine[1:])), (row, mine)
assert len([e for e in boxes if names[e["tid"]] == "inbound link 0"]) == 320
of = {int(x["packet"]): x for x in rows}
for e in boxes:  # every box says whose it is
    a = e["args"]
    assert (a["message"] == int(of[a["packet"]]["message"]) and a["context"] == 0
            and a["flow"] >= 0), e
    assert (round(a["arrival"] * 1e6) == int(of[a["packet"]]["arrival_ps"])
            and a["arrival"] <= e["ts"]), e
ways, at = {}, {(e["tid"], e["ts"], e["args"]["packet"]): e for e in boxes}
for e in events:
    if e["ph"] in "stf":
        ways.setdefault(e["id"], []).append(e)
assert len(ways) == 320
# arrows lead from L2 by L1, HPU and the send to the end
for packet, way in enumerate(ways.values()):
    way.sort(key=lambda e: e["ts"])
    assert "".join(e["ph"] for e in way) == "s" + "t" * (len(way) - 2) + "f", way
    row = [names[at[e["tid"], e["ts"], packet]["tid"]].rstrip(" 0123456789") for e in way]
    assert row[0] == "inbound link" and row[-1] == "done", row
    assert (row[1:4] == ["cluster DMA", "HPU", "outbound link"]
            and row.count("outbound link") == 1), row
    assert (sum(row.count(r) for r in ("inbound link", "cluster DMA", "HPU", "outbound link",
                                       "done")) == len(row)), row
P
if [ $? = 0 ]; then
    pass "JSON, trace and table of packets agree"
else
    fail "JSON, trace and table of packets agree" "$(cat checks.txt err.txt)"
fi
digest() {
    card -H echo.spin -T "gen:messages=9,packets=9,size=imix,arrivals=poisson,seed=$1" --json |
        grep digest
}
[ "$(digest 5)" = "$(digest 5)" ] && pass "the same seed, the same digest" ||
    fail "the same seed, the same digest"
[ "$(digest 5)" != "$(digest 6)" ] && pass "another seed, another digest" ||
    fail "another seed, another digest"

card -H echo.spin -T gen:packets=50,size=100,rate=100Gbit/s --profile >profile.txt
python3 - >checks.txt 2>&1 <<'P'
import re
text = open("profile.txt").read()
rows = re.findall(r"^ *(\d+) +[\d.]+% +(\d+) x    0x", text, re.M)
runs = re.search(r"^payload +handler (\d+) runs, ([\d.]+) instructions, ([\d.]+) cycles", text,
                 re.M)
more = re.search(r"^completion handler (\d+) runs, ([\d.]+) instructions, ([\d.]+) cycles", text,
                 re.M)
want = [sum(int(m[1]) * float(m[k]) for m in (runs, more)) for k in (2, 3)]
total, lost = re.search(r"^profile of ctx0: (\d+) cycles(?:.*; (\d+) of them lost to contention)?",
                        text, re.M).groups()
times, cycles = sum(int(r[1]) for r in rows), sum(int(r[0]) for r in rows) + int(lost or 0)
assert runs[1] == "50" and abs(times - want[0]) < 3, (times, want)
# means are printed with one decimal
assert cycles == int(total) and abs(cycles - want[1]) <= 4, (cycles, total, want)
P
if [ $? = 0 ]; then
    pass "a profile over all runs adds up to the handlers' figures"
else
    fail "a profile over all runs adds up to the handlers' figures" \
        "$(cat checks.txt; tail -n 60 profile.txt)"
fi

# --- captures in and out, against a reader and writer of the test's own ---
pcap make in.pcap 3 40 200 eth
for out in out.pcap out.pcapng; do
    card -H echo.spin -T pcap:in.pcap,link=ip -o $out >/dev/null
    check "every packet of a capture comes back ($out)" 0 '^holds$' pcap check-echo in.pcap $out
done
check "one message a flow" 0 '^messages +3 begun, 3 completed' \
    card -H echo.spin -T pcap:in.pcap,link=ip
check "messages of 5 packets" 0 '^messages +24 begun, 24 completed' \
    card -H echo.spin -T pcap:in.pcap,link=ip,messages=5
pcap make ip.pcap 4 25 404 ip
card -H sum.spin -T pcap:ip.pcap,messages=flow -o sums.pcap >/dev/null
check "a P4sPIN handler's sums are right" 0 '^holds$' pcap check-sums ip.pcap sums.pcap
cat >lengths.c <<'C'
#include <spin/handler.h>
__handler int l_header_handler(const ptl_header_t h, void *state) {
    (void)state;
    assert(h.length == 25 * 404);
    return PROCESS_DATA;
}
__handler int l_payload_handler(const ptl_payload_t p, void *state) {
    assert(p.length == 404 && p.offset % 404 == 0 && p.offset < 25 * 404);
    __atomic_fetch_add((uint32_t *)state, p.offset / 404, __ATOMIC_RELAXED);
    return SUCCESS;
}
__handler int l_completion_handler(int dropped, bool flow_control, void *state) {
    (void)dropped, (void)flow_control;
    uint32_t *offsets = state;
    assert(*offsets % (24 * 25 / 2) == 0);
    return SUCCESS;
}
C
"$OPENSPIN" cc -O2 lengths.c -o lengths.spin || exit 1
check "P4sPIN handlers see the message's length and offsets" \
    0 '^messages +1 begun, 1 completed, 0 failed' card -H lengths.spin -T gen:packets=25,size=404
check "also when hundreds of messages take turns" \
    0 '^messages +3000 begun, 3000 completed, 0 failed' \
    card -H lengths.spin,th=none -T gen:messages=3000,packets=25,size=404,interleave=200
check "and would see a wrong one" \
    1 'failed check at pc 0x[0-9a-f]+ \(l_header_handler\+0x[0-9a-f]+\), lengths.c:4' \
    card -H lengths.spin -T gen:packets=24,size=404

# --- traces of PsPIN ---
printf '1 3 128\n0 1 128 20 9 0\n0 1 64 20 9 0\n0 1 0 500 0 0\n0 1 64 20 9 1\n' >t.trace
check "a text trace" 0 '^packets +3, 256 bytes' card -H echo.spin -T trace:t.trace
printf '7,0,0,0,0,0,0,0,0,64,64,0,30\n7,0,0,0,0,0,0,0,0,40,40,1,0\n' >t.csv
head -c 104 /dev/zero >t.bin
check "a CSV trace with its bytes" 0 '^packets +2, 104 bytes' card -H echo.spin -T csv:t.csv,t.bin

check "the trace's handlers are other ones, which is said" \
    0 "^trace's handlers +2 packets name others" card -H echo.spin -T csv:t.csv,t.bin
payload=$("$OPENSPIN" image echo.spin --json | python3 -c 'import json, sys; print(*[f["address"] '\
'for f in json.load(sys.stdin)["functions"] if f["name"] == "echo_ph"])')
printf '7,0,0,%d,0,0,0,0,0,64,64,0,30\n7,0,0,%d,0,0,0,0,0,40,40,1,0\n' $payload $payload >same.csv
card -H echo.spin,th=none -T csv:same.csv,t.bin | grep -q "trace's handlers" &&
    fail "the same handlers are not" || pass "the same handlers are not"
# 4096 B per packet, of which the trace wants 64, all, or what --handler says in L1: 1,
# 64 and 2 beats of cluster DMA.
head -c 4096 /dev/zero >large.bin
for row in 64:4096:1 4096:4096:64 64:128:2; do
    IFS=: read -r xfer copy beats <<<"$row"
    printf '7,0,0,0,0,0,0,0,0,4096,%d,1,0\n' "$xfer" >large.csv
    said=echo.spin,th=none; [ "$copy" = 4096 ] || said=$said,copy=$copy
    check "pkt_xfer_size $xfer, copy $copy" 0 "^cluster_dma_busy_ps,${beats}000,ps" \
        card -H "$said,ph=none,hh=echo_th" -T csv:large.csv,large.bin --csv
done

# --- contexts and matching ---
check "two contexts by rules" 0 '^  ipv4.src=10.0.0.2 -> ctx1 +40 packets$' card -H echo.spin \
    -H sum.spin -T pcap:in.pcap --match 'ipv4.src=10.0.0.1 -> ctx0; ipv4.src=10.0.0.2 -> ctx1'
check "what no rule takes goes to the host" 0 '^to the host +40, 8000 bytes' card -H echo.spin \
    -T pcap:in.pcap --match 'ipv4.src=10.0.0.0/31 -> ctx0; ipv4.src=10.0.0.2 -> ctx0'
check "and into a file" 0 '^to the host +40, 8000 bytes' card -H echo.spin -T pcap:in.pcap \
    --match 'ipv4.src=10.0.0.0/31 -> ctx0; ipv4.src=10.0.0.2 -> ctx0' --host-out host.pcapng
card -H echo.spin -T pcap:in.pcap --match 'any -> host' --host-out all.pcap >/dev/null
check "byte for byte" 0 '^holds$' pcap check-same in.pcap all.pcap
refuse "into nowhere, no other file either" 1 'nowhere/h.pcap: cannot write' \
    card -H echo.spin -T pcap:in.pcap -o new.pcap --host-out nowhere/h.pcap
[ ! -e new.pcap ] && pass "as it says" || fail "as it says"
check "dropped by a rule" 0 '^drops +0 refused, 0 dropped, 120 by rule$' \
    card -H echo.spin -T pcap:in.pcap --match 'any -> drop'
printf '# comment\nudp.dport=4791 -> ctx0\n' >rules.txt
check "rules from a file" 0 '^  udp.dport=4791 -> ctx0 +120 packets$' \
    card -H echo.spin -T pcap:in.pcap --match-file rules.txt
check "malformed packets are told by kind, and go to the host" \
    0 '^  malformed: the IP version is neither 4 nor 6 +3 packets' \
    card -H echo.spin -T trace:t.trace --match 'udp.dport=4791 -> ctx0'

# --- every packet and every context is accounted for ---
cat >some.c <<'C'
#include <handler.h>
__handler__ void some_ph(handler_args_t *args) {
    if (args->task->flow_id > 30) /* half of the messages fail */
        *(volatile int *)0x100 = 5;
}
C
"$OPENSPIN" cc --pspin -O2 some.c -o some.spin || exit 1
rules='ipv4.src=10.0.0.1 -> ctx0; ipv4.src=10.0.0.2 -> drop; ipv4.src=10.0.0.3 -> host; '\
'ipv4.src=10.0.0.4 -> ctx1; udp.dport=9 -> ctx1'
accounted() {
    card -H echo.spin -H some.spin -m "$rules" -T gen:messages=60,flows=5,packets=8,size=900 \
        --set l2_packet_bytes=4KiB --set policy=drop --packets all.csv "$@"
}
accounted --json >all.json; accounted --csv >all.txt; accounted >text.txt
python3 - >checks.txt 2>&1 <<'P'
import collections, csv, json
r = json.load(open("all.json"))
rows = list(csv.DictReader(open("all.csv")))
assert sorted(int(x["packet"]) for x in rows) == list(range(480)), len(rows)
what = collections.Counter((x["outcome"], x["reason"]) for x in rows)
key = lambda o, w: "".join(c if c.isalnum() else "_" for c in (o + " " + w).strip().lower())
assert ({k: v for k, v in r["fates"].items() if v}
        == {key(*k): v for k, v in what.items()}), (r["fates"], what)
for o, w in (("done", ""), ("dropped", "by a rule"), ("host", "by a rule"),
             ("host", "no rule takes it"), ("refused", "packet buffer full"),
             ("refused", "its message had failed")):
    assert what[o, w] > 0, (o, w, what)
table = {x["name"]: x["value"] for x in csv.DictReader(open("all.txt"))}
for i, c in enumerate(r["contexts"]):
    mine = [x for x in rows if x["context"] == str(i)]
    assert (len(mine) == c["packets"] == int(table["ctx%d_packets" % i])), (i, len(mine),
                                                                            c["packets"])
    assert sum(x["outcome"] == "done" for x in mine) == c["completed"]
    late = sorted(int(x["completion_ps"]) - int(x["request_ps"]) for x in mine
                  if x["outcome"] == "done")
    assert (late[(len(late) * 99 + 99) // 100 - 1] == c["latency_ps"]["latency"]["p99"]
            == int(table["ctx%d_latency_p99" % i]))
for name in ("completed", "faults", "refused", "hpu_busy_ps", "bytes_out", "cluster_dma_busy_ps"):
    assert sum(c[name] for c in r["contexts"]) == r[name], name
assert sum(c["hpu_share"] for c in r["contexts"]) > 0.9999
assert r["contexts"][0]["faults"] == 0 < r["contexts"][1]["faults"]
P
if [ $? = 0 ]; then
    pass "every packet has a row, every context its figures"
else
    fail "every packet has a row, every context its figures" "$(cat checks.txt)"
fi
check "a table of contexts" 0 '^  ctx1 +96 +[0-9]+ ' cat text.txt
check "reasons of refusals" 0 '^  refused +[0-9]+: packet buffer full$' cat text.txt
check "a rule that takes nothing" \
    0 '^  udp.dport=9 -> ctx1 +0 packets: the rule takes none of them$' cat text.txt
check "reasons of backpressure: the buffer" 0 '^backpressure '\
'+[0-9]+ packets and those behind them waited [0-9.]+ ns for room in the packet buffer$' \
    card -H echo.spin -T gen:packets=200 --set l2_packet_bytes=4KiB
check "reasons of backpressure: the queues" \
    0 '^backpressure +[0-9]+ packets .* for a free message queue$' \
    card -H echo.spin -T gen:messages=50,packets=2 --set queues=1

# --- several traffics, captures that run backwards ---
card -H echo.spin -T gen:packets=50,size=64,rate=50 -T gen:packets=50,size=256,rate=50,start=3ns \
    --packets mixed.csv >mixed.txt
python3 - >checks.txt 2>&1 <<'P'
import csv
rows = sorted(csv.DictReader(open("mixed.csv")), key=lambda x: int(x["packet"]))
at = [int(x["arrival_ps"]) for x in rows]
assert len(rows) == 100 and at == sorted(at)
assert [x["bytes"] for x in rows[:3]] == ["64", "256", "64"], rows[:3]
assert {(x["message"], x["bytes"]) for x in rows} == {("0", "64"), ("1", "256")}
P
if [ $? = 0 ]; then
    pass "two traffics are merged by time"
else
    fail "two traffics are merged by time" "$(cat checks.txt mixed.txt)"
fi
check "and named" 0 '^card pspin, traffic gen:.*rate=50 and gen:.*start=3ns$' cat mixed.txt
check "P4sPIN handlers see their messages' lengths in a mix" \
    0 '^messages +2 begun, 2 completed, 0 failed' \
    card -H lengths.spin,th=none -T gen:packets=25,size=404 -T gen:packets=25,size=404
refuse "of the same headers" 2 'begin with different headers' \
    card -H echo.spin -T gen:link=eth -T gen:
python3 - <<'P'
import struct
ip = (bytes.fromhex("4500001c0000000040110000") + bytes([10, 0, 0, 1, 10, 0, 0, 2])
      + struct.pack(">HHHH", 1, 4791, 8, 0))
with open("late.pcap", "wb") as f:
    f.write(struct.pack("<IHHiIII", 0xa1b2c3d4, 2, 4, 0, 0, 65535, 101))
    for us in (5, 9, 7, 12, 3):
        f.write(struct.pack("<IIII", 100, us, len(ip), len(ip)) + ip)
P
check "a capture that runs backwards" 0 "^capture's times +2 packets are stamped before" \
    card -H echo.spin -T pcap:late.pcap

# --- large cards ---
"$OPENSPIN" cc --pspin -O2 -DPTL_NUM_HPUS=1024 "$SOURCE/examples/echo.c" -o echo1024.spin || exit 1
for shape in clusters=128:cluster_hpus=8 clusters=64:cluster_hpus=16; do
    check "1,024 HPUs, $shape" 0 '1024 of 1024 ran' \
        card -H echo1024.spin -T gen:messages=256,packets=100,size=64,interleave=256,rate=none \
        --set ${shape%:*} --set ${shape#*:} --set cells=4096 --set queues=1024 \
        --set l2_packet_bytes=12MiB --set remote_cycles=200
done
"$OPENSPIN" cc --pspin -O2 -DPTL_NUM_HPUS=2048 "$SOURCE/examples/echo.c" -o echo2048.spin || exit 1
refuse "more than that" 2 '128 clusters of 16 HPUs: the limit is 1024 HPUs' \
    card -H echo2048.spin -T gen: --set clusters=128 --set cluster_hpus=16

# --- the watchdog looks inside blocks ---
cat >straight.c <<'C'
#include <handler.h>
__handler__ void straight_ph(handler_args_t *args) {
    uint32_t a = args->task->pkt_mem_size;
    __asm__ volatile(".rept 3000\n addi %0, %0, 1\n .endr" : "+r"(a));
    *(volatile uint32_t *)args->task->pkt_mem = a;
}
C
"$OPENSPIN" cc --pspin -O2 straight.c -o straight.spin || exit 1
for jit in off on; do
    check "straight-line code is ended at its budget (--jit $jit)" \
        1 '^payload +handler 1 runs, [0-9.]+ instructions, 10(0[0-9]|1[0-9]).0 cycles' \
        card -H straight.spin --watchdog 1000 --jit $jit -T gen:packets=1,size=64
done
check "and runs through within it" 0 '^payload +handler 1 runs, 30[0-9][0-9].0 instr' \
    card -H straight.spin --watchdog 10000 -T gen:packets=1,size=64

# --- progress, on a terminal; the runs are ended when they have shown it ---
python3 - >checks.txt 2>&1 <<'P'
import os, pty, re, select, signal, subprocess, time
card = [os.environ["OPENSPIN"], "card", "run"]
wanted = [(card + ["-H", "sum.spin", "-T", "gen:packets=100000000,size=64"],
           rb"[0-9]+ % of 100000000 packets, to measure messages"),
          (card + ["-H", "echo.spin", "-T", "gen:packets=3000000,size=64"],
           rb"[0-9]+ % of 3000000 packets, [0-9]+ s left"),
          ([card[0], "budget", "echo.spin", "--entry", "echo_ph", "--count", "1000000",
            "--packet-size", "32000"],
           rb"[0-9]+ % of 1000000 packets, to measure the handler")]
runs = []
for argv, what in wanted:
    ours, theirs = pty.openpty()
    runs.append([subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=theirs), ours, what, b""])
    os.close(theirs)
until = time.time() + 60
try:
    while any(not re.search(r[2], r[3]) for r in runs):
        assert time.time() < until, runs
        for r in runs:
            if select.select([r[1]], [], [], 0.05)[0]:
                r[3] += os.read(r[1], 4096)
finally:
    for r in runs:
        r[0].kill()
P
if [ $? = 0 ]; then
    pass "progress on a terminal"
else
    fail "progress on a terminal" "$(cat checks.txt)"
fi
card -H sum.spin -T gen:packets=9,size=64 2>err.txt >/dev/null && [ ! -s err.txt ] &&
    pass "and nowhere else" || fail "and nowhere else" "$(cat err.txt)"

# --- faults ---
cat >faulty.c <<'C'
#include <handler.h>
__handler__ void store_ph(handler_args_t *args) {
    if (args->task->flow_id == 1)
        *(volatile int *)0x100 = 5;
}
__handler__ void loop_ph(handler_args_t *args) {
    while (args->task->flow_id == 1)
        ;
}
C
"$OPENSPIN" cc --pspin -O2 -g faulty.c -o faulty.spin || exit 1
check "a fault costs its message only" 1 '^messages +3 begun, 2 completed, 1 failed' \
    card -H faulty.spin --ph store_ph -T gen:messages=3,packets=2,size=64
check "and is told with its line" 1 'ctx0, message 1, HPU '\
'[0-9]+, payload handler: SEGV at pc 0x[0-9a-f]+ \(store_ph.*, faulty.c:4, address 0x00000100' \
    card -H faulty.spin --ph store_ph -T gen:messages=3,packets=2,size=64
card -H faulty.spin --ph store_ph -T gen:messages=3,packets=2,size=64 \
    --trace fault.json >/dev/null 2>&1
grep -q '"name":"store_ph: SEGV"' fault.json && grep -q '"name":"dropped: ' fault.json &&
    grep -q '"name":"store_ph"' fault.json && pass "a trace marks faults and what they cost" ||
    fail "a trace marks faults and what they cost" \
        "$(grep -o '"name":"[^"]*"' fault.json | sort | uniq -c)"
printf '%s\n' '#include <handler.h>' \
    'void quote_ph(handler_args_t *args) __asm__("quo\"te\\_ph");' \
    '__handler__ void quote_ph(handler_args_t *args) { (void)args; }' >quote.c
"$OPENSPIN" cc --pspin -O2 quote.c -o quote.spin &&
    card -H quote.spin --ph 'quo"te\_ph' -T gen:packets=2 --trace quote.json >/dev/null &&
    python3 -c 'import json; assert any(e["name"] == "quo\"te\\_ph" for e in '\
'json.load(open("quote.json"))["traceEvents"])' &&
    pass "a trace is JSON whatever handlers are called" ||
    fail "a trace is JSON whatever handlers are called" "$(grep te quote.json)"
check "the watchdog ends a loop" 1 '^faults +[12] of handlers \([12] by the watchdog\)' \
    card -H faulty.spin,ph=loop_ph,watchdog=500 -T gen:messages=3,packets=2,size=64
check "a packet over the buffer is refused" 0 '^drops +2 refused' \
    card -H echo.spin -T gen:packets=2,size=65535
check "a full buffer, dropping" 0 '^drops +[1-9][0-9]* refused' card -H sum.spin \
    -T gen:messages=300,packets=4,size=1024 --set policy=drop --set l2_packet_bytes=16KiB

# --- bad input: one line, what and where ---
refuse "no handler" 2 "which handlers\? say --handler IMAGE" card -T gen:
refuse "no traffic" 2 'which traffic\? say --traffic gen:' card -H echo.spin
refuse "no such image" 1 'nope.spin: cannot open image' card -H nope.spin -T gen:
refuse "no such function" 2 "no handler 'nothing'; it has: echo_ph, echo_th" \
    card -H echo.spin --ph nothing -T gen:
refuse "two payload handlers" \
    2 'which payload handler, (loop|store)_ph or (loop|store)_ph\? say --ph NAME' \
    card -H faulty.spin -T gen:
refuse "no handler at all" 2 'no handler by name' card -H echo.spin,ph=none,th=none -T gen:
refuse "unknown option of a context" 2 "unknown option 'foo'; there are hh, ph" \
    card -H echo.spin,foo=1 -T gen:
refuse "unknown parameter" \
    2 "the card has no parameter 'x'; 'openspin card run --parameters' lists all" \
    card -H echo.spin -T gen: --set x=1
refuse "a parameter nearly" \
    2 "the card has no parameter 'netwrok_rate' \(did you mean 'network_rate'\?\);" \
    card -H echo.spin -T gen: --set netwrok_rate=1
refuse "the beginning of one" 2 "no parameter 'cluster' \(did you mean 'clusters'\?\);" \
    card -H echo.spin -T gen: --set cluster=1
refuse "a command nearly" \
    2 "unknown command 'cadr' \(did you mean 'card'\?\); see 'openspin --help'" "$OPENSPIN" cadr run
refuse "an option nearly" 2 "unknown option '--clokc=2GHz' \(did you mean '--clock'\?\); see" \
    card -H echo.spin -T gen: --clokc=2GHz
refuse "unknown preset" 2 "no preset 'y'" card -H echo.spin -T gen: --preset y
refuse "unknown traffic" 2 "unknown traffic 'wire'; there are gen:OPTIONS" \
    card -H echo.spin -T wire:
refuse "a size that is none" 2 "gen: size: 'big' is not a size" card -H echo.spin -T gen:size=big
refuse "contexts without rules" 2 '2 contexts: which packets go where' \
    card -H echo.spin -H echo.spin -T gen:
refuse "a bad rule, with its column" \
    2 "^openspin card run: --match:1:11: expected a number, found 'x'" \
    card -H echo.spin -T gen: -m 'udp.dport=x -> ctx0'
printf 'any -> host\nany -> ctx4\n' >rules.txt
refuse "a bad rule in a file" 1 'rules.txt:2:8: ctx4 does not exist: there is 1 context' \
    card -H echo.spin -T gen: --match-file rules.txt
refuse "two tables" 2 'choose one' \
    card -H echo.spin -T gen: --match 'any -> ctx0' --match-file rules.txt
refuse "two formats" 2 '--json and --csv both write -' card -H echo.spin -T gen: --json --csv
refuse "a profile as JSON" 2 '--profile and --json or --csv are both printed' \
    card -H echo.spin -T gen: --profile --json
refuse "an operand" 2 "'x' is too many" card -H echo.spin -T gen: x
refuse "no capture" 1 'echo.spin: no pcap or pcapng capture' card -H echo.spin -T pcap:echo.spin
head -c 100 in.pcap >cut.pcap
refuse "a capture that is cut off" 1 'cut.pcap: packet 1: truncated' \
    card -H echo.spin -T pcap:cut.pcap
printf '1 1 64\n0 0 65 0 0 1\n' >bad.trace
refuse "a bad trace" 1 'bad.trace:2: pkt_size 65 is over max_pkt_size 64' \
    card -H echo.spin -T trace:bad.trace
refuse "a state over the card's" 1 'L2 handler memory' card -H echo.spin --state-size 4MiB -T gen:
mkfifo pipe
refuse "a capture from a pipe" 1 'pipe: is no regular file' card -H echo.spin -T pcap:pipe
cp out.pcap kept.pcap
refuse "into nowhere" 1 'nowhere/x.pcap: cannot write' card -H echo.spin -T gen: -o nowhere/x.pcap
refuse "a file that was there stays when the run fails" 1 'nowhere/t.json: cannot write' \
    card -H echo.spin -T gen: -o out.pcap --trace nowhere/t.json
cmp -s out.pcap kept.pcap && [ -z "$(ls ./*.part-* 2>/dev/null)" ] && pass "and no part is left" ||
    fail "and no part is left" "$(ls)"

# --- a program with a card in it, which has openspin.h alone ---
check "a program with a card" \
    0 '^32 HPUs: 100 packets in, 100 out, latency [0-9.]+ ns; counted 100 packets of 10 messages$' \
    ${MESON_EXE_WRAPPER:-} "$BUILD/embed_card" echo.spin 4
refuse "that cannot be" 1 'embed_card: clusters: .* outside the limits' \
    ${MESON_EXE_WRAPPER:-} "$BUILD/embed_card" echo.spin 999
# An interrupted run leaves neither the files nor their beginnings.
mkdir cut
"$OPENSPIN" card run --handler echo.spin --traffic gen:messages=100000,packets=1000 \
    --out cut/o.pcap \
    --trace cut/t.json >/dev/null 2>&1 &
run=$!
begun() { [ -n "$(ls cut)" ]; }
soon begun && pass "a run begins its files" || fail "a run begins its files"
kill -TERM $run
wait $run
[ $? = 143 ] && pass "a run ends by the signal" || fail "a run ends by the signal"
[ -z "$(ls cut)" ] && pass "an interrupted run leaves no file" ||
    fail "an interrupted run leaves no file" "$(ls cut)"

finish
