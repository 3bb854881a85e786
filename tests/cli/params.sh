# --params: what --parameters prints is read back, and what is wrong in a
# file is said with file and line.
. "$SOURCE/tests/lib/tap.sh"
goal=$SOURCE/tests/goal/v01_eager_pingpong.goal
# NAME OPTIONS... : the command's --parameters, as they are and as --params gives them back
round() {
    local name=$1
    shift
    "$OPENSPIN" "$@" --parameters >first.txt 2>err.txt &&
        "$OPENSPIN" $RUN --parameters --params first.txt >second.txt 2>>err.txt
    # What the user set before comes from the file now, and is no default either way.
    [ -s first.txt ] && cmp -s first.txt second.txt && pass "$name: there and back" ||
        fail "$name: there and back" "$(diff first.txt second.txt)" "$(cat err.txt)"
}
RUN="card run" round "card run" card run
RUN="card run" round "card run, others" card run -s clusters=2 -s cycle=0.5ns \
    -s network_rate=200Gbit/s -s policy=drop -s icache_miss=20 -s cells=1000
RUN="budget" round "budget" budget
RUN="budget" round "a card's, in budget" \
    card run -s clusters=2 -s cycle=0.5ns -s network_rate=200Gbit/s -s policy=drop
RUN="goal run" round "goal run" goal run
RUN="goal run" round "goal run, others" goal run -s L=1.234us -s G=6.7ps/B -s S=1MiB
RUN="goal run -m packet" round "goal run, packets" goal run -m packet
RUN="goal run -m packet" round "goal run, packets, others" \
    goal run -m packet -T dragonfly:2,4,2 -s loss=0.0123456 -s corruption=1e-7 -s queue=credit \
    -s seed=18446744073709551615 -s fail_links=2
RUN="sim run" round "sim run" sim run
RUN="sim run" round "sim run, others" \
    sim run -s topology=torus:4x4 -s hpus=64 -s loss=3e-9 -s link_rate=123Gbit/s -s stack=1MiB

"$OPENSPIN" goal run -m packet -p sc17-dis -s link_latency=1us --parameters >dis.txt
[ "$("$OPENSPIN" goal run -m packet --params dis.txt "$goal" --csv)" = \
    "$("$OPENSPIN" goal run -m packet -p sc17-dis -s link_latency=1us "$goal" --csv)" ] &&
    pass "the same results from a file" || fail "the same results from a file"
check "--set comes after the file" 0 '^  link_latency = 2000 ns' \
    "$OPENSPIN" goal run -m packet --parameters --params dis.txt -s link_latency=2us
check "--topology too" 0 '^  topology = switch,' \
    "$OPENSPIN" goal run -m packet --parameters --params dis.txt -T switch
printf '# by hand\n\nL=1us\r\n\to = 65 ns\n' >hand.txt
check "written by hand" 0 '^  L = 1000 ns' "$OPENSPIN" goal run --parameters --params hand.txt
check "comments and blanks" 0 '^  o = 65 ns' "$OPENSPIN" goal run --parameters --params hand.txt

printf 'L = 1 us\nnonsense = 5\n' >name.txt
refuse "an unknown name" 1 "name.txt:2: unknown parameter 'nonsense'; LogGOPS has L" \
    "$OPENSPIN" goal run --params name.txt "$goal"
refuse "of the card" 1 "name.txt:1: unknown parameter 'L'|name.txt:1: .*'L'" \
    "$OPENSPIN" card run --params name.txt --parameters
refuse "of a world" 1 "name.txt:1: unknown parameter 'L'" \
    "$OPENSPIN" sim run --params name.txt --parameters
printf '# a\nhpus = 99, handler processors\n' >limit.txt
refuse "outside the limits" 1 "limit.txt:2: hpus: '99' is outside the limits, 0 to 64" \
    "$OPENSPIN" sim run --params limit.txt --parameters
printf 'cycle = 1 KiB\n' >unit.txt
refuse "a wrong unit" 1 "unit.txt:1: cycle: '1KiB' is not a time" \
    "$OPENSPIN" card run --params unit.txt --parameters
printf 'L\n' >bare.txt
refuse "no value" 1 "bare.txt:1: 'L' is not NAME = VALUE" \
    "$OPENSPIN" goal run --params bare.txt "$goal"
refuse "parameters of links in the model without" \
    1 "dis.txt:[0-9]+: unknown parameter 'topology'.*--model packet" \
    "$OPENSPIN" goal run --params dis.txt "$goal"
refuse "in budget" 1 "unit.txt:1: cycle: '1KiB' is not a time" \
    "$OPENSPIN" budget --params unit.txt --parameters
refuse "no file" 1 'none.txt: cannot open parameter' "$OPENSPIN" goal run --params none.txt "$goal"
head -c 100 /dev/zero >zero.txt
refuse "no text" 1 'zero.txt: holds a byte 0' "$OPENSPIN" goal run --params zero.txt "$goal"
finish
