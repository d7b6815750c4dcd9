"""What a session says once for the queries that it starts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from tidegate.algebra.windows import EXPIRATIONS, Expiration
from tidegate.errors import Diagnostic, did_you_mean
from tidegate.language import syntax
from tidegate.language.limits import LARGEST
from tidegate.language.signatures import parse_period
from tidegate.optimizer.quality_choice import Budget
from tidegate.runtime.managing import ADMISSIONS, Resources
from tidegate.runtime.places import EPOCHS, Epochs
from tidegate.scalars.expressions import span_of


def _quoted(values: Sequence[str]) -> str:
    return ", ".join(f"'{v}'" for v in values)


UNLIMITED = "unlimited"
_ADVICE = {
    "admission": f"give one of {_quoted(ADMISSIONS)}",
    "epoch": "give seconds, such as 0.5",
    "epochs": f"give one of {_quoted(EPOCHS)}",
    "expiration": f"give one of {_quoted(EXPIRATIONS)}",
    "memory": f"give bytes, or a size such as '2 GB', or '{UNLIMITED}'",
    "reoptimize": "give one of 'on', 'off'",
    "retention": "give a period such as '1 day', or a number of ticks",
    "work": f"give a part of the cores, above 0 and up to 1, or '{UNLIMITED}'",
}
OPTIONS = tuple(_ADVICE)
_UNITS = {
    "B": 1.0,
    "KB": 1e3,
    "MB": 1e6,
    "GB": 1e9,
    "TB": 1e12,
    "KIB": 2.0**10,
    "MIB": 2.0**20,
    "GIB": 2.0**30,
    "TIB": 2.0**40,
}


def budget_of(memory: str | float | None, work: str | float | None) -> Budget:
    """Budgets as people say them: bytes or a text such as '2 GB', and a part of the cores.

    >>> budget_of("2 GB", 0.7), budget_of("unlimited", None)
    (Budget(memory=2000000000.0, work=0.7), Budget(memory=None, work=None))
    """
    return Budget(_limit("memory", memory), _limit("work", work))


def _limit(name: str, said: str | float | None) -> float | None:
    if said is None or said == UNLIMITED:
        return None
    units = _UNITS if name == "memory" else {}
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?(?:e\+?\d+)?)\s*([A-Za-z]*)\s*", str(said))
    unit = units.get(found[2].upper()) if found and found[2] else 1.0
    most = 1.0 if name == "work" else 1e18
    amount = float(found[1]) * unit if found and unit is not None else 0.0
    if not 0.0 < amount <= most or (units and amount < 1.0):
        raise Diagnostic("WRONG_ARGUMENTS", f"{said!r} is not a value of '{name}'", help=_ADVICE[name])
    return amount


def check_said(epoch: float | None, retention: int | None, epochs: str | None) -> None:
    """Refuse what a program says that is no value of an option."""
    checks = (
        ("epoch", epoch, isinstance(epoch, (int, float)) and 0 <= epoch < LARGEST, "give seconds"),
        ("retention", retention, isinstance(retention, int) and retention >= 0, "give a number of ticks"),
        ("epochs", epochs, epochs in EPOCHS, f"give one of {', '.join(EPOCHS)}"),
    )
    for name, said, fits, advice in checks:
        if said is not None and not fits:
            raise Diagnostic("WRONG_ARGUMENTS", f"{said!r} is not a value of '{name}'", help=advice)


class Settings:
    """`SET epoch = 0.5` (seconds), `SET epochs = 'driver'` (or 'spark', 'auto'), `SET retention = '1 day'` (or a number of ticks),
    `SET expiration = 'negative'` (or 'intervals', 'auto'), `SET memory = '2 GB'`, `SET work = 0.7` (of the cores), `SET admission = 'wait'` (or 'refuse'),
    `SET reoptimize = 'on'` (or 'off')."""

    resources: Resources
    """Budgets, and whether a query for which there is no room waits."""

    live = False
    """Whether `sql` starts every query as a live one, files included."""
    here = False
    """Whether a small snapshot is given as an Arrow table where that needs no Spark: for those who only show it."""
    unnamed: str | None = None
    """What a live query is called that nobody has named; None: by what it means."""
    epoch: float | None = None
    """Seconds from one epoch to the next, for queries that `sql` starts; None: as those that run already, or as their drive has it."""
    epochs: Epochs | None = None
    """Where the epochs of a graph run: see `runtime.places`; None: as it is, or wherever they cost less."""
    retention: int | None = None
    """How long live answers are kept, in ticks; None: for ever."""

    expiration: Expiration = "intervals"
    """How it is told that rows have left windows, where a query does not say it itself."""

    def set_option(self, statement: syntax.SetOption, text: str) -> None:
        name, value = statement.this.name.lower(), statement.args["value"]
        try:
            if name not in OPTIONS:
                options = did_you_mean(name, list(OPTIONS), "options")
                raise Diagnostic("UNKNOWN_OPTION", f"there is no option '{name}'", help=options)
            if not isinstance(value, exp.Literal) or not self._take(name, value):
                problem = f"this is not a value of '{name}'"
                raise Diagnostic("WRONG_ARGUMENTS", problem, help=_ADVICE[name]).at(span_of(statement))
        except Diagnostic as diagnostic:
            raise diagnostic.at(span_of(statement.this)).locate(text) from None

    def _take(self, name: str, value: exp.Literal) -> bool:
        """Take a value; whether it is one of the option's."""
        if name == "epoch" and not value.is_string and float(value.this) < LARGEST:
            self.epoch = float(value.this)
        elif name == "retention":
            self.retention = parse_period(value.this, timestamps=True)
        elif name == "memory":
            self.resources.budget = replace(self.resources.budget, memory=_limit(name, value.this))
        elif name == "work":
            self.resources.budget = replace(self.resources.budget, work=_limit(name, value.this))
        elif name == "admission" and (admission := next((a for a in ADMISSIONS if a == value.this), None)):
            self.resources.admission = admission
        elif name == "reoptimize" and value.this in ("on", "off"):
            self.resources.reoptimize = value.this == "on"
        elif name == "epochs" and (place := next((e for e in EPOCHS if e == value.this), None)) is not None:
            self.epochs = place
        elif (
            name == "expiration"
            and (way := next((e for e in EXPIRATIONS if e == value.this), None)) is not None
        ):
            self.expiration = way
        else:
            return False
        return True
