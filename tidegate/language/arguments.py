"""A call's arguments on their way from the text to the tree: none of them may be lost.

sqlglot has a function for each name that makes a tree of the arguments, takes those that it knows of, and leaves out the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sqlglot import exp


def distinct_first(build: Callable[..., Any]) -> Callable[..., Any]:
    """DISTINCT before two arguments is said of the first; sqlglot would take both for one."""

    def built(arguments: list[exp.Expression]) -> Any:
        only = arguments[0] if len(arguments) == 1 else None
        if not isinstance(only, exp.Distinct):
            return build(arguments)
        first, *others = only.expressions
        return build([exp.Distinct(expressions=[first]), *others])

    return built


MOST = {"CEIL": 2, "FLOOR": 2, "INITCAP": 1, "PERCENTILE": 1, "POSITION": 3, "SUBSTR": 3, "SUBSTRING": 3}
"""How many arguments sqlglot may find in the list of a call that it reads in a way of its own; PERCENTILE's begins behind the first."""

FEWEST = {exp.RegexpReplace: 3}
"""How many arguments those calls need that sqlglot cannot write down with fewer."""


def at_most(most: int, parse: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A way of reading a call, for so many arguments."""

    def parsed(parser: Any) -> Any:
        parser.listed = 0
        made = parse(parser)
        if parser.listed > most:
            parser.raise_error(TOO_MANY)
        return made

    return parsed


TOO_MANY = "The number of provided arguments is too large"


def all_there(made: exp.Expression, arguments: Sequence[Any]) -> bool:
    """Whether a tree that was made of some arguments holds all of them: as they are, or as a name, a unit or a number.

    >>> a, b = exp.column("a"), exp.Literal.string("DAY")
    >>> all_there(exp.DateTrunc(this=a, unit=exp.var("DAY")), [a, b]), all_there(exp.Floor(this=a), [a, b])
    (True, False)
    """
    kept = {id(part) for part in made.walk()}
    # Whether NULLs count is said by another node, if at all.
    asked = [
        a
        for a in arguments
        if isinstance(a, exp.Expression) and not isinstance(a, (exp.Boolean, exp.Distinct))
    ]
    missing = [a for a in asked if id(a) not in kept and not _is_named(a, made)]
    return not missing or (len(missing) == 1 and _is_rewritten(missing[0], made))


def _is_rewritten(argument: exp.Expression, made: exp.Expression) -> bool:
    """Whether a text is there in another form: sqlglot writes formats of times and paths of JSON in its own way."""
    rewritten = made.args.get("format") is not None or made.find(exp.JSONPath) is not None
    return rewritten and isinstance(argument, exp.Literal) and argument.is_string


def _is_named(argument: exp.Expression, made: exp.Expression) -> bool:
    words = {str(v).upper() for part in made.walk() for v in part.args.values() if isinstance(v, (str, int))}
    return argument.name.upper() in words if argument.name else argument in list(made.walk())
