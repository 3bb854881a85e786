# experiment and card area as a user drives them.
. "$SOURCE/tests/lib/tap.sh"
golden=$SOURCE/tests/golden
shopt -s extglob

check "experiment lists them" 0 '^pspin/fig6 +.*ISCA.21 figure 6' "$OPENSPIN" experiment
listed=$("$OPENSPIN" experiment | grep -v 'times this machine' | cut -d' ' -f1)
[ "$(printf '%s\n' "$listed" | wc -l)" -ge 6 ] && pass "several are deterministic" ||
    fail "several are deterministic" "$listed"
# A plot that gnuplot warns about has lost something: what it says, of
# whichever experiment, is kept.
if gnuplot=$(command -v gnuplot); then
    mkdir heard
    printf '#!/bin/sh\nexec "%s" "$@" >>"%s/noise.txt" 2>&1\n' "$gnuplot" "$PWD" >heard/gnuplot
    chmod +x heard/gnuplot
    PATH=$PWD/heard:$PATH
fi
# The release build compares the modes: all compiled, all interpreted. A sanitizer looks at
# memory, and has the interpreter, generated code and the way from one to the other in one run,
# as a user has. So have, everywhere, the long worlds below and those whose many handlers take
# longer to compile than to run.
compiles_long=' dfs22/fig4 dfs22/fig6 dfs22/fig9 dfs22/fig10 dfs22/fig11 dfs22/fig15 '\
'dfs22/fig16-left dfs22/table1 dfs22/table2 sc17/collectives sc17/graph sc17/transactions sc17/kv '\
'sc17/fig7c sc17/ftb sc17/spc spinlib/speed slides/datatypes '
# Worlds that take a sanitizer long; of use cases their tests run with it. They run once
# elsewhere, as a user has them.
worlds_long=" $compiles_long sc17/cards sc17/fig5a sc17/table5c sc17/fig7a slides/scan "\
"slides/fft2d part/eq1 part/fig9 part/fig12 part/fig13 part/fig14 part/fig15 part/table3 "
# Cards that take a sanitizer long; their tests run with it.
cards_long=' pspin/fig8 pspin/fig9 pspin/fig10 pspin/fig11 pspin/fig12 pspin/fig13 '
for id in $listed; do
    folder=(--out made)
    [ "$id" != sc17/table5c ] || folder+=(--exchanges 2) # of thousands
    [[ $id != @(*/timelines|part/*) ]] || folder=() # it says where its pictures are
    of=$golden/experiment_${id//\//_}.txt
    if [ -n "$SANITIZED" ] && [[ $worlds_long$cards_long = *" $id "* ]]; then
        skip "$id prints what it did" "it takes a sanitizer too long; the release build runs it"
        continue
    elif [ -n "$SANITIZED" ]; then
        same "$id prints what it did" "$of" "$OPENSPIN" experiment "$id" "${folder[@]}"
    else
        mode=(--jit=force)
        [[ $worlds_long != *" $id "* ]] || mode=("${folder[@]}")
        run "$OPENSPIN" experiment "$id" "${mode[@]}"
        case "$err" in
        *"built without LLVM"*) skip "$id prints what it did when handlers are compiled" \
            "built without LLVM" ;;
        *) same "$id prints what it did when handlers are compiled" "$of" printf '%s\n' "$out" ;;
        esac
        [[ $worlds_long = *" $id "* ||
            $id = part/* ]] || same "$id prints what it did when handlers are interpreted" "$of" \
                "$OPENSPIN" experiment "$id" --jit=off "${folder[@]}"
    fi
    lines=$(printf '%s\n' "$out" |
        grep -cE '^verdict: ([0-9]+ of [0-9]+ agree|nothing published to compare with)')
    [ "$lines" = 1 ] && pass "$id: one line of verdict" || fail "$id: one line of verdict" "$out"
    [ "$id" != sc17/fig5a ] || printf '%s\n' "$out" >fig5a.txt
done

# --- formats
run "$OPENSPIN" experiment pspin/fig6 --json
printf '%s' "$out" | python3 -c '
import json, sys
d = json.load(sys.stdin)
assert d["experiment"] == "pspin/fig6" and len(d["panels"]) == 2, d
budget = d["panels"][0]
assert [c["unit"] for c in budget["columns"]] == ["B", "ns", "ns"], budget
assert budget["rows"][0] == [64, 81.92, 40.96], budget
for p in d["published"]:
    assert abs(p["ratio"] - p["ours"] / p["published"]) < 1e-3, p
    assert (abs(p["ratio"] - 1) <= 0.1) == (p["verdict"] == "agrees"), p' && pass "--json" ||
    fail "--json" "$out"
run "$OPENSPIN" experiment pspin/fig4 --json
printf '%s' "$out" | python3 -c '
import json, sys
d = json.load(sys.stdin)
for row in d["panels"][0]["rows"]:
    assert row[2] > row[1] > 0, row
verdicts = {p["verdict"] for p in d["published"]}
assert "calibrated" in verdicts, verdicts' && pass "what was fitted is called so" ||
    fail "what was fitted is called so" "$out"
check "--csv has every row" 0 '^2000,200' \
    bash -c "'$OPENSPIN' experiment pspin/fig6 --csv | sed 's/^2000,8.2,65.5,131.1/2000,200/'"
check "a paper's name runs all of it" 0 '^dfs22/fig16-right:' \
    "$OPENSPIN" experiment dfs22 --bytes 1024 --ranks 4
run "$OPENSPIN" experiment sc17/fig4 dfs22/fig7 dfs22/fig16-right
[ "$(printf '%s\n' "$out" | grep -c '^verdict:')" = 3 ] && pass "several at once" ||
    fail "several at once" "$out"

# --- files
check "--out writes" 0 '' "$OPENSPIN" experiment pspin/fig6 --out made
"$OPENSPIN" experiment pspin/fig6 --csv | sed -n '2,7p' | head -6 >head.csv
diff -q <(head -6 made/pspin-fig6-budget.csv) head.csv >/dev/null &&
    pass "the CSV is the printed one" || fail "the CSV is the printed one" "$(cat made/*.csv)"
grep -q '^B10,' made/pspin-fig6-published.csv && pass "published values as CSV" ||
    fail "published values as CSV"
if command -v gnuplot >/dev/null; then
    for file in budget throughput; do
        [ "$(head -c 8 made/pspin-fig6-$file.png | od -An -tx1 |
            tr -d ' \n')" = 89504e470d0a1a0a ] && pass "$file.png is a PNG" ||
            fail "$file.png is a PNG"
        tail -n 2 made/pspin-fig6-$file.svg | grep -q '</svg>' && pass "$file.svg is whole" ||
            fail "$file.svg is whole"
    done
    "$OPENSPIN" experiment sc17/timelines --out made >/dev/null
    rm made/pspin-fig6-budget.png
    (cd made && gnuplot pspin-fig6-budget.gp)
    [ -s made/pspin-fig6-budget.png ] && pass "a script by hand" ||
        fail "a script by hand" "$(ls made)"
    [ -e noise.txt ] && [ ! -s noise.txt ] && pass "gnuplot has nothing to say" ||
        fail "gnuplot has nothing to say" "$(cat noise.txt)"
    printf 'plot nothing_of_this_name\n' >wrong.gp
    gnuplot wrong.gp
    [ -s noise.txt ] && pass "which would be heard" || fail "which would be heard"
    rm noise.txt
    mkdir odd
    printf '#!/bin/sh\nexit 3\n' >odd/gnuplot
    chmod +x odd/gnuplot
    refuse "a gnuplot that fails" 1 'gnuplot cannot plot it' env PATH="$PWD/odd:$PATH" \
        "$OPENSPIN" experiment sc17/fig4 --out bad
    ls bad | grep -qE 'svg|png' && fail "and leaves no picture" "$(ls bad)" ||
        pass "and leaves no picture"
else
    skip "plots" "no gnuplot here"
fi
run env PATH=/nowhere "$OPENSPIN" experiment pspin/fig13 --out without
[ "$status" = 0 ] && [ -s without/pspin-fig13-buffer.csv ] &&
    [ -s without/pspin-fig13-buffer.gp ] && [ ! -e without/pspin-fig13-buffer.png ] &&
    [ "$(printf '%s\n' "$err" | wc -l)" = 1 ] &&
    printf '%s' "$err" | grep -q 'no gnuplot' && pass "without gnuplot: CSV, script and one line" ||
    fail "without gnuplot: CSV, script and one line" "$status" "$err" "$(ls without)"
ls made/*part* without/*part* >/dev/null 2>&1 &&
    fail "no part is left behind" "$(ls made without)" || pass "no part is left behind"

# --- another set-up: every experiment takes every option and says so; with one
# size and few ranks, to be cheap
less() { # what an experiment is given to be small
    case $1 in
    dfs22/fig15 | dfs22/fig16-left | dfs22/table2 | dfs22/timelines) echo --bytes 1024 --ranks 4 ;;
    sc17/fig5a | sc17/cards | sc17/collectives | sc17/ftb) echo --bytes 1024 --ranks 4 ;;
    sc17/table5c) echo --bytes 1024 --ranks 4 --exchanges 2 ;;
    sc17/transactions) echo --bytes 64 --ranks 5 ;;
    sc17/graph) echo --bytes 4096 --ranks 2 ;;
    sc17/kv | pspin/fig4) echo --bytes 64 --ranks 3 ;;
    sc17/spc) echo --bytes 512 --ranks 6 ;;
    slides/datatypes) echo --bytes 4096 --ranks 2 ;;
    slides/fft2d) echo --bytes 16384 --ranks 4 ;;
    spinlib/speed) echo --bytes 5120 --ranks 4 ;;
    sc17/fig7c) echo --bytes 1024 --ranks 6 ;;
    *) echo --bytes 1024 --ranks 2 ;;
    esac
}
other() { # a value of the option that makes a difference
    case $1,$2 in
    sc17/fig3?,--ranks) echo 40 ;; # beyond a switch
    *,--ranks) echo 8 ;;
    sc17/kv,--bytes | sc17/transactions,--bytes) echo 128 ;;
    slides/datatypes,--bytes) echo 8192 ;;
    slides/fft2d,--bytes) echo 65536 ;;
    spinlib/speed,--bytes) echo 10240 ;;
    *,--bytes) echo 2048 ;;
    pspin/*,--card | dfs22/*,--card) echo sc17 ;;
    *,--card) echo pspin ;;
    pspin/fig4,--set) echo pspin.remote_cycles=50 ;;
    pspin/latency,--set) echo pspin.invoke_cycles=20 ;;
    pspin/*,--set | dfs22/fig7,--set | dfs22/fig16-right,--set | sc17/fig4,--set)
        echo link_rate=100Gbit/s ;;
    *,--set) echo link_latency=500ns ;;
    *) echo torus:4x4x4 ;;
    esac
}
body() { printf '%s\n' "$out" | grep -vE '^not the published|^verdict|^$'; }
takes() { # ID OPTION: and the result is not the usual one
    local small value
    small=$(less "$1")
    value=$(other "$1" "$2")
    run "$OPENSPIN" experiment "$1" ${small/$2 +([0-9])/} "$2" "$value"
    if [ "$status" != 0 ] ||
        ! printf '%s\n' "$out" | grep -q "^not the published set-up:.* $2 $value"; then
        fail "$1 takes $2 $value" "$status" "$err" "$out"
    # neighbours in pairs: none is in another's way
    elif [ "$(body)" = "$usual" ] && [ "$1 $2" != 'sc17/fig7a --ranks' ]; then
        fail "$1 with $2 $value is another result" "$out"
    else
        pass "$1 takes $2 $value"
    fi
}
for id in $("$OPENSPIN" experiment | cut -d' ' -f1); do
    [ -z "$SANITIZED" ] || [[ $id = @(pspin/latency|dfs22/fig7|pspin/fig6|sc17/fig5b) ]] || continue
    case $id in
    # not cheap: all at once
    dfs22/fig9 | dfs22/fig1[015] | dfs22/fig16-left | dfs22/table? | pspin/fig[89] | \
        pspin/fig1[0-3] | part/* | sc17/graph | sc17/kv | sc17/spc | slides/datatypes)
        run "$OPENSPIN" experiment "$id" $(less "$id") \
            --card "$(other "$id" --card)" --set "$(other "$id" --set)" --topology torus:4x4x4
        [ "$status" = 0 ] && printf '%s\n' "$out" | grep -qE \
            '^not the published set-up: --ranks .* --bytes .* --card .* --topology .* --set ' &&
            pass "$id takes every option" || fail "$id takes every option" "$status" "$err" "$out"
        ;;
    *)
        run "$OPENSPIN" experiment "$id" $(less "$id")
        usual=$(body)
        for option in --ranks --bytes --card --set; do
            takes "$id" $option
        done
        run "$OPENSPIN" experiment "$id" $(less "$id") --topology torus:4x4x4
        [ "$status" = 0 ] &&
            printf '%s\n' "$out" | grep -q '^not the published set-up: .* --topology torus:4x4x4' &&
            pass "$id takes --topology" || fail "$id takes --topology" "$status" "$err" "$out"
        ;;
    esac
done
check "pictures of a page fault" 0 'part-fault.svg' "$OPENSPIN" experiment part/fig10 --out faults
[ "$(grep -oE '<title>(interrupt|tasklet|get_user_pages|netlink|ERR|block|report)' \
    faults/part-fault.svg | sort -u | wc -l)" = 7 ] && pass "they show its parts" ||
    fail "they show its parts" "$(ls faults)"
refuse "one rank and nobody to send to" 2 'one that receives' \
    "$OPENSPIN" experiment part/fig11 --ranks 1
refuse "a host that a card alone does not have" 2 'a card without a host' \
    "$OPENSPIN" experiment pspin/fig8 --set o=10ns
refuse "one rank and nobody who sends" 2 'another must send' \
    "$OPENSPIN" experiment pspin/fig8 --ranks 1
refuse "three ranks in pairs" 2 'in pairs' "$OPENSPIN" experiment sc17/fig3b --ranks 3 --bytes 64
refuse "clusters that handlers do not know" 2 'written for the scratchpads of 4' \
    "$OPENSPIN" experiment pspin/fig12 --set pspin.clusters=2
refuse "a network that loses packets" 2 'the network lost' \
    "$OPENSPIN" experiment pspin/latency --bytes 64 --set loss=0.5

# --- bad input
check "other ranks and sizes of the applications" \
    0 '^not the published set-up: --ranks 8 --bytes 1000$' \
    "$OPENSPIN" experiment sc17/table5c --ranks 8 --bytes 1000 --exchanges 2
[ -n "$SANITIZED" ] && skip "all messages of the published runs" \
    "it takes a sanitizer too long; the release build runs it" ||
    check "all messages of the published runs" 0 '^  POP, spin +- +48253920 +1120 +48252800 +1 ' \
        "$OPENSPIN" experiment sc17/table5c --ranks 4
check "another number of exchanges" 0 '^  Cloverleaf +72 +64 +3 ' \
    "$OPENSPIN" experiment sc17/table5c --bytes 64 --exchanges 3
refuse "exchanges of another" 2 'sc17/kv does not have a number of exchanges' \
    "$OPENSPIN" experiment sc17/kv --exchanges 3
refuse "one rank has no neighbours" 2 'neighbours need two' \
    "$OPENSPIN" experiment sc17/table5c --ranks 1
check "another set-up is said" 0 '^not the published set-up: --bytes 64 --set hpus=2$' \
    "$OPENSPIN" experiment sc17/fig3b --bytes 64 --set hpus=2
refuse "ranks that it cannot have" 2 'power of two' "$OPENSPIN" experiment sc17/fig5a --ranks 3
refuse "a card that is not there" 2 'there are sc17 and pspin' \
    "$OPENSPIN" experiment sc17/fig5a --card sc18
refuse "a parameter that is not there" 2 "unknown parameter 'hpu'" \
    "$OPENSPIN" experiment sc17/fig5a --set hpu=3
refuse "an unknown experiment" 2 "no experiment 'pspin/fig99'" "$OPENSPIN" experiment pspin/fig99
refuse "part of a name" 2 "no experiment 'psp'" "$OPENSPIN" experiment psp
refuse "one known, one not" 2 "no experiment 'x'" "$OPENSPIN" experiment sc17/fig4 x
refuse "two formats" 2 'not both' "$OPENSPIN" experiment sc17/fig4 --csv --json
refuse "a folder and no experiment" 2 'which experiment' "$OPENSPIN" experiment --out here
refuse "an unknown option" 2 "unknown option '--plot'" "$OPENSPIN" experiment sc17/fig4 --plot
: >file
refuse "a file for a folder" 1 'file: is not a folder' "$OPENSPIN" experiment sc17/fig4 --out file
refuse "a folder in no folder" 1 'no/where: cannot make the folder: No such file' \
    "$OPENSPIN" experiment sc17/fig4 --out no/where
mkdir -p taken/sc17-fig4-hpus.csv
refuse "a folder in the file's place" 1 'sc17-fig4-hpus.csv: is a directory' \
    "$OPENSPIN" experiment sc17/fig4 --out taken
refuse "a folder that takes no file" 1 'cannot (write|make the folder)' \
    "$OPENSPIN" experiment sc17/fig4 --out /proc/self

# --- the card: what must hold whatever the constants; from the tables that were written above
rows='
import csv
def rows(table):
    return [[float(v) if i else v for i, v in enumerate(row)]
            for row in list(csv.reader(open(f"made/{table}.csv")))[1:]]
'
if [ -z "$SANITIZED" ]; then
python3 -c "$rows"'
throughput, hpus = rows("pspin-fig8-throughput"), rows("pspin-fig8-hpus")
warm = [[row[0]] + row[2::2] for row in hpus]
# but for the first: its code begins elsewhere in a line
cold = [[row[0]] + row[1::2] for row in hpus[1:]]
for rows, sign in ((throughput, -1), (warm, 1), (cold, 1)):
    for a, b in zip(rows, rows[1:]):
        for x, y in zip(a[1:], b[1:]):
            # longer handlers: no faster, no fewer HPUs
            assert sign * (y - x) >= -0.01 * abs(x), (a, b)
for row in throughput:
    for measured, bound in ((row[1], row[3]), (row[4], row[6]), (row[7], row[9])):
        # nor above what 32 HPUs and the interconnect can do
        assert measured <= bound * 1.04, row
assert all(1 <= n <= 32 for row in hpus for n in row[1:]), hpus' &&
    pass "fig8 is bounded and monotone" || fail "fig8 is bounded and monotone" "$err"
python3 -c "$rows"'
for row in rows("pspin-fig9-outbound"):
    assert row[2] >= row[1] and row[4] >= row[3], row
    assert all(v <= 513 for v in row[1:]), row' && pass "fig9: L2 is no slower than L1" ||
    fail "fig9: L2 is no slower than L1" "$err"
python3 -c "$rows"'
throughput, cycles = rows("pspin-fig10-throughput"), rows("pspin-fig10-cycles")
assert len(throughput) == 7
for gbit, taken in zip(throughput, cycles):
    for size, rate, held in zip((64, 512, 1024), gbit[1:], taken[1:]):
        assert 0 < rate <= min(513, 32 * 8 * size / (held + 8)) * 1.01, (gbit, taken)' &&
    pass "fig10 is within what 32 HPUs can do" || fail "fig10 is within what 32 HPUs can do" "$err"
python3 -c "$rows"'
for row in rows("pspin-latency-parts"):
    assert abs(sum(row[1:-1]) - row[-1]) < 0.01, row' && pass "the parts are the latency" ||
    fail "the parts are the latency" "$err"
fi

# --- the simulated world: what SC'17 says of its curves (A9, A10, A12), from the numbers
python3 -c "$rows"'
inside, outside, accumulate = rows("sc17-fig3b-pingpong"), rows("sc17-fig3c-pingpong"), rows(
    "sc17-fig3d-accumulate")
for figure in (inside, outside, accumulate):
    for row in figure:
        row[0] = int(row[0])
for figure in (inside, outside):
    assert [r[0] for r in figure] == [4 << i for i in range(17)], figure
    for size, rdma, portals, store, stream in figure:
        assert stream < portals < rdma and store < rdma, (size, rdma, portals, store, stream)
        assert (stream < 0.99 * store) == (size > 4096), (size, store, stream)
for a, b in zip(inside, outside):
    # the gap is larger on the discrete card
    assert b[1] - b[4] > a[1] - a[4], (a, b)
small, large = accumulate[0], accumulate[-1]
assert small[0] == 8 and large[0] == 262144, accumulate
assert small[2] > small[1] and small[4] > small[3] + 0.25, small # at least one DMA latency
assert large[2] < large[1] and large[4] < large[3], large' &&
    pass "sc17/fig3b to 3d have the published shapes" ||
    fail "sc17/fig3b to 3d have the published shapes" "$err"
if [ -z "$SANITIZED" ]; then
python3 -c '
import re
rows = [list(map(float, line.split())) for line in open("fig5a.txt")
        if re.match(r"^ +[0-9]+( +[0-9.]+){4}$", line)]
tiny, large = rows[:10], rows[10:]
assert len(large) == 10 and [r[0] for r in tiny] == [2 << i for i in range(10)], rows
for r in tiny[1:] + large[1:]:
    # sPIN below Portals 4 below RDMA, from 4 ranks on
    assert r[4] < r[2] < r[1], r
for r in tiny:
    assert abs(r[3] / r[4] - 1) < 0.05, r                       # store is stream for one packet
for r in large:
    assert abs(r[3] / r[2] - 1) < 0.05, r                       # and Portals 4 for several' &&
    pass "sc17/fig5a has the published shape" ||
    fail "sc17/fig5a has the published shape" "$(cat fig5a.txt)"
fi
"$OPENSPIN" experiment sc17/timelines --out lines >/dev/null
python3 -c '
import glob, json, xml.dom.minidom
pictures = sorted(glob.glob("lines/sc17-timelines-*-*.svg"))
assert len(pictures) == 11, pictures
for picture in pictures:
    boxes = [e for e in json.load(open(picture[:-3] + "json"))["traceEvents"] if e["ph"] == "X"]
    assert (len(xml.dom.minidom.parse(picture).getElementsByTagName("title"))
            == len(boxes) > 5), picture' && pass "sc17/timelines draws what it traces" ||
    fail "sc17/timelines draws what it traces" "$(ls lines)"

# --- this machine: it runs, the HPU's results are those of this machine, and the machine is named
run "$OPENSPIN" experiment pspin/fig11 --json
printf '%s' "$out" | python3 -c '
import json, sys
d = json.load(sys.stdin)
names = [r[0] for r in d["panels"][0]["rows"]]
assert names == ["aggregate", "filtering", "histogram", "kvstore", "reduce", "strided_ddt"], names
assert all(v > 0 for r in d["panels"][0]["rows"] for v in r[1:]), d
assert "this machine: " in d["notes"][0], d' && pass "fig11 runs here" ||
    fail "fig11 runs here" "$out" "$err"

# --- area and power
same "card area" "$golden/card_area.txt" "$OPENSPIN" card area
same "card area of a larger card" "$golden/card_area_large.txt" "$OPENSPIN" card area \
    --clusters 16 --hpus-per-cluster 16 --l1 512KiB --l1-banks 128 --packet-buffer 8MiB
run "$OPENSPIN" card area --json
printf '%s' "$out" | python3 -c '
import json, sys
d = json.load(sys.stdin)
assert abs(d["area_mm2"] - 18.47) < 1e-6 and abs(d["power_w"] - 6.08) < 1e-6, d
outer = [c for c in d["components"][1:] if not c["in_cluster"]]
assert abs(sum(c["count"] * c["mm2_each"] for c in outer) - d["area_mm2"]) < 1e-4, outer
assert abs(sum(c["count"] * c["w_each"] for c in outer) - d["power_w"]) < 1e-4, outer' &&
    pass "card area --json" || fail "card area --json" "$out"
refuse "no clusters" 2 '--clusters: 0 is outside 1 to 4096' "$OPENSPIN" card area --clusters 0
refuse "no size" 2 "--l1: 'big' is not a size" "$OPENSPIN" card area --l1 big
refuse "an operand" 2 "unexpected 'x'" "$OPENSPIN" card area x
# --- a block trace of the user's
printf '0,20941264,8192,W,0.551706\n1,20939840,8192,w,0.554041,more\n0,3436288,15872,r,1.011732\n' \
    >user.spc
check "a trace from a file" 0 '^  file +3 +33\.3 +10752 ' \
    "$OPENSPIN" experiment sc17/spc --file user.spc
printf '%s\n' "$out" | grep -q 'not the published set-up.*--file user.spc' &&
    pass "which is said" || fail "which is said" "$out"
printf '0,1,512,W,0\n0,1,512,Z,0\n' >bad.spc
refuse "a trace with a bad line" 1 "bad.spc: line 2: opcode 'Z' is neither R nor W" \
    "$OPENSPIN" experiment sc17/spc --file bad.spc
refuse "no trace" 1 'nowhere.spc: No such file' "$OPENSPIN" experiment sc17/spc --file nowhere.spc
refuse "a file for another" 2 'sc17/kv does not have an input file' \
    "$OPENSPIN" experiment sc17/kv --file user.spc
refuse "too few ranks for a RAID" 2 'there are 5 servers, and a client at least' \
    "$OPENSPIN" experiment sc17/spc --ranks 5
# --- on live cards: what is measured differs from run to run
check "live: ping-pong and accumulation, with a prediction for each" \
    0 '^ +64 +([0-9.]+ +){7}[0-9.]+$' timeout $patience \
    "$OPENSPIN" experiment sc17/fig3 --live --bytes 64
printf '%s\n' "$out" | grep -qE '^Measured parameters: o=[0-9.]+ns, poll=' &&
    pass "live: the parameters are named" || fail "live: the parameters are named" "$out"
check "live: broadcast" 0 '^ +2 +([0-9.]+ +){7}[0-9.]+$' timeout $patience \
    "$OPENSPIN" experiment sc17/fig5a --live --bytes 64 --ranks 2
if [ -n "$SANITIZED" ]; then
    skip "live: use cases of spinlib, by processors and by cards" \
        "it takes a sanitizer too long; the release build runs it"
else
    check "live: use cases of spinlib, by processors and by cards" \
        0 '^ +kv +([0-9.]+ +){4}[0-9.]+$' timeout $patience \
        "$OPENSPIN" experiment spinlib/speed --live
    [ "$(printf '%s\n' "$out" | grep -cE '^  [a-z0-9]+ +([0-9.]+ +){4}[0-9.]+$')" \
        = "$(ls "$SOURCE"/handlers/*/*_speed.c | wc -l)" ] && pass "live: a row for each" ||
        fail "live: a row for each" "$out"
fi
check "live: what there is" 0 "^sc17/fig3 +ping-pong and accumulation, live" \
    "$OPENSPIN" experiment --live
refuse "live: it needs the word" 2 'sc17/fig3 is of live cards: give --live$' \
    "$OPENSPIN" experiment sc17/fig3
refuse "live: not all" 2 "no experiment 'pspin/fig6'; 'openspin experiment --live' lists them" \
    "$OPENSPIN" experiment --live pspin/fig6
refuse "live: ranks of no tree" 2 "ranks 3: the binomial tree is of a power of two" \
    "$OPENSPIN" experiment --live sc17/fig5a --ranks 3
refuse "live: half a number" 2 "a multiple of 8" "$OPENSPIN" experiment --live sc17/fig3 --bytes 12
refuse "live: a card that is not" 2 "sc17/fig3 does not have a world" \
    "$OPENSPIN" experiment --live sc17/fig3 --card pspin

finish
