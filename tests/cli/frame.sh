# The command's frame: help, version, unknown words, completion.
. "$SOURCE/tests/lib/tap.sh"

check "help lists the commands" 0 '^  completion +print' "$OPENSPIN" --help
check "version" 0 '^openspin [0-9]+\.[0-9]+\.[0-9]+$' "$OPENSPIN" --version
refuse "no command" 2 'which command' "$OPENSPIN"
refuse "unknown command" 2 "unknown command 'nonsense'" "$OPENSPIN" nonsense
refuse "unknown option" 2 "unknown option '--nonsense'" "$OPENSPIN" --nonsense
refuse "unknown option of a command" 2 "unknown option '--nonsense'" "$OPENSPIN" completion --nonsense
refuse "unknown shell" 2 "only 'bash'" "$OPENSPIN" completion tcsh

commands=$("$OPENSPIN" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p')
for command in $commands; do
    check "$command --help" 0 "^usage: openspin $command" "$OPENSPIN" "$command" --help
    check "$command --version" 0 '^openspin [0-9]' "$OPENSPIN" "$command" --version
done

"$OPENSPIN" completion bash >completion.bash
cat >complete.sh <<'S'
source ./completion.bash
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_openspin
printf '%s\n' "${COMPREPLY[@]}"
S
check "completes commands" 0 '^completion$' bash complete.sh openspin comp
check "completes options" 0 '^--help$' bash complete.sh openspin completion --he
check "completes words of compilers" 0 '^-MMD$' bash complete.sh openspin cc -MM

# docs/design.md: the command uses include/, src/base/ and experiments/ only
below=$(grep -nE '#include "(hpu|nic|sim|pspin)/' "$SOURCE"/cli/*.[ch])
[ -z "$below" ] && pass "the command uses no inner header" || fail "the command uses no inner header" "$below"

if [ -e /dev/full ]; then
    "$OPENSPIN" --help >/dev/full 2>stderr.txt
    [ $? = 1 ] && grep -q 'cannot write' stderr.txt && pass "a full disk is an error" || fail "a full disk is an error"
fi
finish
