# What programs written for Portals rely on, one line each: a program of tests/programs
# in a world, one point a run.
. "$SOURCE/tests/lib/tap.sh"
compile() {
    cc -g -shared -fPIC -Wall -Wextra -I"$SOURCE/include" "$SOURCE/tests/programs/$1.c" -o "$1.so" \
        && pass "$1 compiles" || fail "$1 compiles"
}
# point NAME PROGRAM POINT [OPTION...]: all ranks return 0
point() {
    local name=$1 program=$2 which=$3
    shift 3
    run timeout $patience "$OPENSPIN" sim run -q -n 2 "$@" "./$program.so" "$which"
    if [ "$status" = 0 ]; then
        pass "$name"
    else
        fail "$name" "exit status $status" "$out" "$err"
    fi
}

compile conformance
point "PtlHandleIsEqual is a truth value, before PtlInit and after PtlFini too" \
    conformance handle-is-equal

# --- no loop over calls hangs a world
for how in ct-get eq-get poll-nothing ni-status get-id handles bad-handle init compute \
    compute-nothing work work-nothing now nothing-to-copy yield usleep \
    usleep-nothing nanosleep-nothing clock time; do
    point "a loop ends that waits by $how" conformance "loop-$how"
done
point "a loop ends that waits by calls that all cost nothing" \
    conformance loop-ct-get --set poll=0 --set o=0
point "a loop ends that waits by barriers" conformance loop-barrier
point "memory after spin_compute is that of its end" conformance memory-after-compute
point "memory after spin_work is that of its end" conformance memory-after-work
point "PtlCTWait returns the value that ended it" conformance wait-is-exact -n 6

# --- descriptors, arguments, limits
point "a descriptor can be released after SEND where no acknowledgement will be seen" \
    conformance release-after-send
point "a descriptor can be released in a loop until its acknowledgement has come" \
    conformance release-in-a-loop
point "PTL_ARG_INVALID for increments of both kinds and acknowledgements that nobody could see" \
    conformance arguments-invalid
point "limits that are left 0 get the default: fetch, swap, triggered operations, volatile puts" \
    conformance limits-left-zero
point "PTL_NO_SPACE and PTL_LIST_TOO_LONG beyond the limits" conformance limits-are-kept
point "entries and descriptors over all memory" conformance all-memory
for network in loss=0 loss=0.1 reordering=0.5 duplication=0.3; do
    point "max_waw_ordered_size is kept with $network" conformance order-is-kept --set "$network" \
        --set seed=5 --set retry_timeout=20us --set retries=30
done

# --- what follows the program is the program's
run "$OPENSPIN" sim run -q -n 2 ./conformance.so arguments -n 7 --json --help -- --until=1ns -
[ "$status" = 0 ] && pass "arguments that look like ours are the program's" ||
    fail "arguments that look like ours are the program's" "$status" "$out" "$err"

# --- who waits for what will not come is named with the line of its call
compile exchange
check "a deadlock names the line of the call" \
    1 'rank 2 in PtlCTWait \(counter 0 of 1\), called by main \(exchange.c:[0-9]+\), since' \
    "$OPENSPIN" sim run -q -n 3 ./exchange.so wait

# --- a program without calls cannot get on in virtual time: it is named, and everything stops it
compile watch
stops() { # NAME STATUS PATTERN COMMAND...
    local name=$1 want=$2 pattern=$3
    shift 3
    check "$name" "$want" "$pattern" timeout --preserve-status -k 60 "$@"
}
sim="$OPENSPIN sim run -q -n 3"
stops "a rank that watches memory is named, with function and line" \
    1 'watch.so: rank 1 watches memory in watch_flag \(watch.c:1[0-9]\) for 1 s without a call; '\
'.* spin_work, sched_yield or PtlCTGet' $patience $sim --set patience=1 ./watch.so flag
stops "and one that only computes, after its time" \
    1 'rank 1 computes in compute \(watch.c:[0-9]+\) for 1 s .*patience=SECONDS' \
    $patience $sim --set patience=1 ./watch.so compute
stops "--until stops a loop of calls" 1 'stopped at 100000 ns with 3 of 3 ranks not done' \
    $patience $sim --until 100us ./watch.so yield
stops "--until does not keep a program without calls" \
    1 'rank 1 (watches memory|computes) in watch_flags \(watch.c:[0-9]+\)' \
    $patience $sim --until 1us --set patience=1 ./watch.so flags
# ^C once rank 1 is where it stays. Not by the shell: what it starts in the
# background ignores the signal.
cat >interrupt.py <<'P'
import os, signal, subprocess, sys, time
signal.signal(signal.SIGINT, signal.SIG_DFL) # a test in the background was given to ignore it
child = subprocess.Popen(sys.argv[1:])
def used(): # state and ticks of processor time
    fields = open(f"/proc/{child.pid}/stat").read().rsplit(")", 1)[1].split()
    return fields[0], int(fields[11]) + int(fields[12])
while not os.path.exists("begun") and child.poll() is None:
    time.sleep(0.02)
begun, still = used()[1], 0
while used()[1] < begun + 20 and still < 10: # it computes, or it sleeps
    before = used()
    time.sleep(0.03)
    still = still + 1 if used() == before and before[0] == "S" else 0
