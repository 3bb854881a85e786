# The event log of every pattern is the same from gcc and clang, at -O0 and -O3.
. "$SOURCE/tests/lib/tap.sh"

echo '#define OPENSPIN_VERSION "digest"' >config.h
# Only what the program needs of src/base and src/sim is linked: they are put into an archive.
build() { # COMPILER LEVEL
    local objects=objects-$1-$2
    local flags=("-$2" -std=gnu11 -D_GNU_SOURCE -ffp-contract=off -fno-strict-aliasing -pthread -I. -I"$SOURCE/include" -I"$SOURCE/src")
    mkdir "$objects"
    printf '%s\n' "$SOURCE"/src/base/*.c "$SOURCE"/src/sim/*.c |
        (cd "$objects" && xargs -P2 -n4 "$1" "${flags[@]}" -I.. -c) >build.txt 2>&1 &&
        ar rc "$objects.a" "$objects"/*.o &&
        "$1" "${flags[@]}" -o "digest-$1-$2" "$SOURCE/tests/digest/goal_digest.c" "$objects.a" -lm >>build.txt 2>&1 &&
        "./digest-$1-$2" >"log-$1-$2" 2>>build.txt
}

if build gcc O0 && [ "$(wc -l <log-gcc-O0)" = 84 ] && [ "$(sort -u log-gcc-O0 | wc -l)" = 84 ]; then
    pass "gcc -O0 gives 84 digests, no two alike"
else
    fail "gcc -O0 gives 84 digests, no two alike" "$(cat build.txt)"
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
if [ "$(sed 's/.*digest //' log-gcc-O0 | cksum)" = "$(cksum <"$SOURCE/tests/digest/expected.txt")" ]; then
    pass "digests are those in the tree"
else
    sed 's/.*digest //' log-gcc-O0 >digests.txt
    if [ -n "${UPDATE:-}" ]; then cp digests.txt "$SOURCE/tests/digest/expected.txt"; fi
    fail "digests are those in the tree" "the event log has changed: if that is meant, run with UPDATE=1" \
        "$(diff "$SOURCE/tests/digest/expected.txt" digests.txt | head -5)"
fi
finish
