# SPDX-License-Identifier: Apache-2.0
"""The files that the checks of this folder look at, and how they report."""
import os
import subprocess
import sys

C_ENDINGS = (".c", ".h", ".cc", ".cpp", ".hpp", ".cu")
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def all_files():
    """Paths of the project's files from its root: git's list, or without git a walk."""
    if os.path.exists(os.path.join(ROOT, ".git")):
        try:
            out = subprocess.run(
                ["git", "-C", ROOT, "ls-files", "-z", "-co", "--exclude-standard"],
                capture_output=True, check=True).stdout.decode()
            names = [n for n in out.split("\0") if n and os.path.isfile(os.path.join(ROOT, n))]
            return sorted(names)
        except (OSError, subprocess.CalledProcessError):
            pass
    names = []
    for folder, folders, files in os.walk(ROOT):
        here = os.path.relpath(folder, ROOT)
        folders[:] = [f for f in folders
                      if f not in (".git", ".cache", "__pycache__")
                      and not (here == "." and f == "build")]
        for name in files:
            path = os.path.normpath(os.path.join(here, name))
            if not name.endswith((".o", ".a", ".so", ".log")):
                names.append(path)
    return sorted(names)


def c_files(*folders):
    """The .c and .h files below the folders given."""
    return [n for n in all_files()
            if n.endswith((".c", ".h")) and n.startswith(tuple(f + "/" for f in folders))]


def is_c(name):
    return name.endswith(C_ENDINGS)


def options(parser):
    """What a check was called with. --root DIR: it looks at the project that lies there."""
    parser.add_argument("--root")
    given = parser.parse_args()
    if given.root is not None:
        global ROOT
        ROOT = os.path.abspath(given.root)
    return given


def read(name):
    with open(os.path.join(ROOT, name), encoding="utf-8", errors="replace") as stream:
        return stream.read()


def table(name):
    """Lines `key: words` of a text file as pairs; '#' begins a comment."""
    rows = []
    for line in read(name).splitlines():
        line = line.split("#", 1)[0].strip()
        if line:
            key, _, rest = line.partition(":")
            rows.append((key.strip(), rest.strip()))
    return rows


def finish(what, problems, notes=()):
    for note in notes:
        print(f"note: {note}")
    for problem in problems:
        print(problem)
    print(f"{what}: {len(problems)} problem{'' if len(problems) == 1 else 's'}")
    sys.exit(1 if problems else 0)
