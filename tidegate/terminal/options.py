"""Options that several commands take, and what they mean."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from tidegate import policy
from tidegate.errors import Diagnostic
from tidegate.policy import Policy
from tidegate.terminal.answers import Form

Script = Annotated[
    Path, typer.Argument(metavar="FILE.sql", help="A script of statements; - reads standard input.")
]
ScriptOrNone = Annotated[
    Path | None,
    typer.Argument(
        metavar="FILE.sql", help="A script of statements; - reads standard input.", show_default=False
    ),
]
Command = Annotated[
    list[str] | None, typer.Option("--command", "-c", metavar="SQL", help="Statements, in place of a script.")
]
Master = Annotated[str | None, typer.Option(help="Spark master (default: all cores of this machine).")]
State = Annotated[str | None, typer.Option(help="Directory or URI for state and results.")]
Partitions = Annotated[
    int | None, typer.Option(min=1, help="Parts of work and state (default: the cores, or as the state has).")
]
RowCount = Annotated[
    int | None,
    typer.Option(
        "--rows", min=0, help="How many rows of an answer to show (default: 20 in tables, otherwise all)."
    ),
]
Format = Annotated[Form, typer.Option("--format", help="How answers are written.")]
Packages = Annotated[
    list[str] | None,
    typer.Option(metavar="GROUP:ARTIFACT:VERSION", help="Connectors that Spark fetches at its start."),
]
Conf = Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="A setting of Spark's.")]
Verbose = Annotated[bool, typer.Option("--verbose", help="Show Spark's own messages.")]
Closed = Annotated[
    bool, typer.Option("--closed", help="Statements reach nothing but what --read and --write name.")
]
Read = Annotated[
    list[str] | None, typer.Option(help="With --closed: files below this directory may be read.")
]
Write = Annotated[
    list[str] | None, typer.Option(help="With --closed: files below this directory may be written.")
]


def policy_of(closed: bool, read: list[str] | None, write: list[str] | None) -> Policy:
    """What a script's statements may reach; directories are named for statements that reach no others."""
    if (read or write) and not closed:
        raise Diagnostic("WRONG_ARGUMENTS", "--read and --write need --closed", help="add --closed")
    return policy.closed(read or (), write or ()) if closed else policy.OPEN


def packages_of(said: list[str] | None) -> list[str]:
    """Coordinates, which may also stand in one option with commas between them.

    >>> packages_of(["g:a:1,g:b:2", "g:c:3"])
    ['g:a:1', 'g:b:2', 'g:c:3']
    """
    found = [part.strip() for option in said or () for part in option.split(",") if part.strip()]
    for package in found:
        if len([part for part in package.split(":") if part]) != 3:
            raise Diagnostic(
                "WRONG_ARGUMENTS",
                f"'{package}' names no package",
                help="as in --packages org.apache.spark:spark-sql-kafka-0-10_2.13:4.3.0",
            )
    return found


def conf_of(said: list[str] | None) -> dict[str, str]:
    """Settings by their names.

    >>> conf_of(["spark.driver.memory=4g", "spark.driver.extraJavaOptions=-Da=b"])
    {'spark.driver.memory': '4g', 'spark.driver.extraJavaOptions': '-Da=b'}
    """
    found = {}
    for option in said or ():
        name, equals, value = option.partition("=")
        if not equals or not name.strip():
            raise Diagnostic(
                "WRONG_ARGUMENTS", f"'{option}' is no setting", help="as in --conf spark.driver.memory=4g"
            )
        found[name.strip()] = value
    return found


def text_of_script(script: Path | None, command: list[str] | None = None) -> str:
    """The statements: of a file, of standard input, or as they were given."""
    if (script is None) == (not command):
        problem = "there is nothing to run" if script is None else "-c takes the place of a script"
        help = "give a file of statements, - for standard input, or -c 'SELECT …'"
        raise Diagnostic("WRONG_ARGUMENTS", problem, help=help)
    if command:
        return ";\n".join(command)
    assert script is not None
    if str(script) == "-":
        return _decoded(sys.stdin.buffer.read(), "standard input")
    if not script.is_file():
        raise _no_file(script)
    try:
        content = script.read_bytes()
    except OSError as problem:
        raise Diagnostic(
            "FILE_UNREADABLE", f"'{script}' cannot be read: {problem.strerror or problem}"
        ) from problem
    return _decoded(content, f"'{script}'")


def _decoded(content: bytes, where: str) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        line = content.count(b"\n", 0, problem.start) + 1
        raise Diagnostic(
            "FILE_UNREADABLE", f"{where} is no UTF-8 text: see line {line}", help="save it as UTF-8"
        ) from None


def _no_file(script: Path) -> Diagnostic:
    folder = script.parent if script.parent.exists() else Path()
    near = sorted(p.name for p in (script if script.is_dir() else folder).glob("*.sql"))
    problem = f"'{script}' is a directory" if script.is_dir() else f"there is no file '{script}'"
    return Diagnostic(
        "FILE_NOT_FOUND",
        problem,
        help=f"scripts there: {', '.join(near)}" if near else "give the path of a file with statements",
    )
