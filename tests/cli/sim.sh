# sim run as a user drives it: programs, what becomes of them, parameters, pictures.
. "$SOURCE/tests/lib/tap.sh"
compile() { cc -shared -fPIC -Wall -Wextra -I"$SOURCE/include" "$SOURCE/$1" -o "$2"; }
compile tests/programs/exchange.c ring.so && pass "a program compiles" || fail "a program compiles"
compile examples/sum_program.c sum.so && pass "the example compiles" || fail "the example compiles"
"$OPENSPIN" cc "$SOURCE/examples/sum_handler.c" -o sum.spin && pass "its handler compiles" ||
    fail "its handler compiles"
sim() { "$OPENSPIN" sim run "$@"; }

# --- programs: each rank has its own globals and arguments, and what they print goes through
run sim -q -n 5 ring.so ring "a word"
sorted=$(printf '%s\n' "$out" | sort)
expected=$(for r in 0 1 2 3 4; do
    echo "rank $r of 5: $((100 + (r + 4) % 5)) from the left, a word"
done)
[ "$status" = 0 ] && [ "$sorted" = "$expected" ] && pass "five ranks exchange" ||
    fail "five ranks exchange" "$status" "$out" "$err"
check "physical addresses" 0 '^rank 0 of 3: 102 from the left' sim -q -n 3 ring.so physical
check "arguments that look like options" 0 'from the left, --loud$' sim -q -n 2 ring.so x --loud
refuse "a port of gdb for no rank" 2 'gdb-port: of which rank\? say --gdb RANK$' \
    sim -n 2 --gdb-port 5 ring.so
check "one rank sends to itself" 0 '^rank 0 of 1: 100 from the left' sim -q -n 1 ring.so
check "a hundred ranks" 0 '^rank 99 of 100: 198 from the left' sim -q -n 100 ring.so
check "a handler on the card" 0 '^the sum of 1 to 15 is 120;' sim -n 16 sum.so sum.spin
check "the handlers are counted" 0 '^handlers run +15$' sim -n 16 sum.so sum.spin
# Beyond 24,000 ranks code is copied with the rest (above that the system has
# too few mappings to share it).
for n in 4097 26000; do
    check "$n ranks have globals of their own" \
        0 "^rank $((n - 1)) of $n: $((n + 98)) from the left" sim -q -n $n ring.so
    [ "$(printf '%s\n' "$out" |
        awk '$5 == ($2 + n - 1) % n + 100 { right++ } END { print right + 0 }' n=$n)" = $n ] &&
        pass "all $n of them" || fail "all $n of them"
done

# --- the handlers of SC'17 appendix C have the names and signatures that it prints
for pair in pingpong:header,payload,completion accumulate:header,payload \
    bcast:header,payload,completion ddtvec:payload \
    primary_write:header,payload primary_send_acknowledgement:header \
        parity_update:header,payload,completion; do
    for kind in $(printf '%s' "${pair#*:}" | tr , ' '); do
        case $kind in
        header) arguments='const ptl_header_t h, void \*state' ;;
        payload) arguments='const ptl_payload_t p, void \*state' ;;
        completion) arguments='int dropped_bytes, bool flow_control_triggered,? *void \*state' ;;
        esac
        cat "$SOURCE"/handlers/p4_*/*.c | tr '\n' ' ' |
            grep -qE "int ${pair%:*}_${kind}_handler\($arguments" ||
            missing="$missing ${pair%:*}_${kind}_handler"
    done
done
[ -z "${missing:-}" ] && pass "every printed signature is there" ||
    fail "every printed signature is there" "$missing"
check "user headers compile as printed" 0 '' \
    "$OPENSPIN" cc "$SOURCE/tests/handlers/user_header.c" -o user.spin
check "and are header handlers" 0 '^primary_read_header_handler +header' "$OPENSPIN" image user.spin

# --- and run in a world as they are printed
for f in pingpong accumulate broadcast strided raid_data raid_parity; do
    check "$f compiles" 0 '' "$OPENSPIN" cc -Werror "$SOURCE/examples/sc17/$f.c" -o $f.spin
done
cc -Wall -Wextra -Werror -shared -fPIC -I"$SOURCE/include" "$SOURCE/examples/sc17/listings.c" \
    -o listings.so
listing() { check "$2" 0 "$2" sim -q -n "$1" listings.so "${@:3}"; }
listing 2 '^ping-pong: 2048 bytes came back$' pingpong pingpong.spin
listing 2 '^ping-pong: 8192 bytes came back$' pingpong-long pingpong.spin
listing 2 '^accumulate: 256 complex products, in host memory and back$' accumulate accumulate.spin
listing 8 '^broadcast: 2048 bytes to 8 ranks$' broadcast broadcast.spin
listing 16 '^broadcast: 8192 bytes to 16 ranks$' broadcast-long broadcast.spin
listing 2 '^strided: 64 blocks of 96 bytes in their places$' strided strided.spin
listing 3 '^RAID-5: 4096 bytes written, parity updated, and read$' \
    raid raid_data.spin raid_parity.spin
check "its too small malloc is found" \
    1 'rank 1, HPU 0, accumulate_payload_handler, .* ns: SEGV at .*, accumulate.c:[0-9]+: '\
'PtlHandlerDMAFromHostB: 2,048 bytes at 0x1b3[0-9a-f]+, which the handler may not write$' \
    sim -q -n 2 --check listings.so accumulate accumulate.spin

# --- a handler that a fault ended is seen
"$OPENSPIN" cc "$SOURCE/tests/handlers/world_faults.c" -o faults.spin
cc -Wall -Wextra -Werror -shared -fPIC -I"$SOURCE/include" "$SOURCE/tests/programs/faulty.c" \
    -o faulty.so
line_of() { grep -n "line: $1 \*/" "$SOURCE/tests/handlers/world_faults.c" | cut -d: -f1; }
faulty() { check "$1" "$2" "$3" sim "${@:4}"; }
faulty "a message over a packet" \
    1 "^openspin sim run: rank 1, HPU 0, big_payload_handler, [0-9]+\.[0-9]+ ns: command refused "\
