# Memory that runs out in the command: for one allocation after the other the run ends with an error
# that says so, or does without and gives the same results.
. "$SOURCE/tests/lib/tap.sh"
unset FAIL_AT FAIL_COUNT
[ -n "$SANITIZED" ] && most=15 || most=60 # runs of one command

results() {
    printf '%s\n' "$out"
    for file in out/*; do
        [ -f "$file" ] && echo "$file" "$(cksum <"$file")"
    done
}

# every_allocation NAME PATTERN COMMAND...: which writes into out/; the error is to match
every_allocation() {
    local name=$1 says=$2 at=0 count expected wrong= failed=0
    shift 2
    set -- timeout $patience $MESON_EXE_WRAPPER "$BUILD/tests/failing_command" "$@"
    rm -rf out && mkdir out
    FAIL_COUNT=count.txt run "$@"
    [ "$status" = 0 ] || { fail "$name" "exit status $status without a failure" "$err" && return; }
    count=$(cat count.txt) expected=$(results)
    while [ $((at += 1 + count / most)) -le "$count" ]; do
        rm -rf out && mkdir out
        FAIL_AT=$at run "$@"
        if [ "$status" = 0 ]; then
            [ "$(results)" = "$expected" ] ||
                wrong+="$at of $count: other results"$'\n'
        elif [ "$status" -gt 3 ] || ! printf '%s\n' "$err" | grep -qE "$says"; then
            wrong+="$at of $count: exit status $status: $err"$'\n'
        fi
        failed=$((failed + (status > 0)))
    done
    [ -z "$wrong" ] && [ $failed -gt 3 ] && pass "$name" || fail "$name" "$failed fail" "$wrong"
}

# Without source lines: a profile does without them where there is no memory.
"$OPENSPIN" cc -g0 "$SOURCE/examples/word_sum.c" -o word_sum.spin
"$OPENSPIN" cc -g0 --pspin "$SOURCE/examples/echo.c" -o echo.spin
"$OPENSPIN" cc "$SOURCE/examples/sum_handler.c" -o sum.spin
cc -shared -fPIC -I"$SOURCE/include" "$SOURCE/examples/sum_program.c" -o sum.so
"$OPENSPIN" goal gen ring-allreduce --ranks 8 --bytes 64KiB -o ring.goal
"$OPENSPIN" goal convert ring.goal -o ring.bin

every_allocation "an image" memory image word_sum.spin
every_allocation "a handler" memory exec word_sum.spin --entry sum_payload_handler \
    --packet-size 64 --profile
"$OPENSPIN" exec word_sum.spin --entry sum_payload_handler --jit=force >/dev/null 2>&1 &&
    every_allocation "a handler that is compiled" memory exec word_sum.spin \
        --entry sum_payload_handler --packet-size 1024 --repeat 3000 --jit=force ||
    skip "a handler that is compiled" "this build compiles none"
every_allocation "a card" memory card run -H echo.spin --profile \
    -T gen:packets=5,flows=2,size=imix -o out/packets.pcapng --packets out/packets.csv \
    --trace out/trace.json
every_allocation "a schedule" memory goal run ring.goal --critical-path --trace out/trace.json \
    --picture out/ring.svg
every_allocation "a network" memory goal run --model packet -T fattree:4 --links out/links.csv \
    ring.bin
# A call of the program may be what fails; and stacks are no memory yet.
of_ranks='memory|PTL_NO_SPACE|its main returned|address space|wait for what will not come'
every_allocation "a schedule on cards" "$of_ranks" goal run --model card \
    --matching host ring.bin
every_allocation "two schedules" memory goal join ring.bin ring.goal --placement random \
    --nodes 64 -o out/both.goal
every_allocation "a program and its ranks" "$of_ranks" sim run -n 2 sum.so sum.spin
every_allocation "a program on PsPIN cards" "$of_ranks" sim run -n 2 --card pspin \
    --picture out/sum.svg --links out/links.csv sum.so sum.spin

finish
