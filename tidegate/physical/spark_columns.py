"""Scalar functions that kernels do not know become columns of a projection of their own, which Spark computes.

A plan is rewritten so that every expression is evaluated in one place: in a kernel, or in Spark between two waves of stages. The
snapshots are the same, because a map is row by row: `f(g(e)) = f(c), c = g(e)`. Directly above a source nothing changes:
Spark filters and maps there anyway. An expression that mixes Spark's functions with the user's is computed in layers.

A join condition that reads both inputs through such a function is tested on the pairs: an inner join is a filter above its other
conditions, and `semi(L, R, p) = semi(L, columns of L of (L join R on p), all columns are equal)`, likewise anti; outer
joins are the inner one and, padded, the rows without a partner.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlglot import exp

from tidegate.algebra.modify import Clock, Modify, Restrict
from tidegate.algebra.now import bounds
from tidegate.algebra.operators import Filter, Join, Node, Project, Scan, UnionAll, Window
from tidegate.algebra.windows import is_temporal
from tidegate.errors import unsupported
from tidegate.scalars.expressions import conjoin, conjuncts, ref, references, shift, span_of, substitute
from tidegate.scalars.functions import ScalarFunction
from tidegate.scalars.meaning import is_supported
from tidegate.scalars.patterns import backtracks
from tidegate.scalars.typing import Ask, infer
from tidegate.types import Field, Schema

_SIGNS: dict[str, type[exp.Expression]] = {
    "<": exp.LT,
    "<=": exp.LTE,
    ">": exp.GT,
    ">=": exp.GTE,
    "=": exp.EQ,
}


def outsource(plan: Node, functions: Mapping[str, Any], ask: Ask) -> Node:
    """The plan with Spark's share of its expressions in projections of their own; `ask` tells their types.

    >>> import sqlglot
    >>> from tidegate.algebra.operators import Distinct
    >>> from tidegate.scalars.typing import Typed
    >>> from tidegate.types import BOOLEAN, STRING
    >>> names = Distinct(Scan("S", (Field("a", STRING),)))
    >>> odd = Filter(names, sqlglot.parse_one("soundex(c0) = 'A100'", dialect="spark"))
    >>> found = outsource(odd, {}, lambda e, s: Typed(STRING, True))
    >>> found.input.predicate.sql(), [e.sql() for e in found.input.input.expressions]
    ('c1', ['c0', "SOUNDEX(c0) = 'A100'"])
    """
    return _Rewriter(functions, ask).rewritten(plan)


def computed_by_spark(node: Node, functions: Mapping[str, Any]) -> bool:
    """Whether a projection's expressions are Spark's affair."""
    return isinstance(node, Project) and not all(is_supported(e, functions) for e in node.expressions)


def called_names(expression: exp.Expression) -> Iterator[str]:
    """The names under which an expression calls functions, in lower case."""
    for f in expression.find_all(exp.Func):
        if isinstance(f, exp.Anonymous):
            yield f.name.lower()
        else:
            yield from (n.lower() for n in type(f).sql_names())


def calls_user(expression: exp.Expression, names: set[str]) -> bool:
    """Whether something is called that only kernels evaluate: the user's functions, given in lower case, and what Spark has no bound for."""
    return unbounded(expression) or (bool(names) and any(name in names for name in called_names(expression)))


def unbounded(expression: exp.Expression) -> bool:
    """Whether Spark could take for ever, or all memory: texts of any length, and patterns that it tries in very many ways.

    >>> import sqlglot
    >>> texts = ("REPEAT(c0, c1)", "REPEAT(c0, 3)", "c0 RLIKE c1", "c0 RLIKE '(a+)+'", "c0 RLIKE 'a+'", "c0 LIKE '%a%'")
    >>> [unbounded(sqlglot.parse_one(t, dialect="spark")) for t in texts]
    [True, False, True, True, False, False]
    """
    for node in expression.find_all(*_LENGTHS, *_PATTERNS, exp.Like, exp.ILike):
        if isinstance(node, _LENGTHS):
            length = node.args.get("times") or node.args.get("expression") or node.this
            if not (isinstance(length, exp.Literal) and length.name.isdigit() and int(length.name) <= _SHORT):
                return True
            continue
        pattern = node.expression
        if not (isinstance(pattern, exp.Literal) and pattern.is_string):
            return not isinstance(pattern, (exp.Any, exp.All))
        if (
            pattern.name.count("%") > _LOOSE
            if isinstance(node, exp.Like | exp.ILike)
            else backtracks(pattern.name)
        ):
            return True
    return False


