"""What statements may reach: one value that a session is opened with, and that every statement passes.

`OPEN` is for the session of somebody's own program: it reaches whatever the program could. `CLOSED` is for a server, whose statements are
written by others: they see the rows that the program hands in and nothing else. What more they may have is named, as
in `closed(read=["data"])` or `replace(CLOSED, sources=frozenset({"kafka"}))`.

Functions are no matter of trust: those of Spark that SQL may call are the same for all (`scalars.spark_functions`), and a policy may
name fewer. Whatever the policy, a source reads: what would delete or move its files, or make them, is refused.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from tidegate.errors import Diagnostic
from tidegate.redaction import learn, masked

FILES = frozenset({"avro", "csv", "json", "parquet"})
"""Connectors that are files."""

_ALWAYS = frozenset({"memory"})
"""Rows that the program hands in reach nothing."""
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]+):")
_PLACE = re.compile(
    r"(path|paths|file|files|dir|directory|folder|location|url|uri|descriptor|registry|keytab)$",
    re.IGNORECASE,
)
_WRITING = frozenset({"cleansource", "sourcearchivedir", "sessioninitstatement", "preparequery"})
_CREATING = re.compile(r"[;?&]\s*(create\s*=\s*true|init\s*=)", re.IGNORECASE)
_LOADING = re.compile(
    r"(class|classes|providers?|reporters|interceptors|kinit\.cmd|library\.paths|engine\.(location|id))$",
    re.IGNORECASE,
)
"""Options whose values are code: names of Java's classes, libraries, commands."""
_LOGIN = re.compile(r"\s*org\.apache\.kafka\.common\.security\.(plain|scram|oauthbearer)\.\w+\s")
_WILD = re.compile(r"[*?\[]")
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


@dataclass(frozen=True)
class Policy:
    """What may be reached; None stands for everything.

    `read` and `write` are directories (or URIs of them) below which files may be read and written, `sources` and `sinks`
    the connectors, `formats` what `spark('format')` may read, `functions` those of Spark's that may be called, `variables` those of the
    environment that `${NAME}` may stand for in arguments and options of connectors.
    """

    name: str = "open"
    read: tuple[str, ...] | None = None
    write: tuple[str, ...] | None = None
    sources: frozenset[str] | None = None
    sinks: frozenset[str] | None = None
    formats: frozenset[str] | None = None
    functions: frozenset[str] | None = None
    variables: frozenset[str] | None = None

    def with_connector(self, what: Literal["source", "sink"], name: str) -> Policy:
        """The policy of a program that adds a connector of its own."""
        if what == "source":
            return self if self.sources is None else replace(self, sources=self.sources | {name.lower()})
        return self if self.sinks is None else replace(self, sinks=self.sinks | {name.lower()})

    def check_connector(self, what: str, name: str) -> None:
        """Whether a source or sink may be used, whatever it is called with."""
        allowed = self.sources if what == "source" else self.sinks
        if allowed is not None and name.lower() not in allowed | _ALWAYS:
            raise _refused(f"the {what} '{name}' is not available")

    def check_value(self, what: str, connector: str, name: str, value: object) -> None:
        """Whether an argument or option of a connector may have a value."""
        plain, text = name.lower().replace("_", ""), str(value)
        if what == "source" and plain in _WRITING:
            raise _refused(f"'{name}' is not available: a source reads, and changes nothing where it reads")
        login = plain.endswith("jaas.config") and not _LOGIN.match(text)
        if self.sources is not None and (_LOADING.search(name) or login):
            raise _refused(f"'{name}' would load code by its name")
        if connector == "spark" and name == "format":
            self._check_format(text)
        if connector == "spark" and _CREATING.search(text):
            raise _refused(f"'{name}' would make what it reads")
        if connector == "memory" or not _PLACE.search(name):
            return
        if masked(text) != text and plain in ("path", "directory"):
            raise _refused("a path is written down in many places: a password does not belong in it")
        roots = self.read if what == "source" else self.write
        if roots is not None:
            self._check_place(text, roots, "read" if what == "source" else "written")

    def expanded(self, value: object, environment: Mapping[str, str] | None = None) -> object:
        """An argument or option with the environment's values for `${NAME}`; they are secrets, which nobody is shown.

        >>> OPEN.expanded("user=${NAME};a=1", {"NAME": "ann of x"})
        'user=ann of x;a=1'
        >>> OPEN.expanded("${env:PATH}", {})
        '${env:PATH}'
        """
        known = os.environ if environment is None else environment

        def found(match: re.Match[str]) -> str:
            name = match[1]
            if self.variables is not None and name not in self.variables:
                raise _refused(f"the variable {name} is not available")
            if name not in known:
                raise Diagnostic(
                    "VARIABLE_MISSING",
                    f"there is no variable {name} in the environment",
                    help=f"set it where Tidegate is started: {name}=… tidegate …",
                )
            learn("secret", known[name])
            return known[name]

        return _VARIABLE.sub(found, value) if isinstance(value, str) else value

    def check_file(self, file: str) -> None:
        """Whether a file of this machine that a source has come upon may be read: it may be a link."""
        if self.read is not None and not any(_within(file, os.path.realpath(_local(r))) for r in self.read):
            raise _refused(f"'{file}' leads out of the directories that may be read")

    def _check_format(self, name: str) -> None:
        if self.formats is not None and name.lower() not in self.formats:
            raise _refused(f"the format '{name}' is not available")

    def _check_place(self, path: str, roots: Iterable[str], done: str) -> None:
        if not any(_is_below(path, root) for root in roots):
            raise _refused(f"'{path}' is not in a directory that may be {done}")


