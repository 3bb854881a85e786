# What a handler sees through the HPU driver is the same on a rig, on the PsPIN card and in a world.
. "$SOURCE/tests/lib/tap.sh"
"$OPENSPIN" cc "$SOURCE/tests/handlers/port_handlers.c" -o port.spin &&
    pass "the handlers compile" || fail "the handlers compile"
cc -shared -fPIC -I"$SOURCE/include" "$SOURCE/tests/programs/faulty.c" -o faulty.so

on_rig() {
    "$OPENSPIN" exec port.spin --entry "$1" --packet-size 64 --host-size 64 --state-size 64 "${@:2}"
}
on_card() {
    "$OPENSPIN" card run -H port.spin --ph "$1" -T gen:packets=1,size=64 \
        --host-size 64 --scratchpad-size 64 --state-size 64 "${@:2}"
}
in_world() { "$OPENSPIN" sim run -q -n 2 faulty.so "$1" 1 port.spin; }
# The lines that a handler printed, or how it ended, without who and when.
seen() {
    "$@" 2>&1 |
        sed -nE 's/^\[[0-9]+,[0-9]+\] //p; s/.*(SEGV at pc|command refused|DMA outside)/\1/p'
}

expected='nothing yet: 0
handles 1 2 3
waits 1 1 1, test 1
counter 0 0
swaps 1 0
adds 0 to 10 from 7
still handle 4
heap 16, aligned 0, ALLOCATE reads 1, the rest 1 0
task: 1 1 64 1
handler of 1 bytes: 1'
for where in on_rig on_card in_world; do
    [ "$(seen $where results_payload_handler)" = "$expected" ] && pass "results $where" ||
        fail "results $where" \
            "$(diff <(seen $where results_payload_handler) <(printf '%s\n' "$expected"))"
done
for jit in off force; do
    [ "$(seen on_rig results_payload_handler --jit=$jit)" = "$expected" ] &&
        pass "results with --jit=$jit" || fail "results with --jit=$jit"
done

for mistake in $(sed -nE 's/^MISTAKE\(([a-z_]+),.*/\1/p' \
    "$SOURCE/tests/handlers/port_handlers.c"); do
    rig=$(seen on_rig ${mistake}_payload_handler) card=$(seen on_card ${mistake}_payload_handler)
    world=$(seen in_world ${mistake}_payload_handler)
    [ -n "$rig" ] && [ "$rig" = "$card" ] && [ "$rig" = "$world" ] && pass "$mistake: $rig" ||
        fail "$mistake" "rig:   $rig" "card:  $card" "world: $world"
done
finish