"by the card at pc 0x1d[0-9a-f]+ \(big_payload_handler\+0x[0-9a-f]+\), world_faults.c:"\
"$(line_of big): PtlHandlerPutFromDevice: 5,000 bytes, at most 4,096$" \
    -q -n 2 faulty.so big_payload_handler 1 faults.spin
faulty "DMA outside host memory" 1 "DMA outside host memory at .*, world_faults.c:$(line_of far): "\
"PtlHandlerDMAToHostB: 8 bytes at offset 60 of the ME's host memory, which has 64$" \
    -q -n 2 faulty.so far_payload_handler 1 faults.spin
faulty "an access outside" 1 "SEGV at .*, world_faults.c:$(line_of wild), address 0x20000000$" \
    -q -n 2 faulty.so wild_payload_handler 1 faults.spin
faulty "faults that are ignored" 0 'SEGV at ' -q -n 2 --faults=ignore faulty.so \
    wild_payload_handler 1 faults.spin
faulty "the program goes on" 1 '^rank 1: 0 good, 1 bad$' -q -n 2 faulty.so \
    wild_payload_handler 1 faults.spin
faulty "a message over a packet on a PsPIN card" \
    1 "^openspin sim run: rank 1, HPU [0-9]+, big_payload_handler, [0-9]+\.[0-9]+ "\
"ns: command refused by the card at pc 0x1d[0-9a-f]+ \(big_payload_handler\+0x[0-9a-f]+\), "\
"world_faults.c:$(line_of big): PtlHandlerPutFromDevice: 5,000 bytes, at most 4,096$" \
    -q -n 2 --card pspin faulty.so big_payload_handler 1 faults.spin
for card in sc17 pspin; do
    faulty "a handler within its cycles, $card" 0 '^rank 1: 1 good, 0 bad$' -q -n 2 --card $card \
        faulty.so slow_payload_handler 1 faults.spin
    faulty "and one that takes more, $card" \
        1 'slow_payload_handler, .*: cycle budget exceeded at ' -q -n 2 --card $card \
        --set hpu_budget=5000 faulty.so slow_payload_handler 1 faults.spin
done
faulty "many faults are counted" \
    1 '^openspin sim run: 20 handlers were ended by faults; above are the first 8$' \
    -q -n 2 faulty.so wild_payload_handler 20 faults.spin
run sim -q -n 2 faulty.so wild_payload_handler 20 faults.spin
[ "$(printf '%s\n' "$err" | grep -c 'SEGV at')" = 8 ] && pass "and eight are shown" ||
    fail "and eight are shown" "$err"
faulty "they are in the counters" 1 '^handlers ended by faults +3$' -n 2 faulty.so \
    wild_payload_handler 3 faults.spin
