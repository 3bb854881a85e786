# make install: what is installed works by itself, with the first lines of the tutorials.
. "$SOURCE/tests/lib/tap.sh"
if ! DESTDIR=$PWD/root meson install -C "$BUILD" --no-rebuild >install.txt 2>&1; then
    fail "installs" "$(tail -n 20 install.txt)"
    finish
    exit
fi
pass "installs"
prefix=$(find "$PWD/root" -type d -path '*/bin' -print -quit)
prefix=${prefix%/bin}
# A package that is to be found below another root: what Debian's and others' build systems do.
export PATH=$prefix/bin:$PATH
PKG_CONFIG_PATH=$(find "$prefix" -type d -name pkgconfig -print -quit)
export PKG_CONFIG_PATH PKG_CONFIG_SYSROOT_DIR=$PWD/root
unset C_INCLUDE_PATH
cp "$SOURCE"/examples/*.c .

check "the command is the installed one" 0 "^$prefix/bin/openspin\$" command -v openspin
check "a handler compiles" 0 '' openspin cc word_sum.c -o word_sum.spin
check "and runs" 0 'SUCCESS' openspin exec word_sum.spin --entry sum_payload_handler --hex '01000000'
check "a PsPIN handler compiles" 0 '' openspin cc --pspin "$SOURCE/handlers/ping_pong/ping_pong.c" -o ping_pong.spin
check "a handler for a world compiles" 0 '' openspin cc sum_handler.c -o sum.spin
# The very line of docs/first-world.md.
line=$(sed -n 's|^    \$ \(cc -shared .*\)|\1|p' "$SOURCE/docs/first-world.md" | head -n 1 | sed 's|examples/||')
check "the tutorial's program compiles: $line" 0 '' bash -c "$line"
check "and runs" 0 'the sum of 1 to 15 is 120' openspin sim run -q -n 16 sum.so sum.spin
check "experiments find their handlers" 0 'agree' openspin experiment dfs22/fig16-right
check "the manual is there" 0 '' test -e "$prefix/share/man/man1/openspin.1"
finish