child.send_signal(signal.SIGINT)
status = child.wait(300)
sys.exit(128 - status if status < 0 else status)
P
interrupt() { # NAME PATTERN HOW
    rm -f begun
    check "$1" 130 "$2" python3 interrupt.py $sim ./watch.so "$3"
}
interrupt "^C stops a program without calls and says where all are" \
    '^  rank 1 in watch_flag \(watch.c:1[0-9]\) since 1000.000 ns$' flag
interrupt "^C stops a loop of calls" 'interrupted at [0-9]+ ns with 3 of 3 ranks not done' yield
interrupt "^C stops a program in a call of the system" \
    'openspin: interrupted; a rank does not come back' read
[ "$(tail -n 1 <<<"$err")" = "openspin sim run: interrupted, there are no results" ] &&
    pass "and says what is left of it" || fail "and says what is left of it" "$err"
# --- a rank is a process: variables, what the C library remembers, time, its end
cc -g -shared -fPIC -Wall -Wextra $flags -I"$SOURCE/include" "$SOURCE/tests/programs/support.c" \
    -o libsupport.so
cc -g -shared -fPIC -Wall -Wextra $flags -I"$SOURCE/include" \
    "$SOURCE/tests/programs/rank_process.c" -L. -lsupport -Wl,-rpath,'$ORIGIN' -o process.so &&
    pass "a program with a library compiles" || fail "a program with a library compiles"
for which in variables library getopt rand strtok gmtime errno getpid sleep clocks \
    watching-a-clock sched-yield; do
    point "a rank has its own $which" process $which
done
sim="$OPENSPIN sim run -q -n 2"
run $sim ./process.so exit
[ "$status" = 0 ] && [ "$(printf '%s\n' "$out" | grep '^rank 1' | tr '\n' ' ')" \
    = "rank 1: first rank 1: second rank 1: third rank 1: destroyed " ] &&
    pass "exit(0) is a normal end, with all that was asked for" ||
    fail "exit(0) is a normal end, with all that was asked for" "$status" "$out" "$err"
run $sim ./process.so _exit
[ "$status" = 0 ] && [ -z "$out$err" ] && pass "_exit does nothing more" ||
    fail "_exit does nothing more" "$status" "$out" "$err"
refuse "exit(7) is a status" \
    1 'process.so: 1 of 2 ranks failed, the first is rank 1: it called exit with 7$' \
    $sim ./process.so exit7
compile rank_options
point "getopt answers as the system's" rank_options all
cp libsupport.so kept.so
mkdir elsewhere && mv libsupport.so elsewhere
refuse "a library that is not there" \
    1 'process.so: cannot load: libsupport.so: cannot open shared object file' \
    $sim ./process.so library
LD_LIBRARY_PATH=elsewhere point "a library by LD_LIBRARY_PATH" process library
mv kept.so libsupport.so

# --- threads in a rank
compile threads
for which in two-waits freed finalised put mutexes conditions timed tried all-else keys cancelling \
    many in-order loops c11 main-returns; do
    point "threads: $which" threads $which
done
check "threads may outlive main" 0 '^rank 1: late$' $sim ./threads.so main-leaves-first
refuse "a thread ends its rank" 1 'the first is rank 1: it called exit with 4$' \
    $sim ./threads.so a-thread-exits
check "a deadlock names threads" 1 'rank 0 in pthread_mutex_lock since 10000.000 ns, rank 0 '\
'thread 1 in pthread_mutex_lock since ' $sim ./threads.so deadlock
run $sim --json ./threads.so conditions
first=$out
run $sim --json ./threads.so conditions
[ -n "$out" ] && [ "$out" = "$first" ] && pass "threads: the same run twice" ||
    fail "threads: the same run twice"

run $sim --picture threads.svg --trace threads.json ./threads.so put
grep -q 'rank 1 CPU 2' threads.svg &&
    ! grep -q 'CPU 3' threads.json && pass "threads: a row in pictures for each core" ||
    fail "threads: a row in pictures for each core" "$out" "$err"

# --- a debugger
if command -v gdb >/dev/null && ! grep -q __asan_init "$OPENSPIN" &&
    [ -z "${MESON_EXE_WRAPPER:-}" ]; then
    check "gdb stops in a rank, with source and variables" \
        0 'Breakpoint 1.2, support_count .* at .*support.c:1[0-9]' \
        gdb -nx -q -batch -x "$SOURCE/src/sim/sim-gdb.py" -ex 'break support_count' -ex run \
        -ex 'continue' --args "$OPENSPIN" sim run -n 2 ./process.so library
else
    skip "gdb stops in a rank" "no gdb, a sanitizer, or another machine"
fi

# --- C++
if command -v g++ >/dev/null && ! grep -q __asan_init "$OPENSPIN" && g++ -g -shared -fPIC -Wall \
    -Wextra -I"$SOURCE/include" "$SOURCE/tests/programs/plus.cpp" -o plus.so; then
    check "C++: objects and exceptions" 0 '^rank 1: destroyed$' $sim ./plus.so
    check "C++: threads" 0 '^rank 1: destroyed$' $sim ./plus.so threads
else
    skip "C++" "no compiler for it, or a sanitizer"
fi
finish
