# SPDX-License-Identifier: Apache-2.0
"""A folder with UCX whose calls fail, or abort, when a test says so (tests/support/programs/torture_ucp.c)."""
import mmap
import pathlib
import shutil
import struct

NUMBERS = struct.Struct("4q")


def library_of(build):
    """The UCX that a build brings along; None: it takes the system's."""
    for line in (pathlib.Path(build) / "CMakeCache.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("AMB_UCP_LIBRARY:"):
            path = pathlib.Path(line.split("=", 1)[1])
            return path.resolve().parent if path.is_file() else None
    return None


class FailingUcp:
    """Its folder, and the file by which processes are told which call fails. Raises OSError: there is none."""

    def __init__(self, rig, name="ucp"):
        source, own = library_of(rig.build), pathlib.Path(rig.program("test-torture-ucp.so"))
        if source is None:
            raise OSError("no UCX that a test can copy")
        self.folder, self.path = rig.folder / name, rig.folder / f"{name}.numbers"
        if not self.folder.is_dir():
            shutil.copytree(source, self.folder, symlinks=False)
            (self.folder / "libucp.so.0").rename(self.folder / "libucp-true.so.0")
            shutil.copy(own, self.folder / "libucp.so.0")
        self.path.write_bytes(bytes(NUMBERS.size))
        with open(self.path, "r+b") as file:
            self.map = mmap.mmap(file.fileno(), NUMBERS.size)
        self.env = {"AMB_TORTURE_UCP_FILE": str(self.path), "AMB_UCX_LIBRARY": str(self.folder)}

    def arm(self, number):
        """The call of that number from here on fails; 0: none does."""
        self.map[:] = NUMBERS.pack(number, 0, 0, 0)

    def seen(self):
        """Calls since then, and how many of them have failed. From here on none does."""
        _, calls, failed, _ = NUMBERS.unpack(self.map[:])
        self.map[:8] = bytes(8)
        return calls, failed

    def abort(self):
        """The next time that a process looks for what has come, it aborts."""
        self.map[24:] = struct.pack("q", 1)
