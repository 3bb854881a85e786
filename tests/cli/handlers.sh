# cc, image, exec and budget as a user drives them.
. "$SOURCE/tests/lib/tap.sh"
handlers=$SOURCE/tests/handlers

# --- compile
check "cc compiles the example" 0 '' "$OPENSPIN" cc "$SOURCE/examples/word_sum.c" -o sum.spin
check "cc names the output by itself" 0 '' "$OPENSPIN" cc "$handlers/calls.c"
[ -s calls.spin ] && pass "calls.spin is there" || fail "calls.spin is there"
check "cc takes C++" 0 '' "$OPENSPIN" cc "$handlers/plus.cpp" -o plus.spin
check "C++ handler runs" 0 'state\+0x0, 1 byte: 00 -> 09' \
    "$OPENSPIN" exec plus.spin --entry greatest_payload_handler --hex 030000000900000005000000

mkdir inc
echo '#define ANSWER FROM_D' >inc/answer.h
cat >one.c <<'C'
#include <spin/handler.h>
#include "answer.h"
int two(void);
__handler int answer_completion_handler(int dropped, bool fc, void *state) {
    (void)dropped, (void)fc, (void)state;
    return ANSWER + two();
}
C
echo 'int two(void) { return 2; }' >two.c
check "several sources, -D, -I, -O, -g" 0 '' \
    "$OPENSPIN" cc one.c two.c -o both.spin -DFROM_D=4 -I inc -Os -g0
check "they are linked" 0 '^result +DROP \(6\)' \
    "$OPENSPIN" exec both.spin --entry answer_completion_handler
check "-g0 leaves no lines" 0 'without source lines' "$OPENSPIN" image both.spin
check "-g is kept by default" 0 'with source lines' "$OPENSPIN" image sum.spin
check "cc -v shows the commands" 0 '^clang --target=riscv32.*-D A=1' \
    "$OPENSPIN" cc "$SOURCE/examples/word_sum.c" -o v.spin -v -D A=1

if command -v riscv64-unknown-elf-gcc >/dev/null; then
    check "cc --compiler gcc" 0 '^riscv64-unknown-elf-gcc .*-march=rv32imac' \
        "$OPENSPIN" cc --compiler gcc "$handlers/calls.c" -o gcc.spin -v
    check "its image runs" 0 '^result +SUCCESS' \
        "$OPENSPIN" exec gcc.spin --entry heap_payload_handler --packet-size 777
    check "has source lines" 0 'with source lines' "$OPENSPIN" image gcc.spin
    check "floats in hardware" 0 '' \
        "$OPENSPIN" cc --compiler gcc --float "$handlers/calls.c" -o gccfloat.spin
    # The loop of PsPIN's reduce: five instructions per word by gcc, six by clang.
    cat >reduce.c <<'C'
#include <handler.h>
__handler__ void reduce_ph(handler_args_t *args) {
    task_t *task = args->task;
    uint32_t *from = (uint32_t *)((uint8_t *)task->pkt_mem + 28);
    uint32_t words = (task->pkt_mem_size - 28) / 4;
    volatile int32_t *to = (int32_t *)task->scratchpad[args->cluster_id];
    for (uint32_t i = 0; i < words; i++)
        amo_add(&to[i], from[i]);
}
C
    for compiler in clang gcc; do
        "$OPENSPIN" cc --pspin --compiler $compiler -O3 reduce.c -o reduce.spin
        "$OPENSPIN" exec reduce.spin --entry reduce_ph --packet-size 1024 --scratchpad-size 4096 |
            sed -n 's/^instructions *//p' >reduce.$compiler
    done
    [ "$(cat reduce.gcc)" -lt 1300 ] && [ "$(cat reduce.clang)" -gt 1400 ] &&
        pass "reduce: $(cat reduce.gcc) instructions by gcc, $(cat reduce.clang) by clang" ||
        fail "reduce: gcc needs fewer instructions" "$(cat reduce.gcc reduce.clang)"
else
    skip "cc --compiler gcc" "there is no riscv64-unknown-elf-gcc"
fi
refuse "another compiler" 2 "^openspin cc: --compiler: 'tcc' is not clang or gcc$" \
    "$OPENSPIN" cc --compiler tcc two.c
refuse "gcc that is not there" 1 "^openspin cc: cannot run riscv64-unknown-elf-gcc: "\
"No such file or directory; install Debian's package gcc-riscv64-unknown-elf$" env PATH=/nowhere \
    "$OPENSPIN" cc --compiler gcc two.c