check "a deadlock comes with the faults" 1 'faulty.so: deadlock: 1 of 2 ranks' \
    sim -q -n 2 faulty.so wild_payload_handler 3 faults.spin wait
for line in '^handlers ended by faults +3$' '^packets +3$' 'wild_payload_handler, .*SEGV'; do
    printf '%s\n' "$err" | grep -qE "$line" && pass "and with $line" || fail "and with $line" "$err"
done
check "losses too" 1 'deadlock' sim -q -n 2 --set loss=0.3 --set retry_timeout=20us \
    --set retries=20 faulty.so good_payload_handler 20 faults.spin wait
printf '%s\n' "$err" | grep -qE '^packets lost +[1-9]' && pass "packets that were lost" ||
    fail "packets that were lost" "$err"
refuse "--faults of another kind" 2 "--faults: 'maybe' is neither fail nor ignore" \
    sim --faults maybe faulty.so
faulty "without --check an overrun is not seen" 0 '^rank 1: 1 good, 0 bad$' -q -n 2 faulty.so \
    heap_payload_handler 1 faults.spin
faulty "with it, it is" 1 "SEGV at .*, world_faults.c:$(line_of heap), address 0x1b30000c$" \
    -q -n 2 --check faulty.so heap_payload_handler 1 faults.spin
faulty "by DMA too" 1 "world_faults.c:$(line_of copy): PtlHandlerDMAFromHostB: "\
"64 bytes at 0x1b300000, which the handler may not write$" \
    -q -n 2 --check faulty.so copy_payload_handler 1 faults.spin
over='command refused by the card at .*, world_faults.c:'$(line_of big)': '\
'PtlHandlerPutFromDevice: 5,000 bytes, at most'
check "a message over a packet in exec" 1 "$over 4,096$" \
    "$OPENSPIN" exec faults.spin --entry big_payload_handler --packet-size 8192
check "and on the PsPIN card" 1 "$over 4,096$" \
    "$OPENSPIN" card run -H faults.spin --ph big_payload_handler -T gen:packets=1,size=8192
check "whose MTU is a parameter" 1 "$over 2,048$" "$OPENSPIN" card run -H faults.spin \
    --ph big_payload_handler -T gen:packets=1,size=8192 --set mtu=2KiB
for i in 0:0x1b300009 13:0x1b31f016 38:0x1b39402f; do
    check "allocation ${i%:*} of 40 has its hole" \
        1 "SEGV at .*, world_faults.c:$(line_of many), address ${i#*:}$" "$OPENSPIN" exec \
        --check faults.spin --entry many_payload_handler --hex 09$(printf %02x ${i%:*})
done
check "none of them is lost" 1 'state\+0x0, 2 bytes: 0000 -> a40b' \
    "$OPENSPIN" exec --check faults.spin --entry many_payload_handler --hex 0926
check "in exec" 1 "SEGV at .*, world_faults.c:$(line_of heap), address 0x1b30000c$" \
    "$OPENSPIN" exec --check faults.spin --entry heap_payload_handler --hex 11
check "and on the PsPIN card" 1 "SEGV at .*, world_faults.c:$(line_of heap), address 0x1b30000c$" \
    "$OPENSPIN" card run --check -H faults.spin --ph heap_payload_handler -T gen:packets=1,size=64
sim -q -n 2 --trace f.json --picture f.svg faulty.so wild_payload_handler \
    2 faults.spin >/dev/null 2>&1
grep -q '"wild_payload_handler: SEGV"' f.json && pass "traces mark faults" ||
    fail "traces mark faults" "$(grep -o wild[^,]* f.json | head)"
grep -q "fill='#ff0000'[^>]*><title>wild_payload_handler: SEGV, " f.svg && pass "and pictures" ||
    fail "and pictures" "$(grep wild f.svg | head -3)"

# --- what becomes of a rank is told by rank and call
refuse "a crash" 1 '^openspin: rank 1 in its program at .* ns: crashed: segmentation fault$' \
    sim -q -n 3 ring.so crash
refuse "a crash in a call" 1 \
    '^openspin: rank 1 in PtlMDBind at .* ns: crashed: segmentation fault$' sim -q -n 3 ring.so call
refuse "an abort" 1 '^openspin: rank 1 in its program .*: aborted$' sim -q -n 3 ring.so abort
refuse "a stack overflow" 1 'rank 1 in .*: stack overflow; set a larger one, such as stack=1MiB$' \
    sim -q -n 3 ring.so overflow
