# What is seen of live cards from outside: openspin top, captures, traces.
. "$SOURCE/tests/lib/tap.sh"
library=$BUILD/src/portals
flags=
nm -D "$library/libportals.so" | grep -q __asan_init && flags=-fsanitize=address,undefined
export LD_LIBRARY_PATH=$library ASAN_OPTIONS=detect_leaks=0:handle_segv=0
clang $flags -g -Wall -Wextra -I"$SOURCE/include" "$SOURCE/tests/programs/every_operation.c" \
    "-L$library" -lportals -o every && pass "a program of all operations" ||
    fail "a program of all operations"
"$OPENSPIN" cc "$SOURCE/examples/sc17/pingpong.c" -o pingpong.spin
launch() { timeout -k 5 $patience "$OPENSPIN" launch "$@"; }

# --- openspin top
"$OPENSPIN" launch -n 2 ./every pingpong.spin ready >every.txt 2>&1 &
job=$!
soon test -e ready
name=$(basename /dev/shm/openspin-"$(id -u)"/job-"$job"-*)
# What a card shows is as old as its process is busy.
shown() {
    run "$OPENSPIN" top --once --job "$name"
    grep -q 'every .* 180 .* 6104 ' <<<"$out" && grep -q 'every .* 6104 .* 180 ' <<<"$out"
}
soon shown
printf '%s\n' "$out" | grep -qE "^   0 +[0-9]+ every +shm +9 +8 +6104 +180 +0 +0 +0 +0 +0$" &&
    pass "top: a rank's packets and bytes" || fail "top: a rank's packets and bytes" "$out" "$err"
printf '%s\n' "$out" | grep -qE "^   1 +[0-9]+ every +shm +8 +9 +180 +6104 +1 +0 +3 +[0-9]+ +0$" &&
    pass "top: what was dropped, and runs of handlers" ||
    fail "top: what was dropped, and runs of handlers" "$out" "$err"
printf '%s\n' "$out" |
    grep -qE "^ +pingpong_payload_handler +table entry 4 +1 runs +[0-9]+ ns each +0 faults$" &&
    pass "top: a handler" || fail "top: a handler" "$out"
"$OPENSPIN" top --json=top.json --job "$name"
check "top: as JSON" 0 '^1 6104 pingpong_header_handler header 4 1$' python3 -c 'import json
card = json.load(open("top.json"))["cards"][1]
h = card["handler"][0]
print(card["dropped"], card["bytes_in"], h["name"], h["kind"], h["pt_index"], h["runs"])'
# Of a process that was started by itself and killed: its box, and what it showed.
left=/dev/shm/openspin-$(id -u)
: >>"$left/lock" && touch "$left/4294967294.$job" "$left/seen-4194304-$job-0"
check "top: all cards of the user have this one, too" 0 "^job $name$" "$OPENSPIN" top --once
[ ! -e "$left/4294967294.$job" ] && [ ! -e "$left/seen-4194304-$job-0" ] &&
    pass "top: what kills left is removed" || fail "top: what kills left is removed" "$(ls "$left")"
(soon grep -q "job $name" drawn.txt; rm ready) 2>/dev/null &
check "top: redrawn until the last card ends" 0 'the last live card has ended' \
    timeout $patience script -qfec "TERM=xterm $OPENSPIN top -i 50 --job $name" drawn.txt
wait $job
grep -q '^all operations: done$' every.txt && pass "the program ends as ever" ||
    fail "the program ends as ever" "$(cat every.txt)"
refuse "top: a job that is not there" 2 "there is no job '$name' of .openspin launch.$" \
    "$OPENSPIN" top --once --job "$name"
refuse "top: not a terminal" 2 'not a terminal that can be redrawn: use --once or --json$' \
    "$OPENSPIN" top
refuse "top: a word" 2 "'word' is not an option" "$OPENSPIN" top word

