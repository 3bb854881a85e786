# Every command in docs/network.md prints what the page says.
. "$SOURCE/tests/lib/tap.sh"

PATH=$(dirname "$OPENSPIN"):$PATH
command="" expected=""
compare() {
    [ -n "$command" ] || return 0
    actual=$(bash -c "$command" 2>&1 </dev/null)
    if [ "$actual" = "${expected%$'\n'}" ]; then
        pass "$command"
    else
        fail "$command" "$(diff <(printf '%s\n' "${expected%$'\n'}") <(printf '%s\n' "$actual"))"
    fi
    command="" expected=""
}
while IFS= read -r line; do
    case $line in
    '    $ '*) compare; command=${line#'    $ '} ;;
    '    '*) [ -z "$command" ] || expected+=${line#'    '}$'\n' ;;
    *) compare ;;
    esac
done <"$SOURCE/docs/network.md"
compare
finish
