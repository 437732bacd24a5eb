# SPDX-License-Identifier: Apache-2.0
"""tools/dev/check-arrows.py finds each thing that it looks for, in a project of some files, and
nothing where there is nothing.

    arrows_test.py
"""
import pytest
from planted import run

CHECK = "check-arrows.py"
ROOMS = "tools/dev/arrows.txt"
ARROWS = """
wire/base:
wire/link: wire/base
broker: wire/
client/include:
client/inner: client/include
client/face: client/include
<ucp/: wire/link/ucx*
"""


def chain(modules, is_closed):
    """Modules of which each calls the next one, and the last one the first."""
    files = {}
    for at in range(modules):
        after = (at + 1) % modules
        calls = f"next_{after}();" if is_closed or after != 0 else ""
        files[f"broker/m{at}.h"] = f"#pragma once\nvoid next_{at}(void);\n"
        files[f"broker/m{at}.c"] = (f'#include "broker/m{at}.h"\n\n#include "broker/m{after}.h"\n\n'
                                    f"void next_{at}(void)\n{{\n    {calls}\n}}\n")
    return files


SOUND = {
    "wire/base/a.h": "#pragma once\nint amb_a(int x);\n",
    "wire/base/a.c": '#include "wire/base/a.h"\n\nint amb_a(int x)\n{\n    return x;\n}\n',
    "wire/link/b.h": '#pragma once\n#include "wire/base/a.h"\nint amb_b(void);\n',
    "wire/link/b.c": '#include "wire/link/b.h"\n\nint amb_b(void)\n{\n    return amb_a(1);\n}\n',
    "client/include/amb/amb.h": '#pragma once\nextern "C" {\nint amb_open(int x);\n}\n',
    "client/inner/open.c": "int amb_open(int x)\n{\n    return x;\n}\n",
    "client/inner/hidden.c": "int amb_hidden(int x)\n{\n    return x;\n}\n",
    "client/face/f.c": "#include <amb/amb.h>\n\nint amb_face(void)\n{\n    return amb_open(1);\n}\n",
    **chain(5, False),
}
PLANTED = {
    "an include against the arrows":
        ({"wire/base/a.c": '#include "wire/link/b.h"\n'}, "wire/base may not include wire/link/b.h"),
    "a library that belongs elsewhere":
        ({"broker/x.c": "#include <ucp/api/ucp.h>\n"}, "belongs to wire/link/ucx*"),
    "a call against the arrows":
        ({"wire/base/c.c": "int amb_b(void);\n\nint amb_c(void)\n{\n    return amb_b();\n}\n"},
         "wire/base may not call amb_b of wire/link/b.c"),
    "a call behind the interface":
        ({"client/face/g.c": "int amb_hidden(int);\n\nint amb_g(void)\n{\n    return amb_hidden(1);\n}\n"},
         "client/face may not call amb_hidden of client/inner/hidden.c"),
    "rooms in a circle":
        ({ROOMS: ARROWS.replace("wire/base:", "wire/base: wire/link")},
         "rooms use each other: wire/base wire/link"),
    "headers in a circle":
        ({"broker/x.h": '#include "broker/y.h"\n', "broker/y.h": '#include "broker/x.h"\n'},
         "headers include each other: broker/x.h broker/y.h"),
    "five modules that call each other": (chain(5, True), "5 modules call each other in a circle"),
    "a declaration in another module's header":
        ({"broker/x.h": "#pragma once\nvoid next_0(void);\n"},
         "broker/x.h: next_0 is defined in broker/m0"),
}


@pytest.mark.parametrize("files", (SOUND, chain(4, True)), ids=("sound", "four in a circle"))
def test_nothing_is_found_where_nothing_is(tmp_path, files):
    status, said = run(CHECK, tmp_path, {ROOMS: ARROWS, **files})
    assert status == 0, said


@pytest.mark.parametrize("name", PLANTED)
def test_what_is_planted_is_found(tmp_path, name):
    files, expected = PLANTED[name]
    status, said = run(CHECK, tmp_path, {ROOMS: ARROWS, **SOUND, **files})
    assert status == 1 and expected in said and "1 problem\n" in said