echo 'int f(void) { return g }' >bad.c
run "$OPENSPIN" cc bad.c -o bad.spin
[ "$status" = 1 ] && [ ! -e bad.spin ] && printf '%s' "$err" | grep -q \
    "openspin cc: bad.c: does not compile" && pass "compile error" || fail "compile error" "$err"
echo 'int g(void); int f(void) { return g(); }' >undefined.c
run "$OPENSPIN" cc undefined.c -o undefined.spin
[ "$status" = 1 ] && [ ! -e undefined.spin ] && printf '%s' "$err" |
    grep -q 'undefined symbol: g' && pass "undefined symbol" || fail "undefined symbol" "$err"
ls ./*.part-* >/dev/null 2>&1 && fail "no part is left behind" "$(ls)" ||
    pass "no part is left behind"
cat >ctor.cpp <<'C'
volatile int seed = 3; struct S { int x; S() : x(seed) {} }; S s; int f() { return s.x; }
C
refuse "static constructors" 1 'ctor.spin: has static constructors' \
    "$OPENSPIN" cc ctor.cpp -o ctor.spin
cat >big.c <<'C'
#define R10(x) x x x x x x x x x x
void f(volatile int *p) { R10(R10(R10(R10(*p = 1; *p = 2;)))) }
C
refuse "code over the limit" \
    1 'big.spin: code ends at [0-9]+ bytes, the card.s program memory has 32768 bytes' \
    "$OPENSPIN" cc big.c -o big.spin
check "a larger card takes it" 0 '' "$OPENSPIN" cc big.c -o big.spin --program-memory 256KiB
refuse "the smaller one refuses it on load" 1 'program memory has 32768' "$OPENSPIN" image big.spin
echo 'char table[5 << 20] = {1}; int f(int i) { return table[i]; }' >data.c
refuse "data over the limit" \
    1 'data.spin: data ends at [0-9]+ bytes, the card.s L2 handler memory has 4194304' \
    "$OPENSPIN" cc data.c -o data.spin
printf '#include <spin/handler.h>\n__handler float half(float x) { return x * 0.5f; }\n' >float.c
check "F on request" 0 '' "$OPENSPIN" cc float.c -o float.spin --float
refuse "a card without F refuses it" 1 "float.spin: (flw|fmv|fmul|lui|fmv.w.x)[a-z.]* at "\
"0x1d0000[0-9a-f]* in 'half': this card has no F" "$OPENSPIN" image float.spin
check "a card with F takes it" 0 'float +[1-9]' "$OPENSPIN" image float.spin --float
check "and runs it: half of 3.0 is 1.5" 0 '0x3fc00000' \
    "$OPENSPIN" exec float.spin --float --entry half --arg 0x40400000
check "without F the same comes from libgcc" 0 '' "$OPENSPIN" cc float.c -o soft.spin
check "and gives the same" 0 '0x3fc00000' "$OPENSPIN" exec soft.spin --entry half --arg 0x40400000
check "PTL_NUM_HPUS is carried" 0 '' "$OPENSPIN" cc "$handlers/calls.c" -o few.spin -DPTL_NUM_HPUS=8
refuse "and a larger card refuses" 1 'few.spin: compiled for 8 HPUs .*the card has 32' \
    "$OPENSPIN" image few.spin
check "a small card takes it" 0 '' "$OPENSPIN" image few.spin --hpus 8

refuse "cc without a source" 2 'no source file' "$OPENSPIN" cc
refuse "cc of a missing file" 1 'missing.c: cannot open source: No such file' \
    "$OPENSPIN" cc missing.c
refuse "cc of a directory" 1 'inc: cannot read source: it is a directory' "$OPENSPIN" cc inc
: >empty.c
echo text >notes.txt
refuse "cc of what is no source" 1 'notes.txt: not a source by its name' "$OPENSPIN" cc notes.txt
refuse "cc of an empty file" 1 'empty.c: cannot read source: the file is empty' \
    "$OPENSPIN" cc empty.c
refuse "cc into a directory" 1 'inc: is a directory' "$OPENSPIN" cc two.c -o inc
refuse "cc into a folder that is not there" 1 'does not link|cannot write' \
    bash -c "'$OPENSPIN' cc two.c -o nowhere/x.spin 2>&1 | tail -n 1 >&2; exit \${PIPESTATUS[0]}"
refuse "cc with an unknown option" 2 "unknown option '-Z'" "$OPENSPIN" cc two.c -Z

# --- image
refuse "image of a missing file" 1 'missing.spin: cannot open image: No such file' \
    "$OPENSPIN" image missing.spin
refuse "image of a directory" 1 'inc: cannot read image: it is a directory' "$OPENSPIN" image inc
: >empty.spin
refuse "image of an empty file" 1 'empty.spin: cannot read image: the file is empty' \
    "$OPENSPIN" image empty.spin
refuse "image of text" 1 'two.c: not an ELF file' "$OPENSPIN" image two.c
refuse "image of the host's program" 1 'ELF class is 64 bit' "$OPENSPIN" image "$BUILD/openspin"
refuse "image without a name" 2 'no image' "$OPENSPIN" image
refuse "two images" 2 'one image at a time' "$OPENSPIN" image sum.spin plus.spin
clang --target=riscv32 -c two.c -o two.o
refuse "an object file" 1 'two.o: is not linked' "$OPENSPIN" image two.o
head -c 3000 sum.spin >cut.spin
refuse "a truncated image" 1 'cut.spin: truncated' "$OPENSPIN" image cut.spin
python3 - <<'P'
import struct
image = bytearray(open("sum.spin", "rb").read())
first, size, count = struct.unpack_from("<I", image, 28)[0], *struct.unpack_from("<HH", image, 42)
for at in range(first, first + size * count, size):
    kind, _, address = struct.unpack_from("<III", image, at)
    if kind == 1 and address >> 24 == 0x1C:  # PT_LOAD, constants
        struct.pack_into("<I", image, at + 8, address + 4)
open("odd.spin", "wb").write(image)
P
refuse "a segment that atomics could not use" \
    1 'odd.spin: the segment at 0x1c000004 does not begin at a multiple of 8' \
    "$OPENSPIN" image odd.spin
# Root may read everything, so then another user tries, with a copy of
# the command that he can reach.
cp sum.spin secret.spin && chmod 0 secret.spin
as_user=()
if [ "$(id -u)" = 0 ]; then
    cp "$OPENSPIN" command && chmod 755 . command
    as_user=(setpriv --reuid=65534 --regid=65534 --clear-groups)
    OPENSPIN_HERE=./command
fi
refuse "an unreadable image" 1 'secret.spin: cannot open image: Permission denied' "${as_user[@]}" \
    "${OPENSPIN_HERE:-$OPENSPIN}" image secret.spin
check "image lists handlers" 0 '^sum_payload_handler +payload +0x1d[0-9a-f]{6}' \
    "$OPENSPIN" image sum.spin
run "$OPENSPIN" image sum.spin --json
printf '%s' "$out" | python3 -c '
import json, sys
d = json.load(sys.stdin)
assert ([f["name"] for f in d["functions"]] == ["sum_header_handler", "sum_payload_handler",
                                                "sum_completion_handler"]), d
assert d["instructions"] == sum(d["by_class"].values()) > 0, d
assert d["code_bytes"] < d["limits"]["program_bytes"] == 32768' && pass "image --json" ||
    fail "image --json" "$out"

# --- image: assembly, with and without symbols and sizes
asm() { # asm NAME: an image of the assembly on standard input
    { echo '.text'; cat; } >"$1.S"
    "$OPENSPIN" cc "$1.S" -o "$1.spin" 2>cc.txt
}
global() { printf '.globl %s\n.type %s, @function\n%s:\n' "$1" "$1" "$1"; }
{ global small_ph; printf 'li a0, 0\nret\n.size small_ph, . - small_ph\n'; } | asm small
check "an image of code alone is as large as its code" 0 '^code +4 of' "$OPENSPIN" image small.spin
check "and fits a card that has room for that" 0 '^code +4 of +64 bytes' \
    "$OPENSPIN" image small.spin --program-memory 64
{ global bare_ph; printf 'j 1f\n.word 0xffffffff\n1: ret\n'; } | asm bare
check "data between code is no instruction" 0 'instructions +2,' "$OPENSPIN" image bare.spin
{ global bad_ph; printf 'beqz a0, 1f\nret\n1: .word 0xffffffff\n'; } | asm bad
grep -qE "0xffffffff at 0x1d00000[46] in 'bad_ph' is no instruction of the card" cc.txt &&
    pass "a function without a size is checked" ||
    fail "a function without a size is checked" "$(cat cc.txt)"
{
    global jumps_ph
    printf 'j hidden\n.size jumps_ph, . - jumps_ph\nnop\nhidden: .word 0xffffffff\n'
} | asm jumps
grep -qE "0xffffffff at 0x1d0000[0-9a-f]+ after 'jumps_ph' is no instruction" cc.txt &&
    pass "and so is code without a symbol" ||
    fail "and so is code without a symbol" "$(cat cc.txt)"
{ global sys_ph; printf 'ecall\nret\n'; } | asm sys
check "ecall is a system call, and no failed check" 1 'ended: system call' \
    "$OPENSPIN" exec sys.spin --entry sys_ph
cores=$("$OPENSPIN" exec sum.spin --entry sum_payload_handler --core none 2>&1 |
    sed 's/.*there are: //; s/,//g')
run "$OPENSPIN" exec --help
for core in $cores; do
    grep -qE -- "--core.*\b$core\b" <<<"$out" && pass "help names the core $core" ||
        fail "help names the core $core" "$out"
done

# --- names from files are shown, never written to the terminal as they are
# plain NAME: neither output of the last command holds a control character but
# newlines, nor what is no UTF-8
plain() {
    if LC_ALL=C grep -q $'[\x01-\x08\x0b-\x1f\x7f]' stdout.txt stderr.txt ||
        ! iconv -f utf-8 -t utf-8 stdout.txt stderr.txt >/dev/null 2>&1; then
        fail "$1: no control characters" "$(cat -v stdout.txt stderr.txt)"
    else
        pass "$1: no control characters"
    fi
}
{
    global AAAAAAAAA_payload_handler
    printf 'lw a0, 0(x0)\nret\n.size AAAAAAAAA_payload_handler, . - AAAAAAAAA_payload_handler\n'
} | asm evil
LC_ALL=C sed -i 's/AAAAAAAAA/\x1b[31m\nB\xff\x9b/g' evil.spin
check "a name with a newline and an escape sequence" \
    0 '^\\x1b\[31m\\nB\\xff\\x9b_payload_handler +payload' "$OPENSPIN" image evil.spin
plain "image"
run "$OPENSPIN" image evil.spin --json
plain "image --json"
python3 -c 'import json; json.load(open("stdout.txt"))' && pass "image --json is JSON" ||
    fail "image --json is JSON" "$out"
refuse "and in an error" 2 'it has: \\x1b\[31m\\nB' "$OPENSPIN" exec evil.spin --entry other
plain "an error"
check "it can be called as it is shown" 1 'ended: SEGV .*\\x1b' \
    "$OPENSPIN" exec evil.spin --entry '\x1b[31m\nB\xff\x9b_payload_handler' --profile --trace
plain "profile and trace"
cp small.spin $'a\x1b[1mb\nc.spin'
check "a path" 0 '^a\\x1b\[1mb\\nc.spin: handler image' "$OPENSPIN" image $'a\x1b[1mb\nc.spin'
plain "a path"
refuse "a path that is not there" 1 'x\\x1by: cannot open image' "$OPENSPIN" image $'x\x1by'
plain "a path that is not there"
refuse "an option" 2 '\\x1b' "$OPENSPIN" image $'--x\x1by'
plain "an option"

# --- exec: golden outputs (compiled in the scratch folder, so that no path of a machine is in them)
cp "$SOURCE/examples/word_sum.c" .
"$OPENSPIN" cc word_sum.c -o word_sum.spin
golden=$SOURCE/tests/golden
words=0100000002000000030000000400000005000000060000000700000008000000
same "exec of a header handler" "$golden/exec_header.txt" \
    "$OPENSPIN" exec word_sum.spin --entry sum_header_handler --source 3 --hex "$words"
same "exec of a payload handler" "$golden/exec_payload.txt" \
    "$OPENSPIN" exec word_sum.spin --entry sum_payload_handler --hex "$words"
same "exec of a completion handler" "$golden/exec_completion.txt" "$OPENSPIN" exec word_sum.spin \
    --entry sum_completion_handler --state-hex 240000000100000005000000
same "exec --trace" "$golden/exec_trace.txt" \
    "$OPENSPIN" exec word_sum.spin --entry sum_payload_handler --hex "0100000002000000" --trace
same "exec --profile" "$golden/exec_profile.txt" \
    "$OPENSPIN" exec word_sum.spin --entry sum_payload_handler --packet-size 256 --profile
for how in off on force; do
    run "$OPENSPIN" exec word_sum.spin --entry sum_payload_handler --hex "$words" --jit=$how
    case $status,$err in
    *"built without LLVM"*) skip "exec --jit=$how gives the same" "built without LLVM" ;;
    *) same "exec --jit=$how gives the same" "$golden/exec_payload.txt" \
        "$OPENSPIN" exec word_sum.spin --entry sum_payload_handler --hex "$words" --jit=$how ;;
    esac
done
check "--jit takes three words" 2 "^openspin exec: --jit: 'fast' is not off, on or force$" \
    "$OPENSPIN" exec word_sum.spin --entry sum_payload_handler --jit=fast
same "exec --json" "$golden/exec_json.txt" "$OPENSPIN" exec word_sum.spin \
    --entry sum_completion_handler --state-hex 240000000100000005000000 --json
python3 -c 'import json; json.load(open("stdout.txt"))' && pass "which is JSON" ||
    fail "which is JSON"
check "exec reads packet and state from files" 0 'state\+0x0, 5 bytes: .* -> c6c8cacc 01' \
    bash -c "printf 'abcdefgh' >p.bin; printf '\0\0\0\0\0\0\0\0' >s.bin; '$OPENSPIN' exec "\
"word_sum.spin --entry sum_payload_handler --packet p.bin --state s.bin"
check "warm runs have no misses" 0 '^cycles +[0-9]+$' \
    "$OPENSPIN" exec word_sum.spin --entry sum_payload_handler --repeat 3
check "functional: a cycle per instruction" 0 '^IPC +1.00' \
    "$OPENSPIN" exec word_sum.spin --entry sum_payload_handler --functional
check "state in L2 shows in the accesses" 0 'L2 handler memory +0 loads +3 stores' \
    "$OPENSPIN" exec word_sum.spin --entry sum_header_handler --state-in l2

# --- the calls
calls() { "$OPENSPIN" exec calls.spin --entry "$@"; }
check "DMA moves bytes both ways" \
    0 'ME host memory\+0x8, 16 bytes: .* -> 01020304 05060708 090a0b0c 0d0e0f10' \
    calls dma_payload_handler --hex 0102030405060708090a0b0c0d0e0f10
check "DMA CAS and fetch-add" \
    0 'ME host memory\+0x40, 8 bytes: 00000000 00000000 -> 90776655 44332211' \
    calls dma_payload_handler --hex 0102030405060708090a0b0c0d0e0f10
check "the handler's own host memory" \
    0 '^ +handler host memory\+0x0, 4 bytes: 00000000 -> 01020304' \
    calls dma_payload_handler --hex 0102030405060708090a0b0c0d0e0f10
check "CAS and fetch-add in HPU memory" 0 'state\+0x0, .*-> 08000000 03000000 07000000 01' \
    calls atomic_payload_handler
check "puts carry their words" 0 'PUT_FROM_DEVICE local=0x[0-9a-f]+ length=0x2 ct=0x0 '\
'ack=0x0 target=0x3 match_low=0x4 match_high=0x9 remote_offset=0x5 user=0x0 hdr_low=0x6' \
    calls message_payload_handler
check "atomics carry operation and type" 0 'ATOMIC_FROM_HOST .*operation_and_type=0x402' \
    calls message_payload_handler
check "the counter" 0 'state\+0x18, .*-> 0b000000 16' calls message_payload_handler
check "scratch memory, memcpy and friends, PTL_MY_HPU" 0 'state\+0x0, 1 byte: 00 -> 05' \
    calls heap_payload_handler --hpu 5 --packet-size 777
check "and succeed" 0 '^result +SUCCESS' calls heap_payload_handler --packet-size 777
check "header fields" 0 '-> e8030000 07000000 09000000 11$' calls header_seen_header_handler \
    --hex ab00 --message-size 1000 --source 7 --target 9 --match-bits 0x1100000000
check "header returns PROCEED" 0 '^result +PROCEED \(4\)' \
    calls header_seen_header_handler --message-size 1000
check "header returns PROCESS_DATA_PENDING" 0 '^result +PROCESS_DATA_PENDING \(3\)' \
    calls header_seen_header_handler --message-size 1001
check "payload after the user header" 0 '-> 05000000 20000000 44' \
    calls offset_payload_handler --hex 1122334455667788 --user-header 3 --offset 32
check "libgcc: float and 64-bit division" 0 '^result +[0-9]+' calls mean --hex 0400000008000000
value=$(calls mean --hex 0400000008000000 | sed -n 's/^result *\([0-9]*\).*/\1/p')
[ "$value" = $((3 + (1 << 40) / 8 % 1000)) ] && pass "with the right value" ||
    fail "with the right value" "$value"

