# A handler under the real gdb: breakpoints, steps, variables, watchpoints, faults, and the outcome.
. "$SOURCE/tests/lib/tap.sh"

if ! command -v gdb-multiarch >/dev/null; then
    skip "a handler under gdb" "gdb-multiarch is not installed"
    finish
    exit
fi
source_file=$SOURCE/tests/handlers/debug.c
serve=(${MESON_EXE_WRAPPER:-} "$BUILD/tests/gdb_serve")
line_of() { grep -n "mark: $1 \*/" "$source_file" | cut -d: -f1; }

check "handlers compile" 0 '' "$OPENSPIN" cc -O0 "$source_file" -o d.spin
check "handlers compile, optimised" 0 '' "$OPENSPIN" cc -O2 "$source_file" -o o.spin
check "handlers compile with F" 0 '' "$OPENSPIN" cc -O1 --float "$source_file" -o f.spin

# start IMAGE HANDLER OPTION...: the server in the background, its port in $port. When it hangs it
# is ended, and with it gdb.
start() {
    : >served.txt
    timeout $patience "${serve[@]}" "$@" >served.txt 2>&1 &
    server=$!
    port=
    soon grep -q '^port ' served.txt || fail "the server listens" "$(cat served.txt)"
    port=$(sed -n 's/^port //p' served.txt)
}

# debug GDB-COMMAND...: a session with what was started; gdb's words in gdb.txt, the server's in
# served.txt, both in all.txt
image=d.spin
debug() {
    local arguments=() c
    for c in "$@"; do arguments+=(-ex "$c"); done
    gdb-multiarch -nx -batch -ex 'set architecture riscv:rv32' -ex "file $image" \
        -ex "target remote 127.0.0.1:$port" "${arguments[@]}" >gdb.txt 2>&1 </dev/null
    settle
}
settle() {
    wait "$server"
    served=$?
    cat gdb.txt served.txt >all.txt
}

# shows NAME PATTERN...: each pattern matches a line, in this order; and the server ended well
shows() {
    local name=$1 at=1 found pattern
    shift
    [ "$served" = 0 ] || {
        fail "$name" "the server's exit status is $served" "$(cat all.txt)"
        return
    }
    for pattern in "$@"; do
        found=$(tail -n "+$at" all.txt | grep -nE -m1 -- "$pattern" | cut -d: -f1)
        if [ -z "$found" ]; then
            fail "$name" "not there, or not in order: $pattern" "$(cat all.txt)"
            return
        fi
        at=$((at + found))
    done
    pass "$name"
}
# unchanged NAME IMAGE HANDLER OPTION...: the outcome was that of a run without gdb
unchanged() {
    local name=$1
    shift
    "${serve[@]}" "$@" --plain >plain.txt 2>&1
    if grep -v '^port' served.txt | diff plain.txt - >diff.txt; then
        pass "$name"
    else
        fail "$name" "$(cat diff.txt)"
    fi
}

start d.spin good_payload_handler
debug 'break weigh' 'continue' 'backtrace' 'print index' 'print/x $sp' 'info registers a0 pc' \
    'finish' \
    'print s->words' 'step' 'next' 'stepi' 'info threads' 'delete' 'continue'
shows "breakpoint at a function" '^Breakpoint 1, weigh \(word=1, index=0\)' '^\$1 = 0$'
shows "backtrace" '^#0 +weigh' '^#1 .* in add .*word=1' '^#2 .* in good_payload_handler'
shows "registers" '^\$2 = 0x1b000' '^a0 +0x1' '^pc .*<weigh\+'
shows "finish" '^Value returned is \$3 = 1$' '^\$4 = 0$'
shows "step, next, stepi" '^19' '^20' '^0x1d.*20.*mark: counted'
shows "the thread is the HPU" '^\* 1 +Thread 1 \(HPU 0\)'
shows "exit with the handler's code" 'exited with code 06' '^returned: value 6,'
unchanged "breakpoints and steps change no count" d.spin good_payload_handler

start d.spin good_payload_handler
debug "break debug.c:$(line_of counted)" 'hbreak weigh' 'continue' 'continue' 'continue' 'continue'
shows "breakpoint at a line, and a hardware one" '^Breakpoint 2, weigh \(word=1' \
    '^Breakpoint 1, add .*word=1' \
    '^Breakpoint 2, weigh \(word=2' '^Breakpoint 1, add .*word=2' '^returned'

start d.spin good_payload_handler
debug "break debug.c:$(line_of end)" 'continue' 'print *s' 'x/4xw word' 'x/2i $pc' \
    'print calls' 'print/x scale' \
    'x/2dw 0x1b205000' 'monitor cycles' 'monitor help' 'monitor nonsense' 'continue'
shows "variables by name" '^\$1 = \{sum = 30, words = 4, last = 4\}' '^\$2 = 6' \
    '^\$3 = \{0x1, 0x2, 0x3, 0x4\}'
