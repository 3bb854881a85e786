# openspin sweep: grids and lists, how values get into a command, what
# fails, interrupted sweeps, plots.
. "$SOURCE/tests/lib/tap.sh"
sweep() { "$OPENSPIN" sweep "$@"; }
goal=$SOURCE/tests/goal/v01_eager_pingpong.goal
rows() { # NAME EXPECTED COMMAND...: standard output is exactly that
    local name=$1 want=$2
    shift 2
    run "$@"
    [ "$status" = 0 ] && [ "$out" = "$want" ] && pass "$name" ||
        fail "$name" "status $status, command: $*" "$out" "$err"
}

# --- values
only() {
    sweep "$@" --results hpus -- budget --cycles 500 | cut -d, -f1 | tail -n +2 | tr '\n' ' '
}
is() { [ "$2" = "$3" ] && pass "$1" || fail "$1" "expected: $2" "got:      $3"; }
is "a list" "8 16 9 " "$(only -o hpus=8,16,9)"
is "steps, the end included" "8 16 24 32 " "$(only -o hpus=8:32:8)"
is "steps, the end between" "8 16 24 " "$(only -o hpus=8:31:8)"
is "downwards" "32 24 16 8 " "$(only -o hpus=32:8:-8)"
is "factors" "1 2 4 8 16 32 64 " "$(only -o hpus=1:64:*2)"
is "factors downwards" "64 16 4 1 " "$(only -o 'hpus=64:1:*0.25')"
sizes() {
    sweep -o packet-size="$1" --results packet_bytes -- budget --cycles 500 |
        tail -n +2 | tr '\n' ' '
}
is "sizes of one unit" "1KiB,1024, 2KiB,2048, 4KiB,4096, " "$(sizes '1KiB:4KiB:*2')"
is "sizes of two units" "512,512, 1024,1024, 2048,2048, " "$(sizes '512B:2KiB:*2')"
is "decimals are not blurred" "0.1 0.2 0.3 " \
    "$(sweep -o gap=0.1:0.3:0.1 -- budget --cycles 500 | cut -d, -f1 | tail -n +2 | tr '\n' ' ')"
rows "a grid, the last fastest" "hpus,packet-size,hpus_needed,error
8,64,397,
8,512,50,
16,64,397,
16,512,50," sweep -o hpus=8,16 -o packet-size=64,512 -r hpus_needed -- budget --cycles 500
printf '# comment\nhpus,packet-size\n8,64\n\n32,"4096"\r\n' >list.csv
printf 'hpus\n8\n\0009\n' >zero.csv
refuse "a list with a byte 0" 1 'zero.csv: holds a byte 0' \
    "$OPENSPIN" sweep -l zero.csv -- budget --cycles 500
rows "a list of points, crossed with a grid" "hpus,packet-size,clock,sustained_gbit,error
8,64,1000,8.063,
8,64,2000,16.126,
32,4096,1000,400.000,
32,4096,2000,400.000," sweep -l list.csv -o clock=1000,2000 -r sustained_gbit -- budget --cycles 500

# --- how a value gets into the command
rows "a parameter" "L,makespan_ps,error
1us,8084000,
2us,10084000," sweep -o L=1us,2us -r makespan_ps -- goal run "$goal"
rows "a place" "o,makespan_ps,error
1us,9084000,
2us,13084000," sweep -o o=1us,2us -r makespan_ps -- goal run "$goal" --set 'o={o}'
rows "a flag" "digest,makespan_ps,digest,error
on,11084000,$("$OPENSPIN" goal run "$goal" --digest | sed -n 's/^digest *//p'),
off,11084000,," sweep -o digest=on,off -r makespan_ps,digest -- goal run "$goal"
rows "values with commas; results in lists" 'topology,ranks.1.finish_ps,error
switch,9167014,
"dragonfly:1,2,1",9250414,' sweep -o 'topology=switch;dragonfly:1,2,1' -r ranks.1.finish_ps \
    -- goal run "$goal" -m packet --set o=3us
"$OPENSPIN" cc --pspin -O2 "$SOURCE/examples/echo.c" -o echo.spin || exit 1
check "the card" 0 '^2,256,20,20,$' sweep -o clusters=1,2 -o size=64,256 -r packets,completed \
    -- card run -H echo.spin -T 'gen:packets=20,size={size}'
