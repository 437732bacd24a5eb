# SPDX-License-Identifier: Apache-2.0
"""tools/dev/draw-sentences.py finds sentences that are too long or begin with a free relative
clause, in comments and in pages, and takes nothing else for a sentence.

    prose_test.py
"""
import pytest
from planted import run

SCRIPT = "draw-sentences.py"
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
    ("a.md", f"> {LONG}\n"),
    ("a.md", f"| {LONG} | what is left |\n"),
    ("a.md", f"# {LONG}\n"),
    ("a.md", "Fourteen words stand in this line and none of them is the last.\n"
             "- Fourteen words stand in this item and none of them is the last of it.\n"
             "- Fourteen words stand in this item and none of them is the last of it.\n"),
    ("a.py", f"# {LONG}\n"),
]


@pytest.mark.parametrize("name, text, mark", PLANTED)
def test_what_is_planted_is_found(tmp_path, name, text, mark):
    status, said = run(SCRIPT, tmp_path, {name: text}, "--all")
    assert status == 1 and said.count(mark) == 1 and f"    1 {name}\n" in said


@pytest.mark.parametrize("name, text", SOUND)
def test_nothing_is_found_where_nothing_is(tmp_path, name, text):
    status, said = run(SCRIPT, tmp_path, {name: text}, "--all")
    assert status == 0, said


def draw(root, page, seed):
    return run(SCRIPT, root, {"a.md": page}, "--seed", seed)


def test_a_draw_has_fifty_sentences_and_is_its_seed_s(tmp_path):
    page = "\n".join(f"This is sentence {n}." for n in range(60))
    first = draw(tmp_path, page, "7")
    assert first[0] == 0 and first[1].count("a.md:") == 50
    assert first == draw(tmp_path, page, "7")
    assert first != draw(tmp_path, page, "8")


@pytest.mark.parametrize("text, expected", ((LONG, 0), (LONG + "\n" + LONG, 1),
                                            ("Who waits gets some.", 1)))
def test_a_draw_lets_one_long_sentence_pass(tmp_path, text, expected):
    status, said = draw(tmp_path, text, "1")
    assert status == expected, said
