# cc with the words that compilers take, dependency files, early stops, assembly,
# and the handlers' C library.
. "$SOURCE/tests/lib/tap.sh"
mkdir inc sys
echo '#define TWO 2' >inc/two.h
echo '#define THREE 3' >sys/three.h
echo '#define FOUR 4' >four.h
cat >one.c <<'C'
#include <handler.h>
#include "two.h"
#include <three.h>
__handler__ void one_ph(handler_args_t *args) {
    *(uint32_t *)args->task->handler_mem = TWO + THREE + FOUR + more();
}
C
printf 'int more(void);\n' >>four.h
echo 'int more(void) { return 1; }' >more.c
compilers=clang
command -v riscv64-unknown-elf-gcc >/dev/null && compilers="clang gcc" ||
    skip "the same with gcc" "there is no riscv64-unknown-elf-gcc"
mkdir -p deps
for c in $compilers; do
    cc=("$OPENSPIN" cc --pspin --compiler "$c")
    check "$c: the usual words" 0 '' "${cc[@]}" -std=gnu11 -march=rv32imac -mabi=ilp32 \
        -w -O3 -g -I inc -isystem sys -include four.h -pedantic -pipe -nostdlib -nostartfiles \
        -Wl,--gc-sections,-z,noexecstack one.c more.c -o words.spin -lm
    check "$c: and they count" 0 'state\+0x0, 1 byte: 00 -> 0a' \
        "$OPENSPIN" exec words.spin --entry one_ph
    check "$c: link-time optimisation" 0 '' "${cc[@]}" -O3 -flto -Iinc -isystem sys \
        -include four.h one.c more.c -o lto.spin -lm -flto
    check "$c: gives the same" 0 'state\+0x0, 1 byte: 00 -> 0a' \
        "$OPENSPIN" exec lto.spin --entry one_ph
    check "$c: what HPUs lack is left out, and said" \
        0 '^openspin cc: -march=rv32imacxpulpv2: HPUs have no xpulpv2; compiled for rv32imac$' \
        "${cc[@]}" -march=rv32imacxpulpv2 more.c -o march.spin
    run "${cc[@]}" -march=rv32gcxpulpv2 -w more.c -o march.spin
    [ "$status$out$err" = 0 ] && pass "$c: -w, and it is not said" ||
        fail "$c: -w, and it is not said" "$err"
    # Dependencies: the image is the target, every header is named, without -MD
    # not those of the system.
    run "${cc[@]}" -MMD -MP -w -Iinc -isystem sys -include four.h one.c more.c -o build.out
    tr -d '\\\n' <build.d | grep -q '^build.out: .*one.c .*two.h.*build.out: .*more.c' &&
        ! grep -q three.h build.d && grep -q '^inc/two.h:$' build.d &&
        grep -q 'spin/pspin/handler.h' build.d && pass "$c: -MMD -MP" ||
        fail "$c: -MMD -MP" "$err" "$(cat build.d)"
    check "$c: -MD -MF -MT" 0 '' "${cc[@]}" -MD -MF deps/x.d -MT all -w -Iinc -isystem sys \
        -include four.h one.c more.c -o x.spin
    check "$c: a target of the user's" 0 '^all: .*one.c' cat deps/x.d
    check "$c: headers of the system too" 0 'three.h' cat deps/x.d
    check "$c: -MM" 0 '^one.spin: .*one.c .*four.h' bash -c "'$OPENSPIN' cc --pspin --compiler $c "\
"-MM -Iinc -isystem sys -include four.h one.c | tr -d '\\\\\\n'"
    check "$c: -E" 0 'more\(\);$' "${cc[@]}" -E -Iinc -isystem sys -include four.h one.c
    check "$c: -S" 0 '' "${cc[@]}" -S -w -Iinc -isystem sys -include four.h one.c
    check "$c: is assembly" 0 'one_ph:' cat one.s
    check "$c: -c" 0 '' "${cc[@]}" -c -MMD -w -Iinc -isystem sys -include four.h one.c -o one.o
    check "$c: names the object" 0 '^one.o:' cat one.d
    check "$c: objects are linked, and assembly compiled" 0 '' "${cc[@]}" \
        one.o more.c -o objects.spin
    check "$c: and run" 0 'state\+0x0, 1 byte: 00 -> 0a' \
        "$OPENSPIN" exec objects.spin --entry one_ph
done
refuse "a word that nobody knows" 2 \
    "^openspin cc: unknown option '-Zfast'; see 'openspin cc --help'\$" "$OPENSPIN" cc -Zfast more.c
refuse "another machine" \
    2 '^openspin cc: -march=rv64gc: HPUs are rv32imac, and rv32imafc with --float$' "$OPENSPIN" cc \
    -march=rv64gc more.c
refuse "another interface" 2 '^openspin cc: -mabi=ilp32f: handlers have -mabi=ilp32$' \
    "$OPENSPIN" cc -mabi=ilp32f more.c
refuse "a value that is missing" 2 '^openspin cc: -include needs a value$' \
    "$OPENSPIN" cc more.c -include
refuse "two sources for one object" 2 '^openspin cc: -c with -o takes one source$' \
    "$OPENSPIN" cc -c more.c one.c -o x.o