def _refused(message: str) -> Diagnostic:
    return Diagnostic("NOT_ALLOWED", message, help="whoever opened this session decides what it may reach")


def _is_below(path: str, root: str) -> bool:
    """Whether a path, and all that it leads to now, lies below a root, with links followed."""
    scheme, top = _SCHEME.match(path), _SCHEME.match(root)
    if scheme is not None and scheme[1].lower() != "file":
        clean = not re.search(r"[%\\]|/\.\.?(/|$)", path)
        return clean and top is not None and path.startswith(root.rstrip("/") + "/")
    if top is not None and top[1].lower() != "file":
        return False
    # Spark knows more wildcards than are looked through here, and takes file://a/b for /b on a machine a.
    if re.search(r"[{}\\\0]|^[A-Za-z]+:(//[^/]|.*%|[^/])", path):
        return False
    local, base = _local(path), os.path.realpath(_local(root))
    parts = local.split(os.sep)
    if ".." in parts:
        return False
    wild = next((i for i, part in enumerate(parts) if _WILD.search(part)), len(parts))
    fixed = os.sep.join(parts[:wild]) or os.sep
    return all(_within(place, base) for place in [fixed, *_reached(local)])


def _local(path: str) -> str:
    """Absolute, with `..` left in it: behind a link it leads elsewhere than the text says."""
    path = path[5:].replace("///", "/", 1) if path.lower().startswith("file:") else path
    return path if os.path.isabs(path) else os.path.join(os.getcwd(), path)


def _within(path: str, base: str) -> bool:
    real = os.path.realpath(path)
    return real == base or real.startswith(base.rstrip(os.sep) + os.sep)


def _reached(path: str) -> Iterator[str]:
    """What a path names now: the places themselves, and the links in directories, also in those that links lead to."""
    # Sets of characters are written in more ways than here, and Spark's wildcards reach hidden names, too.
    pattern = re.sub(r"\[[^/]*\]", "*", path)
    places = glob.glob(pattern, include_hidden=True) if _WILD.search(path) else [path]
    seen: set[str] = set()
    while places:
        place = places.pop()
        yield place
        for folder, folders, names in os.walk(place):
            links = [p for n in (*folders, *names) if os.path.islink(p := os.path.join(folder, n))]
            fresh = {os.path.realpath(link) for link in links} - seen
            seen |= fresh
            places += fresh


OPEN = Policy()
"""For a session of somebody's own: everything that the program itself could reach."""

CLOSED = Policy("closed", (), (), frozenset(), frozenset({"noop"}), frozenset(), variables=frozenset())
"""For statements of others: no files, no connectors, no formats, nothing of the environment."""


def closed(read: Iterable[str] = (), write: Iterable[str] = ()) -> Policy:
    """CLOSED, but for files below some directories."""
    read, write = tuple(read), tuple(write)
    return replace(
        CLOSED,
        read=read,
        write=write,
        sources=FILES if read else frozenset(),
        sinks=frozenset({"noop", *FILES}) if write else frozenset({"noop"}),
    )
