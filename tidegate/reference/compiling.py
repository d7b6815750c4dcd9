"""Functions of rows that expressions stand for, each made once: a snapshot is asked for at many instants."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from tidegate.scalars.functions import ScalarFunction
from tidegate.scalars.meaning import compile_scalar
from tidegate.types import Row, Schema, Value

Function = Callable[[Row], Value]


@dataclass
class Compiled:
    """By the objects that they are of; these are kept, so that no other takes their number."""

    _known: dict[tuple[int, int], tuple[exp.Expression, Schema, Function]] = field(default_factory=dict)

    def __call__(
        self, expression: exp.Expression, schema: Schema, functions: Mapping[str, ScalarFunction]
    ) -> Function:
        key = id(expression), id(schema)
        if key not in self._known:
            self._known[key] = expression, schema, compile_scalar(expression, schema, functions)
        return self._known[key][2]