refuse "rules that cannot be written" 1 'nowhere/x.d: cannot ' \
    "$OPENSPIN" cc more.c -o late.spin -MMD -MF nowhere/x.d
[ ! -e late.spin ] && pass "and nothing else is" || fail "and nothing else is"
run "$OPENSPIN" cc -march=rv32imac2p0_zifencei more.c -o march.spin
[ "$status$out$err" = 0 ] && pass "versions of extensions" || fail "versions of extensions" "$err"

# Assembly, with what it needs: see cc --help.
cat >five.S <<'A'
#define FIVE 5
    .text
    .globl five_ph
    .type five_ph, @function
five_ph:
    lw a0, 0(a0)
    lw a0, 0(a0)
    li a1, FIVE
    sw a1, 0(a0)
    ret
    .size five_ph, . - five_ph
A
printf '#include <handler.h>\n' >note.c
check "assembly" 0 '' "$OPENSPIN" cc --pspin five.S note.c -o five.spin
check "runs" 0 'state\+0x0, 1 byte: 00 -> 05' "$OPENSPIN" exec five.spin --entry five_ph

# What handlers print.
cat >print.c <<'C'
#include <handler.h>
#include <string.h>
__handler__ void print_ph(handler_args_t *args) {
    char text[40];
    printf("hello from %u, %s %5d|%-4x|%04u %lld %.3f%c\n", args->hpu_gid, "packet", -42,
           0xbeef, 7u, 1ll << 40, 1.5, '!');
    snprintf(text, sizeof text, "%s-%d", "a", atoi("12"));
    puts(strcmp(text, "a-12") == 0 ? text : "wrong");
    printf("\033[2J bell \a");
    SPIN_PRINTF("MIN %d MAX %d %d %d\n", MIN(1, 2), MAX(1, 2), DIV_CEIL(7, 2), FAST_MOD(13, 8));
    printf("no end of line");
}
C
for c in $compilers; do
    check "$c: handlers print" 0 '' "$OPENSPIN" cc --pspin --compiler "$c" -w print.c -o print.spin
    run "$OPENSPIN" exec print.spin --entry print_ph --hpu 9
    printf '%s\n' '[1,1] hello from 9, packet   -42|beef|0007 1099511627776 1.500!' '[1,1] a-12' \
        '[1,1] \x1b[2J bell \x07print.c:print_ph:10: MIN 1 MAX 2 4 5' \
        '[1,1] no end of line' >want.txt
    diff want.txt stderr.txt >diff.txt && [ "$status" = 0 ] && pass "$c: in exec" ||
        fail "$c: in exec" "$(cat diff.txt)" "$out"
    run "$OPENSPIN" exec print.spin --entry print_ph --hpu 9 --jit=force
    diff want.txt stderr.txt >diff.txt && pass "$c: in generated code" ||
        fail "$c: in generated code" "$(cat diff.txt)" "$out"
done
run "$OPENSPIN" card run -H print.spin -T gen:packets=8,size=64
[ "$(grep -c '^\[0,[0-9]\] hello from [0-9]*, packet' stderr.txt)" = 8 ] &&
    [ "$(grep -c 'no end of line$' stderr.txt)" = 8 ] && ! grep -q hello stdout.txt &&
    pass "on the card, line by line" || fail "on the card, line by line" "$out" "$err"
run ${MESON_EXE_WRAPPER:-} "$BUILD/pspin_driver" print.spin print_ph 8
[ "$(grep -c '^\[[0-3],[0-7]\] hello from [0-9]*, packet' stdout.txt)" = 8 ] &&
    pass "libpspin prints them where the driver prints" ||
    fail "libpspin prints them where the driver prints" "$out" "$err"
cat >p4print.c <<'C'
#include <spin/handler.h>
#include <stdio.h>
__handler int say_payload_handler(const ptl_payload_t p, void *state) {
    (void)state;
    printf("%u bytes\n", (unsigned)p.length);
    return SUCCESS;
}
C
check "handlers of P4sPIN print too" 0 '' "$OPENSPIN" cc p4print.c -o p4print.spin
check "the same way" 0 '^\[0,3\] 64 bytes$' \
    "$OPENSPIN" exec p4print.spin --entry say_payload_handler --packet-size 64 --hpu 3
{
    echo '#include <stdio.h>'
    sed 's/^\(.*handler(const ptl_payload_t p, void \*state) {\)/\1 printf("%u bytes\\n", '\
'(unsigned)p.length);/' "$SOURCE/examples/sum_handler.c"
} >sum.c
check "a handler that prints in a world" 0 '' bash -c "'$OPENSPIN' cc sum.c -o sum.spin && cc "\
"-shared -fPIC -I'$SOURCE/include' '$SOURCE/examples/sum_program.c' -o sum.so"
run "$OPENSPIN" sim run -q -n 4 ./sum.so sum.spin
[ "$status" = 0 ] && [ "$(grep -c '^\[0,[0-9]\] 4 bytes$' stderr.txt)" = 3 ] &&
    pass "is seen: rank and HPU" || fail "is seen: rank and HPU" "$out" "$err"
finish
