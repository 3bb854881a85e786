# docs/network.md says what the commands print.
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1
mkdir bin
ln -s "$OPENSPIN" bin/openspin
PATH=$PWD/bin:$PATH python3 "$SOURCE/tests/lib/doc_commands.py" "$SOURCE/docs/network.md" ${UPDATE:+--update}
