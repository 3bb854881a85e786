# Live ranks that Open MPI's mpirun starts, through PMIx: on one host, and on three
# that are network namespaces.
. "$SOURCE/tests/lib/tap.sh"
library=$BUILD/src/portals
flags=
nm -D "$library/libportals.so" | grep -q __asan_init && flags=-fsanitize=address,undefined
export LD_LIBRARY_PATH=$library ASAN_OPTIONS=detect_leaks=0:handle_segv=0
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
unset OPENSPIN_JOB PMIX_NAMESPACE PMIX_RANK
compile() { # SOURCE NAME FLAGS...
    clang $flags -g -Wall -Wextra -I"$SOURCE/include" "$SOURCE/$1" "-L$library" -lportals -o "$2" \
        "${@:3}" && pass "$2 compiles" || fail "$2 compiles"
}
compile tests/programs/exchange.c ring
compile tests/programs/rank_waits.c waits
compile tests/programs/all_to_all.c all_to_all
compile examples/sum_program.c sum
"$OPENSPIN" cc "$SOURCE/examples/sum_handler.c" -o sum.spin

# --- without the launcher that the environment speaks of
alone() { timeout $patience env "$@"; }
if grep -q 'libpmix[.]so' "$library/libportals.so" &&
    ldconfig -p | grep -q libpmix.so.2; then
    refused="the launcher's PMIx server does not answer"
else
    refused='with PMIx has started this rank, but'
fi
run alone PMIX_NAMESPACE=1.1 PMIX_RANK=0 PMIX_SERVER_URI41='1.0;tcp4://127.0.0.1:9' ./waits
[ "$status" != 124 ] && [ "$(grep -c . <<<"$err")" = 1 ] && grep -q "$refused" <<<"$err" &&
    pass "a server that is not there" || fail "a server that is not there" "$status" "$err"
check "or need not be" 0 '^rank 0 of 1: 100 from the left' \
    alone PMIX_NAMESPACE=1.1 PMIX_RANK=0 OPENSPIN_PMIX=off ./ring
if [ "$refused" != "the launcher's PMIx server does not answer" ] ||
    ! command -v mpirun.openmpi >/dev/null; then
    skip "ranks of mpirun" "no PMIx, or no mpirun of Open MPI"
    finish
    exit
fi

# --- one host
mpi() { timeout -k 5 $patience mpirun.openmpi --oversubscribe "$@"; }
expected=$(for r in 0 1 2 3; do
    echo "rank $r of 4: $((100 + (r + 3) % 4)) from the left, a word"
done)
run mpi -n 4 ./ring ring "a word"
[ "$status" = 0 ] && [ "$(sort <<<"$out")" = "$expected" ] && pass "four ranks exchange" ||
    fail "four ranks exchange" "$status" "$out" "$err"
check "a handler on the card" 0 '^the sum of 1 to 3 is 6;' mpi -n 4 ./sum sum.spin
# Longer than the launcher's server waits for what a rank has not told yet.
run mpi -n 4 sh -c '[ $OMPI_COMM_WORLD_RANK != 0 ] || sleep 4; exec ./ring ring "a word"'
[ "$status" = 0 ] && [ "$(sort <<<"$out")" = "$expected" ] && pass "a rank that begins late" ||
    fail "a rank that begins late" "$status" "$out" "$err"
check "a rank that is killed ends the job" 137 'exited on signal 9' mpi -n 3 ./waits killed
own=no
# shellcheck disable=SC2046
compile tests/programs/own_exchange.c own $(pkg-config --cflags --libs pmix) && [ -x own ] &&
    own=yes
run mpi -n 3 ./own
[ "$status" = 0 ] &&
    [ "$(sort <<<"$out" | sed 's/node [0-9]*/node/')" = "$(for r in 0 1 2; do
        echo "rank $r of 3 on node: $((100 + (r + 2) % 3)) from the left"
    done)" ] &&
    pass "a program that exchanges addresses by itself" ||
    fail "a program that exchanges addresses by itself" "$status" "$out" "$err"