# --- faults
check "compile the faults" 0 '' "$OPENSPIN" cc "$handlers/faults.c" -o faults.spin
fault() { # NAME PATTERN ENTRY [options]
    local name=$1 pattern=$2 entry=$3
    shift 3
    check "$name" 1 "$pattern" "$OPENSPIN" exec faults.spin --entry "${entry}_payload_handler" "$@"
}
fault "before the state" \
    'ended: SEGV at pc 0x1d[0-9a-f]+ \(below_payload_handler.*faults.c:[0-9]+, address 0x1001043f' \
    below
fault "after the packet" 'ended: SEGV .*address 0x10004640' above
fault "null" 'ended: SEGV .*address 0x00000008' null
fault "a constant" 'ended: SEGV .*address 0x1c0000' constant
fault "its own code" 'ended: SEGV .*address 0x1d0000' code
fault "a jump into the packet" 'ended: SEGV at pc 0x10004440' jump
fault "an endless loop" 'ended: cycle budget exceeded' loop --watchdog 5000
fault "assert" 'ended: failed check' assert
fault "trap" 'ended: illegal instruction' trap
fault "misaligned atomic" 'ended: misaligned atomic .*address 0x10010442' misaligned
fault "stack overflow" 'ended: SEGV' stack
fault "DMA outside host memory" \
    'ended: DMA outside host memory at pc .*faults.c:[0-9]+: PtlHandlerDMAToHostB?: ' command
