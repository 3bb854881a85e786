# The pages say what the commands print; README's too.
. "$SOURCE/tests/lib/tap.sh"
mkdir bin
ln -s "$OPENSPIN" bin/openspin
export PATH=$PWD/bin:$PATH
for page in README.md docs/first-handler.md docs/debug-a-handler.md; do
    name=$(basename "$page" .md)
    mkdir "$name"
    [ ! -d "$SOURCE/examples" ] || ln -s "$SOURCE/examples" "$name/examples"
    (cd "$name" && python3 "$SOURCE/tests/lib/doc_commands.py" "$SOURCE/$page" ${UPDATE:+--update}) >tap.txt
    while read -r line; do
        case $line in
        "ok "*) pass "$page: ${line#* - }" ;;
        "not ok "*) fail "$page: ${line#* - }" "$(grep '^#' tap.txt)" ;;
        esac
    done <tap.txt
    grep -q '^1\.\.[1-9]' tap.txt || fail "$page has commands"
done

# The manual is clean and has every option.
if command -v mandoc >/dev/null; then
    lint=$(mandoc -Tlint -Wwarning "$SOURCE/man/openspin.1")
    [ -z "$lint" ] && pass "openspin(1) is clean" || fail "openspin(1) is clean" "$lint"
else
    skip "openspin(1) is clean" "no mandoc here"
fi
for command in cc image exec budget; do
    missing=
    for option in $("$OPENSPIN" $command --help | grep -oE -- '--[a-z0-9-]+' | sort -u); do
        case $option in --help | --version) continue ;; esac
        grep -qE -- "Fl (. , )?-${option#--}( |\$)| , -${option#--}( |\$)" "$SOURCE/man/openspin.1" || missing="$missing $option"
    done
    [ -z "$missing" ] && pass "the manual has every option of $command" || fail "the manual has every option of $command" "$missing"
done
finish
