# sim run with executables: a process per rank, whose Portals calls reach the
# world through shared memory.
. "$SOURCE/tests/lib/tap.sh"
library=$BUILD/src/portals
flags=
# A sanitized library needs a sanitized program.
nm -D "$library/libportals.so" | grep -q __asan_init && flags=-fsanitize=address,undefined
[ -n "$(nm -D "$library/libportals.so" | grep __tsan_init)" ] && flags=-fsanitize=thread
export LD_LIBRARY_PATH=$library ASAN_OPTIONS=detect_leaks=0:handle_segv=0
sim() { timeout -k 5 $patience "$OPENSPIN" sim run "$@"; }
compile() { # SOURCE NAME: both ways
    cc -g -shared -fPIC -Wall -Wextra -I"$SOURCE/include" "$SOURCE/$1" -o "$2.so" &&
        clang $flags -g -Wall -Wextra -I"$SOURCE/include" "$SOURCE/$1" "-L$library" \
            -lportals -lpthread -o "$2" &&
        pass "$2 compiles" || fail "$2 compiles"
}
compile tests/programs/exchange.c ring
compile tests/programs/conformance.c conformance
compile tests/programs/threads.c threads
compile tests/programs/outside.c outside
compile tests/programs/faulty.c faulty
compile examples/sum_program.c sum
compile examples/sc17/listings.c listings
compile tests/programs/pspin_client.c pspin
compile tests/programs/chain.c chain
"$OPENSPIN" cc "$SOURCE/examples/sum_handler.c" -o sum.spin
"$OPENSPIN" cc "$SOURCE/tests/handlers/world_faults.c" -o faults.spin
"$OPENSPIN" cc --pspin "$SOURCE/tests/handlers/pspin_world.c" -o pspin.spin
"$OPENSPIN" cc "$SOURCE/tests/handlers/chain_handlers.c" -o chain.spin
for f in pingpong accumulate broadcast strided raid_data raid_parity; do
    "$OPENSPIN" cc "$SOURCE/examples/sc17/$f.c" -o $f.spin
done