_LENGTHS = (exp.Repeat, exp.Pad, exp.Space)
_PATTERNS = (exp.RegexpLike, exp.RegexpExtract, exp.RegexpReplace, exp.RegexpSplit)
_SHORT, _LOOSE = 10_000, 4


@dataclass(frozen=True)
class Layer:
    """Columns that are appended at once: all by Spark, or all by kernels."""

    by_spark: bool
    expressions: tuple[exp.Expression, ...]
    fields: Schema


def layers(
    expressions: Sequence[exp.Expression], schema: Schema, functions: Mapping[str, Any], ask: Ask
) -> tuple[tuple[Layer, ...], tuple[exp.Expression, ...]]:
    """Columns to append to rows of `schema`, one layer after the other, and what the expressions are over all of them."""
    names = {name.lower() for name in functions}
    scalars = {n: f for n, f in functions.items() if isinstance(f, ScalarFunction)}

    def for_spark(e: exp.Expression) -> bool:
        return not is_supported(e, functions) and not calls_user(e, names)

    def for_kernels(e: exp.Expression) -> bool:
        return is_supported(e, functions) and calls_user(e, names)

    found: list[Layer] = []
    while not all(is_supported(e, functions) for e in expressions):
        pending = [e for e in expressions if not is_supported(e, functions)]
        by_spark = True
        parts = list(dict.fromkeys(p for e in pending for p in _parts(e, for_spark)))
        if not parts:
            by_spark = False
            parts = list(dict.fromkeys(p for e in pending for p in _parts(e, for_kernels)))
        if not parts:
            raise unsupported(
                f"{pending[0].sql('spark')} calls a user's function where only Spark could evaluate it",
                help="compute one of them in a sub-query",
            ).at(span_of(pending[0]))
        typed = [infer(p, schema, scalars, ask) for p in parts]
        fields = tuple(Field(f"computed{len(schema) + i}", t.type, t.nullable) for i, t in enumerate(typed))
        places = {p: len(schema) + i for i, p in enumerate(parts)}
        found.append(Layer(by_spark, tuple(parts), fields))
        expressions = [_replaced(e, places) for e in expressions]
        schema = (*schema, *fields)
    return tuple(found), tuple(expressions)


def _parts(e: exp.Expression, test: Callable[[exp.Expression], bool]) -> Iterator[exp.Expression]:
    """The largest sub-expressions with a value of their own that pass the test."""
    # A branch of CASE is no expression, and what a lambda computes depends on its variables.
    is_value = isinstance(e, exp.Condition) and not (isinstance(e, exp.If) and isinstance(e.parent, exp.Case))
    if is_value and test(e):
        yield e
    elif not isinstance(e, exp.Lambda):
        for child in e.iter_expressions():
            yield from _parts(child, test)


def _replaced(expression: exp.Expression, places: Mapping[exp.Expression, int]) -> exp.Expression:
    def visit(node: exp.Expression) -> exp.Expression:
        return ref(places[node], node) if node in places else node

    return expression.copy().transform(visit, copy=False)