shows "memory and code" '0x1000.*0x00000001.*0x00000002.*0x00000003.*0x00000004' '^=> 0x1d'
shows "monitor" '^cycles [0-9]+, instructions [0-9]+$' '^monitor cycles' '^no such command$'
unchanged "looking changes nothing" d.spin good_payload_handler

start d.spin good_payload_handler
debug 'x/4xw 0x20000000' 'x/2xb 0x1d007fff' 'set {int}0x20000000 = 1' \
    'set {int}weigh = 0' 'set var scale[0] = 9' \
    'break add' 'continue' 'set var word = 100' 'set var calls = 9' 'set $t3 = 77' \
        'print $t3' 'print calls' 'detach'
shows "memory that was not given" '^(0x20000000:.)?Cannot access memory at address 0x20000000' \
    'Cannot access memory at address 0x1d007fff' 'Cannot access memory at address 0x20000000'
shows "code and constants are read-only" 'Cannot access memory at address 0x1d' \
    'Cannot access memory at address 0x1c'
shows "variables and registers are written" '^\$1 = 77' '^\$2 = 9'
shows "detach lets it run, with what was written" 'detached' '^returned: value 6' '^state 129 4 4'

start d.spin good_payload_handler
debug 'break add' 'continue' 'delete' 'watch -l s->words' 'continue' 'continue' 'print word' \
    'delete' \
    'rwatch scale[2]' 'continue' 'delete' 'up' 'awatch -l s->last' 'continue' 'delete' 'continue'
shows "watchpoint on a field of the state" '^Hardware watchpoint 2: -location' '^Old value = 0' \
    '^New value = 1' \
    '^Old value = 1' '^New value = 2' '^\$1 = 2$'
shows "read watchpoint" '^Hardware read watchpoint 3: scale' '^Value = 3' \
    'weigh \(word=3, index=2\)'
shows "access watchpoint" '^Hardware access .* 4: ' '^Old value = 2' \
    '^New value = 3' 'exited with code 06'
unchanged "watchpoints change no count" d.spin good_payload_handler

start d.spin atomic_payload_handler
debug 'break atomic_payload_handler' 'continue' 'next' 'next' 'watch -l s->sum' 'continue' \
    'continue'
shows "an atomic is a write" '^Old value = 0' '^New value = 16' '^returned: value 0'

start d.spin good_payload_handler
debug "break debug.c:$(line_of end)" 'continue' 'print weigh(7, 1)' 'finish' 'continue'
shows "gdb calls a function" '^\$1 = 14'
shows "finish of the handler itself" '^Value returned is \$2 = 6' 'exited with code 06'

start d.spin good_payload_handler
debug 'break weigh' 'continue' 'kill'
shows "kill" '\[Inferior 1 .* killed\]' '^killed by the debugger: .* pc 0x1d'

start d.spin good_payload_handler
debug 'break weigh' 'continue'
shows "gdb that leaves lets it run" '^Breakpoint 1' '^returned: value 6' '^state 30 4 4'
unchanged "leaving changes no count" d.spin good_payload_handler

for optimised in d.spin o.spin; do
    image=$optimised
    start $image good_payload_handler --words=256
    debug 'continue'
    unchanged "counts at full speed, $image" $image good_payload_handler --words=256
    start $image good_payload_handler --words=256
    debug 'watch *(int *)0x10000000' 'continue'
    unchanged "counts when stepped, $image" $image good_payload_handler --words=256
    start $image good_payload_handler --words=256 --functional
    debug 'break weigh' 'ignore 1 100' 'continue' 'delete' 'continue'
    unchanged "counts without timing, $image" $image good_payload_handler --words=256 --functional
done
image=d.spin

# fault NAME HANDLER SIGNAL MARK: shown where it is, then it takes effect
fault() {
    start d.spin "$2"
    debug 'continue' 'backtrace' 'continue'
    shows "$1" "^Program received signal $3," "^$(line_of "$4")" "^#0 .*$2" \
        "^Program terminated with signal $3"
    unchanged "$1, as without gdb" d.spin "$2"
    start d.spin "$2"
    debug 'watch *(int *)0x10000000' 'continue' 'continue'
    unchanged "$1, as without gdb, when stepped" d.spin "$2"
}
fault "access outside" wild_payload_handler SIGSEGV wild
fault "illegal instruction" illegal_payload_handler SIGILL illegal
fault "failed check" check_payload_handler SIGTRAP check
fault "misaligned atomic" odd_payload_handler SIGBUS odd
fault "cycle budget" endless_payload_handler SIGXCPU endless

start d.spin wild_payload_handler
debug 'continue' 'kill'
shows "killed after a fault: the fault counts" 'SIGSEGV' '^SEGV: .*bad address 0x20000010'

