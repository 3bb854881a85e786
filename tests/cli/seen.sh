# What is seen of live cards from outside: openspin top.
. "$SOURCE/tests/lib/tap.sh"
library=$BUILD/src/portals
flags=
nm -D "$library/libportals.so" | grep -q __asan_init && flags=-fsanitize=address,undefined
export LD_LIBRARY_PATH=$library ASAN_OPTIONS=detect_leaks=0:handle_segv=0
clang $flags -g -Wall -Wextra -I"$SOURCE/include" "$SOURCE/tests/programs/every_operation.c" "-L$library" -lportals -o every && pass "a program of all operations" || fail "a program of all operations"
"$OPENSPIN" cc "$SOURCE/examples/sc17/pingpong.c" -o pingpong.spin
launch() { timeout -k 5 60 "$OPENSPIN" launch "$@"; }
until_there() { for _ in $(seq 500); do [ -e "$1" ] && return; sleep 0.02; done; }

# --- openspin top
"$OPENSPIN" launch -n 2 ./every pingpong.spin ready >every.txt 2>&1 &
job=$!
until_there ready
sleep 0.2
name=$(basename /dev/shm/openspin-"$(id -u)"/job-"$job"-*)
run "$OPENSPIN" top --once --job "$name"
printf '%s\n' "$out" | grep -qE "^   0 +[0-9]+ every +shm +9 +8 +6104 +180 +0 +0 +0 +0 +0$" && pass "top: a rank's packets and bytes" || fail "top: a rank's packets and bytes" "$out" "$err"
printf '%s\n' "$out" | grep -qE "^   1 +[0-9]+ every +shm +8 +9 +180 +6104 +1 +0 +3 +[0-9]+ +0$" && pass "top: what was dropped, and runs of handlers" || fail "top: what was dropped, and runs of handlers" "$out" "$err"
printf '%s\n' "$out" | grep -qE "^ +pingpong_payload_handler +table entry 4 +1 runs +[0-9]+ ns each +0 faults$" && pass "top: a handler" || fail "top: a handler" "$out"
"$OPENSPIN" top --json=top.json --job "$name"
check "top: as JSON" 0 '^1 6104 pingpong_header_handler header 4 1$' python3 -c 'import json
card = json.load(open("top.json"))["cards"][1]
h = card["handler"][0]
print(card["dropped"], card["bytes_in"], h["name"], h["kind"], h["pt_index"], h["runs"])'
check "top: all cards of the user have this one, too" 0 "^job $name$" "$OPENSPIN" top --once
(sleep 0.5; rm ready) &
check "top: redrawn until the last card ends" 0 'the last live card has ended' timeout 20 script -qec "TERM=xterm $OPENSPIN top -i 50 --job $name" /dev/null
wait $job
grep -q '^all operations: done$' every.txt && pass "the program ends as ever" || fail "the program ends as ever" "$(cat every.txt)"
refuse "top: a job that is not there" 2 "there is no job '$name' of .openspin launch.$" "$OPENSPIN" top --once --job "$name"
refuse "top: not a terminal" 2 'not a terminal that can be redrawn: use --once or --json$' "$OPENSPIN" top
refuse "top: a word" 2 "'word' is not an option" "$OPENSPIN" top word

finish
