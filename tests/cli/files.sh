# Files that the command reads and writes: nothing is lost, everything is tried
# first, nothing stays behind.
. "$SOURCE/tests/lib/tap.sh"
"$OPENSPIN" goal gen dissemination -n 4 -o a.goal
cp a.goal kept.goal

# --- an output that is also an input, two outputs of one name ---
ln -s a.goal link.goal
ln a.goal hard.goal
refuse "an output that is the input" 2 "--output: ./a.goal is also read" \
    "$OPENSPIN" goal convert a.goal -o ./a.goal
refuse "by a symbolic link" 2 "is also read" "$OPENSPIN" goal convert link.goal -o a.goal
refuse "by a hard link" 2 "is also read" "$OPENSPIN" goal convert hard.goal -o a.goal
refuse "an input inside an option" 2 "is also read" \
    "$OPENSPIN" goal run a.goal --model packet --topology file:kept.goal \
    --links=kept.goal
refuse "two outputs of one name" 2 "--links and --trace both write" \
    "$OPENSPIN" goal run a.goal --model packet \
    --links out.csv --trace ./out.csv
mkdir folder
refuse "two outputs, by way of a folder" 2 "both write" \
    "$OPENSPIN" goal run a.goal --model packet --links out.csv \
    --trace folder/../out.csv
cmp -s a.goal kept.goal && [ ! -e out.csv ] && pass "no file was touched" ||
    fail "no file was touched" "$(ls)"
"$OPENSPIN" goal gen ring-allreduce -n 3 -o ring-allreduce
check "a name that is no file is no input" 0 '' \
    "$OPENSPIN" goal gen ring-allreduce -n 4 -o ring-allreduce

# --- outputs are tried before the run: the input is not even read ---
refuse "a folder that is not there" 1 "nowhere/x: cannot write" \
    "$OPENSPIN" goal run missing.goal --trace nowhere/x
refuse "a folder as output" 1 "is a directory" "$OPENSPIN" goal run missing.goal --trace folder

# --- devices and links ---
check "a device is written to" 0 'rank 3' "$OPENSPIN" goal run a.goal --trace /dev/null
[ -c /dev/null ] && pass "and stays one" || fail "and stays one"
if [ -e /dev/full ]; then
    refuse "a full disk is one line" 1 'cannot write: No space left' \
        "$OPENSPIN" goal convert a.goal -o /dev/full
fi
: >target.goal
ln -s target.goal out.goal
"$OPENSPIN" goal convert a.goal -o out.goal
[ -L out.goal ] && cmp -s target.goal <("$OPENSPIN" goal convert a.goal) &&
    pass "an output that is a link stays one" ||
    fail "an output that is a link stays one" "$(ls -l)"

# --- what cannot fit is refused before memory is full ---
refuse "more operations than fit" 1 'has about [0-9]+ operations, at most' \
    "$OPENSPIN" goal gen linear-alltoall -n 1000000 -o all.bin
small() { (ulimit -v 800000; exec "$@"); }
case $(nm "$OPENSPIN" 2>/dev/null) in
*__asan_init*) skip "more than the memory" "the address sanitizer needs all addresses" ;;
*) refuse "more than the memory" 1 'needs about [0-9]+ MiB, [0-9]+ MiB are free' small \
    "$OPENSPIN" goal gen linear-alltoall \
    -n 20000 -o all.bin
   truncate -s 2G huge.goal
   refuse "a file larger than the memory" 1 'does not fit: [0-9]+ MiB are free' small \
       "$OPENSPIN" goal info huge.goal
   refuse "a device that has no end" 1 'does not fit: [0-9]+ MiB are free' small \
       "$OPENSPIN" goal info /dev/zero
   rm huge.goal ;;
esac

# --- temporary folders: in TMPDIR, gone after INT and TERM, and after a kill at the next start ---
mkdir tmp slow
# A compiler that takes its time.
printf '#!/bin/sh\necho $$ >"%s/compiler"\nexec sleep 300\n' "$PWD" >slow/clang
chmod +x slow/clang
begin() { # leaves $pid once the compiler runs
    rm -f compiler
    TMPDIR=$PWD/tmp PATH=$PWD/slow:$PATH env --default-signal=HUP,TERM "$OPENSPIN" cc \
        "$SOURCE/examples/word_sum.c" -o echo.spin 2>/dev/null &
    pid=$!
    soon test -s compiler
}
left() { find tmp -mindepth 1 | wc -l; }
for signal in TERM HUP KILL; do
    begin
    during=$(left)
    kill -$signal $pid
    wait $pid 2>/dev/null
    kill "$(cat compiler)" 2>/dev/null
    after=$(left)
    case $signal in
    KILL) want=1 name="a kill leaves its folder" ;;
    *) want=0 name="$signal removes the temporary folder in TMPDIR" ;;
    esac
    [ "$during" = 1 ] && [ "$after" = $want ] && pass "$name" ||
        fail "$name" "during: $during, after: $after"
done
TMPDIR=$PWD/tmp "$OPENSPIN" cc "$SOURCE/examples/word_sum.c" -o echo.spin
[ -s echo.spin ] && [ "$(left)" = 0 ] && pass "the next start removes what a kill left" ||
    fail "the next start removes what a kill left" "$(find tmp)"
refuse "a TMPDIR that is not there" 1 "nowhere: cannot make a temporary folder: .*; set TMPDIR" \
    env TMPDIR=nowhere \
    "$OPENSPIN" cc "$SOURCE/examples/word_sum.c" -o echo.spin
finish