# Every mistake in a call names the call and the line that made it, however it was compiled.
# What the fuzzer of images begins with must be images, of this version of the interface (else:
# tests/fuzz/make-corpus).
for f in atomics crc dma lines placed word_sum; do
    check "the fuzzers' $f.elf is an image" 0 'handler image, RV32IMAC' \
        "$OPENSPIN" image "$SOURCE/tests/fuzz/corpus/image/$f.elf"
done
check "with floats" 0 'handler image, RV32IMACF' \
    "$OPENSPIN" image --float "$SOURCE/tests/fuzz/corpus/image/floats.elf"

# Both headers read: what they share has one value, and the groups of which a
# handler needs any are whole.
python3 - "$SOURCE" <<'P' >shared.txt 2>&1
import re, subprocess, sys
host, card = (open(f"{sys.argv[1]}/include/{f}").read() for f in ("portals4.h", "spin/handler.h"))
code = lambda text: re.sub(r"/\*.*?\*/", "", text, flags=re.S)
names = (lambda text: set(re.findall(r"^#define (PTL_\w+) ", text, re.M))
         | set(re.findall(r"\b(PTL_\w+)(?: = [-\w]+)?[,\s]*[,}\n]",
                          "".join(re.findall(r"enum[^;{]*\{[^}]*\}", text)))))
