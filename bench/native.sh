#!/bin/sh
# The handlers as gcc -O2 makes them for this machine, in one program with bare_run.c, which
# calls them by IMAGE.FUNCTION. x32: 64-bit code with 32-bit pointers, as the structures that
# handlers share with the card have. The kernel need not know x32: the objects are linked into an
# ordinary program, below 4 GiB.
# usage: native.sh OUTPUT SOURCE_ROOT HANDLER...
set -eu
output=$1 root=$2
shift 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for handler; do
    name=$(basename "$handler" .c)
    interface=""
    ! grep -q '<handler.h>' "$handler" ||
        interface="-DBARE_PSPIN -I$root/include/spin/pspin -isystem $root/include/spin/libc"
    # shellcheck disable=SC2086
    gcc -mx32 -O2 -std=gnu11 -ffreestanding -fbuiltin -fno-pic -fno-common \
        -fno-stack-protector -ffp-contract=off \
        -fno-asynchronous-unwind-tables -fcf-protection=none $interface "-I$root/include" \
        -include "$root/bench/bare_native.h" -c "$handler" -o "$work/x32.o"
    objcopy -O elf64-x86-64 "--prefix-symbols=$name." "$work/x32.o" "$work/$name.o"
done
rm "$work/x32.o"
gcc -O2 -std=gnu11 -Wall -Wextra -Werror -D_GNU_SOURCE "-I$root/include" "-I$root/src" \
    -no-pie -rdynamic -z noexecstack \
    "$root/bench/bare_run.c" "$work"/*.o -o "$output"
