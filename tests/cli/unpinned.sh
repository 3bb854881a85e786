# Windows over memory that is not pinned, as a user's programs have them: untouched memory, files,
# memory that goes while messages come ($CHANGES seeds), and more of it than a limit lets be there
# at a time ($LIMITED_MS of traffic); `make soak` has more of both.
. "$SOURCE/tests/lib/tap.sh"
. "$BUILD/env"
library=$BUILD/src/portals
flags=
nm -D "$library/libportals.so" | grep -q __asan_init && flags=-fsanitize=address,undefined
export LD_LIBRARY_PATH=$library ASAN_OPTIONS=detect_leaks=0:handle_segv=0:handle_sigbus=0
for program in unpinned outsized; do
    clang $flags -O1 -g -Wall -Wextra -I"$SOURCE/include" "$SOURCE/tests/programs/$program.c" \
        "-L$library" -lportals -lpthread -o $program && pass "$program compiles" ||
        fail "$program compiles"
done
launch() { timeout -k 5 $patience "$OPENSPIN" launch "$@"; }
transport() { # shm, or udp at a loopback address of this test's own
    export OPENSPIN_TRANSPORT=$1 OPENSPIN_INTERFACE=
    [ "$1" = shm ] || OPENSPIN_INTERFACE=127.202.$(($$ / 256 % 256)).$(($$ % 256))
}
for paging in off on; do
    for transport in shm udp; do
        [ $paging$transport = offudp ] && continue
        export OPENSPIN_PAGING=$paging
        transport $transport
        check "$transport, paging $paging: untouched memory" \
            0 '^3323026 bytes written and read, none wrong$' launch -n 2 ./unpinned untouched
        check "$transport, paging $paging: a mapped file" 0 '^and so has the file$' \
            launch -n 2 ./unpinned file file
        check "$transport, paging $paging: from a read-only mapping" \
            0 '^3000017 bytes put and got, none wrong$' launch -n 2 ./unpinned source file
    done
done
check "udp, as its interface has it: untouched memory" \
    0 '^3323026 bytes written and read, none wrong$' \
    env -u OPENSPIN_INTERFACE timeout -k 5 $patience "$OPENSPIN" launch -n 2 ./unpinned untouched

# --- memory that is not there: errors at both sides, and both live
for transport in shm udp; do
    transport $transport
    for paging in off on; do
        check "$transport, paging $paging: memory that is unmapped" \
            0 '^unmapped: errors while it is gone, data before and after$' \
            env OPENSPIN_PAGING=$paging timeout -k 5 $patience "$OPENSPIN" launch -n 2 \
            ./unpinned freed
        # docs/live.md
        check "$transport, paging $paging: by a program with a handler of faults" \
            0 '^unmapped: errors while it is gone, data before and after$' \
            env OPENSPIN_PAGING=$paging timeout -k 5 $patience "$OPENSPIN" launch -n 2 \
            ./unpinned caught
    done
    check "$transport: memory that is read-only" \
        0 '^read-only: errors while it is gone, data before and after$' \
        launch -n 2 ./unpinned protected
    check "$transport: a file that is cut off" \
        0 '^file cut off: errors while it is gone, data before and after$' \
        launch -n 2 ./unpinned shortened file
    check "$transport: a source that is unmapped" 0 \
        '^source unmapped: errors while it is gone, data after$' launch -n 2 ./unpinned source-freed
    for seed in $(seq "${CHANGES:-1}"); do
        check "$transport: memory that comes and goes, seed $seed" \
            0 '^[1-9][0-9]* messages, [0-9]+ errors, all ended$' \
            launch -n 2 ./unpinned changing "$((${CHANGES:+700} + 300))" "$seed"
    done
done
unset OPENSPIN_PAGING OPENSPIN_TRANSPORT OPENSPIN_INTERFACE

# --- less memory than there is data
own=$(sed -n 's/^[0-9]*:memory://p' /proc/self/cgroup) limit=memory.limit_in_bytes
if [ -n "$own" ]; then
    group=/sys/fs/cgroup/memory${own%/}
