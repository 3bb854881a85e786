# The use cases of spinlib as a user has them: each example compiled by the line that it begins
# with, run on live cards (shared memory and UDP) and on simulated ones (loaded, and as processes),
# which print the same but for times.
. "$SOURCE/tests/lib/tap.sh"
flags=
# A sanitized library needs a sanitized program.
nm -D "$BUILD/src/portals/libportals.so" | grep -q __asan_init && flags=-fsanitize=address,undefined
. "$BUILD/env"
export ASAN_OPTIONS=detect_leaks=0:handle_segv=0
without_times() {
    sed -E 's/[0-9]+\.[0-9]+ (ns|us|ms|million|thousand|tries)/TIME/g' |
        grep -vE '^(last rank|rank [0-9]+ returns|packets|bytes|handlers run|instructions of|'\
'instructions per|HPUs in use|HPUs for|events)'
}
# NAME RANKS LINE...: what both must print, given $arguments.
arguments=
example() {
    local name=$1 ranks=$2 expected
    expected=$(printf '%s\n' "${@:3}" | sort)
    if [ -n "$flags" ] && [[ $name != @(coll|kv|spinstore) ]]; then
        skip "$name on live cards" \
            "the use case's own test runs with sanitizers; the release build runs the example"
        return
    fi
    clang $flags -g "$SOURCE/examples/spinlib/${name}_example.c" -o "$name" \
        $(pkg-config --cflags --libs spinlib) || {
        fail "$name compiles"
        return
    }
    [ -n "$flags" ] || clang -g -shared -fPIC "$SOURCE/examples/spinlib/${name}_example.c" \
        -o "$name.so" $(pkg-config --cflags --libs spinlib) || {
        fail "$name compiles"
        return
    }
    prints() {
        [ "$status" = 0 ] && [ "$(printf '%s\n' "$out" | without_times | sort)" = "$expected" ] &&
            pass "$name $1" || fail "$name $1" "$status" "$out" "$err"
    }
    for transport in shm udp; do
        # what differs is tested without examples
        [ -n "$flags" ] && [ $transport = udp ] && continue
        run env OPENSPIN_TRANSPORT=$transport timeout -k 5 $patience \
            "$OPENSPIN" launch -n "$ranks" "./$name" $arguments
        prints "on live cards, $transport"
    done
    [ -n "$flags" ] && return # a sanitized program cannot be loaded
    for card in sc17 pspin; do
        run timeout -k 5 $patience "$OPENSPIN" sim run -n "$ranks" --card $card "./$name.so" \
            $arguments
        prints "on $card cards"
    done
    run timeout -k 5 $patience "$OPENSPIN" sim run -n "$ranks" "./$name" $arguments
    prints "as processes of a world"
}
example coll 4 {rdma,triggered,spin}': hello from rank 1; the ranks'"' sum is 6; both took TIME"
# Every collective by every algorithm in every variant, which the example checks.
ways() {
    local transport=$1 ranks=$2 bytes=$3 collective
    for collective in barrier broadcast reduce allreduce allgather alltoall; do
        run env OPENSPIN_TRANSPORT=$transport timeout -k 5 60 "$OPENSPIN" launch -n "$ranks" \
            ./coll $collective "$bytes"
        [ "$status" = 0 ] && [ "$(printf '%s\n' "$out" | grep -c "^$collective .* us$")" -ge 3 ] ||
            {
            fail "live collectives, $transport, $ranks ranks" "$status" "$out" "$err"
            return
        }
    done
    pass "live collectives, $transport, $ranks ranks"
}
ways shm 3 20000
ways udp 4 8
for r in 1 2 3 4 6 7 8 10 11 12 13 14 15; do echo "rank $r: the first broadcast"; done >ftb.txt
for r in 0 2 3 4 6 7 8 10 11 12 13 14 15; do echo "rank $r: another root"; done >>ftb.txt
arguments='5 9'
mapfile -t lines <ftb.txt
example ftb 16 "${lines[@]}"
arguments=
arguments='9 1'
example graph 3 {levels,'shortest paths'}' by the '{cards,processors}': 464 vertices, right; '\
'TIME traversed edges per second'
arguments=
example datatype 2 '4 columns are rows now, '{'as the library chooses','a segment per '\
'HPU',read-{only,write}' checkpoints','by seeking','by the processor'}'; 0 numbers are wrong'
example kv 4 'rank 0: hello from rank 1' 'rank 1: hello from rank 2' 'rank 2: hello from rank 3' \
    'rank 3: hello from rank 0'
arguments=spin
example p2p 3 '1048576 bytes from rank 1, 0 of them wrong; waited for TIME'
arguments=
example raid 6 'after the write: every byte is right' \
    'written without a server: every byte is right' 'rebuilt: every byte is right'
example scan 2 '5 of 100000 rows match; it took TIME' 'employee '{100,101,102,103,104}
example spinstore 8 \
    {plain,'three copies by a ring','four copies by a tree','RS(4,2)'}': every byte is right'
# Handlers that store to memory which nobody has touched.
run env OPENSPIN_PAGING=on timeout -k 5 $patience "$OPENSPIN" launch -n 8 ./spinstore
[ "$status" = 0 ] && [ "$(grep -c 'every byte is right' <<<"$out")" = 4 ] &&
    pass "spinstore over absent pages" || fail "spinstore over absent pages" "$status" "$out" "$err"