# --- OPENSPIN_PCAP, and the dissector
lua=$SOURCE/src/nic/openspin.lua
packets() { # FILE FIELD...: one line per packet
    local file=$1 fields=()
    shift
    for field in "$@"; do
        [[ $field == openspin.*[=\&]* || $field != *.* || $field == frame.*[=\&]* ]] &&
            fields+=("$field") || fields+=(-e "$field")
    done
    XDG_CONFIG_HOME=$PWD HOME=$PWD tshark -X "lua_script:$lua" -r "$file" -T fields \
        "${fields[@]}" 2>tshark.txt
}
has() { # NAME EXPECTED COMMAND...
    local name=$1 expected=$2 got
    shift 2
    got=$("$@")
    [ "$got" = "$expected" ] && pass "$name" ||
        fail "$name" "expected: $expected" "got: $got" "$(cat tshark.txt)"
}
run env OPENSPIN_PCAP=%r.pcapng OPENSPIN_TRACE=%r-%p.json timeout $patience \
    "$OPENSPIN" launch -n 2 ./every pingpong.spin
[ "$status" = 0 ] && [ "$(ls ./*.pcapng | tr '\n' ' ')" = "./0.pcapng ./1.pcapng " ] &&
    ! ls | grep -q part && pass "a capture and a trace per rank" ||
    fail "a capture and a trace per rank" "$(ls)" "$err"
run env OPENSPIN_PCAP=u%r.pcapng OPENSPIN_TRANSPORT=udp \
    OPENSPIN_INTERFACE=127.202.$(($$ / 256 % 256)).$(($$ % 256)) OPENSPIN_FAULTS=5:corrupt=0.3 \
    timeout $patience "$OPENSPIN" launch -n 2 ./every pingpong.spin
[ "$status" = 0 ] && pass "a capture over UDP, some packets corrupted" ||
    fail "a capture over UDP, some packets corrupted" "$out" "$err"
clang -shared -fPIC -I"$SOURCE/include" "$SOURCE/tests/programs/every_operation.c" -o every.so
check "a capture of a world" 0 '^all operations: done$' \
    "$OPENSPIN" sim run -n 2 --pcap world.pcapng every.so pingpong.spin
if command -v tshark >/dev/null; then
    names=(put ack put put ack get reply atomic ack fetch reply swap reply put put put ack)
    has "every operation by its name" "$(printf '%s\n' "${names[@]}")" packets 0.pcapng openspin.op
    packets 1.pcapng openspin.op openspin.source.pid openspin.bytes \
        openspin.offset openspin.length openspin.fail openspin.operation openspin.datatype \
        openspin.malformed >fields.tsv
    has "the same at the target" "$(printf '%s\n' "${names[@]}")" cut -f1 fields.tsv
    has "a message of two packets" $'put\t0\t4096\t0\t6000\nput\t0\t1904\t4096\t' \
        bash -c "sed -n 3,4p fields.tsv | cut -f1-5"
    has "what acknowledgements say" $'0\n0\n0\n2' bash -c "grep ^ack fields.tsv | cut -f6"
    has "an atomic" $'2\t8' bash -c "grep ^atomic fields.tsv | cut -f7,8"
    has "nothing is malformed" "" bash -c "cut -f9 fields.tsv | tr -d '\n'"
    has "the same in a world" "$(printf '%s\n' "${names[@]}")" \
        packets world.pcapng -Y 'openspin.op!="receipt"' openspin.op
    has "a filter: puts that came, one by a handler" $'0.0.0.1\t25601\t64\t4' \
        packets 0.pcapng -Y 'openspin.op=="put"&&frame.packet_flags_direction==1' \
        ip.src udp.srcport openspin.bytes openspin.pt_index
    for r in 0 1; do packets u$r.pcapng frame.comment openspin.op; done >udp.tsv
    grep -q '^malformed' udp.tsv && pass "packets that were dropped are there, and say so" ||
        fail "packets that were dropped are there, and say so" "$(cat udp.tsv)"
    grep -q 'receipt$' udp.tsv && pass "receipts" || fail "receipts" "$(cat udp.tsv)"
    $MESON_EXE_WRAPPER "$BUILD/tests/wire_frames" >frames.txt || fail "frames" "$(cat frames.txt)"
    packets frames.pcapng frame.comment openspin.malformed openspin.op openspin.bytes \
        openspin.message_number openspin.pt_index openspin.uid openspin.remote_offset >frames.tsv
    check "3000 packets, whole and damaged: the dissector says what the card's decoder says" \
        0 '^3000 frames, [0-9]+ of them right, 1[0-9] ways to be wrong$' python3 -c '
