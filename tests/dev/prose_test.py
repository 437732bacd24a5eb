#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/dev/draw-sentences.py finds sentences that are too long or begin with a free relative
clause, in comments and in pages, and takes nothing else for a sentence.

    prose_test.py
"""
import pathlib
import subprocess
import sys
import tempfile

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "tools" / "dev" / "draw-sentences.py"
LONG = "The " + "very " * 23 + "long sentence."  # 26 words
FITS = "The " + "very " * 22 + "long sentence."  # 25

# What stands in a file, and how it is marked: L is long, F begins with a clause.
PLANTED = [
    ("a.c", f"/* {LONG} */\n", "L-  26 a.c:1:"),
    ("a.h", f"/* A head. {LONG} */\n", "L-  26 a.h:1:"),
    ("a.md", f"# A page\n\nShort.\n{LONG}\n", "L-  26 a.md:4:"),
    ("a.md", f"- {LONG}\n", "L-  26 a.md:1:"),
    ("a.md", "Much of a `call(a, b)` is one word " + "and " * 18 + "end.\n", "L-  26 a.md:1:"),
    ("a.c", "/* Short.\n *\n * What stands open of the windows has room. */\n", "-F   8 a.c:3:"),
    ("a.c", "int x; /* who waits */\n", "-F   2 a.c:1:"),
    ("a.c", "// Whoever waits gets it.\n", "-F   4 a.c:1:"),
    ("a.md", "Whatever comes is kept.\n", "-F   4 a.md:1:"),
    ("a.md", "It has room; who waits gets some.\n", "-F   7 a.md:1:"),
    ("a.md", "It has room, and what is left goes.\n", "-F   8 a.md:1:"),
    ("a.md", "It waits while what is next does not fit.\n", "-F   9 a.md:1:"),
    ("a.md", "Which readers it has is not known.\n", "-F   7 a.md:1:"),
    ("a.md", "It is late: what has come is kept.\n", "-F   8 a.md:1:"),
]
SOUND = [
    ("a.c", f"/* {FITS} */\n"),
    ("a.c", "/* What is left? */\n"),
    ("a.c", "/* It keeps what is left, and tells who it was. */\n"),
    ("a.c", "/* Two things: what is left and its name. */\n"),
    ("a.c", f'const char *text = "{LONG}"; // fits\n'),
    ("a.c", "/* A table:\n *   " + "word   " * 30 + "\n * ends here. */\n"),
    ("a.c", "/* A drawing:\n *\n *   " + "a --> b " * 30 + "\n */\n"),
    ("a.md", f"```\n{LONG}\n```\n"),
    ("a.md", f"| {LONG} | what is left |\n"),
    ("a.md", f"# {LONG}\n"),
    ("a.md", "Fourteen words stand in this line and none of them is the last.\n"
             "- Fourteen words stand in this item and none of them is the last of it.\n"
             "- Fourteen words stand in this item and none of them is the last of it.\n"),
    ("a.py", f"# {LONG}\n"),
]


def run(files, *options):
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            path = pathlib.Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        done = subprocess.run([sys.executable, str(SCRIPT), "--root", folder, *options],
                              capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def check(name, is_good, said):
    if not is_good:
        print(f"{name}: {said}")
    return 0 if is_good else 1


def main():
    failed = 0
    for name, text, mark in PLANTED:
        status, said = run({name: text}, "--all")
        failed += check(text, status == 1 and said.count(mark) == 1 and f"    1 {name}\n" in said,
                        said)
    for name, text in SOUND:
        status, said = run({name: text}, "--all")
        failed += check(text, status == 0, said)

    # A draw: the same of the same seed, as many as asked for, and one long sentence is let pass.
    page = "\n".join(f"This is sentence {n}." for n in range(60))
    first = run({"a.md": page}, "--seed", "7")
    failed += check("a draw", first[0] == 0 and first[1].count("a.md:") == 50, first)
    failed += check("its seed", first == run({"a.md": page}, "--seed", "7"), first)
    failed += check("another seed", first != run({"a.md": page}, "--seed", "8"), first)
    for text, expected in ((LONG, 0), (LONG + "\n" + LONG, 1), ("Who waits gets some.", 1)):
        status, said = run({"a.md": text}, "--seed", "1")
        failed += check(text, status == expected, said)

    # The ratchet: a folder's count may fall, and not rise.
    for limit, expected in ((2, 0), (1, 0), (0, 1)):
        status, said = run({"room/a.md": LONG, "tools/dev/prose.txt": f"room: {limit}\n"},
                           "--ratchet")
        failed += check(f"a limit of {limit}", status == expected, said)
    print(f"{failed} wrong")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