example tx 3 \
    '600 transfers by the '{cards,processors}', no money is lost; TIME per second, TIME each'

# Packets that are shorter than the pieces that a server's card likes.
[ -n "$flags" ] || check "raid with packets of 512 B" 0 '^rebuilt: every byte is right$' \
    timeout -k 5 $patience "$OPENSPIN" sim run -q -n 6 --set mtu=512 ./raid.so

# Images of another build than the library: one line, and no handler runs.
mkdir -p elsewhere
cp "$OPENSPIN_HANDLERS"/*.spin elsewhere 2>/dev/null
"$OPENSPIN" cc "$SOURCE/handlers/kv/kv_handler.c" -o elsewhere/kv_handler.spin ||
    fail "kv_handler.c compiles"
run env OPENSPIN_HANDLERS="$PWD/elsewhere" timeout -k 5 $patience "$OPENSPIN" launch -n 2 ./kv
[ "$status" != 0 ] && printf '%s\n' "$err" |
    grep -q 'spinlib: .*elsewhere/kv_handler.spin is of another build than this library' &&
    ! printf '%s\n' "$err" | grep -qi segv && pass "an image of another build is refused" ||
    fail "an image of another build is refused" "$status" "$out" "$err"

# Random programs of messages, as tests/p2p_test.c runs them in worlds.
clang $flags -g -I"$SOURCE/src" -I"$SOURCE/tests" "$SOURCE/tests/programs/random_messages.c" \
    -o messages $(pkg-config --cflags --libs spinlib) || fail "random_messages compiles"
for variant in rdma portals spin; do
    check "$variant: random programs on live cards" 0 "^$variant: 4 programs match as in MPI$" \
        timeout -k 5 60 "$OPENSPIN" launch -n 4 ./messages $variant 1 4
done
check "spin: by UDP" 0 '^spin: 2 programs match as in MPI$' \
    env OPENSPIN_TRANSPORT=udp timeout -k 5 60 "$OPENSPIN" launch -n 3 ./messages spin 5 2

# The data plane of the storage system, without its services: copies on four nodes. Its functions
# are no part of spinlib's interface, so the programs have the objects.
inside="$BUILD/handlers/libspinlib-inside.a $(pkg-config --libs portals4) -lm"
clang $flags -g "$SOURCE/tests/programs/storage_copies.c" -o copies \
    $(pkg-config --cflags spinlib) $inside || fail "storage compiles"
copies() { # NAME COMMAND...
    run timeout -k 5 $patience "${@:2}"
    [ "$status" = 0 ] && [ "$(printf '%s\n' "$out" | sort)" = "$(printf '%s\n' \
        'client: 15 writes, 0 bytes of copies are wrong' 'client: once 0, again 6, forged 1' \
        'node 0: 31 accepted, 0 given up' 'node '{1,2,3}': 20 accepted, 0 given up' | sort)" ] &&
        pass "storage $1" || fail "storage $1" "$status" "$out" "$err"
}
copies "on live cards, shm" env OPENSPIN_TRANSPORT=shm "$OPENSPIN" launch -n 5 ./copies 2
copies "with authenticated packets, udp" env OPENSPIN_TRANSPORT=udp \
    "$OPENSPIN" launch -n 5 ./copies 3
copies "as processes of a world" "$OPENSPIN" sim run -q -n 5 --card pspin ./copies 1
run env OPENSPIN_TRANSPORT=udp timeout -k 5 $patience "$OPENSPIN" launch -n 4 ./copies 2 leave
[ "$status" = 0 ] &&
    [ "$(printf '%s\n' "$out" | sort)" = "$(printf 'node %d: 0 under way\n' 0 1 2)" ] &&
    pass "storage: nothing is left of a client that has gone" ||
    fail "storage: nothing is left of a client that has gone" "$status" "$out" "$err"

# Erasure coding: six writes at a time, every chunk compared with ISA-L's.
clang $flags -g "$SOURCE/tests/programs/storage_coded.c" -o coded \
    $(pkg-config --cflags spinlib) $inside || fail "coded storage compiles"
coded() { # NAME RANKS HOW COMMAND...: HOW is what parity nodes say
    local expected
    expected=$(for ((i = 3; i < $2 - 1; i++)); do echo "node $i: $3, 0 accumulators left"; done)
    run timeout -k 5 $patience "${@:4}"
    [ "$status" = 77 ] && { skip "coded storage $1" "no ISA-L"; return; }
    [ "$status" = 0 ] &&
        [ "$(printf '%s\n' "$out" | grep -c 'with RS(3,2), 0 bytes of chunks are wrong')" = 1 ] &&
        [ "$(printf '%s\n' "$out" | grep '^node' | sort)" = "$expected" ] &&
        pass "coded storage $1" || fail "coded storage $1" "$status" "$out" "$err"
}
coded "on live cards, shm" 6 "all sums on the card" env OPENSPIN_TRANSPORT=shm \
    "$OPENSPIN" launch -n 6 ./coded 3 2
coded "on live cards, udp" 6 "sums on the card and at the host" env OPENSPIN_TRANSPORT=udp \
    "$OPENSPIN" launch -n 6 ./coded 3 2 1
coded "as processes of a world" 6 "sums on the card and at the host" \
    "$OPENSPIN" sim run -q -n 6 --card pspin ./coded 3 2 2
finish
