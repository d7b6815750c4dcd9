"""What a session says once for the queries that it starts."""

from __future__ import annotations

from sqlglot import exp

from tidegate.algebra.windows import EXPIRATIONS, Expiration
from tidegate.errors import Diagnostic, did_you_mean
from tidegate.language import syntax
from tidegate.language.limits import LARGEST
from tidegate.language.signatures import parse_period
from tidegate.runtime.places import EPOCHS, Epochs
from tidegate.scalars.expressions import span_of

OPTIONS = ("epoch", "epochs", "expiration", "retention")


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
    `SET expiration = 'negative'` (or 'intervals', 'auto')."""

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
                raise Diagnostic("WRONG_ARGUMENTS", f"this is not a value of '{name}'").at(span_of(statement))
        except Diagnostic as diagnostic:
            raise diagnostic.at(span_of(statement.this)).locate(text) from None

    def _take(self, name: str, value: exp.Literal) -> bool:
        """Take a value; whether it is one of the option's."""
        if name == "epoch" and not value.is_string and float(value.this) < LARGEST:
            self.epoch = float(value.this)
        elif name == "retention":
            self.retention = parse_period(value.this, timestamps=True)
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