cc -shared -fPIC -I"$SOURCE/include" "$SOURCE/tests/programs/exchange.c" -o ring.so || exit 1
check "a world, whose program prints" 0 '^4,\{,3,0,[0-9]+,$' sweep -o ranks=2,4 -o 'word={' \
    -r ranks.3.rank,handler_faults,makespan_ps -- sim run ring.so ring '{word}'
check "results by default: no parameters, no lists" 0 '^L,model,preset,makespan_ps,events,'\
'messages,bytes,noise_ps,queue_ps,unreceived,engine_events,most_pending,memory_bytes,error$' \
    sweep -o L=1 -- goal run "$goal"
run sweep -o L=1,2 -- goal run "$goal" --trace 't{point}.json'
[ -s t1.json ] && [ -s t2.json ] && pass "a file per point" ||
    fail "a file per point" "$err" "$(ls)"

# --- the same as by hand, whatever the number of processes
for jobs in 1 2 7; do
    sweep -j $jobs -o hpus=1:16:1 -o packet-size=64:512:128 -- budget --cycles 700 >jobs$jobs.csv
done
cmp -s jobs1.csv jobs7.csv && cmp -s jobs1.csv jobs2.csv && [ "$(wc -l <jobs1.csv)" = 65 ] &&
    pass "one process or seven: the same table" || fail "one process or seven: the same table"
python3 - "$OPENSPIN" >checks.txt 2>&1 <<'P'
import csv, json, subprocess, sys
for row in list(csv.DictReader(open("jobs7.csv")))[::17]:
    alone = (json.loads(subprocess.check_output([sys.argv[1], "budget", "--cycles", "700", "--hpus",
                                                 row["hpus"], "--packet-size", row["packet-size"],
                                                 "--json"])))
    for name, value in alone.items():
        if name != "hpus":  # the swept column has that name as well
            assert (row[name] == str(value).lower()
                    or float(row[name]) == float(value)), (row, name, value)
P
[ $? = 0 ] && pass "each row is what the command prints" ||
    fail "each row is what the command prints" "$(cat checks.txt)"

# --- points that fail
run sweep -o hpus=1,99,4 -r makespan_ps -- sim run -n 2 ring.so ring
[ "$status" = 1 ] && [ "$(printf '%s\n' "$out" | sed -n 3p)" = \
    "99,,\"hpus: '99' is outside the limits, 0 to 64\"" ] &&
    printf '%s\n' "$out" | grep -qE '^4,[0-9]+,$' && [ "$err" = "openspin sweep: 1 of 3 points "\
"failed, the first is hpus=99: hpus: '99' is outside the limits, 0 to 64" ] &&
    pass "one that fails is a row, the others run" ||
    fail "one that fails is a row, the others run" "$status" "$out" "$err"
check "results of a run with status 1 are kept" \
    1 '^return,[1-9][0-9]*,"ring.so: 1 of 3 ranks failed' \
    sweep -o how=return -r makespan_ps -- sim run -n 3 ring.so '{how}'
check "a crash" 1 '^crash,,rank 1 in its program at' \
    sweep -o how=crash -r makespan_ps -- sim run -n 3 ring.so '{how}'
refuse "no such result" 1 "no result is called 'nonsense'; there are packet_bytes, rate_gbit" \
    bash -c "'$OPENSPIN' sweep -o hpus=1 -r nonsense -- budget --cycles 5 >/dev/null"

# --- what is refused before anything runs
refuse "nothing swept" 2 'what is swept\? say --over' sweep -- budget --cycles 500
refuse "no command" 2 'of which command\?' sweep -o hpus=1
refuse "a command without results" 2 "'cc' cannot be swept" sweep -o O=1 -- cc x.c
refuse "a group of commands" 2 "'goal' cannot be swept" sweep -o L=1 -- goal
refuse "an unknown name" 2 "'foo' is no option or parameter of goal run; put \{foo\} where" \
    sweep -o foo=1 -- goal run "$goal"
refuse "swept twice" 2 "'L' is swept twice" sweep -o L=1 -o L=2 -- goal run "$goal"
refuse "swept and given" 2 'L is swept and given in the command as well' \
    sweep -o L=1 -- goal run "$goal" -sL=2
refuse "an option swept and given" 2 'hpus is swept and given' \
    sweep -o hpus=1 -- budget --cycles 5 --hpus=2
