# openspin goal: what a user does with schedules, and what goes wrong.
. "$SOURCE/tests/lib/tap.sh"
vectors=$SOURCE/tests/goal
goal() { "$OPENSPIN" goal "$@"; }
export -f goal
export OPENSPIN

# --- run: LogGOPSim's figures, through --json, --csv and the two binary dialects ---
python3 - "$OPENSPIN" "$vectors" >vectors.txt 2>&1 <<'P'
import csv, json, subprocess, sys
openspin, folder = sys.argv[1:]
sets, bad, rows = {}, [], 0
for row in csv.DictReader(open(folder + "/expected.tsv"), delimiter="\t"):
    key = (row["schedule"],) + tuple(f"{n}={row[n]}" for n in "LogGOS")
    sets.setdefault(key, {})[int(row["rank"])] = int(row["finish"])
for n, ((schedule, *values), finish) in enumerate(sets.items()):
    path = f"{folder}/{schedule}"
    if n % 3:  # also through the binary dialects
        subprocess.run([openspin, "goal", "convert", path, "-f", ["binary", "portals"][n % 3 - 1],
                        "-o", "v.bin"], check=True)
        path = "v.bin"
    words = [w for v in values for w in ("--set", v)]
    got = json.loads(subprocess.run([openspin, "goal", "run", path, "--json", *words],
                                    capture_output=True, check=True).stdout)
    ours = {r["rank"]: r["finish_ps"] for r in got["ranks"]}
    want = {r: t * 1000 for r, t in finish.items()}
    rows += len(want)
    if ours != want or got["makespan_ps"] != max(want.values()):
        bad.append((schedule, values, ours, want))
    table = subprocess.run([openspin, "goal", "run", path, "--csv", *words], capture_output=True,
                           check=True, text=True).stdout
    if table.split() != ["rank,finish_ps"] + [f"{r},{t}" for r, t in sorted(want.items())]:
        bad.append((schedule, values, table))
print(f"{rows} finish times, {len(bad)} wrong", *bad[:3], sep="\n")
sys.exit(bool(bad) or rows != 69)
P
if [ $? = 0 ]; then
    pass "the 69 finish times of LogGOPSim, exactly"
else
    fail "the 69 finish times of LogGOPSim, exactly" "$(cat vectors.txt)"
fi

same "run prints parameters and results" "$vectors/run.txt" \
    "$OPENSPIN" goal run "$vectors/v06_anysource_anytag.goal" --set L=2.5us --set G=400Gbit/s
same "run prints JSON" "$vectors/run.json" \
    bash -c 'goal run "$0" --preset sc17-int --json | grep -v memory_bytes' \
    "$vectors/v02_eager_unexpected.goal"
same "presets with their sources" "$vectors/presets.txt" "$OPENSPIN" goal run --presets
check "units: 2500 is 2.5us" 0 '11084.000 ns' \
    "$OPENSPIN" goal run "$vectors/v01_eager_pingpong.goal" --set L=2.5us --set o=1.5us \
    --set g=1000 --set G=6ns/B --set S=64KiB
check "parameters below a nanosecond count" 0 'makespan +141.048 ns' "$OPENSPIN" goal run \
    "$vectors/v01_eager_pingpong.goal" --set L=0.425ns --set o=35ns --set g=0 --set G=14.285ps/B
check "digest" 0 '^digest +[0-9a-f]{16}$' \
    "$OPENSPIN" goal run "$vectors/v01_eager_pingpong.goal" --digest

# --- trace ---
goal run "$vectors/v08_multi_nic.goal" --trace trace.json >/dev/null
python3 - >trace.txt 2>&1 <<'P'
import json
events = json.load(open("trace.json"))["traceEvents"]
rows = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
boxes = [e for e in events if e["ph"] == "X"]
assert len([e for e in events if e["name"] == "process_name"]) == 3
assert {"cpu 0", "nic send 0", "nic send 1", "nic receive 1"} <= set(rows.values()), rows
assert len(boxes) == 16, len(boxes)  # 4 sends and 4 receives, each on a cpu and a nic
for row in rows:  # nothing on a row overlaps
    mine = sorted((e["ts"], e["ts"] + e["dur"]) for e in boxes if (e["pid"], e["tid"]) == row)
    assert all(a[1] <= b[0] + 1e-9 for a, b in zip(mine, mine[1:])), (row, mine)
assert max(e["ts"] + e["dur"] for e in boxes if e["tid"] == 1) == 187.982
P
if [ $? = 0 ]; then
    pass "a trace with a row per cpu and a nic"
