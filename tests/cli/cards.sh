# sim run --cards: what some ranks have of their own.
. "$SOURCE/tests/lib/tap.sh"
compile() { cc -shared -fPIC -Wall -Wextra -I"$SOURCE/include" "$SOURCE/$1" -o "$2"; }
compile examples/sum_program.c sum.so && "$OPENSPIN" cc "$SOURCE/examples/sum_handler.c" \
    -o sum.spin && pass "the example compiles" || fail "the example compiles"
compile tests/programs/exchange.c ring.so
sim() { "$OPENSPIN" sim run "$@"; }
cards() { printf '%s\n' "$@" >some.cards; }
makespan() {
    sim "$@" --json sum.so sum.spin | grep -v '^the sum' |
        python3 -c 'import json, sys; print(json.load(sys.stdin)["makespan_ps"])'
}

# --- cards of two kinds in one world
cards '# rank 0 adds up on a PsPIN card' 'ranks 0' '  card = pspin' \
    '  pspin.clusters = 2, processing clusters' '' 'ranks 1-2' '  o = 100 ns'
check "a mixed world" 0 '^the sum of 1 to 15 is 120;' sim -n 16 --cards some.cards sum.so sum.spin
mixed=$(makespan -n 16 --cards some.cards) sc17=$(makespan -n 16) \
    pspin=$(makespan -n 16 --card pspin)
again=$(makespan -n 16 --set 0:card=pspin --set 0:pspin.clusters=2 --set 1-2:o=100ns)
[ "$mixed" != "$sc17" ] && [ "$mixed" != "$pspin" ] &&
    [ "$mixed" = "$again" ] && pass "its time is its own, and --set says the same" ||
    fail "its time is its own, and --set says the same" "$mixed $sc17 $pspin $again"
check "all that ranks exchange comes" 0 '^rank 4 of 5: 103 from the left' \
    sim -q -n 5 --cards some.cards ring.so
cards 'ranks 0-' 'card = pspin' 'ranks 1,2' 'card = sc17' 'ranks 2-' 'card = pspin' 'ranks 1' \
    'card=pspin'
[ "$(makespan -n 16 --cards some.cards)" = "$pspin" ] && pass "what is said later counts" ||
    fail "what is said later counts"
one=$(makespan -n 16 --set 15:dma_latency=9us) all=$(makespan -n 16 --set dma_latency=9us)
[ "$sc17" -lt "$one" ] && [ "$one" -lt "$all" ] && pass "a host of its own" ||
    fail "a host of its own" "$sc17 $one $all"

# --- a host that is far: handlers wait for it longer than they may run
for card in sc17 pspin; do
    check "waits are no part of the budget, $card" 0 '^the sum of 1 to 15 is 120;' \
        sim -n 16 --card $card --set hpu_budget=3000 --set dma_latency=100us \
        --set pspin.pcie_latency=100us sum.so sum.spin
done

# --- presets of some ranks: how their cards reach host memory
cards 'ranks 0-' '  preset = sc17-dis'
[ "$(makespan -n 16 --cards some.cards)" = "$(makespan -n 16 --preset sc17-dis)" ] &&
    pass "all ranks with a preset of their own" || fail "all ranks with a preset of their own"
cards 'ranks 0' 'preset = sc17-dis'
one=$(makespan -n 16 --cards some.cards) dis=$(makespan -n 16 --preset sc17-dis)
[ "$sc17" -lt "$one" ] &&
    [ "$one" -lt "$dis" ] && [ "$one" = "$(makespan -n 16 --set 0:preset=sc17-dis)" ] &&
    pass "one rank with another preset" || fail "one rank with another preset" "$sc17 $one $dis"
check "they are shown as what they set" \
    0 '^  0:dma_latency = 250 ns, of a DMA \(L\) \(set by the user\)$' \
    sim -n 16 --parameters --cards some.cards

# --- the card of each rank in JSON
cards 'ranks 0' 'card = pspin'
sim -n 16 --cards some.cards --json=cards.json sum.so sum.spin >/dev/null
python3 - >checks.txt 2>&1 <<'P'
import json
world = json.load(open("cards.json"))
card = [rank["card"] for rank in world["ranks"]]
assert ([c["kind"] for c in card] == ["pspin"] + 15 * ["sc17"] and card[0]["hpus"] == 32
        and card[1]["hpus"] == 4)
