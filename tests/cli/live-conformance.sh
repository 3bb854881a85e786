# The programs of the conformance list on live cards, from the same source as in worlds
# (cli/conformance.sh): over shared memory and UDP, with 2, 4 and 8 ranks, handlers on whoever
# drives and on workers. FULL=1: every point in every way.
. "$SOURCE/tests/lib/tap.sh"
library=$BUILD/src/portals
flags=
# A sanitized library needs a sanitized program.
nm -D "$library/libportals.so" | grep -q __asan_init && flags=-fsanitize=address,undefined
export LD_LIBRARY_PATH=$library ASAN_OPTIONS=detect_leaks=0:handle_segv=0
compile() { # SOURCE NAME
    clang $flags -g -Wall -Wextra -I"$SOURCE/include" "$SOURCE/$1" "-L$library" \
        -lportals -lpthread -o "$2" && pass "$2 compiles" || fail "$2 compiles"
}
launch() { timeout -k 5 $patience "$OPENSPIN" launch "$@"; }
compile tests/programs/conformance.c conformance
compile tests/programs/threads.c threads
compile examples/sc17/listings.c listings
compile examples/sum_program.c sum
"$OPENSPIN" cc "$SOURCE/examples/sum_handler.c" -o sum.spin
for f in pingpong accumulate broadcast strided raid_data raid_parity; do
    "$OPENSPIN" cc -Werror "$SOURCE/examples/sc17/$f.c" -o $f.spin
done

# Left to worlds: those that name a virtual time or rely on one. memory-after-*: 5 us after a put
# the neighbour's is there. wait-is-exact: two increments may come between two looks. mutexes,
# conditions: a timeout takes exactly its seconds, and nobody is late by 100 us. all-else, many:
# counters without a lock between threads that run one at a time, and pthread_join of a thread that
# was detached and has ended: that is the C library's own here, and undefined. in-order: real
# threads run in any order.
points="handle-is-equal release-after-send release-in-a-loop arguments-invalid limits-left-zero "\
"limits-are-kept all-memory order-is-kept loop-barrier"
for how in ct-get eq-get poll-nothing ni-status get-id handles bad-handle init compute \
    compute-nothing work work-nothing now nothing-to-copy yield usleep \
    usleep-nothing nanosleep-nothing clock time; do
    points+=" loop-$how"
done
threads="two-waits freed finalised put keys cancelling loops c11 main-returns"
some="limits-left-zero order-is-kept loop-ct-get loop-compute loop-barrier"
some_threads="put two-waits"

every() { # ALL SOME
    [ -n "${FULL:-}" ] && echo "$1" || echo "$2"
}
all() { # NAME RANKS POINTS THREADS
    for which in $3; do check "$1: $which" 0 '' launch -n "$2" ./conformance "$which"; done
    for which in $4; do check "$1: threads: $which" 0 '' launch -n "$2" ./threads "$which"; done
}
# The listings of SC'17 and the sum, on so many workers.
handlers() { # NAME HPUS
    export OPENSPIN_HPUS=$2
    check "$1: sum" 0 '^the sum of 1 to 3 is 6;' launch -n 4 ./sum sum.spin
    check "$1: ping-pong" 0 '^ping-pong: 8192 bytes came back$' \
        launch -n 2 ./listings pingpong-long pingpong.spin
    check "$1: accumulate" 0 '^accumulate: 256 complex' \
        launch -n 2 ./listings accumulate accumulate.spin
    check "$1: broadcast" 0 '^broadcast: 8192 bytes to 8 ranks$' \
        launch -n 8 ./listings broadcast-long broadcast.spin
    check "$1: strided" 0 '^strided: 64 blocks' launch -n 2 ./listings strided strided.spin
    check "$1: RAID" 0 '^RAID-5: 4096 bytes written, parity' \
        launch -n 3 ./listings raid raid_data.spin raid_parity.spin
    unset OPENSPIN_HPUS
}

all "2 ranks" 2 "$points" "$threads"
check "threads may outlive main" 0 '^rank 1: late$' launch -n 2 ./threads main-leaves-first
check "a thread ends its rank" 4 'rank 1 of 2 ended with status 4$' \
    launch -n 2 ./threads a-thread-exits
for ranks in 4 8; do
    all "$ranks ranks" $ranks "$(every "$points" "$some")" "$(every "$threads" "$some_threads")"
done
handlers "two workers" 2
if [ -n "${FULL:-}" ]; then handlers "whoever drives" 0; handlers "eight workers" 8; fi
OPENSPIN_HPUS=some check "a number of workers that is none" 1 \
    "OPENSPIN_HPUS: 'some' is not a number of threads from 0 to 32" timeout $patience ./sum sum.spin
# At a loopback address of this test's own.
export OPENSPIN_TRANSPORT=udp OPENSPIN_INTERFACE=127.202.$(($$ / 256 % 256)).$(($$ % 256))
all "UDP, 2 ranks" 2 "$(every "$points" "$some release-in-a-loop handle-is-equal all-memory")" \
    "$(every "$threads" "$some_threads")"
for ranks in 4 8; do
    [ -n "${FULL:-}" ] && all "UDP, $ranks ranks" $ranks "$points" "$threads"
done
handlers "UDP, two workers" 2
unset OPENSPIN_TRANSPORT OPENSPIN_INTERFACE

# --- mixed traffic, and ranks that are killed and begin anew; more of both in scripts/soak
compile tests/programs/soak.c soak
"$OPENSPIN" cc "$SOURCE/tests/handlers/soak_handlers.c" -o soak.spin
check "mixed traffic: every byte checked" 0 '[1-9][0-9]* bytes checked, 0 undeliverable' \
    env OPENSPIN_HPUS=2 timeout -k 5 $patience "$OPENSPIN" launch -n 3 ./soak 1 1 soak.spin
if [ -z "$flags" ]; then
    check "ranks that are killed: all else goes on" 0 '^2 of 2 as they should be$' timeout \
        -k 5 $patience python3 "$SOURCE/tests/cli/kill_ranks.py" "$OPENSPIN" ./soak soak.spin 2
fi
finish
