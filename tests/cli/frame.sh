# The command's frame: help, version, unknown words, completion.
. "$SOURCE/tests/lib/tap.sh"

check "help lists the commands" 0 '^  completion +print' "$OPENSPIN" --help
check "version" 0 '^openspin [0-9]+\.[0-9]+\.[0-9]+$' "$OPENSPIN" --version
refuse "no command" 2 'which command' "$OPENSPIN"
refuse "unknown command" 2 "unknown command 'nonsense'" "$OPENSPIN" nonsense
refuse "unknown option" 2 "unknown option '--nonsense'" "$OPENSPIN" --nonsense
refuse "unknown option of a command" 2 "unknown option '--nonsense'" \
    "$OPENSPIN" completion --nonsense
check "help as a command" 0 '^usage: openspin goal run FILE' "$OPENSPIN" help goal run
refuse "help on no command" 2 "unknown command 'nonsense'; see 'openspin goal --help'" \
    "$OPENSPIN" help goal nonsense
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
[ -z "$below" ] && pass "the command uses no inner header" ||
    fail "the command uses no inner header" "$below"

# Names: of files, so that one word finds one file (headers that others include by name excepted);
# of static functions, so that none is mistaken for a call of the system or the C library.
sources() {
    (cd "$SOURCE" && find bench cli examples experiments handlers include src tests -type f \( \
        -name '*.c' -o -name '*.h' -o -name '*.inc' -o -name '*.def' -o -name '*.sh' \))
}
twice=$(sources | sed 's,.*/,,' | grep -vx 'handler\.h' | sort | uniq -d)
[ -z "$twice" ] && pass "every file has a name of its own" ||
    fail "every file has a name of its own" "$twice"
calls='accept|access|bind|brk|chdir|chmod|chown|clone|close|connect|creat|dup|dup2|exec[lv][pe]*|'\
'exit|fork|fcntl|fsync|getpid|ioctl|kill|link|listen|lseek|mkdir|mmap|mount|munmap|nice|open|'\
'openat|pause|pipe|poll|ppoll|pread|ptrace|pwrite|read|readv|recv|recvfrom|rename|rmdir|select|'\
'send|sendto|shutdown|signal|socket|splice|stat|swapon|symlink|sync|tee|time|times|truncate|umask|'\
'uname|unlink|wait|wait[34]|waitpid|write|writev'
library='abort|abs|alarm|atexit|atoi|bsearch|calloc|ceil|clock|div|erf|err|errx|error|exp|fclose|'\
'ffs|floor|fopen|fputs|fread|free|fseek|fwrite|gamma|getenv|getline|gets|index|isalpha|isdigit|'\
'isspace|labs|log|longjmp|malloc|memchr|memcmp|memcpy|memmove|memset|perror|pow|printf|puts|qsort|'\
'raise|rand|random|realloc|remove|rewind|rindex|rint|round|scanf|setenv|setjmp|sleep|sprintf|sqrt|'\
'srand|str(cat|chr|cmp|cpy|dup|len|str|tok|tol|toul)|swab|syscall|syslog|system|toupper|tolower|'\
'trunc|usleep|vprintf|warn|warnx|yield'
# The handlers' C library is one.
taken=$(cd "$SOURCE" && sources | grep -vE '^(src/hpu/runtime|include/spin/libc)/' |
    xargs grep -nE "^(static|TOOL) [^=;(]*\\b($calls|$library)\\(")
[ -z "$taken" ] && pass "no static function is named like a call of the system" ||
    fail "no static function is named like a call of the system" "$taken"

# Lines: at most 100 columns in code, scripts, build files and documents, but for tables and output
# in documents and macros of man pages. Scripts have no exceptions, nor have their here-documents; a
# long word goes on at the beginning of the next line: its quote is closed, and opened again there.
if command -v python3 >/dev/null; then
    wide=$(cd "$SOURCE" && python3 - <<'P'
import glob, os
code = (".build", ".c", ".cpp", ".def", ".h", ".in", ".inc", ".lua", ".map", ".py", ".sh",
        "Makefile", "meson_options.txt")
def is_script(path):
    """Without an ending in its name: what says which program runs it."""
    name = os.path.basename(path)
    return "." not in name and os.path.isfile(path) and open(path, "rb").read(2) == b"#!"
for folder in ("bench", "cli", "docs", "examples", "experiments", "handlers", "include", "man",
               "scripts", "src", "tests", "."):
    for path in sorted(glob.glob(folder + "/**", recursive=folder != ".")):
        page = path.endswith(".md")
        manual = folder == "man" and os.path.isfile(path)
        if not (page or manual or path.endswith(code) or is_script(path)):
            continue
        fenced = False
        for number, line in enumerate(open(path, encoding="utf-8"), 1):
            line = line.rstrip("\n")
            fenced ^= page and line.lstrip().startswith("```")
            free = (page and (fenced or line.startswith(("    ", "|")))
                    or manual and line.startswith("."))
            if len(line) > 100 and not free:
                print(f"{path}:{number}: {len(line)} columns")
P
)
    [ -z "$wide" ] && pass "lines have at most 100 columns" ||
        fail "lines have at most 100 columns" "$wide"

    # Rates: "bytes per cycle", never with "a", which reads as something else. "Which packets
    # a rank sends" is none. The line of a comment is read together with the one before.
    rates=$(cd "$SOURCE" && python3 - <<'P'
import glob, os, re
amount = (r"(?<![\w=.-])(\d[\d.]*|one|two|three|four|[fpnum]s|[KMG]?i?B|bits?|bytes|words|packets|"
          r"(femto|pico|nano|micro)?seconds|cycles?|instructions?|events?|access(es)?|rows?|hosts|"
          r"routers|links|draws|copy|label|rule|statement|table|times(?= a second))")
per = (r"(access|bit|byte|call|card|channel|cluster|core|cpu|cycle|direction|event|file|group|"
       r"handler|hop|host|instruction|iteration|line|link|message|node|object|packet|page|pair|"
       r"port|process|queue|rank|round|router|second|slot|source|step|switch|test|turn|wire|word)"
       r"s?\b")
rate = re.compile(amount + r" an? " + per)
asks = re.compile(r"\b(how (many|much)|which|what|whose)\b[\w ]*$", re.I)
leader = re.compile(r'^[\s*#/"]+')
for folder in ("bench", "cli", "docs", "examples", "experiments", "handlers", "include", "man",
               "scripts", "src", "tests", "."):
    for path in sorted(glob.glob(folder + "/**", recursive=folder != ".")):
        if not os.path.isfile(path):
            continue
        before = ""
        for number, line in enumerate(open(path, encoding="utf-8", errors="replace"), 1):
            line = line.strip()
            before = before + " " if line.startswith("* ") else ""
            text = before + leader.sub("", line)
            for found in rate.finditer(text):
                if found.end() > len(before) and not asks.search(text[:found.start()]):
                    print(f"{path}:{number}: {found[0]}")
            before = text[len(before):]
P
)
    [ -z "$rates" ] && pass "rates are said with 'per'" ||
        fail "rates are said with 'per'" "$rates"
fi

check "the changes that tests must notice stand in the code" 0 '^ok$' \
    sh -c "'$SOURCE/scripts/mutate' --check && echo ok"

if [ -e /dev/full ]; then
    "$OPENSPIN" --help >/dev/full 2>stderr.txt
    [ $? = 1 ] && grep -q 'cannot write' stderr.txt && pass "a full disk is an error" ||
        fail "a full disk is an error"
fi
finish
