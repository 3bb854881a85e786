# openspin goal run --model card: the same schedule with and without handlers, and what goes wrong.
. "$SOURCE/tests/lib/tap.sh"
vectors=$SOURCE/tests/goal
card() { "$OPENSPIN" goal run --model card "$@"; }

for matching in host portals handlers; do
    same "$matching" "$vectors/card_$matching.txt" \
        card --matching $matching --set S=16KiB "$vectors/v03_rendezvous_expected.goal"
done
same "on PsPIN" "$vectors/card_pspin.txt" \
    card --card pspin --topology switch "$vectors/v06_anysource_anytag.goal"
card "$vectors/v05_irequires_overlap.goal" --json=o.json --csv=o.csv --trace t.json \
    --picture p.svg --links l.csv >text.txt &&
    python3 - <<'P' && pass "JSON, CSV, trace, picture and links of one run" \
        || fail "JSON, CSV, trace, picture and links of one run" "$(cat text.txt)"
import json
r = json.load(open("o.json"))
assert (r["model"] == "card" and r["matching"] == "handlers" and r["messages"] == 2
        and r["unreceived"] == 0), r
rows = open("o.csv").read().split()[1:]
assert rows == [f"{x['rank']},{x['finish_ps']}" for x in r["ranks"]], rows
assert max(x["finish_ps"] for x in r["ranks"]) == r["makespan_ps"]
assert (json.load(open("t.json")) and open("p.svg").read().startswith("<")
        and "," in open("l.csv").read())
P
"$OPENSPIN" goal gen halo-2d --ranks 64 --bytes 32KiB --calc 5us --iterations 3 -o halo.bin
card halo.bin --set S=8KiB --noise 50us,2us --seed 3 --csv >a.csv &&
    card halo.bin --set S=8KiB --noise 50us,2us --seed 3 --csv >b.csv && cmp -s a.csv b.csv &&
    pass "the same times again, with noise too" ||
    fail "the same times again, with noise too" "$(diff a.csv b.csv | head -4)"
card --parameters --set S=8KiB --set hpus=8 >params.txt && card --params params.txt halo.bin |
    grep -E 'makespan' >a.txt &&
    card --set S=8KiB --set hpus=8 halo.bin | grep -E 'makespan' >b.txt && cmp -s a.txt b.txt &&
    pass "parameters from a file" || fail "parameters from a file" "$(cat a.txt b.txt)"

# --- Portals operations
printf 'num_ranks 2\nrank 0 {\nput 64b to 1 tag 1\n}\nrank 1 {\nappend 64b to priority_list '\
'allowed 0 ct 1 tag 1\ntest 1 for 1\n}\n' >ptl.goal
check "a put to an entry" 0 'messages +1$' card ptl.goal
check "needs a card" 2 'Portals operations need a card' "$OPENSPIN" goal run ptl.goal

# --- errors: one line
one_line() { # NAME STATUS PATTERN WORDS...
    run "${@:4}"
    [ "$status" = "$2" ] && [ "$(grep -c . <<<"$err")" = 1 ] && grep -qE "$3" <<<"$err" &&
        pass "$1" || fail "$1" "$status" "$err"
}
printf 'num_ranks 2\nrank 0 {\nrecv 8b from 1\n}\nrank 1 {\n}\n' >stuck.goal
one_line "a deadlock" 1 'stuck.goal: deadlock: 1 of 1 operations are not done; waiting: rank 0 '\
'operation 1 \(recv 8b from 1 tag 0\)' card stuck.goal
one_line "no such matching" 2 "unknown matching 'x'; there are host, portals, handlers" \
    card --matching x ptl.goal
one_line "no such card" 2 "'x' is neither sc17 nor pspin" card --card x ptl.goal
one_line "no such model" 2 "unknown model 'cards'; there are loggops, packet and card" \
    "$OPENSPIN" goal run --model cards ptl.goal
one_line "L is a result" 2 'L is no parameter of cards' card --set L=5 ptl.goal
one_line "no such parameter" 2 'hpuz' card --set hpuz=5 ptl.goal
one_line "a size that is none" 2 "unexpected: 'x' is not a number of bytes" \
    card --set unexpected=x ptl.goal
one_line "S is too large" 2 'S=2147483648: cards send less than 1 GiB' card --set S=2GiB ptl.goal
one_line "options of cards alone" 2 'need --model card' \
    "$OPENSPIN" goal run --matching host ptl.goal
one_line "options of other models" 2 'not for --model card' card --critical-path ptl.goal
one_line "no such file" 1 'nothing.goal' card nothing.goal
one_line "no such image" 1 'nothing.spin' card --handlers nothing.spin ptl.goal
one_line "also where no operation has handlers" 1 'nothing.spin' \
    card --handlers nothing.spin "$vectors/v03_rendezvous_expected.goal"
finish