printf '#!/bin/sh\necho $$ >pid.$PMIX_RANK\nexec ./waits >out.$PMIX_RANK 2>err.$PMIX_RANK\n' >kept
chmod +x kept
mpirun.openmpi --oversubscribe -n 2 ./kept >/dev/null 2>&1 &
launcher=$!
waiting() { grep -qs waits out.0 && grep -qs waits out.1; }
soon waiting
kill -KILL $launcher
wait $launcher 2>/dev/null
soon ended "$(cat pid.0)" "$(cat pid.1)" && [ "$(cat err.0 err.1 | sort -u)" = \
    "openspin: the launcher (its PMIx server) is gone: this rank ends" ] &&
    pass "ranks end with an mpirun that is killed" ||
    fail "ranks end with an mpirun that is killed" "$(cat err.*)"

# --- three hosts: namespaces with an interface and a name of their own at one bridge.
# What is in them ends with them.
cat >hosts <<'H'
#!/usr/bin/env bash
# hosts COMMAND...: runs it beside three hosts, 10.9.0.1 to 3, to which `agent` goes as ssh would.
set -e
mount -t tmpfs none /run
mkdir -p /run/netns
ip link set lo up
ip link add bridge0 type bridge
ip addr add 10.9.0.254/24 dev bridge0
ip link set bridge0 up
for i in 1 2 3; do
    ip netns add host$i
    ip link add v$i type veth peer name eth0 netns host$i
    ip link set v$i master bridge0 up
    ip -n host$i addr add 10.9.0.$i/24 dev eth0
    ip -n host$i link set eth0 up
    ip -n host$i link set lo up
done
exec "$@"
H
cat >agent <<'A'
#!/bin/sh
number=${1##*.}
shift
exec ip netns exec "host$number" unshare -u sh -c "hostname host$number; $*"
A
chmod +x hosts agent
if ! unshare -rnm ./hosts true 2>/dev/null ||
    ! unshare -rnm ./hosts ./agent 10.9.0.1 true 2>/dev/null; then
    skip "ranks on three hosts" "no network namespaces here"
    finish
    exit
fi
far() {
    timeout -k 5 $patience unshare -rnm ./hosts mpirun.openmpi --mca plm_rsh_agent "$PWD/agent" \
        --host 10.9.0.1:2,10.9.0.2:2,10.9.0.3 "$@"
}
run far -n 5 ./ring
expected=$(for r in 0 1 2 3 4; do
    echo "rank $r of 5: $((100 + (r + 4) % 5)) from the left, nothing to say"
done)
[ "$status" = 0 ] &&
    [ "$(sort <<<"$out")" = "$expected" ] && pass "five ranks on three hosts exchange" ||
    fail "five ranks on three hosts exchange" "$status" "$out" "$err"
OPENSPIN_TRANSPORT=udp check "a handler on a card of another host" 0 '^the sum of 1 to 4 is 10;' \
    far -n 5 ./sum sum.spin
run far -n 5 ./own
[ "$status" = 0 ] &&
    [ "$(grep -o 'node [0-9]*' <<<"$out" | sort | uniq -c | awk '{print $1}' | sort | xargs)" = \
        "1 2 2" ] && grep -q '^rank 4 of 5 on node 168361987: 103 from the left$' <<<"$out" &&
    pass "addresses of three nodes" || fail "addresses of three nodes" "$status" "$out" "$err"
if OPENSPIN_TRANSPORT=fabric timeout $patience ./waits end >/dev/null 2>&1; then
    OPENSPIN_TRANSPORT=fabric OPENSPIN_FABRIC_PROVIDER=tcp check "libfabric between three hosts" \
        0 '^5 ranks, 10 messages each way, every byte as it should be$' far -n 5 ./all_to_all 10
    OPENSPIN_FABRIC_PROVIDER=tcp check "shared memory on a host, libfabric between hosts" \
        0 '^5 ranks, 10 messages each way' far -n 5 ./all_to_all 10
    OPENSPIN_FABRIC_PROVIDER=pigeon check "libfabric alone between hosts" \
        10 'rank [0-4]: no live card: .* no reliable endpoint of pigeon' far -n 5 ./ring
    OPENSPIN_FABRIC_PROVIDER=tcp OPENSPIN_AUTH=1 check "where nothing is authenticated" \
        10 'rank [0-4]: no live card: OPENSPIN_AUTH is about UDP, but with '\
'OPENSPIN_TRANSPORT=auto \(the default here\) a card uses libfabric: ' far -n 5 ./ring
else
    skip "libfabric between three hosts" "no libfabric here"
fi
check "a rank that is killed ends the job on all hosts" 137 'exited on signal 9' \
    far -n 5 ./waits killed
finish
