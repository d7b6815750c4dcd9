"""Where the Java virtual machine writes: one file, which is turned over when it is large, so nothing gathers anywhere.

Errors reach Python as exceptions; the file is for those who look for what Java said beside them.
"""

from __future__ import annotations

import atexit
import os
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

LARGEST = 4 << 20
"""Bytes of the file after which the next start begins a new one; the one before is kept."""

_QUIET = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{HH:mm:ss} %p %c{1}: %replace{%replace{%m%n%ex}{://([^/:@ ]*):[^/@ ]+@}{://$1:***@}}{(?i)((?:password|passwd|passphrase|secret|token|credential|key|jaas)[a-z._-]*["']? *[=:] *["']?)[^ "'&;,)]+}{$1***}
"""


def own_folder() -> Path | None:
    """The user's own folder for what Tidegate keeps between runs (history, log); None where there can be none."""
    state = os.environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    folder = Path(state) / "tidegate"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        return None
    return folder if os.access(folder, os.W_OK) else None


def log_file() -> Path:
    """The file for what Java writes: `java.log` in the user's folder, or a temporary one that goes with the process."""
    folder = own_folder()
    if folder is None:
        handle, name = tempfile.mkstemp(prefix="tidegate-java-", suffix=".log")
        os.close(handle)
        atexit.register(Path(name).unlink, missing_ok=True)
        return Path(name)
    file = folder / "java.log"
    if file.exists() and file.stat().st_size > LARGEST:
        os.replace(file, folder / "java.log.1")
    return file


def log_configuration() -> Path:
    """A file of this process's own: at a name that others can guess, they could lay one before."""
    handle, name = tempfile.mkstemp(prefix="tidegate-log4j2-", suffix=".properties")
    with os.fdopen(handle, "w") as file:
        file.write(_QUIET)
    atexit.register(Path(name).unlink, missing_ok=True)
    return Path(name)


def complaint(said: str) -> str:
    """What Java's words tell a person: the lines that are no stack, no progress and no banner, the last few of them.

    >>> complaint("WARNING: Using incubator modules\\nException in thread \\"main\\" java.lang.X: no such host\\n\\tat a.B.c(D.java:1)\\n")
    'no such host'
    """
    lines = (line.strip() for line in said.splitlines())
    noise = re.compile(
        r"(at |\.\.\. \d+ more|WARNING: |Using Spark's default log4j|:: ?|https?:|==== |[|=+-]*$)"
    )
    told = (
        re.sub(r'^(Exception in thread "[^"]*" |Caused by: )([\w.$]+: )?', "", line)
        for line in lines
        if not noise.match(line)
    )
    return "\n".join(list(dict.fromkeys(told))[-5:])


@dataclass(frozen=True)
class JavaLog:
    """The file that a JVM inherits as its standard output and error, and where in it its words begin."""

    file: Path
    begin: int
    handle: int

    @classmethod
    def opened(cls) -> JavaLog:
        file = log_file()
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        return cls(file, os.fstat(handle).st_size, handle)

    def said(self) -> str:
        """What the JVM complained about, in a few lines."""
        with open(self.file, errors="replace") as file:
            file.seek(self.begin)
            return complaint(file.read())
