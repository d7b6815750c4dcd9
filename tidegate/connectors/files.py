"""Sources that are files: which they are, that they exist, and the order of arrival of their rows."""

from __future__ import annotations

import bz2
import csv
import glob
import gzip
import os
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import IO, Any, TypeVar
from urllib.parse import unquote

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from tidegate.connectors.inference import nothing_there
from tidegate.connectors.protocol import Source
from tidegate.connectors.raw import ROW_NUMBER, UNKNOWN, RawStream, stream_reader
from tidegate.errors import Diagnostic, did_you_mean
from tidegate.language.catalog import StreamDefinition
from tidegate.language.signatures import Option
from tidegate.types import Schema

CLOSED = (".zst", ".lz4", ".snappy", ".deflate")
"""Files that only Spark can look into."""
_OPENERS: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open}
FILE_ORDER = "_metadata.file_path", "_metadata.file_block_start"
PATH = Option("path", meaning="a file, a directory, or a pattern")
PER_TRIGGER = Option(
    "max_files_per_trigger", "integer", "live: so many new files in one epoch", spark="maxFilesPerTrigger"
)
FORMATS = (
    Option("timestamp_format", meaning="how TIMESTAMPs are written", spark="timestampFormat"),
    Option("date_format", meaning="how DATEs are written", spark="dateFormat"),
)


T = TypeVar("T")


class FileSource(Source):
    """Files, or a directory of them that grows."""

    def foresee(self, definition: StreamDefinition, live: bool) -> None:
        existing(definition)

    def recorded(self, spark: SparkSession, definition: StreamDefinition, data: Any = None) -> RawStream:
        self.check(definition, local_files(existing(definition)))
        return self.every_row(spark, definition)

    def live(self, spark: SparkSession, definition: StreamDefinition, inbox: str | None = None) -> RawStream:
        files = local_files(existing(definition))
        self.check(definition, files)
        forms = (self.form(definition, file) for file in files)
        return self.follow(spark, definition, next((f for f in forms if f is not None), None))

    def taken(self, spark: SparkSession, definition: StreamDefinition, folder: str) -> RawStream:
        there = replace(definition.source, arguments=(glob.escape(folder),))
        return self.every_row(spark, replace(definition, source=there))

    def check(self, definition: StreamDefinition, files: Sequence[str]) -> None:
        """Refuse files that together do not have the declared columns."""

    def form(self, definition: StreamDefinition, file: str) -> Any:
        """How a file is laid out, where all files of a live stream must be alike. A file that cannot be one of the stream is refused."""
        if file.endswith(tuple(_OPENERS)):
            with opened(file) as data:
                while data.read(1 << 20):
                    pass
        return None

    def declared(self, definition: StreamDefinition) -> Any:
        """The form of files where no file has told it."""
        return None

    def every_row(self, spark: SparkSession, definition: StreamDefinition) -> RawStream:
        """The rows of files that have been checked."""
        return self._rows(spark.read, definition, ROW_NUMBER)

    def follow(self, spark: SparkSession, definition: StreamDefinition, form: Any) -> RawStream:
        """Rows as files come that are laid out so (None: as declared)."""
        return self._rows(file_stream(spark, definition), definition, UNKNOWN)

    def size(self, definition: StreamDefinition, data: Any = None) -> int:
        return sum(os.path.getsize(p) for p in local_files(path_of(definition)))

    def first_refused(
        self, spark: SparkSession, definition: StreamDefinition, file: str
    ) -> tuple[str, str] | None:
        if not os.path.isfile(file) or escaped(file) != file:
            return None
        alone = replace(definition, source=replace(definition.source, arguments=(file,)))
        rows = self.every_row(spark, alone).frame.filter("bad IS NOT NULL").orderBy("o1", "o2")
        found = rows.select("o1", "o2", "bad").first()
        if found is None or found.o1:  # rows of later blocks are numbered from there
            return None
        return self.place(alone, file, found.o2), found.bad

    def place(self, definition: StreamDefinition, file: str, row: int) -> str:
        """Where the row of a number (from 0) stands in a file, in words for people."""
        return f"row {row + 1}"

    def _rows(self, reader: Any, definition: StreamDefinition, position: str) -> RawStream:
        raise NotImplementedError

    def columns(self, definition: StreamDefinition) -> Schema:
        """The columns that the files have, as far as somebody here can look into them."""
        path = existing(definition)
        files = [f for f in local_files(path) if os.path.getsize(f)]
        if "://" in path or (files and all(f.endswith(CLOSED) for f in files)):
            raise Diagnostic(
                "COLUMNS_UNKNOWN",
                f"nobody here can look into {path} to tell the columns of '{definition.name}'",
                help="declare them: CREATE STREAM name(column TYPE, …) SOURCE …",
            )
        if not files:
            raise nothing_there(definition.name, path)
        return self._columns(definition, [f for f in files if not f.endswith(CLOSED)])

    def _columns(self, definition: StreamDefinition, files: Sequence[str]) -> Schema:
        raise NotImplementedError