assert sum(c["packets_sent"] for c in card) == world["packets"], (card, world["packets"])
assert sum(c["packets_received"] for c in card) == world["packets"]
assert sum(c["handlers"] for c in card) == world["handlers"] == card[0]["handlers"] == 15
assert (card[0]["handler_instructions"] == world["handler_instructions"] > 0
        and card[0]["hpu_busy_ps"] == world["handler_ps"])
assert 0 < card[0]["packet_buffer_most_bytes"] <= 4194304 and card[0]["messages_received"] == 15
kinds = card[0]["handlers_by_kind"]
assert sum(k["runs"] for k in kinds.values()) == 15 and "cleanup" not in kinds, kinds
assert sum(k["instructions"] for k in kinds.values()) == card[0]["handler_instructions"]
assert all(0 < k["cycles_median"] <= k["cycles"] for k in kinds.values()), kinds
assert "hpu_busy_ps" not in card[1]
P
if [ $? = 0 ]; then
    pass "the cards of ranks in JSON"
else
    fail "the cards of ranks in JSON" "$(cat checks.txt)"
fi

# --- a card without HPUs
check "no memory for handlers" 1 '^rank 0: PtlHPUAllocMem\(.*\) returns 11$' \
    sim -n 4 --set 0:hpus=0 sum.so sum.spin
check "nobody else needs HPUs" 0 '^the sum of 1 to 3 is 6;' sim -n 4 --set 1-:hpus=0 sum.so sum.spin
check "ranks of plain Portals" 0 '^rank 4 of 5: 103 from the left' sim -q -n 5 --set hpus=0 ring.so

# --- parameters, read back
sim -n 16 --parameters --set 0:card=pspin --set 3,5-7:hpus=0 --set 0:pspin.clusters=2 >shown.txt
check "they are shown" 0 '^  3,5-7:hpus = 0, handler processors of a card \(set by the user\)$' \
    cat shown.txt
check "and those of the PsPIN card" 0 '^  0:pspin.clusters = 2, ' cat shown.txt
[ "$(makespan -n 16 --params shown.txt)" = "$(makespan -n 16 --set 0:card=pspin --set 3,5-7:hpus=0 \
    --set 0:pspin.clusters=2)" ] && pass "and read back" || fail "and read back"
check "a sweep of some ranks" 0 '^100us,.*sc17-int' \
    "$OPENSPIN" sweep --over 3-4:o=65ns,100us sim run -n 6 sum.so sum.spin
cards 'ranks 0' 'card=sc17'; cp some.cards a.cards; cards 'ranks 0' 'card=pspin'
check "a sweep over files" 0 '^some.cards,sc17-int' \
    "$OPENSPIN" sweep --over cards=a.cards,some.cards sim run -n 6 sum.so sum.spin

# --- cards without a program: one adds up, one stores
compile tests/programs/storage_client.c client.so
printf '\0\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0' >two.bin # what is to come
printf 'content of the disk' >disk.bin
for card in sc17 pspin; do
    cards 'ranks 2' "  card = $card" '  program = none' '  entry = portal=0, match=1, bytes=64, '\
'image=sum.spin, payload=sum_payload_handler, state=16, initial=two.bin' \
        'ranks 3' '  program = none' \
            '  hpus = 0' '  entry = portal=4, match=7, bytes=4KiB, data=disk.bin, operations=get' \
            '  entry = portal=4, match=8, bytes=4KiB'
    check "storage nodes, $card" 0 "^rank 1: read 'content', stored 10 and 11, sum 21$" \
        sim -n 4 --cards some.cards client.so
    check "they have no program, $card" 0 '^rank 3 has no program$' \
        sim -n 4 --cards some.cards client.so
done
printf '# nothing\n' >empty.cards
check "nobody runs a program" 0 '^last rank returns at +0.000 ns$' \
    sim -n 4 --set 0-:program=none ring.so
check "programs of some ranks" 1 '^openspin sim run: other.so: cannot open program' \
    sim -n 5 --set 4:program=other.so ring.so
