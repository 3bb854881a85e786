# libportals as programs meet it: the header in C and C++, the library alone, what it exports.
. "$SOURCE/tests/lib/tap.sh"
library=$BUILD/src/portals/libportals.so

cat >use.c <<'END'
#include <portals4.h>
#include <stdio.h>
int main(void) {
    ptl_handle_ni_t ni;
    ptl_me_t *me = NULL;
    (void)me;
    int init = PtlInit();
    printf("PtlInit %d, PtlNIInit %d\n", init,
           PtlNIInit(PTL_IFACE_DEFAULT, PTL_NI_MATCHING | PTL_NI_LOGICAL, PTL_PID_ANY, NULL, NULL,
                     &ni));
    PtlFini();
    return 0;
}
END
strict="-Wall -Wextra -Wpedantic -Werror -I$SOURCE/include"
check "the header is strict C99" 0 '' clang -std=c99 $strict -c use.c -o use.o
check "and C++" 0 '' \
    clang -xc++ -std=c++11 -fsyntax-only -Wall -Wextra -Werror "-I$SOURCE/include" use.c

# A sanitized library needs a sanitized program.
flags=
nm -D "$library" | grep -q __asan_init && flags=-fsanitize=address,undefined
check "a program links with -lportals alone" 0 '' \
    clang $flags use.o "-L$BUILD/src/portals" -lportals -o use
# a program that is started by itself has a live card
check "and has a live card" 0 '^PtlInit 0, PtlNIInit 0$' \
    env "LD_LIBRARY_PATH=$BUILD/src/portals" ./use

# a job that is none is told in one line
check "a job that is not there" 0 'openspin: rank 0: no live card: OPENSPIN_JOB: there is no job' \
    env "LD_LIBRARY_PATH=$BUILD/src/portals" OPENSPIN_JOB=none OPENSPIN_RANK=0 OPENSPIN_SIZE=1 ./use

nm -D --defined-only "$library" | awk '$2 == "T" { print $3 }' | grep -v '^spin_' |
    sed 's/@.*//' | sort -u >exported
# PtlToStr belongs to no process, so it is not in the list of calls; PtlNIInit has a
# symbol for P4sPIN's limits too
{
    grep -o 'X([A-Za-z]*)' "$SOURCE/src/portals/calls.def" | sed 's/X(\(.*\))/\1/'
    echo PtlToStr
} | sort >calls
if diff <({ cat calls; echo PtlNIInitP4sPIN; } | sort) exported >difference; then
    pass "it exports the calls and nothing else"
else
    fail "it exports the calls and nothing else" "$(cat difference)"
fi
grep -oE '\bPtl[A-Za-z]+\(' "$SOURCE/include/portals4.h" | tr -d '(' | sort -u >declared
if diff calls declared >difference; then
    pass "every declared call is there"
else
    fail "every declared call is there" "$(cat difference)"
fi
check "pkg-config" 0 '^Libs: .*-lportals' cat "$BUILD/meson-private/portals4.pc"
finish
