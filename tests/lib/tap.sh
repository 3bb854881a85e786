# For test scripts: source it, call `check` and friends, end with `finish`. Prints TAP.
# Each script runs in a scratch directory of its own with $OPENSPIN, $SOURCE and $BUILD set; other
# programs of the build are started through $MESON_EXE_WRAPPER, which is an emulator where they are
# for another machine (scripts/aarch64).
# shellcheck shell=bash
tap_count=0 tap_failed=0
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1

pass() { tap_count=$((tap_count + 1)); echo "ok $tap_count - $1"; }
fail() {
    tap_count=$((tap_count + 1)) tap_failed=$((tap_failed + 1))
    echo "not ok $tap_count - $1"
    shift
    printf '%s\n' "$@" | sed 's/^/# /'
}
skip() { tap_count=$((tap_count + 1)); echo "ok $tap_count - $1 # SKIP $2"; }

# How long, in seconds, a program may take that should end at once, and how long `soon` waits: a
# machine that does much else may take long, and the limit only ends what would never end.
patience=300

# soon COMMAND...: until it succeeds
soon() {
    local until=$((SECONDS + patience))
    until "$@"; do
        [ $SECONDS -lt $until ] || return 1
        sleep 0.05
    done
}

# ended PID...: none of them runs any more
ended() {
    local process
    for process in "$@"; do
        ! grep -q 'State:.[^ZX]' "/proc/$process/status" 2>/dev/null || return 1
    done
}

# run COMMAND...: leaves $status, $out (stdout) and $err (stderr)
run() {
    "$@" >stdout.txt 2>stderr.txt </dev/null
    status=$?
    out=$(cat stdout.txt) err=$(cat stderr.txt)
}

# check NAME STATUS PATTERN COMMAND...: exit status as given, and stdout and stderr together match
# the extended regular expression (which may span nothing: '')
check() {
    local name=$1 want=$2 pattern=$3
    shift 3
    run "$@"
    if [ "$status" != "$want" ]; then
        fail "$name" "exit status $status, expected $want" "command: $*" "$out" "$err"
    elif ! printf '%s\n%s\n' "$out" "$err" | grep -qE -- "$pattern"; then
        fail "$name" "no line matches: $pattern" "command: $*" "$out" "$err"
    else
        pass "$name"
    fi
}

# refuse NAME STATUS PATTERN COMMAND...: like check, and standard error is exactly one line that
# matches, with nothing on standard output
refuse() {
    local name=$1 want=$2 pattern=$3
    shift 3
    run "$@"
    if [ "$status" != "$want" ]; then
        fail "$name" "exit status $status, expected $want" "command: $*" "$err"
    elif [ "$(printf '%s\n' "$err" | wc -l)" != 1 ] || [ -z "$err" ]; then
        fail "$name" "expected one line on stderr" "command: $*" "$err"
    elif [ -n "$out" ]; then
        fail "$name" "expected nothing on stdout" "command: $*" "$out"
    elif ! printf '%s\n' "$err" | grep -qE -- "$pattern"; then
        fail "$name" "stderr does not match: $pattern" "command: $*" "$err"
    else
        pass "$name"
    fi
}

# same NAME FILE COMMAND...: standard output is exactly the golden file (UPDATE=1 rewrites it)
same() {
    local name=$1 golden=$2
    shift 2
    run "$@"
    if [ -n "${UPDATE:-}" ]; then cp stdout.txt "$golden"; fi
    if [ "$status" != 0 ]; then
        fail "$name" "exit status $status" "command: $*" "$err"
    elif ! diff -u "$golden" stdout.txt >diff.txt; then
        fail "$name" "output differs from $(basename "$golden"):" "$(cat diff.txt)"
    else
        pass "$name"
    fi
}

# A program that links with a sanitized library must be sanitized itself: from here
# on `cc ... -lpspin` does it.
sanitized_cc() {
    nm -D "$BUILD/src/pspin/libpspin.so" | grep -q __asan_init || return 0
    mkdir sanitized
    printf '#!/bin/sh\ncase " $* " in *" -lpspin"* | *" -lportals"*) set -- -fsanitize=address,'\
'undefined "$@" ;; esac\nexec clang "$@"\n' >sanitized/cc
    chmod +x sanitized/cc
    export PATH=$PWD/sanitized:$PATH
}

finish() {
    echo "1..$tap_count"
    [ "$tap_failed" = 0 ]
}