cards 'ranks 0-3' 'program = ring.so x  first' 'ranks 4-' 'program = ring.so y second '
run sim -q -n 6 --cards some.cards sum.so
[ "$(printf '%s\n' "$out" | grep -c 'from the left, first$')" = 4 ] &&
    [ "$(printf '%s\n' "$out" | grep -c '^rank [45] of 6: 10[34] from the left, second$')" = 2 ] &&
    pass "each with its arguments" || fail "each with its arguments" "$out" "$err"

check "the file names all programs" 0 '^rank 5 of 6: 104 from the left, second$' \
    sim -q -n 6 --cards some.cards
refuse "it does not" 2 'which program\? the file of cards names none for 2 of 8 ranks$' \
    sim -q -n 8 --set 4-5:program=none --set 6-7:o=1ns --set 0-3:program=ring.so --cards empty.cards

# --- images of PsPIN's interface on an entry, with .l2_handler_data, on both cards
compile tests/programs/pspin_client.c pspin.so
"$OPENSPIN" cc --pspin "$SOURCE/tests/handlers/pspin_world.c" -o pspin.spin &&
    pass "PsPIN handlers compile" || fail "PsPIN handlers compile"
line=$(grep -n 'host_of(args->task) + 16380' "$SOURCE/tests/handlers/pspin_world.c" | cut -d: -f1)
for card in sc17 pspin; do
    node() {
        cards 'ranks 1' "card = $card" 'program = none' "entry = portal=0, match=9, bytes=16KiB, "\
"image=pspin.spin, header=world_hh, payload=$1, completion=world_th, state=8"
    }
    node world_ph
    check "PsPIN handlers on $card" 0 \
        '^10000 bytes, 4096 in the first packet, 1 headers, 3 payloads; echoed 4536, stored 4536$' \
        sim -q -n 2 --cards some.cards pspin.so
    check "set up by a program on $card" 0 '^10000 bytes, 4096 in .* stored 4536$' \
        sim -q -n 2 --card $card pspin.so pspin.spin
    check "interpreted on $card" 0 '^10000 bytes, 4096 in .* stored 4536$' \
        sim -q -n 2 --jit off --cards some.cards pspin.so
    node pad_ph
    # one cluster, so that three packets add 7, 14 and 21; on the SC'17 card there is one anyway
    check "a scratchpad on $card" \
        0 '^42 bytes, 4096 in the first packet, 1 headers, 3 payloads; echoed 4536, stored 4536$' \
        sim -q -n 2 --set 1:pspin.clusters=1 --set 1:pspin.cluster_hpus=1 --set 1:hpus=1 \
        --cards some.cards pspin.so
    check "of any size on $card" 0 '^42 bytes, 64 in the first packet' \
        sim -q -n 2 --set 1:pspin.clusters=1 --set 1:pspin.cluster_hpus=1 --set 1:hpus=1 \
        --set 1:scratchpad=64 --cards some.cards pspin.so
    node behind_ph
    check "and no further on $card" 1 'rank 1, HPU [0-9]+, behind_ph, [0-9.]+ ns: SEGV ' \
        sim -q -n 2 --cards some.cards pspin.so
    check "none at all on $card" \
        1 'rank 1, HPU [0-9]+, behind_ph, [0-9.]+ ns: SEGV at .* address 0x00000000$' \
        sim -q -n 2 --set 1:scratchpad=0 --cards some.cards pspin.so
    node outside_ph
    check "a fault on $card" \
        1 "^openspin sim run: rank 1, HPU 0, outside_ph, [0-9.]+ ns: DMA outside host "\
"memory at pc 0x1d[0-9a-f]+ \(outside_ph\+0x[0-9a-f]+\), pspin_world.c:$line: spin_dma_to_host: "\
"8 bytes at host address 0x1000000000003ffc, host memory is 16,384 at 0x1000000000000000$" \
        sim -q -n 2 --cards some.cards pspin.so
done

# --- a card whose HPUs are all busy: no more handlers at once than it has HPUs
for hpus in 1 2 4; do
    sim -q -n 12 --set hpus=$hpus --set hpu_cycle=20ns --trace busy.json pspin.so pspin.spin \
        >/dev/null
    HPUS=$hpus python3 - >checks.txt 2>&1 <<'P'
