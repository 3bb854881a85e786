# `openspin goal run --model packet` as a user drives it; times worked out by hand.
. "$SOURCE/tests/lib/tap.sh"

run_packet="$OPENSPIN goal run --model packet"
two() { # BYTES: rank 0 sends so much to rank 1
    printf 'num_ranks 2\nrank 0 {\nsend %sb to 1\n}\nrank 1 {\nrecv %sb from 0\n}\n' "$1" "$1"
}
two 8 >two.goal
# o 65, 2 wires of 33.4, a switch 50, 8 B 0.16, DMA 50 + 0.054, o 65
check "a packet through a switch" 0 '^makespan +297\.014 ns' $run_packet -T switch two.goal
check "a packet on a wire" 0 '^makespan +213\.614 ns' $run_packet -T link two.goal
check "the discrete card" 0 '^makespan +497\.085 ns' $run_packet -T switch -p sc17-dis two.goal
check "store and forward" 0 '^makespan +297\.174 ns' \
    $run_packet -T switch -s switching=store two.goal
check "DMA on both sides" 0 '^makespan +347\.068 ns' $run_packet -T switch -s dma=both two.goal
check "no DMA" 0 '^makespan +246\.960 ns' $run_packet -T switch -s dma=none two.goal
printf 'num_ranks 4\nrank 0 {\nsend 4096b to 1\n}\nrank 1 {\nrecv 4096b from 0\n}\nrank 2 {\nl1: '\
'calc 160\nl2: send 4096b to 3\nl2 requires l1\n}\nrank 3 {\nrecv 4096b from 2\n}\n' >pairs.goal
check "two pairs do not wait for each other" 0 '^makespan +488\.720 ns' \
    $run_packet -T switch -s dma=none pairs.goal
check "a header counts on the wire" 0 '^makespan +297\.814 ns' \
    $run_packet -T switch -s header=40 two.goal
two 40960 >ten.goal
# ten packets follow each other: 819.2 on the wire; DMA of the last 27.444 + 50
check "a message of ten packets" 0 '^makespan +1143\.444 ns' $run_packet -T switch ten.goal
check "at a tenth of the rate" 0 '^makespan +8516\.244 ns' \
    $run_packet -T switch -s link_rate=40Gbit/s ten.goal
two 0 >none.goal
check "an empty message" 0 '^makespan +296\.800 ns' $run_packet -T switch none.goal

cat >graph.txt <<'G'
openspin-graph 1
host a b
switch s t
link a s
link s t latency=1us   # far away
link t b
G
check "a graph from a file" 0 '^makespan +1347\.014 ns' $run_packet -T file:graph.txt two.goal
check "links are named" 0 '^  s>t +busy 0\.160 ns, 1 packets, 8 bytes' \
    $run_packet -T file:graph.txt two.goal

"$OPENSPIN" goal gen linear-alltoall --ranks 64 --bytes 20000 --output all.goal
for topology in switch fattree:8 fattree:36 torus:8x8 torus:4x4x4 dragonfly:4,4,1; do
    for queue in unlimited credit; do
        check "all-to-all on $topology, $queue" 0 '^packets +20160$' \
            $run_packet -T $topology -s queue=$queue -s routing=hash all.goal
        if grep -qE '^packets (lost|dropped|sent)|^messages lost' stdout.txt; then
            fail "nothing lost on $topology, $queue" "$out"
        else
            pass "nothing lost on $topology, $queue"
        fi
    done
    check "all-to-all on $topology, droptail" 0 '^messages +4032$' \
        $run_packet -T $topology -s queue=droptail -s retry_timeout=5us -s retries=254 all.goal
done
check "drop-tail sends again" 0 '^packets sent again +[1-9]' \
    $run_packet -s queue=droptail -s retries=254 \
    -s retry_timeout=5us -T torus:8x8 all.goal
dropped=$(sed -n 's/^packets dropped *//p' stdout.txt) \
    again=$(sed -n 's/^packets sent again *//p' stdout.txt)
sent=$(sed -n 's/^packets  *\([0-9]\)/\1/p' stdout.txt)
if [ "$dropped" = "$again" ] && [ "$sent" = $((20160 + again)) ]; then
    pass "every packet dropped is sent once more"
else
    fail "every packet dropped is sent once more" "dropped $dropped, again $again, sent $sent"
fi

$run_packet -s loss=0.001 --digest all.goal >one.txt
$run_packet -s loss=0.001 --digest all.goal >again.txt
$run_packet -s loss=0.001 -s seed=2 --digest all.goal >other.txt
if cmp -s one.txt again.txt && ! cmp -s one.txt other.txt &&
    grep -q '^packets lost  *[1-9]' one.txt; then
    pass "faults repeat by seed"
else
    fail "faults repeat by seed" "$(diff one.txt again.txt)"
fi
check "all faults together" 0 '^packets duplicated +[1-9]' \
    $run_packet -s loss=1e-3 -s corruption=1e-3 \
    -s duplication=1% -s reordering=1% -s retry_timeout=10us -s queue=credit all.goal
check "broken links are passed by" 0 '^packets rerouted +[1-9]' \
    $run_packet -T fattree:8 -s fail_links=5 all.goal
check "a link that breaks and heals" 0 '^packets (lost|without a route) +[1-9]' \
    $run_packet -T switch \
    --fail h3-s0@1us:20us -s retry_timeout=10us all.goal
