# The pages say what the commands print; README's too.
. "$SOURCE/tests/lib/tap.sh"
if [ -n "$SANITIZED" ]; then
    skip "pages with commands" \
        "the release build runs them; what they run has tests with sanitizers"
    finish
    exit
fi
sanitized_cc
# as README says, in the build tree; install.sh has the first lines of the tutorials as installed
. "$BUILD/env"
pages=$(cd "$SOURCE" && grep -l '^    \$ ' README.md docs/*.md)
[ "$(printf '%s\n' "$pages" | wc -l)" -ge 13 ] && pass "pages with commands" ||
    fail "pages with commands" "$pages"
for page in $pages; do
    name=$(basename "$page" .md)
    mkdir "$name"
    [ ! -d "$SOURCE/examples" ] || ln -s "$SOURCE/examples" "$name/examples"
    (cd "$name" && python3 "$SOURCE/tests/lib/doc_commands.py" "$SOURCE/$page" \
        ${UPDATE:+--update}) >tap.txt
    while read -r line; do
        case $line in
        "ok "*) pass "$page: ${line#* - }" ;;
        "not ok "*) fail "$page: ${line#* - }" "$(grep '^#' tap.txt)" ;;
        esac
    done <tap.txt
    grep -q '^1\.\.[1-9]' tap.txt || fail "$page has commands"
done

# The manuals are clean and have every option.
for manual in openspin openspin-card openspin-experiment openspin-goal openspin-launch \
    openspin-sim openspin-store openspin-sweep openspin-top; do
    if command -v mandoc >/dev/null; then
        lint=$(mandoc -Tlint -Wwarning "$SOURCE/man/$manual.1")
        [ -z "$lint" ] && pass "$manual(1) is clean" || fail "$manual(1) is clean" "$lint"
    else
        skip "$manual(1) is clean" "no mandoc here"
    fi
done
has_options() { # MANUAL COMMAND...
    local manual=$SOURCE/man/$1.1 missing=
    shift
    for option in $("$OPENSPIN" "$@" --help | grep -oE -- '--[a-z0-9-]+' | sort -u); do
        case $option in --help | --version) continue ;; esac
        grep -qE -- "(Fl (. , )?| , )-${option#--}( |\$)" "$manual" || missing="$missing $option"
    done
    [ -z "$missing" ] && pass "the manual has every option of $*" ||
        fail "the manual has every option of $*" "$missing"
}
for command in cc image exec budget; do has_options openspin $command; done
has_options openspin-card card run
has_options openspin-experiment experiment
has_options openspin-experiment card area
has_options openspin-sim sim run
has_options openspin-launch launch
has_options openspin-top top
has_options openspin-sweep sweep
has_options openspin-store store demo
has_options openspin-store store bench
has_options openspin-store store large
for command in convert gen info join run trace; do has_options openspin-goal goal $command; done
missing=
for variable in $(cd "$SOURCE" &&
    grep -rhoE '"OPENSPIN_[A-Z_]+"' src handlers cli --include='*.[ch]' | tr -d '"' | sort -u); do
    grep -qw "$variable" "$SOURCE/man/openspin.1" || missing="$missing $variable"
done
[ -z "$missing" ] && pass "the manual has every variable" ||
    fail "the manual has every variable" "$missing"
finish
