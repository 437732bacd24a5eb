# SPDX-License-Identifier: Apache-2.0
"""The sentences of the project: those of comments in C files, and those of pages.

Code, tables, drawings, headings and quotations are no sentences; an item of a list is one, or several."""
import bisect
import re

import ctext
import sources

WORDS_MAX = 25
# Kept as they were: they stand for programs that somebody else wrote.
SKIPPED = ("tests/api/programs/", "tests/fuzz/corpus/")

DIRECTION = re.compile(r"SPDX-License-Identifier|clang-format (?:on|off)|NOLINT|^\s*$|fall ?through")
TAG = re.compile(r"[@\\](?:file|brief|param(?:\[[\w,]+\])?\s+\w+|return|retval\s+\w+|note|c|p)\b")
ITEM = re.compile(r"^\s*(?:[-*+•]|\d+[.)])\s+")
# What a thing is, in a list of them: "  name: words".
NOTE = re.compile(r"^\s+[\w*>.-]+: ")
# A drawing, a row of a table, a line of code or of a list of fields: three blanks in a row, lines
# and arrows, or a colon-less indent. They begin deeper than the text around.
DRAWN = re.compile(r"[^.\s] {2,}\S|\S\t+\S|--+[->|+]|<--|[─│┌┐└┘├┤┬┴┼═║▲▼►◄]|\.\.\.\.|[|+] *$| \| .* \| |^\s*[|+]|^\s*[-=]{4,}")
FENCE = re.compile(r"^\s*(```|~~~)")
END = re.compile(r"(?<![.\s])[.!?][\"')”*]*(?=\s+\S|\s*$)")
SHORT = re.compile(r"\b(?:e\.g|i\.e|etc|vs|cf|resp|approx|No|p|Dr|St)\.$")
WORD = re.compile(r"[^\W_]")

VERB = (r"(?:is|are|was|were|has|have|had|may|must|can|cannot|shall|will|goes|go|comes|come|stays|stay|"
        r"waits|wait|counts|count|gets|lies|leaves|keeps|needs|takes|holds|does|did|do)")
HEAD = r"(?:what(?:ever)?|who(?:ever|m|mever)?|whose|which(?:ever)?)\b"
FREE = (
    # The first words of a sentence that is not a question.
    re.compile(r"^[\W_]*" + HEAD, re.I),
    # ... of a clause after a sign, with a conjunction or without.
    re.compile(r"; (?:and |but |so |or |for |else |then )?(?:what(?:ever)?|who(?:ever)?)\b"),
    re.compile(r", (?:and|but|so|or|else|then) (?:what(?:ever)?|who(?:ever)?)\b(?! to\b)"),
    re.compile(r":\** (?:whoever|whatever|who)\b"),
    # ... behind a colon or "and", where two verbs follow: one of the clause and one that it is the
    # subject of. With one verb it is a member of a list: "two things: what it is and what it has".
    re.compile(rf"(?::\**| and| but| so) what\b[^;.:,]*?\b{VERB}\b[^;.:,]*?\b{VERB}\b"),
    # ... of a clause after a conjunction.
    re.compile(r"\b(?:that|if|when|while|because|since|until|unless|so|although|though|once) "
               r"(?:what(?:ever)?|who(?:ever)?)\b(?! to\b)"),
)


class Sentence:
    def __init__(self, name, line, text):
        self.name, self.line, self.text = name, line, text
        self.words = sum(1 for word in text.split() if WORD.search(word))
        self.is_long = self.words > WORDS_MAX
        self.is_free = not text.rstrip("\"')*_ ").endswith("?") and any(
            form.search(text) for form in FREE)


def split(name, lines):
    """The sentences of one paragraph, given as (number, text) of its lines."""
    text, starts, numbers = "", [], []
    for number, line in lines:
        starts.append(len(text))
        numbers.append(number)
        text += line.strip() + " "
    begin = 0
    for found in list(END.finditer(text)) + [None]:
        end = len(text) if found is None else found.end()
        piece = text[begin:end]
        if found is not None and SHORT.search(piece.rstrip("\"')")):
            continue
        at = begin + len(piece) - len(piece.lstrip())
        begin = end
        piece = piece.strip()
        if WORD.search(piece):
            yield Sentence(name, numbers[bisect.bisect_right(starts, at) - 1], piece)


def split_all(name, paragraph):
    if paragraph:
        yield from split(name, paragraph)
        paragraph.clear()


def indent_of(line):
    return len(line) - len(line.lstrip())


def read_block(name, lines):
    """The sentences of text whose paragraphs are parted by empty lines, items and drawings."""
    filled = [indent_of(line) for _, line in lines if line.strip()]
    base = min(filled) if filled else 0
    paragraph, is_in_item = [], False
    for number, line in lines:
        if not line.strip():
            yield from split_all(name, paragraph)
            is_in_item = False
        elif DRAWN.search(line.rstrip()) or (indent_of(line) >= base + 4 and not paragraph
                                             and not is_in_item and not ITEM.match(line)):
            yield from split_all(name, paragraph)
        elif ITEM.match(line) or (indent_of(line) > base and NOTE.match(line)):
            yield from split_all(name, paragraph)
            paragraph.append((number, ITEM.sub("", line)))
            is_in_item = True
        else:
            paragraph.append((number, line))
    yield from split_all(name, paragraph)


def of_source(name, text):
    """Sentences of the comments of a C file."""
    newlines = [at for at, char in enumerate(text) if char == "\n"]
    for found in ctext.IGNORED.finditer(text):
        comment = found.group(0)
        if not comment.startswith("/") or DIRECTION.search(comment[2:].strip("*/ ")):
            continue
        number = bisect.bisect_left(newlines, found.start()) + 1
        body = comment[2:] if comment.startswith("//") else comment[2:-2]
        lines = []
        for offset, line in enumerate(body.split("\n")):
            line = re.sub(r"^\s*\*(?=\s|$)", "", line) if offset > 0 else line.lstrip("*!<")
            lines.append((number + offset, " " + TAG.sub("", line).lstrip() if offset == 0
                          else TAG.sub("", line)))
        yield from read_block(name, lines)


def of_page(name, text):
    """Sentences of a page in Markdown."""
    text = re.sub(r"<!--.*?-->", lambda m: "\n" * m.group(0).count("\n"), text, flags=re.S)
    text = re.sub(r"!?\[([^\]]*)\]\([^)\s]*\)", r"\1", text)
    paragraph, is_code, is_in_item = [], False, False
    for number, line in enumerate(text.split("\n"), 1):
        if FENCE.match(line):
            is_code = not is_code
            yield from split_all(name, paragraph)
        elif is_code or not line.strip():
            yield from split_all(name, paragraph)
            is_in_item = is_in_item and not line.strip()
        elif line.lstrip().startswith(("|", "#", "<", ">")) or (
                line.startswith("    ") and not paragraph and not is_in_item):
            yield from split_all(name, paragraph)
        else:
            if ITEM.match(line):
                yield from split_all(name, paragraph)
                line, is_in_item = ITEM.sub("", line), True
            paragraph.append((number, re.sub(r"`([^`]*)`", code_word, line)))
    yield from split_all(name, paragraph)


def code_word(found):
    """A piece of code is one word, whatever is in it."""
    return "`" + found.group(1).replace(" ", "\ue000").replace(".", "\ue001") + "`"


def of_file(name):
    if name.startswith(SKIPPED):
        return []
    if name.endswith(".md"):
        return list(of_page(name, sources.read(name)))
    return list(of_source(name, sources.read(name))) if sources.is_c(name) else []