# --- a shared object on fibres and an executable give the same bytes, times, counts and status
both() { # RANKS PROGRAM [OPTION... --] ARGUMENT...
    local n=$1 program=$2 options=()
    shift 2
    if [[ " $* " = *" -- "* ]]; then
        while [ "$1" != -- ]; do options+=("$1") && shift; done
        shift
    fi
    run sim -n "$n" "${options[@]}" "./$program.so" "$@"
    local s=$status o e
    o=$(printf '%s\n' "$out" | sort) e=${err//.so:/:}
    run sim -n "$n" "${options[@]}" "./$program" "$@"
    if [ "$s" = "$status" ] && [ "$o" = "$(printf '%s\n' "$out" | sort)" ] &&
        [ "$e" = "$err" ]; then
        pass "both ways: $program $* ${options[*]}"
    else
        fail "both ways: $program $* ${options[*]}" "$s" "$o" "$e" "$status" "$out" "$err"
    fi
}
both 5 ring ring "a word"
both 16 sum sum.spin
both 16 sum --card pspin -- sum.spin
both 8 sum --set loss=0.1 --set retry_timeout=20us -- sum.spin
both 2 listings pingpong-long pingpong.spin
both 2 listings accumulate accumulate.spin
both 8 listings broadcast-long broadcast.spin
both 2 listings strided strided.spin
both 3 listings raid raid_data.spin raid_parity.spin
both 3 listings --card pspin -- raid raid_data.spin raid_parity.spin
both 2 pspin pspin.spin
both 2 pspin --card pspin -- pspin.spin
if [ -z "$SANITIZED" ]; then # whose allocator looks at the clock, which takes time
    both 4 chain chain.spin 100000
    both 4 chain --card pspin -- chain.spin 100000
    both 4 chain --set loss=0.05 --set retry_timeout=20us -- chain.spin 100000
    both 4 chain chain.spin 100000 5
    both 4 chain --card pspin -- chain.spin 100000 5
fi
check "a message that is passed on is one message" 0 '^rank 3: 100000 bytes from rank 2, 0 wrong' \
    sim -q -n 4 ./chain chain.spin 100000
check "what is not passed on is cleaned up" \
    0 '^rank 2: cleaned up 1, more than nothing is missing 1 1, failed 1' \
    sim -q -n 4 ./chain chain.spin 100000 5
both 2 faulty wild_payload_handler 3 faults.spin
for which in handle-is-equal memory-after-compute memory-after-work release-after-send \
    arguments-invalid limits-left-zero limits-are-kept \
    all-memory loop-ct-get loop-eq-get loop-yield loop-usleep loop-clock loop-barrier; do
    both 2 conformance "$which"
done
both 4 conformance wait-is-exact
both 4 conformance looks
both 4 conformance --set poll=5003ps -- looks
both 3 conformance --card pspin -- looks
both 2 conformance --set reordering=0.5 --set seed=5 -- order-is-kept
both 2 conformance arguments -n 7 --json --help -- --until=1ns -
# A sanitizer has threads of a program do more.
[ -n "$SANITIZED" ] || for which in two-waits freed finalised in-order keys c11 main-returns \
    a-thread-exits slept timed; do
    both 2 threads "$which"
done
[ -n "$SANITIZED" ] || check "locks with a time limit" 0 '' sim -q -n 2 ./threads tried

# --- what only a process has
for which in pmi bad-memory child hour lock; do
    check "a process: $which" 0 '' sim -q -n 3 ./outside "$which"
done
left=$(for i in 1 2 3 4 5 6 7 8; do sim -q -n 2 ./outside leaves 2>&1 || echo "status $?"; done)
[ -z "$left" ] && pass "a rank that has left is in no barrier" ||
    fail "a rank that has left is in no barrier" "$left"
times=$(for i in 1 2 3 4 5 6; do sim -n 3 ./outside pmi-often; done | grep 'last rank')
[ "$(wc -l <<<"$times")" = 6 ] && [ "$(uniq <<<"$times" | wc -l)" = 1 ] &&
    pass "the same times with barriers of PMI" ||
    fail "the same times with barriers of PMI" "$times"
check "a process: watch" \
    0 'openspin: rank 2 waits for memory to change without a call: virtual time goes on' \
    sim -q -n 3 ./outside watch
[ -n "$SANITIZED" ] || for which in watch-beside compute-beside; do
    check "a process: $which" 0 'waits for memory' sim -q -n 2 ./outside $which
done
check "a program started alone is a job of one" 0 '' timeout $patience ./outside lone
for transport in shm udp fabric auto; do
    check "and after exec it has its pid again, $transport" 0 '' \
        env OPENSPIN_TRANSPORT=$transport timeout $patience ./outside exec
done
check "also where it gets no card" 10 'no live card' \
    env OPENSPIN_TRANSPORT=none timeout $patience ./ring
check "and so is one rank of a world" 0 '' sim -q -n 1 ./outside lone
check "a script that starts it" 0 '^rank 2 of 3: 101 from the left, x y$' sim \
    -q -n 3 "$(printf '#!/bin/sh\n./ring ring "x y"\n' >script && chmod +x script && echo ./script)"
# Other shells ask for the time, which makes them ranks themselves.
cat >asks.c <<'END'
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
int main(int argc, char **argv) {
    return time(NULL) == 1 ? 1 : argc > 1 ? execl("./ring", "ring", "ring", argv[1], (char *)0)
                                          : system("./ring ring \"x y\"") != 0;
}
END
cc asks.c -o asks
check "a program that asks for the time, and starts it" 0 \
    '^rank 2 of 3: 101 from the left, x y$' sim -q -n 3 ./asks
check "or becomes it" 0 '^rank 2 of 3: 101 from the left, x y$' sim -q -n 3 ./asks 'x y'
check "a script of bash" 0 '^rank 2 of 3: 101 from the left, x y$' sim -q -n 3 "$(printf \
    '#!/bin/bash\nexec ./ring ring "x y"\n' >wraps && chmod +x wraps && echo ./wraps)"
check "a hundred processes" 0 '^the sum of 1 to 99 is 4950;' sim -q -n 100 ./sum sum.spin

# --- how it ends
check "the status of a rank" \
    1 'ring: 1 of 3 ranks failed, the first is rank 1: it called exit with 3$' \
    sim -q -n 3 ./ring exit3
refuse "a crash names rank and signal" \
    1 'rank 1 at [0-9.]+ ns: crashed: Segmentation fault \(signal 11\)$' sim -q -n 3 ./ring crash
refuse "abort" 1 'rank 1 at [0-9.]+ ns: crashed: Aborted \(signal 6\)$' sim -q -n 3 ./ring abort
refuse "a pointer to nowhere, in a call" 1 'rank 1 at [0-9.]+ ns: crashed: Segmentation fault' \
    sim -q -n 3 ./outside bad-pointer
refuse "kill -9" 1 'rank 1 at [0-9.]+ ns: crashed: Killed \(signal 9\)$' \
    sim -q -n 3 ./outside killed
printf '#!/bin/bash\n[ "$PMI_RANK" = 1 ] && echo "cmd=abort exitcode=$1" >&"$PMI_FD"\n'\
'read -r -u "$PMI_FD"\n' >ends && chmod +x ends
check "a rank ends the job, in success" 0 '^last rank returns at' sim -n 2 ./ends 0
refuse "or not" 1 "rank 1 ended the job by PMI's abort, with status 7$" sim -q -n 2 ./ends 7
# What a rank has started is no child of ours: it ends, too.
mkfifo never
cat >tool <<'T'
#!/bin/bash
if [ "$PMI_RANK" = 1 ]; then
    until [ -s inner ]; do read -r -t 0.05 <>never; done
    echo "cmd=abort exitcode=7" >&"$PMI_FD"
fi
bash -c 'echo $$ >part.$PMI_RANK; mv part.$PMI_RANK inner; exec cat never'
exit 3
T
chmod +x tool
refuse "a script whose program goes on" 1 "rank 1 ended the job by PMI's abort, with status 7$" \
    sim -q -n 2 ./tool
soon ended "$(cat inner)" && pass "has an end" || fail "has an end" "$(cat inner)"
check "a deadlock" 1 'ring: deadlock: 3 of 3 ranks wait .*rank 2 in PtlCTWait \(counter 0 of 1\)' \
    sim -q -n 3 ./ring wait
check "a deadlock that a rank has left" \
    1 'wait for what will not come, after rank 1 ended with status 7: rank 0 in ' \
    sim -q -n 3 ./ring leave
check "--until" 1 'stopped at 2000 ns with 2 of 2 ranks not done' \
    sim -q -n 2 --until 2us ./outside sleeps
refuse "a program without Portals" \
    1 'rank 0 ended without a call of Portals: is the program linked with libportals.so' \
    sim -q -n 2 /bin/true
printf 'not a program\n' >text && chmod +x text
refuse "no program" 1 'text: cannot load: not an ELF file' sim -q ./text
# SIGINT ends all. Not by the shell: what it starts in the background ignores the signal.
cat >interrupt.py <<'P'
import signal, subprocess, sys, time
signal.signal(signal.SIGINT, signal.SIG_DFL) # a test in the background was given to ignore it
child = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE)
child.stdout.readline()
child.send_signal(signal.SIGINT)
sys.exit(child.wait(300))
P
check "SIGINT ends the run and tells where the ranks are" \
    130 'interrupted at [0-9]+ ns with 2 of 2 ranks not done' python3 interrupt.py \
    "$OPENSPIN" sim run -q -n 2 ./outside sleeps
# Of this test: others have programs of that name too.
own() {
    for process in $(pgrep -f '^\./(ring|outside) '); do
        [ "$(readlink "/proc/$process/cwd")" != "$PWD" ] || echo "$process"
    done
}
none_left() { [ -z "$(own)" ]; }
soon none_left && pass "no process is left" || fail "no process is left" "$(own)"

finish