class _Rewriter:
    def __init__(self, functions: Mapping[str, Any], ask: Ask) -> None:
        self._functions = functions
        self._names = {name.lower() for name in functions}
        self._ask = ask
        self._memo: dict[Node, Node] = {}

    def rewritten(self, node: Node) -> Node:
        if node not in self._memo:
            self._memo[node] = self._rewrite(node)
        return self._memo[node]

    def _rewrite(self, node: Node) -> Node:
        # Conditions on a clock are arithmetic of points, never evaluated on rows.
        if isinstance(node, Clock) or (isinstance(node, Filter | Project) and _stands_on_clock(node)):
            return node
        moved: Node = node.with_inputs(*(self.rewritten(i) for i in node.inputs))
        if self._is_at_source(moved):
            return moved
        if isinstance(moved, Project):
            below, expressions = self._appended(moved.input, moved.expressions)
            return Project(below, tuple(expressions), moved.fields)
        if isinstance(moved, Filter):
            return self._filter(moved)
        if isinstance(moved, Join):
            return self._join(moved)
        if isinstance(moved, Restrict):
            return self._restrict(moved)
        if isinstance(moved, Modify) or (isinstance(moved, Window) and not is_temporal(moved.spec)):
            self._check_order(moved.input)
        return moved

    def _is_at_source(self, node: Node) -> bool:
        """Whether Spark evaluates the operator while it reads a source."""
        while True:
            if isinstance(node, Filter):
                own: Sequence[exp.Expression] = (node.predicate,)
            elif isinstance(node, Project):
                own = node.expressions
            else:
                return isinstance(node, Scan)
            if any(calls_user(e, self._names) for e in own):
                return False
            node = node.input

    def _appended(
        self, below: Node, expressions: Sequence[exp.Expression]
    ) -> tuple[Node, tuple[exp.Expression, ...]]:
        """The input with computed columns behind its own, and the expressions in terms of them."""
        added, final = layers(expressions, below.schema, self._functions, self._ask)
        for layer in added:
            own = tuple(ref(i) for i in range(len(below.schema)))
            below = Project(below, (*own, *layer.expressions), (*below.schema, *layer.fields))
        return below, final

    def _called(
        self, below: Node, expressions: Sequence[exp.Expression]
    ) -> tuple[Node, tuple[exp.Expression, ...]]:
        """The input with the values of the user's functions as columns: what rows are exchanged by must be one."""
        calls = [e for e in dict.fromkeys(expressions) if calls_user(e, self._names)]
        if not calls:
            return below, tuple(expressions)
        scalars = {n: f for n, f in self._functions.items() if isinstance(f, ScalarFunction)}
        typed = [infer(e, below.schema, scalars, self._ask) for e in calls]
        places = {e: len(below.schema) + i for i, e in enumerate(calls)}
        own = tuple(ref(i) for i in range(len(below.schema)))
        fields = tuple(
            Field(f"computed{places[e]}", t.type, t.nullable) for e, t in zip(calls, typed, strict=True)
        )
        extended = Project(below, (*own, *calls), (*below.schema, *fields))
        return extended, tuple(_replaced(e, places) if e in places else e for e in expressions)

    def _stays(self, part: exp.Expression, width: int) -> bool:
        """Whether a join condition can be tested as it is, in a kernel, and rows exchanged by it."""
        by_user = calls_user(part, self._names) and len(_sided(part, width)) == 2
        return is_supported(part, self._functions) and not by_user

    def _filter(self, node: Filter) -> Node:
        if is_supported(node.predicate, self._functions):
            return node
        below, (predicate,) = self._appended(node.input, [node.predicate])
        return _picked(Filter(below, predicate), range(len(node.schema)), node.schema)

    def _restrict(self, node: Restrict) -> Node:
        if is_supported(node.predicate, self._functions):
            return node
        found = bounds(node.predicate, len(node.schema))
        below, limits = self._appended(node.input, [b.expression for b in found])
        now = len(below.schema)
        parts = [
            _SIGNS[b.comparison](this=ref(now), expression=exp.paren(limit))
            for b, limit in zip(found, limits, strict=True)
        ]
        predicate = conjoin(parts)
        assert predicate is not None
        return _picked(replace(node, input=below, predicate=predicate), range(len(node.schema)), node.schema)

    def _join(self, node: Join) -> Node:
        width = len(node.left.schema)
        parts = conjuncts(node.predicate)
        if all(self._stays(p, width) for p in parts):
            return node
        sides: tuple[list[exp.Expression], list[exp.Expression]] = ([], [])
        on_pairs: list[exp.Expression] = []
        for part in parts:
            if self._stays(part, width):
                continue
            for piece in _sided(part, width):
                side = _side_of(piece, width)
                if side is None:
                    on_pairs.append(part)
                elif piece not in sides[side]:
                    sides[side].append(piece)
        kept = [p for p in parts if p not in on_pairs]
        left, on_left = self._called(*self._appended(node.left, sides[0]))
        right, on_right = self._called(*self._appended(node.right, [shift(e, -width) for e in sides[1]]))
        wide = len(left.schema)

        def moved(e: exp.Expression) -> exp.Expression:
            return substitute(e, lambda i: ref(i if i < width else i - width + wide))

        known = dict(zip(sides[0], on_left, strict=True))
        known |= {e: shift(f, wide) for e, f in zip(sides[1], on_right, strict=True)}
        predicate = conjoin(moved(p) if self._stays(p, width) else _restated(p, known) for p in kept)
        columns = [*range(width), *(wide + i for i in range(len(node.right.schema)))]
        if node.kind in ("semi", "anti"):
            columns = columns[:width]
        if not on_pairs:
            return _picked(Join(left, right, node.kind, predicate), columns, node.schema)
        pairs = [*range(width), *(wide + i for i in range(len(node.right.schema)))]
        inner = _picked(Join(left, right, "inner", predicate), pairs, node.pair_schema)
        tested = conjoin(on_pairs)
        assert tested is not None
        return self._unpaired(node, self._filter(Filter(inner, tested)))

    def _unpaired(self, node: Join, inner: Node) -> Node:
        """A join of any kind from the pairs that satisfy its condition."""
        width = len(node.left.schema)
        if node.kind == "inner":
            return inner
        if node.kind in ("semi", "anti"):
            return _partnered(node.left, inner, 0, node.kind)
        result = inner
        if node.kind in ("left", "full"):
            alone = _partnered(node.left, inner, 0, "anti")
            result = UnionAll(result, _padded(alone, node.schema, 0))
        if node.kind in ("right", "full"):
            alone = _partnered(node.right, inner, width, "anti")
            result = UnionAll(result, _padded(alone, node.schema, width))
        own = tuple(ref(i) for i in range(len(node.schema)))
        return Project(result, own, node.schema)

    def _check_order(self, node: Node) -> None:
        """Rows that came back from Spark have lost their order of arrival."""
        lost = False
        while isinstance(node, Filter | Project):
            lost |= computed_by_spark(node, self._functions) and not self._is_at_source(node)
            node = node.input
        if lost and isinstance(node, Scan) and not node.relation:
            raise unsupported(
                "rows are counted in their order of arrival below, and a function of Spark's above a user's function loses it",
                help="apply Spark's function above the window",
            )


