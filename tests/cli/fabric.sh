# Live ranks over libfabric, by the providers that every machine has: shared memory and TCP.
. "$SOURCE/tests/lib/tap.sh"
library=$BUILD/src/portals
flags=
nm -D "$library/libportals.so" | grep -q __asan_init && flags=-fsanitize=address,undefined
export LD_LIBRARY_PATH=$library ASAN_OPTIONS=detect_leaks=0:handle_segv=0 OPENSPIN_TRANSPORT=fabric
compile() { # SOURCE NAME
    clang $flags -g -O1 -Wall -Wextra -I"$SOURCE/include" "$SOURCE/$1" "-L$library" \
        -lportals -o "$2" && pass "$2 compiles" || fail "$2 compiles"
}
launch() { timeout -k 5 $patience "$OPENSPIN" launch "$@"; }
by() { OPENSPIN_FABRIC_PROVIDER=$1 launch "${@:2}"; }
compile tests/programs/all_to_all.c all_to_all
compile tests/programs/rank_waits.c waits
compile examples/sum_program.c sum
"$OPENSPIN" cc "$SOURCE/examples/sum_handler.c" -o sum.spin
run by shm ./waits end
if grep -q 'libfabric' <<<"$err"; then
    pass "no libfabric is one clear line"
    skip "ranks over libfabric" "$err"
    finish
    exit
fi
for ranks in 2 4 8; do
    for provider in shm tcp; do
        check "$provider: $ranks ranks" \
            0 "^$ranks ranks, 10 messages each way, every byte as it should be\$" \
            by $provider -n $ranks ./all_to_all 10
    done
done
check "a handler on the card" 0 '^the sum of 1 to 3 is 6;' by tcp -n 4 ./sum sum.spin
check "a program alone is a job of one" 0 '^1 ranks, 10 messages each way' \
    timeout $patience ./all_to_all 10
for provider in shm tcp; do
    check "$provider: a rank that is killed ends the job" 137 'rank 1 of 3 was ended by signal 9 ' \
        by $provider -n 3 ./waits killed
done
check "a provider that is not there" 3 "rank [01]: no live card: OPENSPIN_FABRIC_PROVIDER: "\
"libfabric has no reliable endpoint of pigeon .*fi_info" by pigeon -n 2 ./waits
OPENSPIN_INTERFACE=nosuch0 check "an interface that is not there" \
    3 "no reliable endpoint of tcp at nosuch0" by tcp ./waits
OPENSPIN_AUTH=1 check "what cannot be authenticated is refused" \
    2 "OPENSPIN_AUTH is about UDP, but with OPENSPIN_TRANSPORT=fabric a card uses libfabric" \
    by tcp ./waits
finish