shared = sorted(names(code(host)) & names(code(card)))
for group in ("Acknowledgements", "Atomic operations", "Types of their operands"):
    section = re.search(rf"/\* {group}.*?\n\n", host, re.S).group(0)
    wanted = set(re.findall(r"#define (PTL_\w+)", section))
    assert len(wanted) > 3 and wanted <= set(shared), (group, wanted - set(shared))
assert len(shared) > 38 and "PTL_FAIL" in shared, shared
with open("shared_host.c", "w") as f:
    rows = "".join(f'printf("_Static_assert({n} == %lld, \\"{n}\\");\\n", (long long){n});'
                   for n in shared)
    f.write(f"#include <portals4.h>\n#include <stdio.h>\nint main(void) {{ {rows} }}\n")
subprocess.check_call(["cc", f"-I{sys.argv[1]}/include", "shared_host.c", "-o", "shared_host"])
values = subprocess.check_output(["./shared_host"], text=True)
open("shared_card.c", "w").write("#include <spin/handler.h>\n" + values
                                 + "__handler int f(void) { return SUCCESS; }\n")
print(len(shared), "names")
P
check "constants of both headers" 0 '^[0-9]+ names$' cat shared.txt
check "have the same values" 0 '' "$OPENSPIN" cc shared_card.c
cp "$SOURCE/tests/handlers/user_header.c" .
for c in clang gcc; do
    check "$c: a user header before the include" 0 '' \
        "$OPENSPIN" cc --compiler $c -Werror user_header.c -o user.spin
    check "$c: is read" 0 'state\+0x0, 2 bytes: 0000 -> 3412' \
        "$OPENSPIN" exec user.spin --entry parity_update_header_handler --hex 0000000034120000
