# docs/goal.md says what the commands print; the manual page is clean.
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1
mkdir bin
ln -s "$OPENSPIN" bin/openspin
PATH=$PWD/bin:$PATH python3 "$SOURCE/tests/lib/doc_commands.py" "$SOURCE/docs/goal.md" ${UPDATE:+--update} >tap.txt
status=$?
grep -v '^1\.\.' tap.txt
count=$(sed -n 's/^1\.\.//p' tap.txt)
count=$((count + 1))
if ! command -v mandoc >/dev/null; then
    echo "ok $count - openspin-goal(1) is clean # SKIP no mandoc here"
elif lint=$(mandoc -Tlint -Wwarning "$SOURCE/man/openspin-goal.1") && [ -z "$lint" ]; then
    echo "ok $count - openspin-goal(1) is clean"
else
    echo "not ok $count - openspin-goal(1) is clean"
    printf '%s\n' "$lint" | sed 's/^/# /'
    status=1
fi
# Every option of every subcommand is in the manual page.
for command in convert gen info join run; do
    count=$((count + 1))
    missing=
    for option in $("$OPENSPIN" goal $command --help | grep -oE -- '--[a-z-]+ ' | sort -u); do
        case $option in --help | --version | --output | --format) continue ;; esac
        grep -qE -- "Fl -${option#--}( |\$)" "$SOURCE/man/openspin-goal.1" || missing="$missing $option"
    done
    if [ -z "$missing" ]; then echo "ok $count - the manual has every option of goal $command"; else
        echo "not ok $count - the manual has every option of goal $command"
        echo "# missing:$missing"
        status=1
    fi
done
echo "1..$count"
exit $status
