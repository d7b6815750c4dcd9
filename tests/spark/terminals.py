"""A program in a real terminal: what is typed goes in, what it shows comes out as text."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b[=>()][0-9A-Z]?|\x1b\][^\x07]*\x07|\r")


class Terminal:
    """The master's side of a pseudo-terminal of 120 columns and 50 lines."""

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
        self._handle, inner = pty.openpty()
        fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 120, 0, 0))
        self.program = subprocess.Popen(
            [sys.executable, "-m", "tidegate", *arguments],
            stdin=inner,
            stdout=inner,
            stderr=inner,
            env={
                **os.environ,
                "TERM": "xterm",
                "PROMPT_TOOLKIT_NO_CPR": "1",
                "PYTHONPATH": str(ROOT),
                **environment,
            },
            start_new_session=True,
            # Ctrl-C reaches whoever has the terminal as its own.
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 - one call, no lock
        )
        os.close(inner)
        self.shown = ""
        self._seen = 0

    def type(self, text: str) -> None:
        os.write(self._handle, text.encode())

    def expect(self, pattern: str, seconds: float = 120) -> str:
        """Wait until something new is shown that has a pattern; what was new up to its end."""
        until = time.monotonic() + seconds
        while True:
            if found := re.search(pattern, self.shown[self._seen :]):
                new = self.shown[self._seen : self._seen + found.end()]
                self._seen += found.end()
                return new
            assert time.monotonic() < until, f"no {pattern!r} in:\n{self.shown[-3000:]}"
            if not self._read(until - time.monotonic()):
                raise AssertionError(f"it ended without {pattern!r}:\n{self.shown[-3000:]}")

    def end(self, seconds: float = 60) -> int:
        """Read to the end of the program; its exit code."""
        until = time.monotonic() + seconds
        while time.monotonic() < until and self._read(until - time.monotonic()):
            pass
        return self.program.wait(max(0.1, until - time.monotonic()))

    def _read(self, seconds: float) -> bool:
        if not select.select([self._handle], [], [], max(0.0, seconds))[0]:
            return True
        try:
            data = os.read(self._handle, 1 << 16)
        except OSError:  # so a terminal says that nobody is there any more
            return False
        self.shown += _CONTROL.sub("", data.decode(errors="replace"))
        return bool(data)

    def close(self) -> None:
        if self.program.poll() is None:
            self.program.kill()
            self.program.wait()
        os.close(self._handle)


@contextmanager
def terminal(*arguments: str, **environment: str) -> Iterator[Terminal]:
    found = Terminal(arguments, environment)
    try:
        yield found
    finally:
        found.close()