check "exit(0) is a normal end" 0 '^rank 2 of 3: 101 from the left' sim -q -n 3 ring.so exit
check "exit(3) is a status" \
    1 'ring.so: 1 of 3 ranks failed, the first is rank 1: it called exit with 3$' \
    sim -n 3 ring.so exit3
refuse "memory that is not there" 1 \
    '^openspin: rank 1: its card was told to read or write memory at 0x10' sim -q -n 3 ring.so wild
check "a deadlock" 1 'ring.so: deadlock: 3 of 3 ranks wait for what will not come: rank 0 in '\
'spin_barrier since .*, rank 2 in PtlCTWait \(counter 0 of 1\) since ' sim -n 3 ring.so wait
check "a deadlock that a rank has left" \
    1 'wait for what will not come, after rank 1 ended with status 7: rank 0 in ' \
    sim -n 3 ring.so leave
check "or several" 1 'deadlock: 1 of 4 ranks wait for what will not come, after 3 ranks failed, '\
'the first of them rank 1 with status 1: rank 0 in PtlCTWait' sim -n 4 ring.so desert
check "a status" 1 'ring.so: 1 of 3 ranks failed, the first is rank 1: its main returned 3$' \
    sim -n 3 ring.so return
check "a run that is stopped" 1 'stopped at 100 ns with 3 of 3 ranks not done: rank 0 in ' \
    sim -n 3 --until 100ns ring.so

# --- parameters
check "they are shown with their source" \
    0 "^  o = 65 ns, cpu time to hand an operation to the card \(SC'17 sec. 4.2\)$" \
    sim --parameters ring.so
check "and set" 0 '^  hpus = 8, handler processors of a card \(set by the user\)$' \
    sim --parameters --set hpus=8 ring.so
times() {
    sim "$@" --json sum.so sum.spin | grep -v '^the sum' |
        python3 -c 'import json, sys; print(json.load(sys.stdin)["makespan_ps"])'
}
int=$(times -n 16) dis=$(times -n 16 -p sc17-dis) slow=$(times -n 16 --set link_rate=1Gbit/s) \
    torus=$(times -n 16 -T torus:4x4)
[ "$int" -gt 0 ] && [ "$dis" -gt "$int" ] && [ "$slow" -gt "$int" ] &&
    [ "$torus" != "$int" ] && pass "presets, settings and topologies matter" ||
    fail "presets, settings and topologies matter" "$int $dis $slow $torus"
[ "$(times -n 16)" = "$int" ] && pass "the same run twice" || fail "the same run twice"
run sim -n 16 --set loss=0.1 --set retry_timeout=20us --set retries=20 --set seed=3 --json sum.so \
    sum.spin
printf '%s\n' "$out" | grep -v '^the sum' | python3 -c '
import json, sys
d = json.load(sys.stdin)
assert d["packets_lost"] > 0 and d["packets_retransmitted"] > 0, d
assert len(d["ranks"]) == 16 and all(r["status"] == 0 for r in d["ranks"]), d
assert d["parameters"]["loss"] == "0.1" and d["preset"] == "sc17-int", d' &&
    printf '%s' "$out" | grep -q 'is 120;' && pass "loss costs packets, not the result" ||
    fail "loss costs packets, not the result" "$out" "$err"
noisy=$(times -n 16 --noise 200ns,100ns)
[ "$noisy" -gt "$int" ] && pass "noise costs time" || fail "noise costs time" "$noisy $int"

# --- pictures
# handlers overlap
sim -q -n 16 --set hpu_cycle=10ns --trace t.json --picture t.svg sum.so sum.spin >/dev/null
python3 -c '
import json, xml.dom.minidom
events = json.load(open("t.json"))["traceEvents"]
rows = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
assert {"CPU 0", "NIC out 0", "NIC in 0", "DMA 0", "HPU 0", "HPU 3"} <= set(rows.values()), rows
boxes = [(rows[e["pid"], e["tid"]], e["name"]) for e in events if e["ph"] == "X"]
assert ("HPU 0", "sum_payload_handler") in boxes and ("CPU 0", "PtlPut") in boxes, boxes
assert ("NIC in 0", "match") in boxes and ("DMA 0", "fetch") in boxes, boxes
hpus = [row for row, name in boxes if name == "sum_payload_handler"]
assert len(hpus) == 15 and len(set(hpus)) > 1 and all(row.startswith("HPU ") for row in hpus), hpus
arrows = [e["ph"] for e in events if e["ph"] in "sf"]  # from card to card
assert arrows.count("s") == arrows.count("f") >= 15, arrows
svg = xml.dom.minidom.parse("t.svg")
titles = [t.firstChild.data for t in svg.getElementsByTagName("title")]
assert (len(titles) == len(boxes)
        and any(t.startswith("sum_payload_handler, ") for t in titles)), titles' &&
    pass "a trace and a picture with every row" ||
    fail "a trace and a picture with every row" "$(head -c 600 t.json)"