done
check "with the macro too" 0 '' "$OPENSPIN" cc -DPTL_USER_HEADER user_header.c -o user.spin
sed '1i #include <stdbool.h>' user_header.c >plain_header.c
check "another compiler is told what to do" \
    1 'ptl_user_header_t is defined before spin/handler.h: define PTL_USER_HEADER too' \
    clang --target=riscv32-unknown-elf -ffreestanding -I"$SOURCE/include" -c plain_header.c

names=$handlers/p4_names.c
line_of() { grep -n "line: $1 \*/" "$names" | cut -d: -f1; }
for how in -O0 -O2; do
    check "constants, a user header after the include, $how" 0 '' \
        "$OPENSPIN" cc $how "$names" -o names.spin
    names_fault() {
        check "$1, $how" 1 "$2" \
            "$OPENSPIN" exec names.spin --entry "$1_payload_handler" --hex 11223344
    }
    names_fault outside "ended: DMA outside host memory at .*\(outside_payload_handler.*, "\
"p4_names.c:$(line_of outside): PtlHandlerDMAToHostB: 8 bytes at offset 65,532 of the ME's "\
"host memory, which has 65,536$"
    names_fault foreign "ended: SEGV at .*, p4_names.c:$(($(line_of foreign) - 1)): "\
"PtlHandlerPutFromDevice: 2,000 bytes at 0x10004440, which the handler may not read$"
    names_fault type "ended: command refused by the card at .*, p4_names.c:$(line_of type): "\
