# openspin launch as a user drives it: the programs of worlds as ordinary executables on live cards.
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
compile tests/programs/exchange.c ring
compile examples/sum_program.c sum
compile examples/sc17/listings.c listings
compile tests/programs/pspin_client.c pspin
compile tests/programs/chain.c chain
compile tests/programs/forks.c forks
"$OPENSPIN" cc "$SOURCE/tests/handlers/chain_handlers.c" -o chain.spin
"$OPENSPIN" cc "$SOURCE/examples/sum_handler.c" -o sum.spin

cards=/dev/shm/openspin-$(id -u) # where they have their files
# --- ranks
run launch -n 5 ./ring ring "a word"
expected=$(for r in 0 1 2 3 4; do
    echo "rank $r of 5: $((100 + (r + 4) % 5)) from the left, a word"
done)
[ "$status" = 0 ] && [ "$(printf '%s\n' "$out" | sort)" = "$expected" ] &&
    pass "five ranks exchange" || fail "five ranks exchange" "$status" "$out" "$err"
check "arguments that look like options" 0 'from the left, --label$' launch -n 2 ./ring x --label
check "one rank sends to itself" 0 '^rank 0 of 1: 100 from the left' launch ./ring
check "a program alone is a job of one" 0 '^rank 0 of 1: 100 from the left' timeout $patience ./ring
check "labels" 0 '^\[1\] rank 1 of 2: 100 from the left' launch -n 2 --label ./ring
check "eight ranks" 0 '^rank 7 of 8: 106 from the left' launch -n 8 ./ring

