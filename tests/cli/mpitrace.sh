# openspin goal trace: schedules of MPI programs, with the messages that these programs send.
. "$SOURCE/tests/lib/tap.sh"
if [ ! -e "$BUILD/src/mpi/libopenspin-goal.so" ] || ! command -v mpicc >/dev/null ||
    ! command -v mpirun >/dev/null; then
    skip "MPI programs" "Open MPI is not there (libopenmpi-dev, openmpi-bin)"
    finish
    exit
fi
if [ -n "$SANITIZED" ]; then
    skip "MPI programs" "the tracer is never sanitized, and mpirun takes its time"
    finish
    exit
fi
export OMPI_MCA_mpi_yield_when_idle=1
unset OPENSPIN_JOB PMIX_NAMESPACE PMIX_RANK
mpicc -O1 -Wall -Wextra "$SOURCE/tests/programs/mpi_patterns.c" -o patterns &&
    pass "patterns compile" || fail "patterns compile"
trace() { timeout -k 5 $patience "$OPENSPIN" goal trace "$@"; }

# what was traced runs in every model, and all that is sent is received
replays() { # FILE MESSAGES BYTES
    for model in loggops "card --matching host" "card --matching handlers"; do
        out=$("$OPENSPIN" goal run "$1" --model $model --json 2>&1)
        python3 -c '
import json, sys
r = json.loads(sys.argv[1])
got = [r["messages"], r["bytes"], r["unreceived"]]
sys.exit(got != [int(sys.argv[2]), int(sys.argv[3]), 0] and f"{got}")' "$out" "$2" \
            "$3" >replay.txt 2>&1 &&
            pass "$1, $model: $2 messages of $3 bytes" ||
            fail "$1, $model: $2 messages of $3 bytes" "$(cat replay.txt)" "$out"
    done
}

check "a ring" 0 '^ring.goal: 4 ranks, 40 messages of 40000 bytes in all' \
    trace -n 4 -o ring.goal ./patterns ring
replays ring.goal 40 40000
check "a halo, persistent requests too, as binary" \
    0 '^halo.bin: 3 ranks, 60 messages of 983040 bytes' trace -n 3 -o halo.bin ./patterns halo
replays halo.bin 60 983040
# Computation is measured; with a factor of 0 there is none.
check "collectives" 0 ' 0 ns of computation$' trace -n 3 -o a.goal --scale 0 ./patterns collectives
# On 3 ranks: barrier 6x1 B, bcast 2x400, allreduce 4x4 and 12x53334 (a ring), reduce 2x4, gather
# 4+4, gatherv 80+120, scatter 800+400 (root to 1 with nobody below: 400 each), scatterv 80+120,
# allgather 6x4, allgatherv 2x(40+80+120), alltoall 6x400, reduce_scatter_block 6x400, scan 3x4;
# halves: bcast 400, allreduce 2x4.
replays a.goal $((6 + 2 + 4 + 12 + 2 + 2 + 2 + 2 + 2 + 6 + 6 + 6 + 6 + 3 + 1 + 2)) \
    $((6 + 800 + 16 + 12 * 53334 + 8 + 8 + 200 + 800 + 200 + 24 + 480 + 2400 + 2400 + 12 + 400 + 8))
check "receives from anybody" 0 '3 ranks, 12 messages of 9012 bytes' \
    trace -n 3 -o wild.goal ./patterns wildcards
replays wild.goal 12 9012
check "name who came" 0 'wildcard +0$' "$OPENSPIN" goal info wild.goal
check "or stay so" 0 '3 ranks, 12 messages of 9012 bytes' \
    trace -n 3 --wildcards -o wild2.goal ./patterns wildcards
check "with their tag" 0 'wildcard +4$' "$OPENSPIN" goal info wild2.goal

# --- what goes wrong, in one line of ours; an old schedule stays
cp ring.goal kept.goal
one_line() { # NAME PATTERN WORDS...
    run trace -o kept.goal "${@:3}"
    [ "$status" != 0 ] && [ "$(grep -c '^openspin goal trace:' <<<"$err")" = 1 ] &&
        grep -qE "$2" <<<"$err" && cmp -s ring.goal kept.goal &&
        pass "$1" || fail "$1" "$status" "$err"
}
one_line "a program that aborts" 'mpirun ended with status 3; no schedule' ./patterns abandons
one_line "one-sided communication" \
    'no schedule: the program uses one-sided communication \(MPI_Win_create\)' ./patterns one_sided
one_line "a program without MPI" 'true: no schedule came: it must be a C or C\+\+ program' true
one_line "a clock that is none" "unknown clock 'sun'; there are cpu and wall" \
    --clock sun ./patterns ring
one_line "a format that is none" "format: 'song' is not known" -f song ./patterns ring
one_line "a factor that is none" 'scale x is not a factor' --scale x ./patterns ring
traced() { # VARIABLE=VALUE: without `goal trace`
    run timeout -k 5 $patience env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
        OPENSPIN_GOAL=own.goal "$1" \
        mpirun -n 2 --oversubscribe env LD_PRELOAD="$BUILD/src/mpi/libopenspin-goal.so" ./patterns \
            ring
}
for wrong in CLOCK=sun SHORTEST=10us; do
    traced OPENSPIN_GOAL_$wrong
    grep -q "no schedule: OPENSPIN_GOAL_$wrong is n" <<<"$err" && [ ! -e own.goal ] &&
        pass "OPENSPIN_GOAL_$wrong" || fail "OPENSPIN_GOAL_$wrong" "$status" "$err"
done
traced OPENSPIN_GOAL_CLOCK=
[ "$status" = 0 ] && [ -s own.goal ] && pass "an empty variable is as if it were not set" ||
    fail "an empty variable is as if it were not set" "$status" "$err"
one_line "no program" 'which program\?'
refuse "no such program in PATH" 1 'nothing: cannot run it: there is no such program in PATH$' \
    "$OPENSPIN" goal trace nothing
refuse "no such program" 1 './nothing: cannot run it: No such file or directory$' \
    trace -o kept.goal ./nothing
refuse "a folder is no program" 1 '/: cannot run it: it is no regular file$' trace -o kept.goal /
left=$(ls | grep -c part)
[ "$left" = 0 ] && pass "nothing half-written" || fail "nothing half-written" "$(ls)"
finish