"PtlHandlerDMAFetchAddB: type 9 is no integer$"
    names_fault both "ended: command refused by the card at .*, p4_names.c:$(line_of both): "\
"PtlHandlerCTInc: success 3 and failure 2: one of them must be 0$"
    names_fault handle "ended: command refused by the card at .*, p4_names.c:$(line_of handle): "\
"PtlHandlerDMAWait: handle 77 was never given out$"
done
check "the user header is the first bytes" \
    0 'state\+0x0, [0-9]+ bytes: .* -> 11000000 22000000 33000000 07' "$OPENSPIN" exec names.spin \
    --entry user_header_handler --hex 1100000022000000 --me-offset 7 --hdr-data 0x33
check "fetch and add has 64 bits" 0 'state\+0x8, 5 bytes: .* -> 02000000 01$' \
    "$OPENSPIN" exec names.spin --entry add_payload_handler --hex 11
check "signed ones extend, narrow results are cut" \
    0 'state\+0x18, [0-9]+ bytes: .* -> ffffffff ffffffff 01' \
    "$OPENSPIN" exec names.spin --entry add_payload_handler --hex 11
check "PENDING" 0 'result +SUCCESS_PENDING' \
    "$OPENSPIN" exec names.spin --entry add_payload_handler --hex 11
check "in JSON" 1 '"call": "PtlHandlerDMAWait"' \
    "$OPENSPIN" exec names.spin --entry handle_payload_handler --hex 11 --json
check "and a good one" 0 'data\+0x0, 1 byte: 07 -> 08' \
    "$OPENSPIN" exec faults.spin --entry good_payload_handler

# --- exec and budget, bad input
refuse "no entry" 2 'which handler' "$OPENSPIN" exec sum.spin
refuse "no such entry" 2 "no handler 'nix'; it has: sum_header_handler, sum_payload_handler" \
    "$OPENSPIN" exec sum.spin --entry nix
exec_sum() { "$OPENSPIN" exec sum.spin --entry sum_payload_handler "$@"; }
refuse "half a byte" 2 "is not pairs of hexadecimal digits" exec_sum --hex 123
refuse "hex and file" 2 "given as a file already" exec_sum --hex 12 --packet p.bin
refuse "no such packet" 1 "nix.bin: cannot open packet" exec_sum --packet nix.bin
refuse "a packet that is a directory" 1 "inc: cannot read packet: it is a directory" \
    exec_sum --packet inc
refuse "an empty packet file" 1 "empty.c: cannot read packet: the file is empty" \
    exec_sum --packet empty.c