else
    fail "a trace with a row per cpu and a nic" "$(cat trace.txt)"
fi

# --- noise ---
printf '# recorded\n10us 1us\n50us 2.5us\n' >noise.txt
check "periodic noise" 0 '^lost in noise +[1-9]' \
    "$OPENSPIN" goal run "$vectors/v04_rendezvous_late_recv.goal" --noise 100us,10us
check "recorded noise" 0 '^lost in noise +[1-9]' \
    "$OPENSPIN" goal run "$vectors/v04_rendezvous_late_recv.goal" --noise-file noise.txt --seed 3
check "noise in step" 0 '^lost in noise +[1-9]' "$OPENSPIN" goal run \
    "$vectors/v04_rendezvous_late_recv.goal" --noise-file noise.txt --noise-together
refuse "noise that is no noise" 2 "not PERIOD,LENGTH" \
    "$OPENSPIN" goal run "$vectors/v01_eager_pingpong.goal" --noise 5
refuse "no noise to begin together" 2 '--noise-together needs --noise or --noise-file$' \
    "$OPENSPIN" goal run "$vectors/v01_eager_pingpong.goal" --noise-together
run "$OPENSPIN" goal run "$vectors/v01_eager_pingpong.goal" -j=short.json
[ "$status" = 0 ] && [ -s short.json ] && pass "a short option with =" ||
    fail "a short option with =" "$status" "$err" "$(ls)"
refuse "noise that takes all" 2 'noise takes all the time' \
    "$OPENSPIN" goal run "$vectors/v01_eager_pingpong.goal" --noise 5us,5us
refuse "noise longer than its period" 2 'does not fit' \
    "$OPENSPIN" goal run "$vectors/v01_eager_pingpong.goal" --noise 5us,6us
printf '10 5\nnonsense\n' >bad-noise.txt
refuse "a bad record" 1 "bad-noise.txt:2: expected 'start length'" \
    "$OPENSPIN" goal run "$vectors/v01_eager_pingpong.goal" --noise-file bad-noise.txt
printf '10 5\n12 5\n' >bad-noise.txt
refuse "an unsorted record" 1 'bad-noise.txt:2: begins before' \
    "$OPENSPIN" goal run "$vectors/v01_eager_pingpong.goal" --noise-file bad-noise.txt

# --- deadlock ---
printf 'num_ranks 2\nrank 0 {\na: recv 8b from 1 tag 3\nb: send 8b to 1\nb requires a\n}\nrank 1 '\
'{\na: recv 8b from 0\nb: send 8b to 0 tag 3\nb requires a\n}\n' >dead.goal
refuse "deadlock names ranks and operations" \
    1 'dead.goal: deadlock: 4 of 4 operations are not done; waiting: rank 0 operation 1 \(recv 8b '\
'from 1 tag 3\), rank 1 operation 1 \(recv 8b from 0 tag 0\)$' "$OPENSPIN" goal run dead.goal
printf 'num_ranks 2\nrank 0 {\nsend 99999b to 1\n}\nrank 1 {\n}\n' >dead.goal
refuse "a rendezvous without a receive" 1 'waiting: rank 0 operation 1 \(send 99999b to 1 tag 0\)' \
    "$OPENSPIN" goal run dead.goal
printf 'num_ranks 2\nrank 0 {\nsend 9b to 1\n}\nrank 1 {\n}\n' >eager.goal
check "an eager message that nobody takes is no deadlock, but said" 0 'messages never received +1' \
    "$OPENSPIN" goal run eager.goal

# --- bad input: one line, what and where ---
refuse "missing file" 1 'nowhere.goal: cannot open GOAL schedule: No such file' \
    "$OPENSPIN" goal run nowhere.goal
refuse "directory" 1 'is a directory' "$OPENSPIN" goal run .
: >empty.goal
refuse "empty file" 1 'empty.goal: cannot read GOAL schedule: the file is empty' \
    "$OPENSPIN" goal info empty.goal
printf 'num_ranks 1\nrank 0 {\n  calc x\n}\n' >bad.goal
refuse "syntax error with line and column" 1 "bad.goal:3:8: expected a time, found 'x'" \
    "$OPENSPIN" goal convert bad.goal
printf 'num_ranks 2\nrank 0 {\nsend 8b to 7\n}\nrank 1 {\n}\n' >bad.goal
refuse "rank out of range" 1 'bad.goal:3:12: rank 7 does not exist: num_ranks is 2' \
    "$OPENSPIN" goal run bad.goal
