# The fuzzers' corpus, through the same targets without the fuzzer.
. "$SOURCE/tests/lib/tap.sh"

check "text corpus" 0 '^[1-9][0-9]* files$' "$BUILD/tests/fuzz-goal-text" "$SOURCE"/tests/fuzz/corpus-goal-text/*
check "binary corpus" 0 '^[1-9][0-9]* files$' "$BUILD/tests/fuzz-goal-binary" "$SOURCE"/tests/fuzz/corpus-goal-binary/*
finish