head -c 40000 /dev/zero >large.bin
refuse "a packet that is too large" 1 "packet of 40000 bytes, the packet buffer in L1 takes 32704" \
    exec_sum --packet large.bin
refuse "no such kind" 2 "'x' is none of header, payload" exec_sum --kind x
refuse "no such core" 2 "no core model 'z80'; there are: ri5cy, sc17, unit" exec_sum --core z80
refuse "no such HPU" 2 "HPU 99: the card has HPUs 0 to 31" exec_sum --hpu 99
refuse "a budget of nothing" 2 "watchdog: 0 is outside 1 to" exec_sum --watchdog 0
refuse "no number" 2 "'abc' is not a number" exec_sum --watchdog abc
refuse "a number of 20 digits" 2 "99999999999999999999 is outside" \
    exec_sum --repeat 99999999999999999999
refuse "no size" 2 "'4Q' is not a size" exec_sum --state-size 4Q
refuse "a state that is too large" 1 "state of 2097152 bytes, the card has" \
    exec_sum --state-size 2MiB
refuse "an option without its value" 2 "hex needs a value" exec_sum --hex
refuse "a flag with a value" 2 "trace takes no value" exec_sum --trace=1
refuse "trace as JSON" 2 "goes without --trace" exec_sum --json --trace
refuse "a user header longer than the packet" 2 "user header of 9 bytes in a packet of 8" \
    exec_sum --hex 1122334455667788 --user-header 9

# --- budget: the papers' numbers (ids of published.md)
budget() { "$OPENSPIN" budget --runtime 0 "$@"; }
check "B10: 64 B at 400 Gbit/s, 32 HPUs: 41 ns" 0 '^time budget +41.0 ns' \
    budget --cycles 10 --packet-size 64
check "B10: 1,024 B: 655 ns" 0 '^time budget +655.4 ns' budget --cycles 10 --packet-size 1024
check "B10: twice that at 200 Gbit/s" 0 '^time budget +1310.7 ns' \
    budget --cycles 10 --packet-size 1024 --rate 200
check "C9: 2 KiB: 1,310 ns" 0 '^time budget +1310.7 ns' budget --cycles 10 --packet-size 2048
check "C9: RS(6,3) needs more than 512 HPUs" 0 '^HPUs needed +562' \
    budget --cycles 23018 --packet-size 2048
check "A11: 8 HPUs, g = 6.7 ns: 53 ns held" 0 '^line rate +held' \
    budget --cycles 53 --packet-size 64 --hpus 8 --gap 6.7
check "A11: 54 ns not" 0 '^line rate +NOT held' \
    budget --cycles 54 --packet-size 64 --hpus 8 --gap 6.7
check "A11: bandwidth-bound from 335 B" 0 'a packet every 6.72 ns' \
    budget --cycles 53 --packet-size 336 --hpus 8 --gap 6.7
check "A11: T(4096) = 650 ns" 0 '^time budget +655.4 ns' \
    budget --cycles 53 --packet-size 4096 --hpus 8 --gap 6.7
check "A11: 200 ns at 1 Tbit/s: 25 kB" 0 '^packet buffer +25.0 kB' \
    budget --cycles 500 --clock 2500 --rate 1000 --packet-size 1024
check "B17: 3 us at 800 Gbit/s: 300 kB" 0 '^packet buffer +300.0 kB' \
    budget --cycles 3000 --rate 800 --packet-size 1024
same "budget of the example" "$golden/budget.txt" "$OPENSPIN" budget word_sum.spin \
    --entry sum_payload_handler --packet-size 512 --rate 400 --hpus 32
run "$OPENSPIN" budget word_sum.spin --entry sum_payload_handler --json
python3 -c 'import json; d = json.load(open("stdout.txt")); assert d["hpus_needed"] == 102 and '\
'not d["holds_line_rate"], d' && pass "budget --json" || fail "budget --json" "$out"
refuse "budget with image and --cycles" 2 "give one of them" \
    "$OPENSPIN" budget word_sum.spin --cycles 4
refuse "budget of a handler that faults" 1 "loop_payload_handler was ended: cycle budget exceeded" \
    "$OPENSPIN" budget faults.spin --entry loop_payload_handler
refuse "budget with a bad gap" 2 "'x' is no time" "$OPENSPIN" budget --cycles 4 --gap x
refuse "budget of nothing" 2 "no image" "$OPENSPIN" budget
finish