# --- bad input
refuse "no program" 2 'which program' sim -n 2
refuse "no such program" 1 'no.so: cannot open program' sim -n 2 no.so
echo text >text.so
refuse "no shared object" 1 'text.so: cannot load: .*a program is a shared object' sim text.so
printf 'int other(void);\nint other(void) { return 0; }\n' >other.c
cc -shared -fPIC other.c -o other.so
refuse "no main" 1 'other.so: has no main\(\)' sim other.so
printf 'int missing(void);\nint main(void) { return missing(); }\n' >missing.c
cc -shared -fPIC missing.c -o missing.so
refuse "a symbol that nobody has" 1 'missing.so: cannot load: .*missing' sim missing.so
printf 'char big[16 << 20] = {1};\nint main(void) { return big[1]; }\n' >big.c
cc -shared -fPIC big.c -o big.so
refuse "more copies than memory" 1 'big.so: 65536 copies of the program, one per rank, are 10'\
'[0-9]+ MiB .* MiB of memory are free; run fewer ranks$' sim -q -n 65536 big.so
printf 'static __thread int own;\nint main(void) { return own; }\n' >tls.c
cc -shared -fPIC -ftls-model=initial-exec tls.c -o tls.so
refuse "thread-local variables that cannot be copied" 1 'tls.so: cannot load: thread-local '\
'variables of a model that cannot be copied; compile with -fPIC, without -ftls-model' sim tls.so
printf 'int main(void) { return 0; }\n' >executable.c
cc -fPIE -pie executable.c -o executable
refuse "an executable without Portals" \
    1 "rank 0 ended without a call of Portals: is the program linked with libportals.so" \
    sim ./executable
refuse "too many ranks" 2 '-n: 65537 is outside 1 to 65536' sim -n 65537 ring.so
refuse "an unknown preset" 2 "unknown preset 'fast'; a world has sc17-int, sc17-dis and part" \
    sim -p fast ring.so
refuse "an unknown card" 2 "--card: 'x' is neither sc17 nor pspin" sim --card x ring.so
refuse "an unknown card as a parameter" 2 "card: 'x' is neither sc17 nor pspin" \
    sim --set card=x ring.so
refuse "an unknown parameter of the PsPIN card" 2 "the card has no parameter 'x'" \
    sim --set pspin.x=1 ring.so
refuse "an unknown parameter" 2 "unknown parameter 'x'; 'openspin sim run --parameters' lists all" \
    sim --set x=1 ring.so
refuse "one nearly" \
    2 "unknown parameter 'match_heder' \(did you mean 'match_header'\?\); 'openspin" \
    sim --set match_heder=1 ring.so
refuse "one of the network nearly" \
    2 "unknown parameter 'link_lat' \(did you mean 'link_latency'\?\); 'openspin" \
    sim --set link_lat=1 ring.so
refuse "a bad time" 2 "--until: 'soon' is not a time" sim --until soon ring.so
refuse "bad noise" 2 "--noise: '5' is not PERIOD,LENGTH" sim --noise 5 ring.so
refuse "a network that is too small" 1 "topology 'link' has 2 hosts, 3 are needed" \
    sim -n 3 -T link ring.so
sim -n 4 --json=r.json --csv r.csv --links l.csv --trace t.json sum.so sum.spin >out.txt
sim -q -n 4 --trace some.json --picture some.svg --only 0,2 --from 200ns \
    --to 1us sum.so sum.spin >/dev/null
python3 - >checks.txt 2>&1 <<'P'
import csv, json
run = json.load(open("r.json"))
text = open("out.txt").read()
assert text.startswith("the sum of") and "last rank returns at" in text and "{" not in text
rows = list(csv.DictReader(open("r.csv")))
assert ([int(r["finish_ps"]) for r in rows] == [r["finish_ps"] for r in run["ranks"]]
        and all(r["status"] == "0" for r in rows))