# Ctrl-C, at full speed and while stepping: once the server has computed for 0.3 s
ticks() {
    awk '{ sum += $14 + $15 } END { print sum }' "/proc/$server/stat" \
        $(pgrep -P $server | sed 's,.*,/proc/&/stat,')
}
goes() { [ "$(ticks)" -gt $((ticks + 30)) ]; }
for watch in 'print 1' 'watch calls'; do
    start d.spin endless_payload_handler --budget=0x4000000000000000
    gdb-multiarch -nx -batch -ex 'file d.spin' -ex "target remote 127.0.0.1:$port" -ex "$watch" \
        -ex 'echo going\n' -ex 'continue' -ex 'print s->words > 0' \
            -ex 'kill' >gdb.txt 2>&1 </dev/null &
    client=$!
    soon grep -q '^going' gdb.txt
    ticks=$(ticks)
    soon goes
    kill -INT "$client"
    wait "$client"
    settle
    shows "Ctrl-C after '$watch'" '^Program received signal SIGINT' \
        'in endless_payload_handler|endless' '= 1$' '^killed by'
done

image=f.spin
start f.spin float_payload_handler --float
debug 'break halve' 'continue' 'print $fa0' 'print value' 'set $frm = 1' 'print $fcsr' \
    'set $fa7 = 3.5' 'print $fa7' 'set $frm = 0' 'continue'
shows "float registers" '^\$1 = 16$' '^\$2 = 16$' '^\$3 = 32$' '^\$4 = 3.5$' 'exited normally'

# All handlers of a rank of a world, one after the other
world=$SOURCE/tests/handlers/world_faults.c
"$OPENSPIN" cc -O0 "$world" -o w.spin
cc -shared -fPIC -I"$SOURCE/include" "$SOURCE/tests/programs/faulty.c" -o faulty.so
good=$(grep -n 'line: good' "$world" | cut -d: -f1)
start_world() { # HANDLER COUNT
    : >served.txt
    timeout $patience "$OPENSPIN" sim run -q -n 2 --card "${card:-sc17}" --gdb 1 faulty.so "$1" \
        "$2" w.spin >served.txt 2>&1 &
    server=$!
    port=
    soon grep -q "target remote :[0-9]*'" served.txt || fail "the world listens" "$(cat served.txt)"
    port=$(sed -n "s/.*target remote :\([0-9]*\)'/\1/p" served.txt)
}
image=w.spin
start_world good_payload_handler 3
debug "break world_faults.c:$good" 'continue' 'print *count' 'continue' 'print *count' 'next' \
    'print *count' 'continue' \
    'print *count' 'print p.length' 'info threads' 'delete' 'continue'
shows "a breakpoint in every handler of a rank" '^Breakpoint 1, good_payload_handler' '^\$1 = 0' \
    '^Breakpoint 1, ' '^\$2 = 64' \
    '^\$3 = 128' '^Breakpoint 1, ' '^\$4 = 128' '^\$5 = 64' 'exited normally' \
        '^rank 1: 3 good, 0 bad$'
start_world good_payload_handler 2
debug 'break good_payload_handler' 'continue' 'detach'
shows "detach lets the world run" 'detached' '^rank 1: 2 good, 0 bad$'
for card in sc17 pspin; do
    start_world good_payload_handler 3
    debug 'break *good_payload_handler' 'continue' 'backtrace' 'continue' 'backtrace' 'continue'
    shows "a breakpoint where handlers begin, $card" \
        '^Breakpoint 1, ' '^#0 .*good_payload_handler' '^Breakpoint 1, ' '^#0 ' 'exited normally' \
        '^rank 1: 3 good, 0 bad$'
done
start_world wild_payload_handler 1
debug 'continue' 'backtrace' 'continue'
served=$((served == 1 ? 0 : 9))
shows "a fault on a PsPIN card" 'Program received signal SIGSEGV' '^#0 .*wild_payload_handler' \
    'exited normally' '^openspin sim run: rank 1, HPU 0, wild_payload_handler, .*SEGV' \
    '^rank 1: 0 good, 1 bad$'
card=sc17
start_world wild_payload_handler 1
debug 'continue' 'backtrace' 'continue'
served=$((served == 1 ? 0 : 9)) # the fault is the world's to tell
shows "a fault in a world" 'Program received signal SIGSEGV' '^#0 .*wild_payload_handler' \
    'exited normally' '^openspin sim run: rank 1, HPU 0, wild_payload_handler, .*SEGV' \
    '^rank 1: 0 good, 1 bad$'

image=d.spin
start d.spin good_payload_handler
refuse "a port in use" 1 "gdb port 127.0.0.1:$port is in use; take another" "${serve[@]}" \
    d.spin good_payload_handler --port="$port"
image=d.spin
debug 'continue'
shows "who had the port goes on" 'exited with code 06'
start d.spin good_payload_handler --port="$port"
debug 'continue'
shows "the port is free at once" 'exited with code 06'
if [ "$(cat /proc/sys/net/ipv4/ip_unprivileged_port_start)" -gt 80 ] && [ "$(id -u)" != 0 ]; then
    refuse "a port that is not allowed" 1 'not allowed to this user' "${serve[@]}" \
        d.spin good_payload_handler --port=80
else
    skip "a port that is not allowed" "this user may have any port"
fi
finish
