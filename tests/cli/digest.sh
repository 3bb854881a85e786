# The event logs of every GOAL pattern and of the packet model are the same from gcc at -O0 and -O3
# and from clang at -O3, and the GOAL ones are those in the tree.
. "$SOURCE/tests/lib/tap.sh"

echo '#define OPENSPIN_VERSION "digest"' >config.h
set_flags() { # LEVEL
    flags=("-$1" -std=gnu11 -D_GNU_SOURCE -ffp-contract=off -fno-strict-aliasing -pthread -I"$PWD"
        -I"$SOURCE/include" -I"$SOURCE/src")
}

# Only what the programs need of src/base and src/sim is linked: they are put into an archive.
# Cards, worlds and their traffic are not among it, and half of the code.
compile() { # COMPILER LEVEL
    local at=$1-$2
    mkdir "$at"
    printf '%s\n' "$SOURCE"/src/base/*.c "$SOURCE"/src/sim/*.c |
        grep -vE '/src/sim/(capture|card|traffic|world)[^/]*$' |
        (cd "$at" && xargs -P2 -n4 "$1" "${flags[@]}" -c) >build.txt 2>&1 || return 1
    ar rc "$at.a" "$at"/*.o
}

build() { # COMPILER LEVEL
    local at=$1-$2 program
    set_flags "$2"
    if [ "$at" = gcc-O3 ] && [ -z "$SANITIZED" ]; then # it is there: the release build's library
        cp "$BUILD/libopenspin.a" "$at.a"
    else
        compile "$@" || return 1
    fi
    for program in goal packet; do
        "$1" "${flags[@]}" -o "$at-$program" "$SOURCE/tests/digest/${program}_digest.c" "$at.a" \
            -lm >>build.txt 2>&1 &&
            "./$at-$program" >"$at-$program.log" 2>>build.txt || return 1
    done
}

different() { sed 's/.*digest //' "$1" | sort -u | wc -l; }
# One switch has one path and drops nothing here, and so has the small dragonfly with placed ranks:
# four pairs of the 60 packet runs send the same packets over the same links at the same times.
name="gcc -O0 gives 84 and 56 different digests"
if build gcc O0 && [ "$(different gcc-O0-goal.log)" = 84 ] &&
    [ "$(different gcc-O0-packet.log)" = 56 ] && [ "$(wc -l <gcc-O0-packet.log)" = 60 ]; then
    pass "$name"
else
    fail "$name" "$(cat build.txt)"
fi
for variant in "gcc O3" "clang O3"; do
    set -- $variant
    if ! command -v "$1" >/dev/null; then
        skip "$1 -$2 gives the same" "no $1 here"
        continue
    fi
    build "$1" "$2" || fail "$1 -$2 builds" "$(cat build.txt)"
    for program in goal packet; do
        if cmp -s "gcc-O0-$program.log" "$1-$2-$program.log"; then
            pass "$1 -$2 gives the same: $program"
        else
            fail "$1 -$2 gives the same: $program" \
                "$(diff "gcc-O0-$program.log" "$1-$2-$program.log" | head -5)"
        fi
    done
done
sed 's/.*digest //' gcc-O0-goal.log >digests.txt
[ -z "${UPDATE:-}" ] || cp digests.txt "$SOURCE/tests/digest/expected.txt"
if cmp -s digests.txt "$SOURCE/tests/digest/expected.txt"; then
    pass "digests are those in the tree"
else
    fail "digests are those in the tree" \
        "the event log has changed: if that is meant, run with UPDATE=1" \
        "$(diff "$SOURCE/tests/digest/expected.txt" digests.txt | head -5)"
fi
finish