def _stands_on_clock(node: Node) -> bool:
    return any(isinstance(n, Clock) for n in node.walk())


def _sided(part: exp.Expression, width: int) -> list[exp.Expression]:
    """A condition, or the two sides of an equality that each read one input only."""
    if isinstance(part, exp.EQ | exp.NullSafeEQ):
        both = [part.this, part.expression]
        if {_side_of(b, width) for b in both} == {0, 1} and all(references(b) for b in both):
            return both
    return [part]


def _restated(part: exp.Expression, known: Mapping[exp.Expression, exp.Expression]) -> exp.Expression:
    """A condition whose value, or the values of whose two sides, are columns."""
    if part in known:
        return known[part]
    return type(part)(this=known[part.this].copy(), expression=known[part.expression].copy())


def _side_of(e: exp.Expression, width: int) -> int | None:
    reads = references(e)
    if all(i < width for i in reads):
        return 0
    return 1 if all(i >= width for i in reads) else None


def _picked(node: Node, columns: Sequence[int], schema: Schema) -> Project:
    return Project(node, tuple(ref(i) for i in columns), schema)


def _partnered(own: Node, pairs: Node, offset: int, kind: str) -> Join:
    """The rows with (semi) or without (anti) a pair."""
    width = len(own.schema)
    if any("MAP" in str(f.type) for f in own.schema):
        raise unsupported("rows with a MAP cannot be compared, which this condition of an outer join needs")
    met = _picked(pairs, range(offset, offset + width), own.schema)
    equal = conjoin(exp.NullSafeEQ(this=ref(i), expression=ref(i + width)) for i in range(width))
    return Join(own, met, kind, equal)


def _padded(alone: Node, schema: Schema, offset: int) -> Project:
    own = range(offset, offset + len(alone.schema))
    return Project(
        alone, tuple(ref(i - offset) if i in own else exp.null() for i in range(len(schema))), schema
    )
