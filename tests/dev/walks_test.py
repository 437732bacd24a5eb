# SPDX-License-Identifier: Apache-2.0
"""tools/dev/check-walks.py finds each thing that it looks for, in a project of some files, and
nothing where there is nothing.

    walks_test.py
"""
import pytest
from planted import run

CHECK = "check-walks.py"
WALKS = "tools/dev/walks.txt"
GOOD = """
message:
    start broker/worker/take.c:amb_take
    call broker/topic/keep.c:amb_keep
    list marked broker/delivery/give.c:amb_give
    call wire/link/send.c:amb_send

stops 4 broker/worker/take.c:amb_take:body
page docs/ways.md
"""
SOUND = {
    "docs/ways.md": "broker/worker/take.c:amb_take broker/topic/keep.c:amb_keep\n"
                    "broker/delivery/give.c:amb_give wire/link/send.c:amb_send\n",
    "tools/dev/arrows.txt": """
wire/link:
broker/topic: wire/link
broker/delivery: broker/topic wire/link
broker/worker: broker/delivery broker/topic wire/link
""",
    WALKS: GOOD,
    "wire/link/send.c": "void amb_send(int x)\n{\n}\n",
    "broker/topic/keep.c": """
static void mark(int entry)
{
    push(&topic->marked, entry);
}

void amb_keep(int entry)
{
    mark(entry);
}
""",
    "broker/delivery/give.c": """
static void give(int x)
{
    amb_send(x);
}

void amb_give(void)
{
    give(pop(&topic->marked));
}
""",
    "broker/worker/take.c": """
static void take(int entry)
{
    amb_keep(entry);
}

void amb_take(struct body *body)
{
    int entry = body->entry;
    take(entry);
}
""",
}


def walk(old, new):
    assert old in GOOD
    return {WALKS: GOOD.replace(old, new).replace("page docs/ways.md\n", "")}


PLANTED = {
    "a function that is not there":
        (walk("amb_keep", "amb_kept"), "broker/topic/keep.c:amb_kept: there is no such function"),
    "a function of another file":
        (walk("keep.c:amb_keep", "keep.c:amb_take"), "there is no such function"),
    "a step that is not called":
        (walk("list marked", "call"), "is not called by amb_keep"),
    "a call through a room that the walk leaves out":
        ({"broker/delivery/give.c":
              "void amb_tell(void);\\nvoid amb_give(void)\\n{\\n    amb_tell(marked);\\n}\\n"
              .replace("\\n", "\n"),
          "broker/worker/tell.c": "void amb_tell(void)\n{\n    amb_send(1);\n}\n"},
         "is not called by amb_give through broker/delivery and wire/link"),
    "a call against the arrows":
        ({"broker/topic/keep.c": SOUND["broker/topic/keep.c"].replace("mark(entry);",
                                                                     "amb_give();"),
          **walk("list marked", "call")}, "is called against the arrows from broker/topic"),
    "a thing that nobody hands over":
        ({**walk("list marked", "list sorted"), "broker/delivery/give.c":
              SOUND["broker/delivery/give.c"].replace("marked", "sorted")},
         "sorted is not handed over by amb_keep"),
    "a thing that nobody takes":
        ({"broker/delivery/give.c":
              SOUND["broker/delivery/give.c"].replace("marked", "others")},
         "marked is not taken over by broker/delivery/give.c"),
    "a way that is none": (walk("list marked", "somehow"), "comes by somehow, which is no way"),
    "a walk that comes back":
        ({"wire/link/send.c": "void amb_send(int x)\n{\n    shelf = x;\n}\n",
          "broker/topic/shelf.c": "void amb_shelve(void)\n{\n    keep(shelf);\n}\n",
          **walk("call wire/link/send.c:amb_send",
                 "call wire/link/send.c:amb_send\n    mail shelf broker/topic/shelf.c:amb_shelve")},
         "broker/topic/shelf.c:amb_shelve: comes back to broker/topic"),
    "a walk that begins nowhere": (walk("start ", "call "), "is the first step, and no start"),
    "a walk that is too long":
        ({**{f"wire/link/s{i}.c": f"void amb_s{i}(int x)\n{{\n    amb_s{i + 1}(x);\n}}\n"
             for i in range(8)},
          WALKS: "long:\n    start wire/link/s0.c:amb_s0\n"
                 + "".join(f"    call wire/link/s{i}.c:amb_s{i}\n" for i in range(1, 8))
                 + "    call wire/link/send.c:amb_send\n",
          "wire/link/s8.h": "static inline void amb_s8(int x)\n{\n    amb_send(x);\n}\n"},
         "long: 9 steps, and 8 may be"),
    "a page that shows another walk":
        ({"docs/ways.md": "broker/worker/take.c:amb_take broker/delivery/give.c:amb_give\n"},
         "docs/ways.md: message: has no broker/topic/keep.c:amb_keep"),
    "too many stops": (walk("stops 4", "stops 1"), "amb_take:body: makes 2 stops, and 1 may be"),
    "a parameter that is not there":
        (walk("amb_take:body", "amb_take:frame"), "there is no such parameter"),
}


def test_nothing_is_found_where_nothing_is(tmp_path):
    status, said = run(CHECK, tmp_path, SOUND)
    assert status == 0, said


@pytest.mark.parametrize("name", PLANTED)
def test_what_is_planted_is_found(tmp_path, name):
    files, expected = PLANTED[name]
    status, said = run(CHECK, tmp_path, {**SOUND, **files})
    assert status == 1 and expected in said and "1 problem\n" in said