printf 'num_ranks 1\nrank 0 {\na: calc 1\nb: calc 2\na requires b\nb requires a\n}\n' >bad.goal
refuse "circle" 1 'bad.goal:7:1: rank 0: operations wait for each other in a circle' \
    "$OPENSPIN" goal run bad.goal
printf 'num_ranks 268435457\n' >bad.goal
refuse "too many ranks" 1 'bad.goal:1:11: a number of ranks is over the limit of 268435456' \
    "$OPENSPIN" goal info bad.goal
printf 'num_ranks 1\nrank 0 {\ncalc 18446744073709551615\n}\n' >bad.goal
refuse "a computation beyond time" \
    1 'bad.goal: rank 0, operation 1 .calc 18446744073709551615.: takes longer than the limit' \
    "$OPENSPIN" goal run bad.goal
printf 'num_ranks 1\nrank 0 {\na: calc 4611686018427387\nb: calc 4611686018427387\nb requires a\n'\
'}\n' >bad.goal
refuse "computations that add up beyond time" 1 'bad.goal: simulated time goes beyond the limit' \
    "$OPENSPIN" goal run bad.goal
printf 'num_ranks 1\nrank 0 {\nput 8b to 0 tag 1\n}\n' >bad.goal
refuse "Portals operations need a card" 2 'Portals operations need a card' \
    "$OPENSPIN" goal run bad.goal
goal convert "$vectors/v05_irequires_overlap.goal" -o v5.bin
head -c 200 v5.bin >cut.bin
refuse "truncated binary" 1 'cut.bin: rank [01]: .*outside the file of 200 bytes' \
    "$OPENSPIN" goal run cut.bin
head -c 12 v5.bin >cut.bin
refuse "binary cut in its header" 1 'cut.bin: cut off in its header' "$OPENSPIN" goal run cut.bin
cp v5.bin ofs.bin
printf '\xff\xff\xff\xff\xff' | dd of=ofs.bin bs=1 seek=14 conv=notrunc status=none
refuse "offset out of range" 1 'ofs.bin: rank 0: bytes 1099511627775 to' \
    "$OPENSPIN" goal run ofs.bin
cp v5.bin count.bin
printf '\xff\xff\xff\xff' | dd of=count.bin bs=1 seek=46 conv=notrunc status=none
refuse "huge count" 1 'count.bin: rank 0: 4294967295 operations' "$OPENSPIN" goal run count.bin
refuse "unknown parameter" 2 "unknown parameter 'Q'; LogGOPS has L, o, g, G, O and S" \
    "$OPENSPIN" goal run v5.bin --set Q=5
refuse "parameter without a value" 2 "expected NAME=VALUE" "$OPENSPIN" goal run v5.bin --set L
refuse "parameter that is no time" 2 "L: 'fast' is not a time" \
    "$OPENSPIN" goal run v5.bin --set L=fast
refuse "parameter below a picosecond" 2 "L: '0.0001ns' is not a time of whole picoseconds" \
    "$OPENSPIN" goal run v5.bin --set L=0.0001ns
refuse "unknown preset" 2 "unknown preset 'sc18'; there are loggopsim, sc17-int, sc17-dis" \
    "$OPENSPIN" goal run v5.bin --preset sc18
refuse "unknown model" 2 "unknown model 'guess'" "$OPENSPIN" goal run v5.bin --model guess
refuse "two formats" 2 'both write -' "$OPENSPIN" goal run v5.bin --json --csv
refuse "no file" 2 'which file' "$OPENSPIN" goal run
refuse "trace into nowhere" 1 'nowhere/t.json: cannot write' \
    "$OPENSPIN" goal run v5.bin --trace nowhere/t.json
refuse "unknown subcommand" 2 "unknown command 'walk'" "$OPENSPIN" goal walk

# --- convert, info ---
goal convert "$vectors/v06_anysource_anytag.goal" >a.goal
goal convert a.goal -o a.bin && goal convert a.bin >b.goal
cmp -s a.goal b.goal && pass "text to binary to text" || fail "text to binary to text"
goal convert a.goal -f portals -o p.bin && goal convert p.bin >c.goal
cmp -s a.goal c.goal && pass "text to the Portals dialect to text" ||
    fail "text to the Portals dialect to text"
