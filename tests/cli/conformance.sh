# What programs written for Portals rely on, one line each: a program of tests/programs in a world, one point a run.
. "$SOURCE/tests/lib/tap.sh"
flags=
nm "$OPENSPIN" 2>/dev/null | grep -q __asan_init && flags=-fsanitize=address
compile() { cc -g -shared -fPIC -Wall -Wextra $flags -I"$SOURCE/include" "$SOURCE/tests/programs/$1.c" -o "$1.so" && pass "$1 compiles" || fail "$1 compiles"; }
# point NAME PROGRAM POINT [OPTION...]: all ranks return 0
point() {
    local name=$1 program=$2 which=$3
    shift 3
    run timeout 60 "$OPENSPIN" sim run -q -n 2 "$@" "./$program.so" "$which"
    if [ "$status" = 0 ]; then pass "$name"; else fail "$name" "exit status $status" "$out" "$err"; fi
}

compile conformance
point "PtlHandleIsEqual is a truth value, before PtlInit and after PtlFini too" conformance handle-is-equal

# --- no loop over calls hangs a world
for how in ct-get eq-get poll-nothing ni-status get-id handles bad-handle init compute compute-nothing work work-nothing now nothing-to-copy; do
    point "a loop ends that waits by $how" conformance "loop-$how"
done
point "a loop ends that waits by calls that all cost nothing" conformance loop-ct-get --set poll=0 --set o=0
point "a loop ends that waits by barriers" conformance loop-barrier

# --- descriptors, arguments, limits
point "a descriptor can be released after SEND where no acknowledgement will be seen" conformance release-after-send
point "a descriptor can be released in a loop until its acknowledgement has come" conformance release-in-a-loop
point "PTL_ARG_INVALID for increments of both kinds and acknowledgements that nobody could see" conformance arguments-invalid
point "limits that are left 0 get the default: fetch, swap, triggered operations, volatile puts" conformance limits-left-zero
point "PTL_NO_SPACE and PTL_LIST_TOO_LONG beyond the limits" conformance limits-are-kept
for network in loss=0 loss=0.1 reordering=0.5 duplication=0.3; do
    point "max_waw_ordered_size is kept with $network" conformance order-is-kept --set "$network" --set seed=5 --set retry_timeout=20us --set retries=30
done

# --- what follows the program is the program's
run "$OPENSPIN" sim run -q -n 2 ./conformance.so arguments -n 7 --json --help -- --until=1ns -
[ "$status" = 0 ] && pass "arguments that look like ours are the program's" || fail "arguments that look like ours are the program's" "$status" "$out" "$err"
finish