wrong, right = set(), 0
lines = open("frames.tsv").read().splitlines()
for number, line in enumerate(lines, 1):
    comment, malformed, op, *fields = line.split("\t")
    if malformed:
        wrong.add(malformed)
        said = malformed
    else:
        said = " ".join([op] + [f or "0" for f in fields[:2]] + [f for f in fields[2:] if f])
        right += 1
    assert said == comment, f"frame {number}: {said!r}, expected {comment!r}"
print(len(lines), "frames,", right, "of them right,", len(wrong), "ways to be wrong")'
else
    skip "the dissector" "no tshark here"
fi
no_card() { # NAME STATUS PATTERN VARIABLE=VALUE
    run env "$4" timeout $patience "$OPENSPIN" launch -n 2 ./every pingpong.spin
    [ "$status" = "$2" ] && printf '%s\n' "$err" | grep -qE -- "^openspin$3" && pass "$1" ||
        fail "$1" "$status" "$err"
}
no_card "one file for two ranks" \
    2 " launch: OPENSPIN_PCAP: 'x.pcap' is one file for 2 ranks; write %r" OPENSPIN_PCAP=x.pcap
no_card "a name that is none" 2 " launch: OPENSPIN_TRACE: 'x%y': after % comes r " \
    OPENSPIN_TRACE=x%y
no_card "a folder that is not there" \
    1 ": rank [01]: no live card: nowhere/[01].pcap: cannot write: No such file" \
    OPENSPIN_PCAP=nowhere/%r.pcap
[ -z "$(ls | grep -E '^x|part')" ] && pass "and nothing is left of these" ||
    fail "and nothing is left of these" "$(ls)"

# --- kills: what was written has its own name
OPENSPIN_PCAP=killed%r.pcapng OPENSPIN_TRACE=killed%r.json \
    "$OPENSPIN" launch -n 2 ./every pingpong.spin wait >/dev/null 2>&1 &
job=$!
soon test -e wait
written() { [ -s "$(echo killed0.pcapng.part-*)" ] && [ -s "$(echo killed0.json.part-*)" ]; }
soon written
everything() { [ "$(packets killed0.pcapng.part-* openspin.op | wc -l)" = 17 ]; }
command -v tshark >/dev/null && soon everything
pkill -KILL -P $job every
wait $job
rm -f wait
[ ! -e killed0.pcapng ] && [ ! -e killed0.json ] && [ -s "$(echo killed0.pcapng.part-*)" ] &&
    [ -s "$(echo killed0.json.part-*)" ] && pass "a process that was killed leaves parts" ||
    fail "a process that was killed leaves parts" "$(ls)"
if command -v tshark >/dev/null; then
    has "with all that happened" "17" \
        bash -c "$(declare -f packets); lua=$lua; packets killed0.pcapng.part-* openspin.op | wc -l"
fi

# --- OPENSPIN_TRACE: the simulator's format
check "a trace has packets, handlers, host memory and waits; arrows join the ranks" \
    0 '^17 arrows$' python3 -c '
import glob, json
ranks = [json.load(open(glob.glob(f"{r}-*.json")[0]))["traceEvents"] for r in (0, 1)]
rows = {e["args"]["name"] for e in ranks[1] if e["name"] == "thread_name"}
assert rows == {"CPU 0", "NIC out 0", "NIC in 0", "DMA 0", "HPU 0"}, rows
boxes = {e["name"] for e in ranks[1] if e["ph"] == "X"}
assert ({"send", "match", "look up", "store", "atomic", "event", "pingpong_header_handler",
         "pingpong_payload_handler", "pingpong_completion_handler"} <= boxes), boxes
assert "wait" in {e["name"] for e in ranks[0]}
assert all(e["dur"] >= 0 and e["ts"] >= 0 for r in ranks for e in r if e["ph"] == "X")
begin = {e["id"]: e["ts"] for r in ranks for e in r if e["ph"] == "s"}
end = {e["id"]: e["ts"] for r in ranks for e in r if e["ph"] == "f"}
assert begin.keys() == end.keys() and all(begin[i] <= end[i] for i in begin), (begin, end)
print(len(begin), "arrows")'

finish
