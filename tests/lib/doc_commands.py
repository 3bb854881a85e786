"""Runs the commands of a how-to page and compares what they print with what the page says.

A command is an indented line that begins with "$ "; the indented lines below it, up to an empty line, are its output. `cat FILE`
writes FILE from the page instead. With --update the page gets the output.
usage: doc_commands.py PAGE [--update]
"""
import re
import subprocess
import sys


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
        while i < len(lines) and lines[i].startswith("    "):
            stated.append(lines[i][4:])
            i += 1
        count += 1
        file = re.fullmatch(r"cat (\S+)", command[1])
        if file:
            open(file[1], "w").write("\n".join(stated) + "\n")
            printed = stated
        else:
            done = subprocess.run(["bash", "-c", command[1]], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            printed = done.stdout.rstrip("\n").split("\n") if done.stdout else []
        if printed == stated:
            print(f"ok {count} - {command[1]}")
        else:
            wrong += 1
            print(f"not ok {count} - {command[1]}")
            print("\n".join("# printed: " + line for line in printed))
        result += ["    " + line for line in printed]
    print(f"1..{count}")
    if "--update" in sys.argv:
        open(path, "w").write("\n".join(result))
    return 1 if wrong or not count else 0


sys.exit(main())