check "info" 0 '^receives with a wildcard +3$' "$OPENSPIN" goal info a.bin
check "info as JSON" 0 '"wildcard_receives": 3,' "$OPENSPIN" goal info a.bin --json
refuse "unknown format" 2 "'xml' is not known" "$OPENSPIN" goal convert a.goal -f xml
check "from a pipe" 0 '^operations +8$' bash -c 'cat a.goal | goal info /dev/stdin'
check "info of 8 operations" 0 "operations +8" "$OPENSPIN" goal info a.goal

# --- gen ---
check "patterns" 0 '^halo-4d ' "$OPENSPIN" goal gen --list
same "a pattern as text" "$vectors/binomial5.txt" \
    "$OPENSPIN" goal gen binomial-reduce -n 5 -b 1KiB -c 2us -r 1
check "a grid" 0 '^rank 11 \{$' "$OPENSPIN" goal gen halo-2d -n 12 --dims 3x4
refuse "wrong grid" 2 'do not multiply to 12 ranks' "$OPENSPIN" goal gen halo-2d -n 12 --dims 5x4
refuse "malformed grid" 2 "'3x' is not two to four numbers" \
    "$OPENSPIN" goal gen halo-2d -n 12 --dims 3x
refuse "no rank count" 2 'how many ranks' "$OPENSPIN" goal gen dissemination
refuse "unknown pattern" 2 "unknown pattern 'spiral'; 'openspin goal gen --list' shows them" \
    "$OPENSPIN" goal gen spiral -n 4
refuse "root that is not there" 2 'root 4 does not exist' \
    "$OPENSPIN" goal gen binary-bcast -n 4 -r 4
goal gen linear-alltoall -n 100 -o old.goal && cp old.goal kept.goal
refuse "no partial file" 1 'cannot write' "$OPENSPIN" goal gen dissemination -n 4 -o nowhere/x.goal
[ ! -e nowhere ] && cmp -s old.goal kept.goal && pass "old files stay" || fail "old files stay"
if [ -e /dev/full ]; then
    refuse "a full disk" 1 'cannot write the output' \
        bash -c 'goal gen dissemination -n 64 >/dev/full'
fi

# --- join ---
goal gen ring-allreduce -n 3 -o one.goal; goal gen binary-bcast -n 2 -o two.goal
check "jobs side by side" 0 '^rank 4 \{$' "$OPENSPIN" goal join one.goal two.goal
for how in linear round-robin random; do
    goal join one.goal two.goal -p $how -n 7 -o both.bin
    check "joined ($how) runs all messages" 0 '^messages +13$' "$OPENSPIN" goal run both.bin
done
printf '4\n0\n2 # third\n\n1\n3\n' >place.txt
check "placement from a file" 0 '^rank 3 finishes at +[1-9]' \
    bash -c 'goal join one.goal two.goal -p place.txt -o both.goal && goal run both.goal'
refuse "two on one node" 2 'on node 0, which rank 0 of job 1 has' \
    bash -c 'printf "0\n1\n2\n0\n4\n" >p.txt; goal join one.goal two.goal -p p.txt'
refuse "node that is not there" 2 'on node 9, but there are 5 nodes' \
    bash -c 'printf "0\n1\n2\n3\n9\n" >p.txt; goal join one.goal two.goal -p p.txt'
refuse "placement too short" 1 'places 1 ranks, the jobs have 5' \
    bash -c 'echo 0 >p.txt; goal join one.goal two.goal -p p.txt'
refuse "too few nodes" 2 'have 5 ranks, more than 4 nodes' \
    "$OPENSPIN" goal join one.goal two.goal -n 4
refuse "no jobs" 2 'which jobs' "$OPENSPIN" goal join

# --- the grammar of docs/goal.md: every word of it stands in the example, which is read; and it has
# every word of the reader
python3 - "$SOURCE" >words.txt 2>&1 <<'P'
import re, sys
source = sys.argv[1]
page = open(source + "/docs/goal.md").read()
grammar = re.search(r"```ebnf\n(.*?)```", page, re.S)[1]
terminals = set(re.findall(r'"([^"]+)"', re.sub(r"\(\*.*?\*\)", "", grammar)))
example = re.search(r"\$ cat everything.goal\n(.*?)\n\n", page, re.S)[1]
missing = [t for t in terminals if t not in example]
assert not missing, missing
words = set()
for file in ["goal_text.c", "goal_text_portals.c"]:
    text = open(f"{source}/src/sim/{file}").read()
    words |= set(re.findall(r'(?:WORD_IS\(\w+(?:\(s\))?, |SCAN_PREFIX\(s, |scan_keyword\(s, '
                            r')"(\w+)"', text))