import json, os
begin_and_end = []
for e in json.load(open("busy.json"))["traceEvents"]:
    if e["ph"] == "X" and e["name"] in ("world_hh", "world_ph", "world_th"):
        begin_and_end += [(e["ts"], 1), (e["ts"] + e["dur"], -1)]
running = most = 0
for _, change in sorted((round(ts, 6), change) for ts, change in begin_and_end):
    running += change
    most = max(most, running)
assert most == int(os.environ["HPUS"]), most
P
    if [ $? = 0 ]; then
        pass "at most $hpus handlers at once"
    else
        fail "at most $hpus handlers at once" "$(cat checks.txt)"
    fi
done

# --- HPUs of PsPIN cards in traces, pictures and counts
sim -n 4 --card pspin --trace t.json --picture t.svg sum.so sum.spin >counts.txt
check "instructions are counted" 0 '^instructions of handlers +[1-9][0-9]*$' cat counts.txt
check "and per packet" 0 '^instructions per packet +[1-9][0-9.]*$' cat counts.txt
check "and the time of HPUs" 0 '^HPUs in use for +[1-9][0-9]*\.000 ns$' cat counts.txt
python3 - >checks.txt 2>&1 <<'P'
import json
events = json.load(open("t.json"))["traceEvents"]
rows = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
handlers = [(rows[e["pid"], e["tid"]], e["pid"]) for e in events if e["ph"] == "X"
            and e["name"] == "sum_payload_handler"]
assert len(handlers) == 3 and {h[1] for h in handlers} == {0}, handlers
assert (len({h[0] for h in handlers}) > 1
        and all(h[0].startswith("HPU ") for h in handlers)), handlers
assert any(rows[e["pid"], e["tid"]] == "DMA 0" for e in events if e["ph"] == "X"), rows
assert open("t.svg").read().count("sum_payload_handler, ") == 3
P
if [ $? = 0 ]; then
    pass "HPUs of PsPIN cards in traces and pictures"
else
    fail "HPUs of PsPIN cards in traces and pictures" "$(cat checks.txt)"
fi
"$OPENSPIN" cc "$SOURCE/tests/handlers/world_faults.c" -o faults.spin
compile tests/programs/faulty.c faulty.so
for handler in big far wild; do
    for card in sc17 pspin; do
        sim -q -n 2 --card $card --trace f.json --picture f.svg faulty.so \
            ${handler}_payload_handler 1 faults.spin 2>&1 | sed 's/, [0-9.]* ns:/:/' >$card.txt
    done
    [ -s sc17.txt ] &&
        cmp -s sc17.txt pspin.txt && pass "the same report of $handler on both cards" ||
        fail "the same report of $handler on both cards" "$(cat sc17.txt pspin.txt)"
done
grep -q '"wild_payload_handler: SEGV"' f.json &&
    grep -q "fill='#ff0000'[^>]*><title>wild_payload_handler: SEGV, " f.svg &&
    pass "marked in red" || fail "marked in red"

