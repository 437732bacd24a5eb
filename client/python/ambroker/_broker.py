# SPDX-License-Identifier: Apache-2.0
"""A brokerd of the program's own."""
from __future__ import annotations

import os
import pathlib
import select
import shutil
import subprocess
import tempfile
import weakref
from typing import Any, Self

from . import _amb
from ._errors import error
from ._programs import program

_READY_SECONDS = 30
_started: weakref.WeakSet[subprocess.Popen[bytes]] = weakref.WeakSet()


def _text(value: object, depth: int = 0) -> str:
    """A value of a configuration, as libconfig writes it."""
    if isinstance(value, dict):
        pad = "  " * (depth + 1)
        lines = "".join(f"{pad}{name} = {_text(one, depth + 1)};\n" for name, one in value.items())
        return "{\n" + lines + "  " * depth + "}"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return "(" + ", ".join(_text(one, depth) for one in value) + ")"
    if isinstance(value, (int, float)):
        return repr(value)
    escaped = str(value).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


class Broker:
    """A brokerd in a folder of its own. It ends with this object, and with this process.

        with ambroker.Broker(memory={"host": {"size": "256M"}}) as broker:
            conn = ambroker.connect(broker.url)
    """

    def __init__(self, *, folder: str | os.PathLike[str] | None = None,
                 log: str | os.PathLike[str] | None = None, **config: Any) -> None:
        self._pid = os.getpid()
        self._own = None
        if folder is None:
            folder = self._own = tempfile.mkdtemp(prefix="ambroker-")
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(mode=0o700, exist_ok=True)
        socket = self.folder / "broker.sock"
        self.url = f"unix://{socket}"
        self.log = pathlib.Path(log) if log is not None else self.folder / "broker.log"
        more = config.pop("listen", ())
        listen = [self.url, *((more,) if isinstance(more, str) else more)]
        text = "".join(f"{name} = {_text(value)};\n"
                       for name, value in {"listen": listen, **config}.items())
        path = self.folder / "broker.conf"
        path.write_text(text, encoding="utf-8")
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self._start(path)
        except BaseException:
            self.close()
            raise

    def _start(self, path: pathlib.Path) -> None:
        with open(self.log, "ab") as log:
            self._process = subprocess.Popen(  # pylint: disable=consider-using-with
                [program("brokerd"), "--config", str(path), "--until-eof"], stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, stderr=log, start_new_session=True)
        _started.add(self._process)
        assert self._process.stdout is not None
        with self._process.stdout as out:
            ready = select.poll()
            ready.register(out, select.POLLIN)
            if not ready.poll(_READY_SECONDS * 1000):
                raise error(_amb.Timeout, f"brokerd is not ready: {self._last_words()}")
            if not out.readline():  # It says one line; without one it has ended.
                raise error(_amb.Error, self._last_words())

    def _last_words(self) -> str:
        lines = self.log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return lines[-1] if lines else "brokerd has said nothing"

    @property
    def pid(self) -> int:
        """Of the brokerd."""
        if self._process is None:
            raise error(_amb.Closed, "this Broker is closed")
        return self._process.pid

    def close(self, timeout: float = 5.0) -> None:
        """Drains it, and ends it. A forked child's copy does nothing."""
        process, self._process = self._process, None
        if os.getpid() != self._pid:
            return
        if process is not None:
            assert process.stdin is not None
            process.stdin.close()
            try:
                process.wait(timeout)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if self._own is not None:
            shutil.rmtree(self._own, ignore_errors=True)
            self._own = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _let_go() -> None:
    """In a forked child: brokerd's standard input is the parent's alone, so that it ends with that."""
    for process in list(_started):
        if process.stdin is not None:
            process.stdin.close()


os.register_at_fork(after_in_child=_let_go)