words |= set(re.findall(r'X\(GOAL_\w+, \d+, "(\w+)"\)', open(source + "/src/sim/goal.h").read()))
assert len(words) > 25 and not words - terminals, words - terminals
P
[ $? = 0 ] && pass "the grammar has every word, and the example too" ||
    fail "the grammar has every word, and the example too" "$(cat words.txt)"

# --- results in files, pictures, views, the critical path
ping=$vectors/v01_eager_pingpong.goal
goal gen binomial-bcast -n 8 -b 1KiB -o tree.goal
run goal run tree.goal --json r.json --csv=r.txt
[ "$status" = 0 ] && [ "$(head -n 1 r.txt)" = rank,finish_ps ] && printf '%s' "$out" | grep -q \
    '^makespan' && python3 -c 'import json; assert len(json.load(open("r.json"))["ranks"]) == 8' &&
    pass "JSON and CSV in files, the text beside them" ||
    fail "JSON and CSV in files, the text beside them" "$err"
refuse "both on standard output" 2 '--json and --csv both write -' "$OPENSPIN" goal run tree.goal \
    --json --csv
goal run tree.goal --trace t.json --picture t.svg --critical-path --json >run.json
goal run tree.goal --trace some.json --picture some.svg --only 0,2-3 --from 1us --to 12us >/dev/null
python3 - >checks.txt 2>&1 <<'P'
import json, re
import xml.dom.minidom
events = json.load(open("t.json"))["traceEvents"]
run = json.load(open("run.json"))
boxes = {(e["pid"], e["tid"], e["ts"]): e for e in events if e["ph"] == "X"}
starts = {e["id"]: e for e in events if e["ph"] == "s"}
ends = {e["id"]: e for e in events if e["ph"] == "f"}
assert len(starts) == len(ends) == run["messages"] == 7 and starts.keys() == ends.keys()
for i in starts:
    a, b = starts[i], ends[i]
    send, receive = boxes[a["pid"], a["tid"], a["ts"]], boxes[b["pid"], b["tid"], b["ts"]]
    assert send["name"] == "send" and receive["name"] == "receive" and b["bp"] == "e"
    assert (send["args"]["peer"] == b["pid"] and receive["args"]["peer"] == a["pid"]
            and a["ts"] < b["ts"])
path = run["critical_path"]
steps = path["steps"]
at = 0
for s in steps:
    assert s["start_ps"] == at
    at += s["length_ps"]
assert (at == run["makespan_ps"] == path["calc_ps"] + path["overhead_ps"] + path["nic_ps"]
        + path["network_ps"])
critical = [e for e in events if e["ph"] == "X" and e["pid"] == 9]
assert len(critical) == len(steps)
svg = open("t.svg").read()
xml.dom.minidom.parseString(svg)
assert svg.count("class='message'") == 7 and svg.count("class='critical'") == len(steps)
some = json.load(open("some.json"))["traceEvents"]
shown = [e for e in some if e["ph"] == "X"]
assert (shown and {e["pid"] for e in some} == {0, 2, 3}
        and all(e["ts"] <= 12 and e["ts"] + e["dur"] >= 1 for e in shown))
assert len(shown) < len(boxes)
svg = open("some.svg").read()
xml.dom.minidom.parseString(svg)
assert "rank 3 cpu" in svg and "rank 1 cpu" not in svg
P
[ $? = 0 ] && pass "arrows, the critical path and views" ||
    fail "arrows, the critical path and views" "$(cat checks.txt)"
check "the critical path as text" \
    0 '^ +0.000 +4000.000  network  0      1: send 8b to 1 tag [0-9]+$' \
    "$OPENSPIN" goal run "$ping" --critical-path
check "on a packet network" 0 '^  messages on the way +[1-9]' \
    "$OPENSPIN" goal run "$ping" -m packet --critical-path
refuse "a view of nothing" 2 '--only, --from and --to choose what' \
    "$OPENSPIN" goal run "$ping" --only 0
refuse "ranks that are not there" 2 "ranks '0-9': there are 0 to 1" \
    "$OPENSPIN" goal run "$ping" --only 0-9 --picture p.svg
refuse "no ranks" 2 "ranks '1-x': expected numbers and ranges" \
    "$OPENSPIN" goal run "$ping" --only 1-x --picture p.svg
refuse "times in the wrong order" 2 'nothing to show: from 2000000 ps to 1000000 ps' \
    "$OPENSPIN" goal run "$ping" --from 2us --to 1us --picture p.svg
[ ! -e p.svg ] && pass "no picture then" || fail "no picture then"
finish