else
    group=/sys/fs/cgroup$(sed -n 's/^0:://p' /proc/self/cgroup) limit=memory.max
fi
group=${group%/}/openspin-test-$$
trap '[ ! -d "$group" ] || rmdir "$group"; rm -rf "$scratch"' EXIT
limited() { # WHAT FILE|- MIB LIMIT_MIB
    for paging in off on; do
        if [ -n "$SANITIZED" ]; then
            skip "$1, paging $paging" "a sanitizer has memory of its own"
            continue
        elif [ ! -d "$group" ] && ! mkdir "$group" 2>/dev/null ||
            ! echo $(($4 << 20)) 2>/dev/null >"$group/$limit"; then
            skip "$1, paging $paging" \
                "no control group with a limit of memory can be made in $(dirname "$group")"
            continue
        fi
        check "$1, paging $paging" 0 '^rank 2: [1-9][0-9]* MiB written and read, none wrong$' \
            env OPENSPIN_PAGING=$paging timeout -k 5 $patience \
            "$OPENSPIN" launch -n 3 ./outsized "$2" "$3" "${LIMITED_MS:-100}" 1 "$group"
        [ "$2$paging$swap" = fileoff0 ] && continue # what peers bring in of a file counts for them
        there=$(sed -n 's/^\([0-9]*\) of .* MiB are in memory$/\1/p' <<<"$out")
        [ -n "$there" ] &&
            [ "$there" -lt "$3" ] && pass "$1, paging $paging: not all of it is there" ||
            fail "$1, paging $paging: not all of it is there" "$out"
    done
}
room=16
swap=$(($(wc -l </proc/swaps) - 1))
limited "a file larger than the memory limit" file $((2 * room)) $room
if [ $swap -gt 0 ]; then
    limited "anonymous memory larger than the memory limit" - $((2 * room)) $room
else
    skip "anonymous memory larger than the memory limit" "this machine has no swap"
fi

mkdir media
unset MALLOC_PERTURB_ # it makes memory of what is only reserved
for paging in off on; do
    what="a store larger than its memory, paging $paging"
    if [ -n "$SANITIZED" ]; then
        skip "$what" "a sanitizer has memory of its own"
        continue
    fi
    run env OPENSPIN_PAGING=$paging timeout -k 5 $patience "$OPENSPIN" store large \
        --bytes $((2 * room + 16))MiB --memory $((room + 24))MiB --files media
    if grep -q 'no control group with a limit of memory can be made' <<<"$err"; then
        skip "$what" "$err"
    elif [ "$status" = 0 ] && grep -q 'every byte is right$' <<<"$out" &&
        grep -qE '^the nodes had at most [0-9.]+ MiB' <<<"$out"; then
        pass "$what"
    else
        fail "$what" "$status" "$out" "$err"
    fi
    rm -f media/*
done
if [ -z "$SANITIZED" ] && [ "$status" = 0 ] && [ $swap = 0 ]; then
    check "a store with too little memory says so" \
        1 'node 1 was killed: its process alone needs more than --memory$' env MALLOC_PERTURB_=1 \
        timeout -k 5 $patience "$OPENSPIN" store large --bytes 16MiB --memory 16MiB --files media
fi
refuse "a large store in memory" 2 'where do the nodes keep their media' "$OPENSPIN" store large

check "the experiment" 0 '^ +untouched +([0-9.]+ +){6}[0-9.]+$' timeout -k 5 $patience \
    "$OPENSPIN" experiment part/unpinned --live --bytes 4096 --exchanges 10
for second in 1 2 3; do # between two jobs of it the signal has nothing to interrupt
    run timeout --preserve-status -s INT -k 30 $second "$OPENSPIN" experiment part/unpinned --live
    [ -z "$err" ] || break
done
[ "$status" = 130 ] &&
    grep -q '^openspin experiment: interrupted by signal 2 (Interrupt); it has no results$' \
        <<<"$err" && pass "an interrupted experiment says so" ||
    fail "an interrupted experiment says so" "$status" "$err"
finish