def file_stream(spark: SparkSession, definition: StreamDefinition) -> Any:
    """A reader of files as they come, however old they are. A file that is gone has no rows."""
    return stream_reader(spark, definition).options(maxFileAge="36500d", ignoreMissingFiles="true")


def local_path(uri: str, follow: bool = True) -> str:
    """A file as people know it, of the name that Spark gives it; `follow`: what stands for another file is that one.

    >>> local_path("file:///tmp/a%20b.csv")
    '/tmp/a b.csv'
    """
    if not uri.startswith("file:"):
        return uri
    path = unquote("/" + uri.removeprefix("file:").lstrip("/"))
    return os.path.realpath(path) if follow else path


def path_of(definition: StreamDefinition) -> str:
    return str(definition.source.arguments[0])


def existing(definition: StreamDefinition) -> str:
    """The path, which must lead somewhere."""
    path = path_of(definition)
    if "://" in path:
        return path
    places = _places(os.path.abspath(path))
    if not places:
        raise _not_found(definition, path)
    if all(passed_over(os.path.basename(p)) and not os.path.isdir(p) for p in places):
        raise Diagnostic(
            "SOURCE_NOT_FOUND",
            f"the source of '{definition.name}' is no file that Spark reads: {path}",
            help="names that begin with '_' or '.' are passed over: give the file another one",
        )
    return os.path.abspath(path)


def passed_over(name: str) -> bool:
    """Whether Spark passes over what has this name in a folder: what somebody hides, or has not finished.

    >>> [n for n in ("a.csv", ".a.csv", "_a.csv", "_a=1", "a.csv._COPYING_") if passed_over(n)]
    ['.a.csv', '_a.csv', 'a.csv._COPYING_']
    """
    return name.startswith(".") or name.endswith("._COPYING_") or (name.startswith("_") and "=" not in name)


def escaped(file: str) -> str:
    """A file's name as Spark takes a path, in which some characters are a pattern's.

    >>> escaped("/in/a[1].csv")
    '/in/a\\\\[1\\\\].csv'
    """
    return re.sub(r"[*?{}\[\]\\]", r"\\\g<0>", file)


def _places(path: str) -> list[str]:
    """What a path or pattern names. Spark writes [^…] where others write [!…], and hides nothing from a pattern."""
    return sorted(glob.glob(path.replace("[^", "[!"), include_hidden=True))


def local_files(path: str) -> list[str]:
    """The files of a source on this machine, as Spark finds them, in the order of arrival of their rows."""
    if "://" in path:
        return []
    found: list[str] = []
    for place in _places(path):
        if os.path.isdir(place):
            for folder, folders, names in os.walk(place, followlinks=True):
                folders[:] = [n for n in folders if not (passed_over(n) or _leads_back(folder, n))]
                found += [os.path.join(folder, n) for n in names if not passed_over(n)]
        elif not passed_over(os.path.basename(place)):
            found.append(place)
    return sorted((file for file in found if os.path.exists(file)), key=_uri)  # a link may lead nowhere