refuse "an empty value" 2 'has an empty value' sweep -o L=1,,2 -- goal run "$goal"
refuse "a step of nothing" 2 'never gets from 1 to 9' sweep -o L=1:9:0 -- goal run "$goal"
refuse "the wrong way" 2 'never gets from 9 to 1' sweep -o L=9:1:2 -- goal run "$goal"
refuse "units that differ" 2 'of one unit' sweep -o L=1us:9KiB:1us -- goal run "$goal"
refuse "too many points" 2 'more than 100000' sweep -o L=1:9000000:1 -- goal run "$goal"
refuse "no list" 1 'nolist.csv: cannot open list of points' sweep -l nolist.csv -- goal run "$goal"
printf 'L,o\n1\n' >short.csv
refuse "axes of no plot" 2 '--x and --y are of a plot: say --plot FILE$' \
    sweep -o L=1,2 --y makespan_ps -- goal run "$goal"
refuse "a short line" 1 'short.csv:2: 1 values, the first line has 2 names' \
    sweep -l short.csv -- goal run "$goal"
printf 'L,o\n' >none.csv
refuse "a list without points" 1 'none.csv: no points' sweep -l none.csv -- goal run "$goal"
refuse "one file for all points" 2 '--trace: all points would write t.json; put \{point\}' \
    sweep -o L=1,2 -- goal run "$goal" --trace t.json
refuse "a file to write is not swept" 2 'trace is a file to write' \
    sweep -o trace=a,b -- goal run "$goal"
refuse "nowhere to write" 1 'no/where.csv: cannot write' \
    sweep -o L=1 --csv no/where.csv -- goal run "$goal"
refuse "an output that is an input" 2 'list.csv is also read' \
    sweep -l list.csv --csv list.csv -- budget --cycles 5
refuse "a plot of no known kind" 2 'a plot ends in .svg, .png or .gp' \
    sweep -o L=1 --plot p.pdf -- goal run "$goal"
refuse "an axis that is not swept" 2 "'o' is not swept" \
    sweep -o L=1 --x o --plot p.gp -- goal run "$goal"
refuse "too many curves" 2 '40 curves over L' \
    sweep -o L=1,2 -o o=1:40:1 --plot p.gp -- goal run "$goal"

# --- interrupted and gone on with; the program sleeps in real time until a file is there
cat >slow.c <<'C'
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(int argc, char **argv) {
    FILE *log = fopen("log.txt", "a");
    fprintf(log, "%s\n", argv[1]);
    fclose(log);
    if (argc > 2 && atoi(argv[1]) > 2)
        for (FILE *go = NULL; !(go = fopen(argv[2], "r"));)
            execl("/bin/sleep", "sleep", "600", (char *)0);
    return 0;
}
C
cc -shared -fPIC slow.c -o slow.so || exit 1
slow() {
    "$OPENSPIN" sweep -j 2 "${@:2}" -o "n=$1" -r makespan_ps --csv slow.csv -- sim \
        run slow.so '{n}' go.txt
}
four_begun() { [ "$(cat log.txt 2>/dev/null | wc -l)" -ge 4 ]; }
interrupt() { # SIGNAL; bash has background jobs ignore INT
    rm -f slow.csv slow.csv.journal go.txt log.txt
    env --default-signal=INT "$OPENSPIN" sweep -j 2 -o n=1:4:1 -r makespan_ps --csv slow.csv \
        -- sim run slow.so '{n}' go.txt >out.txt 2>err.txt &
    local pid=$!
    soon four_begun
    children=$(pgrep -P $pid)
    kill -"$1" $pid
    wait $pid 2>/dev/null
    ended=$?
    soon ended $children && alive= || alive=$children
}
for signal in INT TERM KILL; do
    interrupt $signal
    [ "$ended" -gt 128 ] && [ ! -e slow.csv ] && [ "$(grep -c '^point' slow.csv.journal)" = 2 ] &&
        pass "$signal: no half table, two points are kept" ||
        fail "$signal: no half table, two points are kept" "$ended" "$(ls)" \
            "$(cat slow.csv.journal err.txt)"
    [ -n "$children" ] && [ -z "$alive" ] && pass "$signal: no child is left" ||
        fail "$signal: no child is left" "$children" "$alive"
done
[ "$(ls ./*.part* 2>/dev/null)" = "" ] && pass "nothing is left behind" ||
    fail "nothing is left behind" "$(ls)"