check "random placement changes the paths" 0 '^makespan' $run_packet -s placement=random all.goal

refuse "a lost message is named" \
    1 'lost 1 message for good, the first of 8 bytes from rank 0 to rank 1 at .* after 3 retries; '\
'deadlock: 1 of 2 operations are not done; waiting: rank 1 operation 1 \(recv' \
    $run_packet -T switch -s loss=1 -s retries=3 two.goal
check "presets of the packet model with their sources" \
    0 "^  dma_latency = 250 ns, of a DMA \(L\) \(SC.17" \
    "$OPENSPIN" goal run --model packet --presets
refuse "unknown topology" 2 "unknown topology 'mesh'" $run_packet -T mesh two.goal
refuse "a topology that is too small" 1 'holds 4 hosts, 64 are needed' \
    $run_packet -T fattree:4,levels=1 all.goal
refuse "a missing graph" 1 'nowhere.txt: cannot open' $run_packet -T file:nowhere.txt two.goal
printf 'openspin-graph 1\nhost a b\nswitch s\nlink a s\nlink b x\n' >bad.txt
refuse "a wrong graph" 1 "bad.txt:5:8: no host or switch of this name above: 'x'" \
    $run_packet -T file:bad.txt two.goal
refuse "unknown parameter" 2 "unknown parameter 'colour' of the packet model; 'openspin goal run "\
"--model packet --parameters' lists all" \
    $run_packet -s colour=red two.goal
refuse "a wrong value" 2 "link_latency: 'far' is not a time" \
    $run_packet -s link_latency=far two.goal
refuse "a value out of range" 2 "mtu: '0' is outside the limits, 1 to 1048576 bytes" \
    $run_packet -s mtu=0 two.goal
refuse "a wrong choice" 2 "queue: 'long' is not known; there are unlimited, droptail and credit" \
    $run_packet -s queue=long two.goal
refuse "L belongs to the other model" 2 'L is no parameter of the packet model' \
    $run_packet -s L=5 two.goal
refuse "a buffer below a packet" 2 'a buffer of 100 bytes; it must hold a packet of 4096' \
    $run_packet -s queue=credit -s buffer=100 two.goal
refuse "a link that is not there" 2 "failure 'h0-h1@1us': no link between these" \
    $run_packet --fail h0-h1@1us two.goal
refuse "a failure without a time" 2 "failure 'h0-s0': expected A-B@TIME" \
    $run_packet --fail h0-s0 two.goal
refuse "a failure that ends first" 2 "'5us:1us' is not TIME or TIME:LATER" \
    $run_packet --fail h0-s0@5us:1us two.goal
refuse "more failures than links" 2 'fail_links: 100 links are to break, there are 2' \
    $run_packet -T switch -s fail_links=100 two.goal
refuse "a topology without packets" 2 'need --model packet' "$OPENSPIN" goal run -T switch two.goal

check "the report of links" 0 '^makespan' $run_packet --links links.csv --trace trace.json all.goal
if [ "$(head -n 1 links.csv)" = "link,packets,bytes,busy_ps,use,queued_ps,queue_max_bytes,drops" ] \
    &&
    awk -F, 'NR > 1 && ($5 > 1 || $5 < 0) { bad = 1 } /^h5>s0,/ { host = $3 } END { exit bad || '\
'host != 63 * 20000 }' links.csv; then
    pass "a row per link, none used above 1, a host's bytes are what it sent"
else
    fail "a row per link, none used above 1, a host's bytes are what it sent" "$(head -5 links.csv)"
fi
if grep -q '"name":"h0>s0 [0-9]*"' trace.json && grep -q '"name":"h0 to h1"' trace.json; then
    pass "the trace has rows of links"
else
    fail "the trace has rows of links" "$(head -c 600 trace.json)"
fi
if command -v python3 >/dev/null; then
    $run_packet --json -T torus:8x8 all.goal >result.json
    $run_packet --trace some.json --only 3,5 --from 5us --to 12us all.goal >/dev/null
    check "JSON and trace are well-formed, and a view is of links too" 0 '^4032 20160 64$' \
        python3 -c '
import json
events = json.load(open("trace.json"))["traceEvents"]
links = lambda events: [e for e in events if e["ph"] == "X" and " to h" in e["name"]]
ends = lambda e: {int(h[1:]) for h in e["name"].split(" to ")}
some = json.load(open("some.json"))["traceEvents"]
def key(e): return (e["tid"], e["name"], e["ts"])
wanted = [key(e) for e in links(events) if ends(e) & {3, 5} and e["ts"] + e["dur"] >= 5
          and e["ts"] <= 12]
assert 0 < len(wanted) < len(links(events)) / 4, (len(wanted), len(links(events)))
assert sorted(map(key, links(some))) == sorted(wanted), (len(links(some)), len(wanted))
assert ({e["tid"] for e in some if e["name"] == "thread_name" and e["pid"] == 64}
        == {k[0] for k in wanted})
r = json.load(open("result.json"))
assert r["model"] == "packet" and r["network"]["most_use_ppm"] <= 1000000
assert r["makespan_ps"] == max(rank["finish_ps"] for rank in r["ranks"])
print(r["messages"], r["network"]["packets"], len(r["ranks"]))'
fi
finish
