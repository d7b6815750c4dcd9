"""What a source or sink takes: arguments in parentheses, options in WITH. Pure data, checked where it is written.

A connector is known to the language by its signature alone; what it does with rows is none of the language's business.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

from tidegate import time
from tidegate.errors import Diagnostic, did_you_mean
from tidegate.types import Schema

Kind = Literal["text", "boolean", "integer", "number", "duration", "character", "choice"]
"""What values an option has: an `integer` is not negative, a `character` may be empty, which turns it off."""


@dataclass(frozen=True)
class Option:
    """A named value: its kind, what it means, and the option of Spark's that it is handed to, if it is.

    Names are compared without regard to case and underscores, so Spark's spelling of a name is one of ours.
    """

    name: str
    kind: Kind = "text"
    meaning: str = ""
    choices: tuple[str, ...] = ()
    spark: str = ""
    aliases: tuple[str, ...] = ()

    def is_named(self, name: str) -> bool:
        return _plain(name) in {_plain(n) for n in (self.name, *self.aliases)}

    @property
    def expects(self) -> str:
        """The values it takes, in words."""
        if self.kind == "choice":
            return " or ".join(f"'{c}'" for c in self.choices)
        return {
            "text": "a text",
            "boolean": "true or false",
            "integer": "a whole number, 0 or more",
            "number": "a whole number",
            "duration": "a period, as '5 seconds'",
            "character": "one character",
        }[self.kind]

    def read(self, given: object) -> str:
        """The value as text, if it is one.

        >>> Option("header", "boolean").read("TRUE"), Option("rows", "integer").read(5)
        ('true', '5')
        """
        text = (
            str(given).lower()
            if isinstance(given, bool) or self.kind in ("boolean", "choice")
            else str(given)
        )
        if self.kind == "duration":
            parse_period(text, timestamps=True)
        fits = {
            "boolean": text in ("true", "false"),
            "integer": re.fullmatch(r"[0-9]+", text) is not None,
            "number": re.fullmatch(r"-?[0-9]+", text) is not None,
            "character": len(text) <= 1,
            "choice": text in self.choices,
        }
        if not fits.get(self.kind, True):
            raise Diagnostic(
                "INVALID_OPTION", f"'{given}' is no value of '{self.name}'", help=f"it takes {self.expects}"
            )
        return text

    def value(self, given: object) -> object:
        """The value as a program takes it.

        >>> Option("header", "boolean").value("false"), Option("rows", "integer").value("5")
        (False, 5)
        """
        text = self.read(given)
        if self.kind == "boolean":
            return text == "true"
        return int(text) if self.kind in ("integer", "number") else text


STREAM_OPTIONS = (
    Option("slack", "duration", "how much later than newer rows a row may come"),
    Option("watermark", meaning="'clock', or 'clock - 5 seconds': the stream promises by the clock, not by its newest row"),
    Option("heartbeats", meaning="the BOOLEAN column that marks rows that only tell the time; 'empty rows': those without values"),
    Option("idle", "duration", "after how long a silence the stream holds others back no more"),
    Option(
        "ahead", "duration", "how far past the clock a TIMESTAMP may order a row; live '1 day' by default, recorded no bound",
    ),
    Option("latest", meaning="the last instant at which a row may be, a number or a TIMESTAMP; no bound by default"),
)  # fmt: skip
"""Options of every stream, wherever its rows come from."""

ROW_OPTIONS = (
    Option(
        "on_error", "choice", "what happens at a row or file that cannot be used: 'quarantine' by default",
        ("quarantine", "stop"),
    ),
)  # fmt: skip
"""Options of every stream and table."""


@dataclass(frozen=True)
class Signature:
    """A connector's name, its parameters (the first `needed` of them must be given) and its options.

    Options whose names begin with one of `further` are handed on unchecked: '' stands for all of them.
    """

    name: str
    parameters: tuple[Option, ...] = ()
    options: tuple[Option, ...] = ()
    needed: int = 0
    further: tuple[str, ...] = ()
    meaning: str = ""

    @property
    def usage(self) -> str:
        """How it is called.

        >>> Signature("kafka", (Option("servers"), Option("topic"), Option("format")), needed=2).usage
        "kafka('servers', 'topic'[, 'format'])"
        """
        texts = [p.name if p.kind in ("integer", "number") else f"'{p.name}'" for p in self.parameters]
        given, rest = texts[: self.needed], texts[self.needed :]
        text = ", ".join(given)
        for more in rest:
            text += f"[, {more}]" if text else f"[{more}]"
        return f"{self.name}({text})"

    def check_arguments(self, given: Sequence[object]) -> None:
        """Whether the arguments are as many as the parameters, and of their kinds."""
        if not self.needed <= len(given) <= len(self.parameters):
            raise Diagnostic(
                "WRONG_NUMBER_OF_ARGUMENTS",
                f"'{self.name}' does not take {len(given)} argument{'s' * (len(given) != 1)}",
                help=self.usage,
            )
        for parameter, value in zip(self.parameters, given, strict=False):
            try:
                parameter.read(value)
            except Diagnostic as problem:
                raise Diagnostic("WRONG_ARGUMENTS", problem.message, help=self.usage) from None

    def option(self, name: str) -> Option | None:
        """The option of a name; one without a kind of its own where it is handed on; None if there is none."""
        found = next((o for o in self.options if o.is_named(name)), None)
        if found is None and any(name.lower().startswith(prefix) for prefix in self.further):
            return Option(name, spark=name)
        return found

    def known(self, name: str) -> Option:
        """The option of a name, which must exist."""
        found = self.option(name)
        if found is None:
            raise Diagnostic(
                "UNKNOWN_OPTION",
                f"'{self.name}' has no option '{name}'",
                help=did_you_mean(name, [n for o in self.options for n in (o.name, *o.aliases)], "options"),
            )
        return found

    def settings(self, given: Iterable[tuple[str, object]]) -> dict[str, str]:
        """Options by their own names, checked.

        >>> Signature("csv", options=(Option("separator", "character", aliases=("sep",)),)).settings([("SEP", ";")])
        {'separator': ';'}
        """
        return {found.name: found.read(value) for name, value in given for found in [self.known(name)]}

    def for_spark(self, given: Iterable[tuple[str, object]]) -> dict[str, str]:
        """Those that Spark's reader or writer is told, by Spark's names."""
        pairs = [(self.known(name), value) for name, value in given]
        return {option.spark: option.read(value) for option, value in pairs if option.spark}


class Connector(Protocol):
    """A source or sink as far as the language knows it."""

    @property
    def signature(self) -> Signature: ...


@runtime_checkable
class SelfDescribing(Protocol):
    """A source that knows the columns of its rows before it is read."""

    def columns(self, definition: Any) -> Schema:
        """The columns, of a definition that has none yet."""


def _plain(name: str) -> str:
    return name.lower().replace("_", "")


def parse_period(text: str, timestamps: bool) -> int:
    """A period such as '5 seconds' in microseconds, or a bare number of ticks.

    >>> parse_period("5 seconds", True), parse_period("7", False)
    (5000000, 7)
    """
    match = re.fullmatch(r"\s*([0-9]{1,18})\s*([A-Za-z]*)\s*", text)
    unit = match[2].upper() if match else ""
    if match is None or (unit and unit not in time.UNITS):
        raise Diagnostic("INVALID_PERIOD", f"'{text}' is not a period", help="as in '5 seconds'")
    if unit and not timestamps:
        raise Diagnostic("TIME_DOMAIN", f"'{text}': this stream ticks in integers", help="give a bare number")
    return int(match[1]) * (time.UNITS[unit] if unit else 1)
