"""Runs the commands of a how-to page and compares what they print with what the page says.

A command is an indented line that begins with "$ "; the indented lines below it are its output,
with empty lines as long as indented ones follow that are no command. `cat FILE` writes FILE from
the page instead. With --update the page gets the output.
usage: doc_commands.py PAGE [--update]
"""
import re
import subprocess
import sys


def goes_on(lines, i):
    """Whether the empty line i stands inside an output."""
    after = lines[i + 1] if i + 1 < len(lines) else ""
    return lines[i] == "" and after.startswith("    ") and not after.startswith("    $ ")


def main():
    path = sys.argv[1]
    lines = open(path).read().split("\n")
    result, count, wrong, i = [], 0, 0, 0
    while i < len(lines):
        result.append(lines[i])
        command = re.fullmatch(r"    \$ (.*)", lines[i])
        i += 1
        if not command:
            continue
        stated = []
        file = re.fullmatch(r"cat (\S+)", command[1])
        while i < len(lines) and (lines[i].startswith("    ") or goes_on(lines, i)):
            stated.append(lines[i][4:])
            i += 1
        count += 1
        if file:
            open(file[1], "w").write("\n".join(stated) + "\n")
            printed = stated
        else:
            done = subprocess.run(["bash", "-c", command[1]], stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True)
            printed = done.stdout.rstrip("\n").split("\n") if done.stdout else []
        if printed == stated:
            print(f"ok {count} - {command[1]}")
        else:
            wrong += 1
            print(f"not ok {count} - {command[1]}")
            print("\n".join("# printed: " + line for line in printed))
        result += ["    " + line if line else "" for line in printed]
    print(f"1..{count}")
    if "--update" in sys.argv:
        open(path, "w").write("\n".join(result))
    return 1 if wrong or not count else 0


sys.exit(main())
