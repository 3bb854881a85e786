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
sanitized_cc
# `make install PREFIX=...` with a meson and a ninja that only tell: the list of files is
# made anew before it is used.
mkdir -p stub made
touch made/build.ninja
for tool in meson ninja; do
    printf '#!/bin/sh\necho %s "$1" >>"$STUB_LOG"\n' $tool >stub/$tool
    chmod +x stub/$tool
done
check "make install PREFIX=" 0 '' env STUB_LOG="$PWD/calls.txt" PATH="$PWD/stub:$PATH" \
    make -s -C "$SOURCE" install PREFIX=/somewhere BUILD="$PWD/made"
check "configures, builds, installs" 0 '^ninja -C meson configure ninja -C meson install ?$' \
    bash -c "tr '\n' ' ' <calls.txt"
export PATH=$prefix/bin:$PATH
PKG_CONFIG_PATH=$(find "$prefix" -type d -name pkgconfig -print -quit)
export PKG_CONFIG_PATH PKG_CONFIG_SYSROOT_DIR=$PWD/root
unset C_INCLUDE_PATH
cp "$prefix"/share/openspin/examples/*.c .

check "the command is the installed one" 0 "^$prefix/bin/openspin\$" command -v openspin
check "a handler compiles" 0 '' openspin cc word_sum.c -o word_sum.spin
check "and runs" 0 'SUCCESS' \
    openspin exec word_sum.spin --entry sum_payload_handler --hex '01000000'
check "a PsPIN handler compiles" 0 '' \
    openspin cc --pspin "$SOURCE/handlers/ping_pong/ping_pong.c" -o ping_pong.spin
cat >driver.c <<'C'
#include <pspinsim.h>
#include <packets.h>
_Static_assert(sizeof(pkt_hdr_t) == 28, "as on the card");
C
check "a driver finds pspinsim.h and packets.h" 0 '' \
    bash -c 'cc -c driver.c $(pkg-config --cflags pspin)'
# openspin.h, and each of its parts by itself: in C and, as a declaration, in C++.
for header in openspin.h $(cd "$SOURCE/include" && echo openspin/*.h); do
    printf '#include <%s>\n' "$header" >header.c
    check "$header is installed and complete" 0 '' \
        bash -c 'cc -Wall -Werror -fsyntax-only header.c $(pkg-config --cflags portals4) &&
        cc -Wall -Werror -fsyntax-only -x c++ header.c $(pkg-config --cflags portals4)'
done
check "a PsPIN driver compiles" 0 '' \
    bash -c 'cc pspin_driver.c -o pspin_driver $(pkg-config --cflags --libs pspin)'
check "and runs" 0 '^packets: 32 in, 32 completed, 0 dropped, 32 out' env \
    LD_LIBRARY_PATH="$(dirname "$(find "$prefix" -name libpspin.so -print -quit)")" ./pspin_driver \
    ping_pong.spin ping_pong_ph
printf '#include <handler.h>\n#include <string.h>\n__handler__ void say_ph(handler_args_t *args) '\
'{ (void)args; printf("%%d\\n", (int)strlen("four")); }\n' >say.c
check "a handler that prints compiles" 0 '' openspin cc --pspin say.c -o say.spin -MMD
check "and prints" 0 '^\[0,0\] 4$' openspin exec say.spin --entry say_ph
check "a handler for a world compiles" 0 '' openspin cc sum_handler.c -o sum.spin
# The very line of docs/first-world.md.
line=$(sed -n 's|^    \$ \(cc -shared .*\)|\1|p' "$SOURCE/docs/first-world.md" |
    head -n 1 | sed 's|examples/||')
check "the tutorial's program compiles: $line" 0 '' bash -c "$line"
check "and runs" 0 'the sum of 1 to 15 is 120' openspin sim run -q -n 16 sum.so sum.spin
# A sanitized library needs a sanitized program.
flags=
nm -D "$BUILD/src/portals/libportals.so" | grep -q __asan_init && flags=-fsanitize=address,undefined
check "an ordinary program links with the package" 0 '' \
    bash -c "clang $flags sum_program.c -o sum \$(pkg-config --cflags --libs portals4)"
check "and runs on live cards" 0 'the sum of 1 to 3 is 6' env ASAN_OPTIONS=detect_leaks=0 \
    LD_LIBRARY_PATH="$(dirname "$(find "$prefix" -name libportals.so -print -quit)")" \
    openspin launch -n 4 ./sum sum.spin
library=$(dirname "$(find "$prefix" -name libportals.so -print -quit)")
check "and in a world, a process per rank" 0 'the sum of 1 to 3 is 6' env \
    ASAN_OPTIONS=detect_leaks=0 LD_LIBRARY_PATH="$library" openspin sim run -q -n 4 ./sum sum.spin
# What configure scripts of programs for another Portals 4 library ask: the header, and a function
# that they declare themselves.
for function in PtlInit PtlLEAppend PtlMEAppend PtlSetMap PtlTriggeredPut; do
    printf 'char %s();\nint main(void) { return %s(); }\n' $function $function >conftest.c
    check "AC_CHECK_LIB(portals, $function)" 0 '' \
        bash -c "cc $flags -w conftest.c -o conftest -L'$library' -lportals"
done
printf '#include <portals4.h>\n#include <stddef.h>\nint main(void) { ptl_handle_ni_t ni; '\
'return PtlInit() || PtlNIInit(PTL_IFACE_DEFAULT, PTL_NI_MATCHING | PTL_NI_PHYSICAL, PTL_PID_ANY, '\
'NULL, NULL, &ni); }\n' >static.c
check "the static library links" 0 '' \
    bash -c "clang $flags static.c -o static \$(pkg-config --cflags portals4) -Wl,--whole-archive "\
"'$library/libportals.a' -Wl,--no-whole-archive \$(pkg-config --libs openspin)"
check "and has a live card" 0 '' ./static
# As docs/live.md has it, and where there is no shared library.
link_static() { # SOURCE NAME: by pkg-config --static
    clang $flags "$1" -o "$2" $(pkg-config --cflags portals4) \
        $(pkg-config --static --libs portals4 | sed 's/-lportals/-l:libportals.a/')
}
check "pkg-config --static names what it needs" 0 '' link_static static.c static_too
check "and it needs no shared library" 0 '' \
    bash -c './static_too && ! readelf -d static_too | grep -q libportals'
mkdir shared && mv "$library"/libportals.so* shared
check "nor where there is none" 0 '^the sum of 1 to 3 is 6' bash -c "clang $flags sum_program.c "\
"-o sum_static \$(pkg-config --static --cflags --libs portals4) && "\
"ASAN_OPTIONS=detect_leaks=0 openspin launch -n 4 ./sum_static sum.spin"
mv shared/* "$library"
cat >leaves.c <<'C'
#include <portals4.h>
#include <pthread.h>
static void *sleeper(void *none) { return none; }
int main(void) {
    pthread_t thread;
    PtlInit();
    pthread_create(&thread, 0, sleeper, 0);
    pthread_exit(0);
}
C
link_static leaves.c leaves
check "a program with it ends with its last thread" 0 '' timeout $patience ./leaves
printf '#include <portals4.h>\nint main(void) { return PtlInit(); }\n' >none.c
check "libopenspin.a alone has no card, and says so" 5 '^openspin: no card: .*; link libportals' \
    bash -c "clang $flags none.c -o none \$(pkg-config --cflags --libs openspin) && ./none"
check "but none in a world" \
    1 "started by 'openspin sim run' and needs libportals.so, not libportals.a" \
    openspin sim run -q ./static
check "every public name has a version" 0 '^0$' bash -c "nm -D --defined-only "\
"'$library/libportals.so' | grep -c -v '@@\\(PORTALS_4.1\\|OPENSPIN_0.1\\)\\| A ' || true"
for names in pspin:'spin_|pspinsim_' spinlib:'spin_|spinstore_'; do
    check "lib${names%%:*} has public names only" 0 '^0$' bash -c "nm -D --defined-only "\
"'$library/lib${names%%:*}.so' | "\
"grep -c -v -E ' T (${names#*:})[a-z0-9_]+@@OPENSPIN_0.1| [AD] ' || true"
done
# So a program may have functions with the names that are inside.
(cat "$prefix/share/openspin/examples/spinlib/p2p_example.c" &&
    printf 'int card_open(void);\nint card_open(void) { abort(); }\n') >own_names.c
check "a program with a function of its own that spinlib has, too" 0 '^1048576 bytes .* 0 of them' \
    bash -c "clang $flags own_names.c -o own_names \$(pkg-config --cflags --libs spinlib) &&
    ASAN_OPTIONS=detect_leaks=0 LD_LIBRARY_PATH='$library' OPENSPIN_HANDLERS='$BUILD' \
    openspin launch -n 2 ./own_names"
check "openspin requires nothing that is loaded when it is asked for" 0 '^libdw libelf libpcap $' \
    bash -c "pkg-config --print-requires openspin | tr '\n' ' '"
check "the library is found by its soname" 0 'SONAME.*libportals.so.0' \
    readelf -d "$library/libportals.so"
check "experiments find their handlers" 0 'agree' openspin experiment dfs22/fig16-right
check "the manual is there" 0 '' test -e "$prefix/share/man/man1/openspin.1"
# What a shell is to read names the places below the prefix; of the build tree too.
if command -v man >/dev/null; then
    check "a shell finds the manual in the build tree" 0 "/share/man/man1/openspin-sim.1" \
        bash -c ". '$BUILD/env' && man -w openspin-sim"
fi
root=$PWD/root
check "the installed file for shells" 0 '^export PATH="/.*/bin:' cat "$prefix/share/openspin/env"
sed "s|=\"/|=\"$root/|" "$prefix/share/openspin/env" >env
check "finds command, package and library" 0 "^$prefix/bin/openspin .*portals4 .*libpspin.so" \
    env -u PKG_CONFIG_PATH -u LD_LIBRARY_PATH bash -c \
    '. ./env && echo $(command -v openspin) $(pkg-config --exists portals4 && echo portals4) $(ls '\
'$LD_LIBRARY_PATH | grep libpspin.so)'
finish