links = list(csv.DictReader(open("l.csv")))
assert sum(int(l["packets"]) for l in links if l["link"].startswith("h")) == run["packets"], links
assert all(0 < float(l["use"]) <= 1 for l in links if int(l["bytes"])), links
events = json.load(open("t.json"))["traceEvents"]
boxes = {(e["pid"], e["tid"], e["ts"]): e for e in events if e["ph"] == "X"}
starts, ends = ({e["id"]: e for e in events if e["ph"] == p} for p in "sf")
assert len(starts) == len(ends) == len([b for b in boxes.values() if b["name"] == "send"]) > 0
for i in starts:
    a, b = starts[i], ends[i]
    assert (boxes[a["pid"], a["tid"], a["ts"]]["args"]["peer"] == b["pid"]
            and boxes[b["pid"], b["tid"], b["ts"]]["args"]["peer"] == a["pid"])
some = json.load(open("some.json"))["traceEvents"]
assert ({e["pid"] for e in some} == {0, 2}
        and all(e["ts"] <= 1 and e["ts"] + e["dur"] >= 0.2 for e in some if e["ph"] == "X"))
svg = open("some.svg").read()
assert "rank 2 CPU" in svg and "rank 1 CPU" not in svg and "class='message'" in svg
P
[ $? = 0 ] && pass "results in files, links, arrows and views" ||
    fail "results in files, links, arrows and views" "$(cat checks.txt out.txt)"
refuse "ranks that are not there" 2 "ranks '7': there are 0 to 3" \
    "$OPENSPIN" sim run -n 4 --only 7 --trace x.json sum.so sum.spin
refuse "a view of nothing" 2 '--only, --from and --to choose what' \
    "$OPENSPIN" sim run -n 4 --to 1us sum.so sum.spin
check "a picture in no folder" 1 'no/where.svg' sim -q -n 2 --picture no/where.svg ring.so
check "an image that is none" 1 'cannot open image|ring.so' sim -q -n 2 sum.so ring.so

# --- progress, on a terminal; the runs are ended when they have shown it ---
cat >long.c <<'C'
#include <unistd.h>
int main(void) {
    for (;;)
        usleep(1);
}
C
cc -shared -fPIC long.c -o long.so
python3 - >checks.txt 2>&1 <<'P'
import os, pty, re, select, subprocess, time
def until_shown(options, what):
    ours, theirs = pty.openpty()
    run = subprocess.Popen([os.environ["OPENSPIN"], "sim", "run", "-q", *options, "long.so"],
                           stdout=subprocess.DEVNULL, stderr=theirs)
    os.close(theirs)
    seen, last = b"", time.time() + 60
    try:
        while not re.search(what, seen):
            assert time.time() < last, seen
            if select.select([ours], [], [], 0.05)[0]:
                seen += os.read(ours, 4096)
    finally:
        run.kill()
until_shown([], rb"\r[^\r]*[1-9][0-9]* us of virtual time")
until_shown(["--until", "3600s"], rb"[0-9]+ % of 3600000000 us of virtual time")
P
if [ $? = 0 ]; then
    pass "progress on a terminal"
else
    fail "progress on a terminal" "$(cat checks.txt)"
fi
sim -q --until 10us long.so 2>err.txt >/dev/null
grep -q 'of virtual time' err.txt && fail "and nowhere else" "$(cat err.txt)" ||
    pass "and nowhere else"

# --- packets that handlers only read are used by many cards at a time; who writes gets a copy
compile_shared() { cc -shared -fPIC -Wall -Wextra -I"$SOURCE/include" "$SOURCE/$1" -o "$2"; }
compile_shared tests/programs/relay.c relay.so &&
    "$OPENSPIN" cc "$SOURCE/tests/handlers/relay_handlers.c" -o relay.spin &&
    pass "handlers that write to their packets" || fail "handlers that write to their packets"
for handler in relay relay_read; do
    for options in "" "--jit off" "--jit force" "--check" "--card pspin" \
        "--set loss=0.02" "--set mtu=512"; do
        check "$handler $options" 0 '^6 ranks have 20480 bytes as they were sent$' \
            sim -n 6 $options relay.so relay.spin ${handler}_payload_handler 20480
    done
done
check "and not beyond the packet" \
    1 'relay_beyond_payload_handler, [0-9.]+ ns: SEGV at pc .*, address 0x10005440$' \
    sim -q -n 2 relay.so relay.spin relay_beyond_payload_handler 4096

finish