# --- ^C while a thousand cards are made, or run: a line, and status 130
python3 - >checks.txt 2>&1 <<'P'
import os, signal, subprocess, time
signal.signal(signal.SIGINT, signal.SIG_DFL) # a test in the background was given to ignore it
for attempt in range(8): # it may be through before
    run = subprocess.Popen([os.environ["OPENSPIN"], "sim", "run", "-n", str(1000 + 500 * attempt),
                            "--card", "pspin", "ring.so"], stdout=subprocess.DEVNULL,
                           stderr=subprocess.PIPE)
    while (run.poll() is None
           and int(open(f"/proc/{run.pid}/statm").read().split()[1]) < 15000 // (attempt + 1)):
        time.sleep(0.002)
    run.send_signal(signal.SIGINT)
    text = run.stderr.read().decode()
    status = run.wait(300)
    if status == 0:
        continue
    assert status in (130, -signal.SIGINT), status
    assert "interrupted" in text.splitlines()[0], text
    break
else:
    raise AssertionError("it was never interrupted")
P
if [ $? = 0 ]; then
    pass "^C is answered at any time"
else
    fail "^C is answered at any time" "$(cat checks.txt)"
fi

# --- bad input
bad() { cards "${@:3}"; refuse "$1" 1 "some.cards:$2" sim -n 4 --cards some.cards sum.so sum.spin; }
bad "no ranks" "1: 'hpus = 1': of which ranks\? a line such as 'ranks 0-3,7' comes first$" \
    'hpus = 1'
bad "ranks that are none" "2: ranks 'x': expected numbers and ranges, as 0-3,7 or 4-$" '' 'ranks x'
bad "ranks that are not there" "1: ranks '2-4': there are 0 to 3$" 'ranks 2-4'
bad "not an assignment" "2: 'hpus' is neither 'ranks 0-3,7' nor NAME = VALUE$" 'ranks 1' 'hpus'
bad "an unknown parameter" "2: unknown parameter 'hpu' \(did you mean 'hpus'\?\)" 'ranks 1' \
    'hpu = 1'
bad "a bad value" "2: hpus: '65' is outside the limits, 0 to 64$" 'ranks 1' 'hpus = 65'
bad "what all ranks share" "2: link_rate: all ranks have the same; set it without ranks$" \
    'ranks 1' 'link_rate = 1 Gbit/s'
bad "another thing of the world" "2: patience: all ranks have the same" 'ranks 1' 'patience = 1'
bad "entries of a program" "2: entry: of ranks with 'program = none', which comes before it" \
    'ranks 1' 'entry = portal=1'
bad "an unknown word of an entry" "3: entry: unknown option 'port'; there are portal, match" \
    'ranks 1' 'program = none' 'entry = port=1'
bad "an entry outside" "3: entry: portal: 512 is outside 0 to 511" 'ranks 1' \
    'program = none' 'entry = portal=512'
bad "handlers without image" \
    "3: entry: an image and its header, payload or completion handler go together" 'ranks 1' \
    'program = none' 'entry = payload=x'
bad "a preset that is none" "2: unknown preset 'pspin'; a world has sc17-int, sc17-dis and part" \
    'ranks 1' 'preset = pspin'
bad "a scratchpad too large" "2: scratchpad: '2MiB' is outside the limits, 0 to [0-9]+ bytes$" \
    'ranks 1' 'scratchpad = 2MiB'
bad "no program at all" "2: program: none, or a shared object" 'ranks 1' 'program ='
worse() {
    cards 'ranks 3' 'program = none' "${@:3}"
    refuse "$1" 2 "openspin sim run: rank 3, its entry of portal [0-9]+, match 0x0: $2" \
        sim -n 4 --cards some.cards sum.so sum.spin
}
worse "no such image" 'no.spin: cannot open image' 'entry = image=no.spin, payload=x'
worse "no such handler" "sum.spin: no handler 'x'; it has: sum_payload_handler" \
    'entry = image=sum.spin, payload=x'
worse "no HPUs" 'the card has no HPUs for its handlers$' 'hpus = 0' \
    'entry = image=sum.spin, payload=sum_payload_handler'
worse "more data than bytes" 'disk.bin: data of 19 bytes is over the limit of 4 bytes' \
    'entry = bytes=4, data=disk.bin'
worse "no such portal" 'the interface has no such portal table entry' 'entry = portal=100'
worse "too much state" "the card has no such memory for handlers' state" \
    'entry = image=sum.spin, payload=sum_payload_handler, state=2MiB'
refuse "the same on the command line" 2 'cores: all ranks have the same' \
    sim -n 4 --set 1:cores=2 sum.so sum.spin
refuse "no such file" 1 "no.cards: cannot open description of cards: No such file" \
    sim -n 4 --cards no.cards sum.so sum.spin
printf 'ranks 0\0' >zero.cards
refuse "a byte 0" 1 'zero.cards: holds a byte 0; this is no file of cards' \
    sim -n 4 --cards zero.cards sum.so sum.spin
awk 'BEGIN { for (i = 0; i < 1100; i++) print "ranks 0" }' >many.cards
refuse "too many groups" 1 'many.cards:1025: more than 1024 groups of ranks' \
    sim -n 4 --cards many.cards sum.so sum.spin

finish