def _uri(file: str) -> str:
    """A file's name as Java writes it, which decides the order of Spark's rows.

    >>> sorted(["a1", "a[1]", "a b"], key=_uri)
    ['a b', 'a[1]', 'a1']
    """
    return re.sub(r"[^A-Za-z0-9/_!.~'()*,;:$&+=@\x80-\U0010ffff-]", lambda m: f"%{ord(m[0]):02X}", file)


def columns_in_names(path: str) -> set[str]:
    """The columns, in lower case, that the folders of a path hold in their names, as `day=1` does."""
    return set(values_in_names(path))


def values_in_names(path: str) -> dict[str, list[str]]:
    """The values of those columns."""
    folders = {
        os.path.dirname(os.path.relpath(f, p)) for p in _places(path) for f in local_files(glob.escape(p))
    }
    found: dict[str, list[str]] = {}
    for part in (part for folder in sorted(folders) for part in folder.split(os.sep) if "=" in part):
        name, _, value = unquote(part).partition("=")
        found.setdefault(name.lower(), []).append(value)
    return found


def _leads_back(folder: str, name: str) -> bool:
    """Whether a folder's link leads to the folder itself, or to one that it is in."""
    place = os.path.join(folder, name)
    if not os.path.islink(place):
        return False
    above = os.path.realpath(place)
    return os.path.commonpath([above, os.path.realpath(folder)]) == above


@contextmanager
def opened(file: str) -> Iterator[IO[bytes]]:
    """A file's content; what is wrong with it is told with its name."""
    try:
        with _OPENERS.get(os.path.splitext(file)[1], open)(file, "rb") as data:
            yield data
    except (OSError, EOFError, zlib.error, LookupError, csv.Error) as problem:
        raise Diagnostic("SOURCE_BROKEN", f"{file} cannot be read: {problem}") from problem


def readable(files: Sequence[str], look: Callable[[str], T]) -> Iterator[tuple[T, str]]:
    """What is found in files, and the files; those that are broken tell nothing, unless all are."""
    first: Diagnostic | None = None
    some = False
    for file in files:
        try:
            found = look(file)
        except Diagnostic as problem:
            if problem.condition != "SOURCE_BROKEN":
                raise
            first = first or problem
            continue
        some = True
        yield found, file
    if first is not None and not some:
        raise first


def load(definition: StreamDefinition, reader: Any, path: str | list[str]) -> DataFrame:
    """What Spark's reader finds there."""
    # Spark looks into folders of folders where their names hold columns, or where it is told to.
    if isinstance(path, str) and "://" not in path and not columns_in_names(path):
        reader = reader.option("recursiveFileLookup", "true")
    try:
        frame: DataFrame = reader.load(path)
    except AnalysisException as problem:
        if "PATH_NOT_FOUND" not in str(problem):
            raise
        raise _not_found(definition, path_of(definition)) from problem
    return frame


def missing_column(definition: StreamDefinition, name: str, existing: list[str], where: str) -> Diagnostic:
    return Diagnostic(
        "UNKNOWN_COLUMN",
        f"the source of '{definition.name}' has no column '{name}': {where}",
        help=did_you_mean(name, existing, "columns"),
    )


def _not_found(definition: StreamDefinition, path: str) -> Diagnostic:
    folder = os.path.dirname(os.path.abspath(path))
    beside = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    return Diagnostic(
        "SOURCE_NOT_FOUND",
        f"there is no file or directory '{path}'"
        if definition.unnamed
        else f"the source of '{definition.name}' does not exist: {path}",
        help=did_you_mean(os.path.basename(path), beside[:20], "files")
        if beside
        else f"there is no directory {folder}",
    )
