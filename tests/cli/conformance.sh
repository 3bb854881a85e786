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
finish