# --- children: who is one has no card, and its parent's goes on
forks() { # CALL CODE
    run launch -n 2 ./forks "$1"
    [ "$status" = 0 ] && [ "$(printf '%s\n' "$out" | sort)" = "3 puts
$1: $2" ] && pass "a child: $1" || fail "a child: $1" "$status" "$out" "$err"
}
for call in put get wait poll barrier; do
    forks $call PTL_NO_INIT
done
forks init PTL_FAIL
forks exec "no error"

# --- the library as a plugin's: it is closed while threads of the card run
clang $flags -g -Wall -Wextra -I"$SOURCE/include" "$SOURCE/tests/programs/plugin.c" -o plugin \
    && pass "plugin compiles" || fail "plugin compiles"
check "the library may be closed" 0 '^PtlInit: 0$' \
    timeout $patience ./plugin "$library/libportals.so"

# --- handlers: the same images as in a world
check "a message that cards pass on is one message" \
    0 '^rank 3: 1000000 bytes from rank 2, 0 wrong' launch -n 4 ./chain chain.spin 1000000
check "what they do not pass on is cleaned up" \
    0 '^rank 2: cleaned up 1, more than nothing is missing 1 1, failed 1' \
    launch -n 3 ./chain chain.spin 100000 5
check "a handler on the card" 0 '^the sum of 1 to 3 is 6;' launch -n 4 ./sum sum.spin
for f in pingpong accumulate broadcast strided raid_data raid_parity; do
    "$OPENSPIN" cc -Werror "$SOURCE/examples/sc17/$f.c" -o $f.spin
done
listing() { check "$2" 0 "$2" launch -n "$1" ./listings "${@:3}"; }
listing 2 '^ping-pong: 2048 bytes came back$' pingpong pingpong.spin
listing 2 '^ping-pong: 8192 bytes came back$' pingpong-long pingpong.spin
listing 2 '^accumulate: 256 complex products, in host memory and back$' accumulate accumulate.spin
listing 8 '^broadcast: 8192 bytes to 8 ranks$' broadcast-long broadcast.spin
listing 2 '^strided: 64 blocks of 96 bytes in their places$' strided strided.spin
listing 3 '^RAID-5: 4096 bytes written, parity updated, and read$' \
    raid raid_data.spin raid_parity.spin

"$OPENSPIN" cc --pspin "$SOURCE/tests/handlers/pspin_world.c" -o pspin.spin
check "handlers of PsPIN's interface" \
    0 '^10000 bytes, 4096 in the first packet, 1 headers, 3 payloads; echoed 4536, stored 4536$' \
    launch -n 2 ./pspin pspin.spin

# --- the same over UDP: at a loopback address of this test's own
udp() {
    OPENSPIN_TRANSPORT=udp OPENSPIN_INTERFACE=127.200.$(($$ / 256 % 256)).$(($$ % 256)) launch "$@"
}
check "passed on by udp" 0 '^rank 3: 1000000 bytes from rank 2, 0 wrong' \
    udp -n 4 ./chain chain.spin 1000000
check "UDP: five ranks exchange" 0 '^rank 4 of 5: 103 from the left' udp -n 5 ./ring
check "UDP: a handler on the card" 0 '^the sum of 1 to 3 is 6;' udp -n 4 ./sum sum.spin
check "UDP: broadcast" 0 '^broadcast: 8192 bytes to 8 ranks$' \
    udp -n 8 ./listings broadcast-long broadcast.spin
check "UDP: RAID" 0 '^RAID-5: 4096 bytes written' \
    udp -n 3 ./listings raid raid_data.spin raid_parity.spin
OPENSPIN_FAULTS=3:loss=0.1,duplicate=0.1,reorder=0.1,corrupt=0.1 check "UDP: a bad network" \
    0 '^broadcast: 8192 bytes to 8 ranks$' udp -n 8 ./listings broadcast-long broadcast.spin
check "shared memory and UDP: the nearer" 0 '^rank 4 of 5: 103 from the left' \
    env OPENSPIN_TRANSPORT=auto OPENSPIN_INTERFACE=127.201.$(($$ / 256 % 256)).$(($$ % 256)) \
    "$OPENSPIN" launch -n 5 ./ring
# Two jobs at once need not know of each other; nor is a network needed.
OPENSPIN_TRANSPORT=udp launch -n 3 ./ring ring one >one.txt 2>&1 &
first=$!
OPENSPIN_TRANSPORT=udp launch -n 3 ./ring ring two >two.txt 2>&1 &
wait $!; second=$?
wait $first
[ $? = 0 ] && [ $second = 0 ] && [ "$(grep -c 'from the left, one' one.txt)" = 3 ] &&
    [ "$(grep -c 'from the left, two' two.txt)" = 3 ] \
    && pass "two jobs at once over UDP" || fail "two jobs at once over UDP" "$(cat one.txt two.txt)"
run udp -n 2 "$OPENSPIN" launch -n 2 ./ring
[ "$status" = 0 ] && [ "$(grep -c 'of 2: 10[01] from the left' <<<"$out")" = 4 ] &&
    pass "UDP: jobs that ranks of a job start" ||
    fail "UDP: jobs that ranks of a job start" "$status" "$out" "$err"
printf 'echo $OPENSPIN_PORT\n' >port.sh
OPENSPIN_TRANSPORT=udp OPENSPIN_PORT=29000 check "a port that the user chose is kept" 0 '^29000$' \
    launch sh port.sh
check "shared memory needs no port" 0 '^$' launch sh port.sh
if [ "$(id -u)" = 0 ] && unshare -n true 2>/dev/null; then
    check "without any network" 0 '^rank 0 of 1: 100 from the left' \
        unshare -n timeout $patience ./ring
    check "a job without any network" 0 '^rank 4 of 5: 103 from the left' \
        unshare -n "$OPENSPIN" launch -n 5 ./ring
else
    skip "without any network" "needs root"
fi
if ldconfig -p 2>/dev/null | grep -q 'libsodium\.so\.23' ||
    [ -e /usr/lib/x86_64-linux-gnu/libsodium.so.23 ]; then
    OPENSPIN_AUTH=1 check "UDP: authenticated" 0 '^broadcast: 8192 bytes to 8 ranks$' \
        udp -n 8 ./listings broadcast-long broadcast.spin
else
    skip "UDP: authenticated" "no libsodium"
fi
echo 0123456789abcdef0123 >key; chmod 644 key

# --- variables: what is wrong is one line, before any rank begins
refused() { # LINE VARIABLE=VALUE...
    run env "${@:2}" timeout -k 5 $patience "$OPENSPIN" launch -n 2 ./ring
    [ "$status" = "${refusal:-2}" ] && [ "$err" = "openspin launch: $1" ] && pass "${*:2}" ||
        fail "${*:2}" "$status" "$out" "$err"
}
refused "OPENSPIN_TRANSPORT: 'pigeon' is none of shm, udp, auto and fabric" \
    OPENSPIN_TRANSPORT=pigeon
refused "OPENSPIN_AUTH: 'yes' is none of 0 and 1" OPENSPIN_AUTH=yes
refused "OPENSPIN_PAGING: '1' is none of off and on" OPENSPIN_PAGING=1
refused "OPENSPIN_PMIX: 'maybe' is none of off and on" OPENSPIN_PMIX=maybe
refused "OPENSPIN_HPUS: '33' is not a number of threads from 0 to 32" OPENSPIN_HPUS=33
refused "OPENSPIN_PORT: '70000' is not a port, that of pid 0, from 1 to 64512" \
    OPENSPIN_PORT=70000 OPENSPIN_TRANSPORT=udp
refused "OPENSPIN_FAULTS: 'loss' is not SEED:NAME=SHARE,... with the names loss, duplicate, "\
"reorder and corrupt, each once, and shares from 0 to 1" OPENSPIN_FAULTS=loss \
    OPENSPIN_TRANSPORT=udp
refused "OPENSPIN_FAULTS: '1:loss=0.1,loss=0.2' is not SEED:NAME=SHARE,... with the names loss, "\
"duplicate, reorder and corrupt, each once, and shares from 0 to 1" \
    OPENSPIN_FAULTS=1:loss=0.1,loss=0.2 OPENSPIN_TRANSPORT=udp
refused "OPENSPIN_WORLD is set, which is for ranks that 'openspin sim run' has started: they have "\
"no live cards; unset it" OPENSPIN_WORLD=abc
# one of a block for documentation; a group; what reaches all on loopback
for address in 192.0.2.1 224.0.0.1 127.255.255.255; do
    for transport in udp auto; do
        refused "OPENSPIN_INTERFACE: $address is no address of this machine" \
            OPENSPIN_INTERFACE=$address OPENSPIN_TRANSPORT=$transport
    done
done
refused "OPENSPIN_INTERFACE: there is no interface 'nosuch0' that is up and has an IPv4 address" \
    OPENSPIN_INTERFACE=nosuch0 OPENSPIN_TRANSPORT=udp
refusal=1 refused "OPENSPIN_KEY_FILE: key: not a file of at least 16 bytes that only this user "\
"can read (mode 0600)" OPENSPIN_KEY_FILE=key OPENSPIN_TRANSPORT=udp
idle() { # VARIABLE=VALUE NETWORK TRANSPORT...: said of a network that no card would use
    refused "${1%%=*} is about $2, but with OPENSPIN_TRANSPORT=shm (the default here) a card uses "\
"shared memory alone: set OPENSPIN_TRANSPORT to $3, or unset ${1%%=*}" "$1"
}
idle OPENSPIN_AUTH=1 UDP udp
idle OPENSPIN_FAULTS=1:loss=0.1 UDP udp
idle OPENSPIN_PORT=29000 UDP udp
idle OPENSPIN_KEY_FILE=key "UDP and libfabric" "udp, auto or fabric"
idle OPENSPIN_INTERFACE=lo "UDP and libfabric" "udp, auto or fabric"
idle OPENSPIN_FABRIC_PROVIDER=tcp libfabric fabric
refused "OPENSPIN_FAULTS is about UDP, but with OPENSPIN_TRANSPORT=fabric a card uses "\
"libfabric: set OPENSPIN_TRANSPORT to udp, or unset OPENSPIN_FAULTS" OPENSPIN_TRANSPORT=fabric \
    OPENSPIN_FAULTS=1:loss=0.1
refused "OPENSPIN_FABRIC_PROVIDER is about libfabric, but with OPENSPIN_TRANSPORT=auto a "\
"card uses UDP: set OPENSPIN_TRANSPORT to fabric, or unset OPENSPIN_FABRIC_PROVIDER" \
    OPENSPIN_TRANSPORT=auto OPENSPIN_FABRIC_PROVIDER=tcp
check "what a rank finds wrong has its number" 10 "^openspin: rank "\
"[01]: no live card: OPENSPIN_AUTH is about UDP, but with OPENSPIN_TRANSPORT=shm a card" \
    launch -n 2 env OPENSPIN_AUTH=1 OPENSPIN_TRANSPORT=shm ./ring
check "a program alone says it, too" 10 "^openspin: no live card: OPENSPIN_HPUS: 'x' is not" \
    env OPENSPIN_HPUS=x timeout $patience ./ring
empty=()
for v in TRANSPORT FABRIC_PROVIDER INTERFACE PORT KEY_FILE AUTH FAULTS HPUS PAGING PMIX PCAP \
    TRACE HANDLERS JOB WORLD; do
    empty+=("OPENSPIN_$v=")
done
check "an empty variable is as if it were not set" 0 '^rank 1 of 2: 100 from the left' \
    env "${empty[@]}" timeout -k 5 $patience "$OPENSPIN" launch -n 2 ./ring
check "of a program alone as well" 0 '^rank 0 of 1: 100 from the left' \
    env "${empty[@]}" timeout $patience ./ring
check "asking for nothing is no contradiction" 0 '^rank 0 of 1' \
    env OPENSPIN_AUTH=0 OPENSPIN_PAGING=off OPENSPIN_PMIX=on "$OPENSPIN" launch ./ring
check "handlers that are nowhere" 2 "^openspin: OPENSPIN_HANDLERS: there is no folder "\
"'nowhere'; without it the handlers of the installation are used" env OPENSPIN_HANDLERS=nowhere \
    "$OPENSPIN" launch ./ring

chmod 600 key
OPENSPIN_KEY_FILE=key check "a key that nobody else can" 0 '^rank 1 of 2: 100 from the left' \
    udp -n 2 ./ring

# --- how ranks end
check "a status" 3 'rank 1 of 3 ended with status 3$' launch -n 3 ./ring return
check "a crash" 139 'rank 1 of 3 was ended by signal 11 ' launch -n 3 ./ring crash
check "a program that is not there" 1 './nothing: cannot start it: No such file' \
    launch -n 3 ./nothing
printf '#!/bin/sh\n' >here; chmod +x here
check "a program that is here" 1 "^openspin launch: here: cannot start it: No such file or "\
"directory \(did you mean './here'\?\)$" launch here
check "a folder" 1 "^openspin launch: $PWD: cannot start it: Is a directory$" launch "$PWD"
printf '#!/nowhere/sh\n' >here
check "a script of nothing" 1 \
    "^openspin launch: ./here: cannot start it: the interpreter that it names is not there$" \
    launch ./here
if [ -c /dev/full ]; then
    "$OPENSPIN" launch -n 2 -l ./ring >/dev/full 2>full.txt
    [ "$? $(cat full.txt)" = "1 openspin: cannot write the output: some of it is missing" ] &&
        pass "labelled lines that cannot be written" ||
        fail "labelled lines that cannot be written" "$(cat full.txt)"
fi
# In 16 KiB the boxes of two ranks have no room.
if unshare -m true 2>/dev/null; then
    check "no memory for a rank" 10 'cannot map it: No space left on device$' unshare -m sh -c \
        'mount -t tmpfs -o size=16k tmpfs /dev/shm && exec "$@"' full \
        timeout -k 5 $patience "$OPENSPIN" launch -n 2 ./ring
else
    skip "no memory for a rank" "needs root"
fi
check "no program" 2 'which program' launch -n 3
check "more outputs than files may be open" 1 'rank [0-9]+: no more open files' \
    bash -c "ulimit -n 64 && exec timeout -k 5 $patience '$OPENSPIN' launch -n 40 -l true"
check "more ranks than half of the files" 0 '^of 40$' \
    bash -c "ulimit -n 64 && exec timeout -k 5 $patience '$OPENSPIN' launch -n 40 "\
'sh -c '"'"'[ $OPENSPIN_RANK != 39 ] || echo of $OPENSPIN_SIZE'"'"
check "more ranks than there may be" 2 '1024' launch -n 2000 ./ring
printf '#!/bin/sh\necho "$OPENSPIN_RANK of $OPENSPIN_SIZE"; if [ "$OPENSPIN_RANK" = 1 ]; then '\
'exit 5; fi; sleep %s\n' 100 >one_fails
chmod +x one_fails
check "one that fails ends all" 5 'rank 1 of 3 ended with status 5$' timeout $patience \
    "$OPENSPIN" launch -n 3 ./one_fails
sed -i 's/sleep 100/sleep 0.2; echo "$OPENSPIN_RANK is done"/' one_fails
check "or does not, with --keep-going" 5 '^2 is done$' launch -k -n 3 ./one_fails
printf '#!/bin/sh\ntrap "echo got it; exit 0" USR1\n: >begun.$OPENSPIN_RANK\nwhile '\
':; do sleep 0.05; done\n' >waits
chmod +x waits
"$OPENSPIN" launch -n 2 ./waits >signals.txt 2>&1 &
launcher=$!
begun() { [ -e begun.0 ] && [ -e begun.1 ]; }
soon begun
kill -USR1 $launcher
wait $launcher
[ $? = 0 ] && [ "$(grep -c 'got it' signals.txt)" = 2 ] && pass "signals are passed on" ||
    fail "signals are passed on" "$(cat signals.txt)"
rm -f begun.*
"$OPENSPIN" launch -n 2 ./waits >/dev/null 2>&1 &
launcher=$!
soon begun
ranks=$(pgrep -P $launcher)
folder=$(echo "$cards"/job-$launcher-*)
[ -d "$folder" ] || fail "a job has a folder" "$folder"
kill -KILL $launcher $ranks
wait $launcher 2>/dev/null
[ -n "$ranks" ] && soon ended $ranks && pass "ranks end with a launcher that is killed" ||
    fail "ranks end with a launcher that is killed" "$ranks"
gone() { [ ! -e "$1" ]; }
soon gone "$folder" && pass "its files vanish" || fail "its files vanish" "$(ls "$folder")"
# What ranks have started ends with them, though the system does not tell the launcher of it.
printf '#!/bin/sh\nsh ./inner "$@"\nexit $?\n' >tool
cat >inner <<'I'
echo $$ >inner.$OPENSPIN_RANK
[ "$1$OPENSPIN_RANK" = fails1 ] || exec sleep 1000
until [ -s inner.0 ]; do sleep 0.05; done
exit 3
I
chmod +x tool
inner() { [ -s inner.0 ] && [ -s inner.1 ]; }
run launch -n 2 ./tool fails
[ "$status" = 3 ] && ended "$(cat inner.0)" && pass "the program behind a script ends with a job" ||
    fail "the program behind a script ends with a job" "$status" "$err" "$(cat inner.0)"
for number in TERM KILL; do
    rm -f inner.*
    "$OPENSPIN" launch -n 2 ./tool >/dev/null 2>&1 &
    launcher=$!
    soon inner
    kill -$number $launcher
    wait $launcher 2>/dev/null
    soon ended "$(cat inner.0)" "$(cat inner.1)" && pass "or with a launcher that has SIG$number" ||
        fail "or with a launcher that has SIG$number" "$(cat inner.*)"
done
# A tool that leaves the terminal's process group: ^C does not reach it from there.
cat >terminal.py <<'P'
import os, pty, sys, time
pid, terminal = pty.fork()
if pid == 0:
    os.execvp(sys.argv[1], sys.argv[1:])
while not all(os.path.exists(f"inner.{i}") and os.path.getsize(f"inner.{i}") for i in (0, 1)):
    time.sleep(0.05)
os.write(terminal, b"\x03")
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
P
rm -f inner.*
check "^C" 130 '' timeout $patience python3 terminal.py \
    "$OPENSPIN" launch -n 2 timeout 1000 ./tool
ended "$(cat inner.0)" "$(cat inner.1)" && pass "^C ends what is in another process group" ||
    fail "^C ends what is in another process group" "$(cat inner.*)"
# The process that sees to that is no child of the launcher's, no terminal's, without its files.
rm -f begun.*
"$OPENSPIN" launch -n 2 ./waits >held.txt 2>&1 &
launcher=$!
soon begun
folder=$(echo "$cards"/job-$launcher-*)
keeper=$(pgrep -P $launcher openspin-guard)
guardian=$(pgrep -P "$keeper")
found=$(cat /proc/"$guardian"/comm; ls /proc/"$guardian"/fd | tr '\n' ' '
    readlink /proc/"$guardian"/fd/[12] | uniq
    ps -o tty= -p "$guardian")
ignored=$(awk '/SigIgn/ { print "0x" $2 }' /proc/"$guardian"/status)
ignored=$((ignored & ~0x180000000)) # without the two that are the C library's own
expected=$(printf 'openspin-guard\n0 1 2 /dev/null\n?')
if [ -n "$MESON_EXE_WRAPPER" ]; then
    skip "a guardian stands apart" "in an emulator"
else
    [ "$found" = "$expected" ] && [ $ignored = 0 ] && pass "a guardian stands apart" ||
        fail "a guardian stands apart" "$guardian:" "$found" "ignored: $ignored"
fi
kill -TERM $launcher
wait $launcher
[ ! -e /proc/"$keeper" ] && [ ! -e /proc/"$guardian" ] && [ ! -e "$folder" ] &&
    pass "nothing is left of it after the job" ||
    fail "nothing is left of it after the job" "$keeper $guardian" "$(ls "$folder")"
# Where nobody could: the next one.
mkdir -p "$cards/job-$launcher-1" && touch "$cards/job-$launcher-1/job" &&
    touch "$cards/seen-$launcher-1-0" "$cards/4294967295.$launcher"
run launch ./ring
[ "$status" = 0 ] && [ ! -e "$cards/job-$launcher-1" ] && [ ! -e "$cards/seen-$launcher-1-0" ] &&
    [ ! -e "$cards/4294967295.$launcher" ] && pass "what kills left is removed by the next" ||
    fail "what kills left is removed by the next" "$(ls "$cards")"

# --- the PMI server
cat >pmi.py <<'P'
import os, socket
s = socket.socket(fileno=int(os.environ["PMI_FD"]))
f = s.makefile("rw")
def ask(line):
    f.write(line + "\n"); f.flush()
    return f.readline().strip()
rank, size = int(os.environ["PMI_RANK"]), int(os.environ["PMI_SIZE"])
assert "rc=0" in ask("cmd=init pmi_version=1 pmi_subversion=1")
assert "rc=0" in ask(f"cmd=put kvsname=openspin key=k{rank} value=v{rank}")
assert ask("cmd=barrier_in") == "cmd=barrier_out"
print([ask(f"cmd=get kvsname=openspin key=k{i}").split("value=")[1] for i in range(size)])
assert ask("cmd=finalize") == "cmd=finalize_ack"
P
check "ranks exchange values by PMI" 0 "^\['v0', 'v1', 'v2'\]$" launch -n 3 python3 pmi.py
cat >abort.sh <<'P'
[ "$PMI_RANK" = 1 ] && echo "cmd=abort exitcode=$1" >&"$PMI_FD"
exec sleep 100
P
check "a rank ends the job, in success" 0 '^$' launch -n 2 bash abort.sh 0
check "or with its status" 7 'rank 1 of 2 ended with status 7$' launch -n 2 bash abort.sh 7
finish
