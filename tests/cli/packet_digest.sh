# The event log of the packet model is the same from gcc and clang, at -O0 and -O3.
. "$SOURCE/tests/lib/tap.sh"

echo '#define OPENSPIN_VERSION "digest"' >config.h
build() { # COMPILER LEVEL
    "$1" "-$2" -std=gnu11 -D_GNU_SOURCE -ffp-contract=off -fno-strict-aliasing -I. -I"$SOURCE/include" \
        -I"$SOURCE/src" -o "digest-$1-$2" "$SOURCE/tests/digest/packet_digest.c" "$SOURCE"/src/base/*.c \
        "$SOURCE"/src/sim/*.c -lm -pthread 2>build.txt && "./digest-$1-$2" >"log-$1-$2" 2>>build.txt
}

name="gcc -O0 gives 60 digests, no two alike"
if build gcc O0 && [ "$(sed 's/.*digest //' log-gcc-O0 | sort -u | wc -l)" = 60 ]; then
    pass "$name"
else
    fail "$name" "$(cat build.txt; sed 's/.*digest //' log-gcc-O0 | sort | uniq -d)"
fi
for variant in "gcc O3" "clang O0" "clang O3"; do
    set -- $variant
    if ! command -v "$1" >/dev/null; then
        skip "$1 -$2 gives the same" "no $1 here"
    elif build "$1" "$2" && cmp -s log-gcc-O0 "log-$1-$2"; then
        pass "$1 -$2 gives the same"
    else
        fail "$1 -$2 gives the same" "$(cat build.txt; diff log-gcc-O0 "log-$1-$2" | head -5)"
    fi
done
finish
