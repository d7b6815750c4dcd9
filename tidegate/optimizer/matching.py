"""Answering a query from another that runs: what must be done above the one to get the other (SyncSQL section 5, Astral section 5.2).

`over(query, view)` compares two plans operator by operator, leaves first. What it finds is an `Over`: the query is

    sync(points) of project(columns) of filter(having) of group(rollup) of restrict(fresh) of filter(conditions) of the view

at every instant, parts that are not needed left out. Each operator of the view must let these pass: a filter passes a grouping if it reads the grouping's keys
only, and so on. Where something cannot pass, the view does not answer, and `MatchError` says why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from tidegate.algebra import operators as op
from tidegate.algebra.modify import Clock, Modify, Sync
from tidegate.algebra.points import points_of
from tidegate.algebra.printing import expression_text, window_text
from tidegate.algebra.properties import has_timestamps
from tidegate.algebra.sequences import WindowSequence
from tidegate.algebra.windows import RowsEveryTime, RowWindow, TimeWindow, is_temporal
from tidegate.optimizer.compensation import Expressions, Fresh, Over, moment
from tidegate.optimizer.implication import Conditions, plain
from tidegate.optimizer.rollup import Rollup, rolled_up
from tidegate.optimizer.transposition import transposable
from tidegate.scalars.calls import is_nondeterministic
from tidegate.scalars.expressions import conjuncts, index_of, ref, references, shift, substitute
from tidegate.types import Schema


class MatchError(Exception):
    """Why a view does not answer a query; it is `far` if they have little in common."""

    def __init__(self, reason: str, far: bool = False) -> None:
        super().__init__(reason)
        self.far = far


def over(query: op.Node, view: op.Node) -> Over:
    """What is to be done above a view to get a query; `MatchError` if the view does not answer it."""
    found = _Matching().match(query, view)
    _check_shown(found.columns)
    return found


def answer_from_view(query: op.Node, view: op.Node) -> op.Node | None:
    """The query as a plan over the view, equal to it at every instant; None: the view does not answer it."""
    try:
        return over(query, view).plan(view, query.schema)
    except MatchError:
        return None


@dataclass
class _Matching:
    known: dict[tuple[int, int], Over | MatchError] = field(default_factory=dict)

    def match(self, query: op.Node, view: op.Node) -> Over:
        asked = (id(query), id(view))
        if asked not in self.known:
            try:
                self.known[asked] = self._match(query, view)
            except MatchError as reason:
                self.known[asked] = reason
        found = self.known[asked]
        if isinstance(found, MatchError):
            raise found
        return found

    def _match(self, query: op.Node, view: op.Node) -> Over:
        if query == view:
            return Over(tuple(ref(i) for i in range(len(query.schema))))
        if isinstance(view, op.Filter):
            return self._below_filter(query, view)
        if isinstance(view, op.Project):
            return self._below_project(query, view)
        if isinstance(query, op.Filter):
            return _with_filter(self.match(query.input, view), query.predicate)
        if isinstance(query, op.Project):
            found = self.match(query.input, view)
            return replace(found, columns=tuple(_composed(e, found.columns) for e in query.expressions))
        if isinstance(query, Sync):
            return self._synchronized(query, view)
        if type(query) is not type(view):
            raise MatchError(f"it has {_kind(view)} where the query has {_kind(query)}", far=True)
        return _OPERATORS[type(query)](self, query, view) if type(query) in _OPERATORS else _different(query)

    def _below_filter(self, query: op.Node, view: op.Filter) -> Over:
        found = self.match(query, view.input)
        given = Conditions(found.conditions, view.schema)
        for condition in conjuncts(view.predicate):
            if not given.imply(condition):
                raise MatchError(f"it has only rows with {expression_text(condition, view.schema)}")
        has = Conditions([view.predicate], view.schema)
        return replace(found, conditions=tuple(c for c in found.conditions if not has.imply(c)))

    def _below_project(self, query: op.Node, view: op.Project) -> Over:
        found = self.match(query, view.input)
        shown = _Shown(view)
        rollup = found.rollup
        return replace(
            found,
            conditions=tuple(map(shown.over, found.conditions)),
            fresh=tuple(replace(f, time=shown.over(f.time)) for f in found.fresh),
            rollup=None if rollup is None else rollup.over(shown.over),
            columns=found.columns if rollup is not None else tuple(map(shown.column, found.columns)),
        )

    def _synchronized(self, query: Sync, view: op.Node) -> Over:
        points = query.points
        if isinstance(view, Sync):
            found = self.match(query.input, view.input)
            if found.points is None and points == view.points and not found.fresh and found.begins is None:
                return found
            if not points_of(points).within(points_of(view.points)):
                raise MatchError(f"it is seen {points_of(view.points)}, and the query {points_of(points)}")
        else:
            found = self.match(query.input, view)
        if found.points is not None and not points_of(points).within(points_of(found.points)):
            raise MatchError(f"it is seen {points_of(found.points)}, and the query {points_of(points)}")
        return replace(found, points=points)

    def _window(self, query: op.Window, view: op.Window) -> Over:
        # The windows first: many queries differ in nothing else, and that is told at once.
        if (query.granularity, query.width) != (view.granularity, view.width):
            raise MatchError("its window has another granularity")
        temporal = is_temporal(query.spec) and is_temporal(view.spec)
        if temporal and not _may_serve(query, view):
            raise _other_window(query, view)
        found = self.match(query.input, view.input)
        if not found.is_rowwise:
            raise MatchError("what is below its window differs by more than conditions and columns")
        if temporal:
            return _other_time(query, view, found)
        partition = tuple(index_of(found.columns[c]) for c in query.partition_by)
        if partition != view.partition_by:
            raise MatchError("its window is partitioned by other columns")
        _only_reads(found.conditions, view.partition_by, view.input.schema, "the rows that its window counts")
        if not _is_raw(view.input) and not _is_permutation(found, view.input.schema):
            raise MatchError("its window orders simultaneous rows by other columns")
        if query.spec == view.spec:
            return found
        mine, theirs = query.spec, view.spec
        if isinstance(mine, RowsEveryTime) and not mine.origin and query.width == 1:
            every = theirs.period if isinstance(theirs, RowsEveryTime) and not theirs.origin else None
            every = 1 if theirs == RowWindow(mine.size) else every
            if every is not None and mine.size == getattr(theirs, "size", None) and mine.period % every == 0:
                return replace(found, points=Clock(mine.period, has_timestamps(view)))
        raise _other_window(query, view)

    def _join(self, query: op.Join, view: op.Join) -> Over:
        if query.kind != view.kind:
            raise MatchError(f"it is a join of another kind ({view.kind}, and the query's is {query.kind})")
        try:
            return self._joined(query, view, flipped=False)
        except MatchError as reason:
            if query.kind != "inner":
                raise
            try:
                return self._joined(query, view, flipped=True)
            except MatchError as other:
                raise (other if reason.far else reason) from None

    def _joined(self, query: op.Join, view: op.Join, flipped: bool) -> Over:
        width = len(view.left.schema)
        first, second = (view.right, view.left) if flipped else (view.left, view.right)
        left = _moved(self.match(query.left, first), width if flipped else 0)
        right = _moved(self.match(query.right, second), 0 if flipped else width)
        points, begins = _same_time(left, right)
        made = (*left.columns, *right.columns)
        wanted = [plain(_composed(c, made)) for c in conjuncts(query.predicate)]
        _check_shown(wanted)
        schema = view.pair_schema
        kept = _outer(query.kind, left, right)
        columns = left.columns if query.kind in ("semi", "anti") else made
        if query.kind == "inner":
            conditions = (*left.conditions, *right.conditions, *wanted)
            given = Conditions(conditions, schema)
            for condition in conjuncts(view.predicate):
                if not given.imply(condition):
                    raise MatchError(f"it has only pairs with {expression_text(condition, schema)}")
            has = Conditions(conjuncts(view.predicate), schema)
            kept = tuple(c for c in conditions if not has.imply(c))
        elif set(wanted) != {plain(c) for c in conjuncts(view.predicate)}:
            raise MatchError("its rows are joined by another condition")
        return Over(columns, kept, (*left.fresh, *right.fresh), points=points, begins=begins)

    def _union(self, query: op.UnionAll, view: op.UnionAll) -> Over:
        return self._alike(query, view)

    def _difference(self, query: op.Except | op.Intersect, view: op.Except | op.Intersect) -> Over:
        if query.all != view.all:
            raise MatchError("it counts equal rows otherwise")
        found = self._alike(query, view)
        if not _is_permutation(found, view.schema):
            raise MatchError("it compares other columns")
        return found

    def _alike(self, query: op.Node, view: op.Node) -> Over:
        left, right = (self.match(q, v) for q, v in zip(query.inputs, view.inputs, strict=True))
        points, begins = _same_time(left, right)
        _check_shown([*left.columns, *right.columns])
        if left.columns != right.columns or set(left.conditions) != set(right.conditions):
            raise MatchError("its two sides would have to be treated differently")
        if left.fresh or right.fresh:
            raise MatchError("its windows are larger, and rows of both sides meet")
        return Over(left.columns, left.conditions, points=points, begins=begins)

    def _distinct(self, query: op.Distinct, view: op.Distinct) -> Over:
        found = self.match(query.input, view.input)
        if not found.is_filter:
            raise MatchError("what is below it differs by more than conditions and columns")
        _check_shown(found.columns)
        if _is_permutation(found, view.schema):
            return found
        width = len(found.columns)
        fields = tuple(replace(f, hidden=False) for f in query.schema)
        rollup = Rollup(found.columns, (), fields)
        return replace(found, rollup=rollup, columns=tuple(ref(i) for i in range(width)))

    def _aggregate(self, query: op.Aggregate, view: op.Aggregate) -> Over:
        found = self.match(query.input, view.input)
        if found.rollup is not None or found.fresh:
            raise MatchError("what is grouped differs by more than conditions and columns")
        below = view.input.schema
        _only_reads(found.conditions, view.keys, below, "the rows that it groups")
        place = {k: i for i, k in enumerate(view.keys)}
        conditions = tuple(substitute(c, lambda i: ref(place[i])) for c in found.conditions)
        keys = []
        for k in query.keys:
            made = found.columns[k]
            _check_shown([made])
            if not references(made) <= place.keys():
                raise MatchError(f"it is not grouped by {expression_text(made, below)}")
            keys.append(substitute(made, lambda i: ref(place[i])))
        wanted = tuple(_of_columns(a, found.columns, below) for a in query.aggregations)
        same = {index_of(k) for k in keys} == set(range(len(view.keys)))
        made_of = rolled_up(wanted, tuple(keys), query.schema, view, same)
        if isinstance(made_of, str):
            raise MatchError(made_of)
        rollup, columns = made_of
        return replace(found, conditions=conditions, rollup=rollup, columns=columns)

    def _top(self, query: op.TopK, view: op.TopK) -> Over:
        found = self.match(query.input, view.input)
        if not found.is_filter or [index_of(c) for c in found.columns] != [*range(len(view.schema))]:
            raise MatchError("what is ranked differs by more than conditions")
        _only_reads(found.conditions, view.partition_by, view.schema, "the rows that it ranks")
        if (query.keys, query.limit, query.offset, query.partition_by) != (
            view.keys,
            view.limit,
            view.offset,
            view.partition_by,
        ):
            raise MatchError("it ranks otherwise")
        return found

    def _modify(self, query: Modify, view: Modify) -> Over:
        found = self.match(query.input, view.input)
        if not found.is_rowwise or query.key is None or view.key is None:
            raise MatchError("its modifications are others")
        places = [index_of(c) for c in found.columns]
        mine = tuple(places[k] for k in query.key)
        operation = None if query.operation is None else places[query.operation]
        if None in places or mine != view.key or operation != view.operation:
            raise MatchError("its modifications are others")
        _only_reads(found.conditions, view.key, view.input.schema, "its modifications")
        return found

    def _changes(self, query: op.Node, view: op.Node) -> Over:
        found = self.match(query.inputs[0], view.inputs[0])
        if not found.is_rowwise or not _is_permutation(found, view.schema):
            raise MatchError("its changes are those of other rows")
        return found


_OPERATORS: dict[type[op.Node], Callable[..., Over]] = {
    op.Window: _Matching._window,
    op.Join: _Matching._join,
    op.UnionAll: _Matching._union,
    op.Except: _Matching._difference,
    op.Intersect: _Matching._difference,
    op.Distinct: _Matching._distinct,
    op.Aggregate: _Matching._aggregate,
    op.TopK: _Matching._top,
    Modify: _Matching._modify,
    op.Istream: _Matching._changes,
    op.Dstream: _Matching._changes,
}


def _different(query: op.Node) -> Over:
    if isinstance(query, op.Scan):
        raise MatchError("it reads other streams", far=True)
    raise MatchError(f"its {_kind(query)} is another")


# What passes an operator.


def _with_filter(found: Over, predicate: exp.Expression) -> Over:
    parts = tuple(_composed(c, found.columns) for c in conjuncts(predicate))
    _check_shown(parts)
    if found.rollup is not None:
        return replace(found, having=(*found.having, *parts))
    return replace(found, conditions=(*found.conditions, *parts))


def _other_window(query: op.Window, view: op.Window) -> MatchError:
    mine, theirs = (window_text(w.spec, has_timestamps(w)) for w in (query, view))
    return MatchError(f"its window is {theirs}, and the query's {mine}")


def _may_serve(query: op.Window, view: op.Window) -> bool:
    """Whether a window in time shows all that another does, as far as their sizes and slides tell."""
    mine, theirs = query.spec, view.spec
    if mine == theirs or (isinstance(mine, WindowSequence) and isinstance(theirs, WindowSequence)):
        return True
    if not isinstance(mine, TimeWindow) or not isinstance(theirs, TimeWindow) or query.width != 1:
        return False
    if mine.slide % theirs.slide or mine.origin or theirs.origin:
        return False
    return (
        mine.size == theirs.size or theirs.size is None or (mine.size is not None and mine.size < theirs.size)
    )


def _other_time(query: op.Window, view: op.Window, found: Over) -> Over:
    """Windows in time: conditions and columns pass them."""
    mine, theirs = query.spec, view.spec
    if mine == theirs:
        return found
    if isinstance(mine, WindowSequence) and isinstance(theirs, WindowSequence):
        return _transposed(mine, theirs, view, found)
    assert isinstance(mine, TimeWindow)
    assert isinstance(theirs, TimeWindow)
    if mine.slide != theirs.slide or (mine.slide > 1 and mine.size != theirs.size):
        found = replace(found, points=Clock(mine.slide, has_timestamps(view)))
    if mine.size != theirs.size:
        time = _instant(view.input)
        if time is None or mine.size is None:
            raise _other_window(query, view)
        found = replace(found, fresh=(Fresh(ref(time), mine.size),))
    return found


def _transposed(mine: WindowSequence, theirs: WindowSequence, view: op.Window, found: Over) -> Over:
    if mine.rows or view.width != 1:
        raise MatchError("its windows count rows from another start")
    shifted = transposable(theirs, theirs.origin, mine, mine.origin)
    if shifted is None:
        raise MatchError("its windows are not among those of the query, shifted by whole windows")
    lower = mine.lower.line
    conditions = found.conditions
    if lower is None or lower.offset < 0 or lower.slope <= 0:
        time = _instant(view.input)
        if time is None:
            raise MatchError("it does not tell the rows before the query's start from others")
        conditions = (
            *conditions,
            exp.GTE(this=ref(time), expression=moment(mine.origin, has_timestamps(view))),
        )
    return replace(found, conditions=conditions, begins=shifted.first)


def _outer(kind: str, left: Over, right: Over) -> Expressions:
    """The conditions on rows of joins with rows that have no partner: those of the side that is kept."""
    sides = {"left": (right,), "semi": (right,), "anti": (right,), "right": (left,), "full": (left, right)}
    for side in sides.get(kind, ()):
        if side.conditions or side.fresh:
            raise MatchError("which rows have a partner depends on rows that the query does not have")
    for side in {"left": (right,), "right": (left,), "full": (left, right)}.get(kind, ()):
        if any(index_of(c) is None for c in side.columns):
            raise MatchError("columns of rows without a partner are computed")
    if kind != "inner" and (left.fresh or right.fresh):
        raise MatchError("its windows are larger, and rows without a partner are others")
    return (*left.conditions, *right.conditions)


def _same_time(left: Over, right: Over) -> tuple[op.Node | None, int | None]:
    if left.rollup is not None or right.rollup is not None:
        raise MatchError("one of its sides is grouped more finely")
    if left.points != right.points or left.begins != right.begins:
        raise MatchError("its sides are seen at other instants")
    return left.points, left.begins


def _moved(found: Over, by: int) -> Over:
    def move(e: exp.Expression) -> exp.Expression:
        return shift(e, by)

    return replace(
        found,
        columns=tuple(map(move, found.columns)),
        conditions=tuple(map(move, found.conditions)),
        fresh=tuple(replace(f, time=move(f.time)) for f in found.fresh),
    )


def _only_reads(conditions: Expressions, allowed: Sequence[int], schema: Schema, what: str) -> None:
    for condition in conditions:
        if not references(condition) <= set(allowed):
            raise MatchError(f"{expression_text(condition, schema)} decides over {what}")


def _is_permutation(found: Over, schema: Schema) -> bool:
    """Whether different rows stay different: every column is shown as it is."""
    return {index_of(c) for c in found.columns} >= set(range(len(schema)))


def _of_columns(aggregation: op.Aggregation, columns: Expressions, schema: Schema) -> op.Aggregation:
    """An aggregate of the query over the columns of what the view groups."""
    read = [*aggregation.arguments, *([] if aggregation.where is None else [aggregation.where])]
    _check_shown(columns[i] for i in read)
    for i in read:
        if index_of(columns[i]) is None:
            raise MatchError(f"it does not have {aggregation.name} of {expression_text(columns[i], schema)}")
    places = tuple(int(index_of(columns[i]) or 0) for i in aggregation.arguments)
    where = None if aggregation.where is None else index_of(columns[aggregation.where])
    return replace(aggregation, arguments=places, where=where)


class _Shown:
    """What a projection shows of the columns below it."""

    def __init__(self, view: op.Project) -> None:
        self._schema = view.input.schema
        self._places: dict[exp.Expression, int] = {}
        for i, e in enumerate(view.expressions):
            if not any(is_nondeterministic(n) for n in e.find_all(exp.Expression)):
                self._places.setdefault(_bare(e), i)

    def column(self, expression: exp.Expression) -> exp.Expression:
        """The same for a column of the query: that it is missing matters only if somebody reads it."""
        try:
            return self.over(expression)
        except MatchError as reason:
            return exp.Placeholder(this=str(reason))

    def over(self, expression: exp.Expression) -> exp.Expression:
        """An expression over the columns below as one over what is shown."""

        def visit(node: exp.Expression) -> exp.Expression:
            place = self._places.get(_bare(node))
            if place is not None:
                return ref(place, node)
            index = index_of(node)
            if index is not None:
                raise MatchError(f"it does not have {expression_text(node, self._schema)}")
            made = node.copy()
            for name, value in list(made.args.items()):
                if isinstance(value, exp.Expression):
                    made.set(name, visit(value))
                elif isinstance(value, list):
                    made.set(name, [visit(v) if isinstance(v, exp.Expression) else v for v in value])
            return made

        return visit(expression)


def _check_shown(expressions: Iterable[exp.Expression]) -> None:
    for expression in expressions:
        if (missing := expression.find(exp.Placeholder)) is not None:
            raise MatchError(missing.name)


def _bare(expression: exp.Expression) -> exp.Expression:
    return _bare(expression.this) if isinstance(expression, exp.Paren) else expression


def _composed(expression: exp.Expression, columns: Expressions) -> exp.Expression:
    def column(i: int) -> exp.Expression:
        made = columns[i].copy()
        return made if isinstance(made, exp.Column | exp.Literal) else exp.paren(made)

    only = index_of(expression)
    return columns[only] if only is not None else substitute(expression, column)


def _is_raw(plan: op.Node) -> bool:
    while isinstance(plan, op.Filter | op.Project):
        plan = plan.input
    return isinstance(plan, op.Scan) and not plan.relation


def _instant(plan: op.Node) -> int | None:
    """The column of a raw stream's rows that has their time."""
    if isinstance(plan, op.Filter):
        return _instant(plan.input)
    if isinstance(plan, op.Project):
        below = _instant(plan.input)
        found = [i for i, e in enumerate(plan.expressions) if below is not None and index_of(e) == below]
        return found[0] if found else None
    return len(plan.schema) - 1 if isinstance(plan, op.Scan) and not plan.relation else None


def _kind(node: op.Node) -> str:
    if isinstance(node, op.Scan):
        return f"the stream {node.name}"
    return {"TopK": "a ranking", "UnionAll": "a union", "Modify": "a KEY stream"}.get(
        type(node).__name__,
        f"{'an' if type(node).__name__[0] in 'AEI' else 'a'} {type(node).__name__.lower()}",
    )
