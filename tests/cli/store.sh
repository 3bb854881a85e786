# A store of live processes as a user has it: the demo (docs/store.md has it with media in memory),
# and nodes and writers that are killed at random moments ($STORMS of them; `make soak` has 100).
. "$SOURCE/tests/lib/tap.sh"
. "$BUILD/env"
# What live cards have to refuse; it waits for a capability to expire, so it runs beside the rest.
head -c 65536 /dev/zero >forge-shared
timeout -k 5 $patience "$OPENSPIN" launch -n 4 "$BUILD/handlers/store-live" \
    forge "$PWD/forge-shared" 2 9000 1 >forge.txt 2>&1 &
mkdir media
check "the demo, with files" 0 \
    '^9 processes were killed, all were started again, every byte was right, and all have ended$' \
    timeout -k 5 $patience "$OPENSPIN" store demo --bytes 9000 --files "$PWD/media"
[ "$(ls media | wc -l)" = 9 ] && pass "a file per node, and one of the service" ||
    fail "a file per node" "$(ls media)"
check "a store of other nodes" 1 'journal: the journal is of a store with 8 nodes of' \
    "$OPENSPIN" store demo --nodes 9 --files "$PWD/media"
[ "$(ls media | wc -l)" = 9 ] && pass "a store that is refused makes no file" ||
    fail "a store that is refused makes no file" "$(ls media)"
mkdir garbage
echo garbage >garbage/journal
refuse "a journal that is none" 1 'garbage/journal: this is no journal of a store$' \
    "$OPENSPIN" store demo --files "$PWD/garbage"
[ "$(ls garbage) $(cat garbage/journal)" = "journal garbage" ] &&
    pass "nodes make no file without it" || fail "nodes make no file without it" "$(ls garbage)"
rm garbage/journal
echo garbage >garbage/node-3
refuse "a medium that is none" \
    1 'garbage/node-3: this is no medium of a store, and it is not empty$' \
    "$OPENSPIN" store demo --files "$PWD/garbage"
[ "$(cat garbage/node-3)" = garbage ] && pass "it stays as it is" || fail "it stays as it is"
"$OPENSPIN" store demo --bytes 4MiB >begun.txt 2>interrupted.txt &
demo=$!
while [ ! -s begun.txt ] && kill -0 $demo 2>/dev/null; do sleep 0.05; done
kill -TERM $demo
wait $demo
[ "$? $(cat interrupted.txt)" = \
    "143 openspin store demo: interrupted by signal 15 (Terminated); all processes have ended" ] &&
    pass "an interrupted demo says so" ||
    fail "an interrupted demo says so" "$(cat interrupted.txt)"
refuse "a file is no folder" 1 'store.sh: Not a directory; nodes keep' \
    "$OPENSPIN" store demo --files "$SOURCE/tests/cli/store.sh"
refuse "a folder that is not there" 1 '/nowhere: No such file' \
    "$OPENSPIN" store demo --files /nowhere
refuse "of a large store, too" 1 '/nowhere: No such file' "$OPENSPIN" store large --files /nowhere
refuse "too few nodes" 2 "nodes" "$OPENSPIN" store demo --nodes 3
refuse "another word" 2 "'word' is not an option" "$OPENSPIN" store demo word
storms=${STORMS:-3}
[ -n "$SANITIZED" ] && storms=1
[ "$storms" -gt 3 ] && check "the bench" 0 '^read, RS\(4,2\) +[0-9]' timeout -k 5 $patience \
    "$OPENSPIN" store bench
# storm NODES SEED NAME: with an even seed every packet is signed
storm() {
    head -c 65536 /dev/zero >shared
    run timeout -k 5 $patience "$OPENSPIN" launch -k -n $(($1 + 3)) "$BUILD/handlers/store-live" \
        storm "$PWD/shared" "$1" 20000 "$2"
    printf '%s\n' "$out" | grep -q "^seed $2: .* right$" && pass "$3" ||
        fail "$3" "$status" "$out" "$err"
}
# seed 4: a client is killed in the middle of its writes, and another one goes on
for seed in $(seq "$storms") $([ "$storms" = 3 ] && echo 4); do
    storm 6 "$seed" "storm $seed"
    # one of those in which hosts do the work of some cards (store_live.h: bypassed)
    [ "$seed" = 2 ] || continue
    [ "$(od -A n -t u4 -j 28 -N 4 shared)" -gt 0 ] && pass "requests that bypass a live card" ||
        fail "requests that bypass a live card"
done
# crash SEED: all are killed, the service too, and started again with their files
crash() {
    head -c 65536 /dev/zero >shared
    rm -rf files && mkdir files
    for part in crash recover; do
        run timeout -k 5 $patience "$OPENSPIN" launch -k -n 9 "$BUILD/handlers/store-live" \
            $part "$PWD/shared" 6 20000 "$1" "$PWD/files"
    done
    printf '%s\n' "$out" | grep -q "^seed $1: .* right$" && pass "crash $1" ||
        fail "crash $1" "$status" "$out" "$err"
}
for seed in $(seq $((storms == 3 ? 2 : storms))); do
    crash "$seed"
done
# 18 processes
[ -n "$SANITIZED" ] || storm 15 2 "RS(10,4) with every packet signed, and a node that is killed"
[ "$storms" -gt 3 ] && for seed in $(seq 4 2 24); do
    storm 15 "$seed" "RS(10,4), signed, storm $seed"
done
wait
grep -qx '16 requests were refused, 0 were not' forge.txt && pass "forged requests to live cards" ||
    fail "forged requests to live cards" "$(cat forge.txt)"
finish