touch go.txt
echo notes >mine.csv.journal
refuse "a file of somebody else: refused" 1 'mine.csv.journal: this is no journal of a sweep' \
    "$OPENSPIN" sweep -o hpus=8 --csv mine.csv budget --cycles 50
[ "$(cat mine.csv.journal)" = notes ] && [ ! -e mine.csv ] && pass "it stays as it is" ||
    fail "it stays as it is"
refuse "of another command: refused" 1 'slow.csv.journal: is of another sweep' \
    bash -c "'$OPENSPIN' sweep -o n=1:4:1 --csv slow.csv -- sim run slow.so '{n}' other.txt"
refuse "of other names: refused" 1 'is of another sweep' \
    bash -c "'$OPENSPIN' sweep -o n=1:4:1 -o hpus=1 --csv slow.csv -- sim run slow.so '{n}' go.txt"
rm log.txt
run slow 1:5:1
[ "$status" = 0 ] &&
    [ "$err" = "openspin sweep: 2 of 5 points are in slow.csv.journal and not run again" ] &&
    [ "$(sort log.txt | tr '\n' ' ')" = "3 4 5 " ] &&
    [ "$(cut -d, -f1 slow.csv | tr '\n' ' ')" = "n 1 2 3 4 5 " ] &&
    [ ! -e slow.csv.journal ] && pass "gone on with, and longer" ||
    fail "gone on with, and longer" "$status" "$err" "$(cat log.txt slow.csv)"
rm log.txt
slow 1:2:1 && [ "$(wc -l <log.txt)" = 2 ] && pass "a sweep that ended is run anew" ||
    fail "a sweep that ended is run anew"
interrupt TERM
touch go.txt; sed -i 's/return 0;/return 0 ;/' slow.c; cc -shared -fPIC slow.c -o slow.so
refuse "of another program: refused" 1 'slow.csv.journal: slow.so has changed since' slow 1:4:1
rm log.txt
slow 1:4:1 --fresh 2>err.txt && [ "$(wc -l <log.txt)" = 4 ] && pass "unless it begins anew" ||
    fail "unless it begins anew" "$(cat err.txt log.txt)"
interrupt TERM
printf 'point\t3\tmakes' >>slow.csv.journal
touch go.txt; rm log.txt
slow 1:4:1 2>err.txt &&
    [ "$(sort log.txt | tr '\n' ' ')" = "3 4 " ] && pass "a torn line does not count" ||
    fail "a torn line does not count" "$(cat err.txt log.txt slow.csv)"

# --- plots
check "gnuplot's script" 0 '' sweep -o hpus=1:64:*2 -o packet-size=64,512 --csv p.csv \
    --plot p.gp -- budget --cycles 500
grep -q "^set logscale x 2" p.gp && grep -q "^set ylabel 'sustained_gbit'" p.gp && grep -q \
    "using 1:3 skip 1 title 'packet-size 512'" p.gp && grep -q '^64.000,64.504,400.000$' p.gp &&
    pass "has axes, curves and values" || fail "has axes, curves and values" "$(cat p.gp)"
if command -v gnuplot >/dev/null; then
    check "SVG" 0 '' sweep -o hpus=1:8:1 --csv p.csv --plot p.svg -- budget --cycles 500
    grep -q '<svg' p.svg && grep -q 'sustained_gbit' p.svg && pass "is one" || fail "is one"
    check "PNG, bars for names" 0 '' sweep -o 'topology=switch;link' --y makespan_ps --csv p.csv \
        --plot p.png -- goal run "$goal" -m packet
    head -c 4 p.png | grep -q PNG && pass "is one too" || fail "is one too"
else
    skip "SVG" "no gnuplot here"
fi
mkdir empty
for tool in bash cat rm; do ln -s "$(command -v $tool)" empty; done
refuse "no gnuplot" 1 'there is no gnuplot' env PATH="$PWD/empty" \
    "$OPENSPIN" sweep -o L=1 --plot p.svg -- goal run "$goal"
run "$OPENSPIN" sweep --over hpus=8,16 budget --cycles 500
[ "$(head -n 1 stdout.txt | tr , '\n' | sort | uniq -d)" = "" ] && [ "$status" = 0 ] &&
    pass "no column stands twice" ||
    fail "no column stands twice" "$out"
finish
