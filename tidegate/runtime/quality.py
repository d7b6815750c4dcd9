"""The settings of a graph: what is in force of all that the runtime may choose, since when, and for good (see `algebra.quality`).

A change is committed by a manifest of its own, between two epochs, and holds for rows from an instant T on that is not before the watermark W. The
epochs up to W have worked on rows of before W only (rows of W and later wait in front of the windows), and those after it work on rows from W on. So a change touches no
row that a window has seen. An epoch that is run again, after whatever failure, finds the same settings: they counted before it began.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tidegate.algebra.adjusting import knobs_of
from tidegate.algebra.modify import Clock, Modify, Restrict, Since, Sync
from tidegate.algebra.operators import Dstream, Istream, Node, Window
from tidegate.algebra.quality import Knob, RangedWindow, Settings, Steps
from tidegate.algebra.windows import TimeWindow
from tidegate.errors import Diagnostic, did_you_mean
from tidegate.language.signatures import parse_period
from tidegate.time import MAX, MIN, moment, period
from tidegate.types import BIGINT, STRING, Field

NAME = "tidegate.settings"

COLUMNS = (
    Field("graph", STRING, nullable=False),
    Field("setting", STRING, nullable=False),
    Field("stream", STRING, nullable=False),
    Field("kind", STRING, nullable=False),
    Field("lowest", BIGINT, nullable=False),
    Field("highest", BIGINT, nullable=False),
    Field("priority", BIGINT, nullable=False),
    Field("value", BIGINT, nullable=False),
    Field("valid_from", BIGINT),
    Field("valid_to", BIGINT),
    Field("queries", STRING, nullable=False),
)


@dataclass(frozen=True)
class Change:
    """From an instant on, a knob has another value."""

    knob: Knob
    since: int
    value: int


@dataclass(frozen=True)
class Record:
    """What a knob has been set to, and when."""

    knob: Knob
    steps: Steps


Records = Mapping[str, Record]
"""By the names of knobs; one that was never set is not there."""


def recorded(records: Records, changes: Iterable[Change]) -> dict[str, Record]:
    """The records after some changes."""
    found = dict(records)
    for change in changes:
        known = found.get(change.knob.name) or Record(change.knob, Steps(change.knob.best))
        steps = known.steps.changed(change.since, change.value)
        found[change.knob.name] = Record(change.knob, steps)
    return found


def in_force(records: Records, since: int = MIN) -> Settings:
    """The recorded functions, as far as rows from an instant on need them."""
    return {name: r.steps if since == MIN else r.steps.since(since) for name, r in records.items()}


def knobs_in(plans: Iterable[Node]) -> dict[str, Knob]:
    """What can be chosen for some plans."""
    return {name: knob for plan in plans for name, knob in knobs_of(plan).items()}


def changes_to(
    values: Mapping[str, int], knobs: Mapping[str, Knob], records: Records, passed: int, since: int | None
) -> tuple[Change, ...]:
    """What is to be recorded so that knobs have some values from `since` on (None: as soon as can be); `passed`: how far time has."""
    at = passed if since is None else since
    found = []
    for name, value in values.items():
        if name not in knobs:
            help = did_you_mean(name, list(knobs), "settings")
            raise Diagnostic("UNKNOWN_SETTING", f"no running query lets '{name}' be chosen", help=help)
        knob = knobs[name]
        if not knob.allows(value):
            said, low, high = (period(n, knob.timestamps).lower() for n in (value, knob.lowest, knob.highest))
            raise Diagnostic(
                "OUT_OF_RANGE", f"{said} is not inside '{name}'", help=f"choose from {low} to {high}"
            )
        if at < passed or at == MAX:
            final = "all" if passed == MAX else f"what is valid before {moment(passed, knob.timestamps)}"
            raise Diagnostic(
                "SETTING_IS_FINAL",
                f"{final} is final",
                help="a setting holds for rows that have not come yet: leave the instant out, or give a later one",
            )
        steps = knob.steps(in_force(records))
        if steps.changed(at, value) != steps:
            found.append(Change(knob, at, value))
    return tuple(found)


def chosen(plan: Node, asked: Mapping[str, int | str | None], stream: str | None) -> dict[str, int]:
    """Values for knobs of a plan, by kind, over a stream or (None) over the only one that lets this be chosen."""
    found: dict[str, int] = {}
    knobs = knobs_of(plan).values()
    for kind, value in asked.items():
        if value is None:
            continue
        fits = [k for k in knobs if k.kind == kind and stream in (None, k.stream)]
        if len(fits) != 1:
            problem = "several settings" if fits else "nothing"
            raise Diagnostic(
                "UNKNOWN_SETTING",
                f"the query lets {problem} be chosen for {kind}" + (f" of '{stream}'" if stream else ""),
                help=f"it has {', '.join(k.name for k in fits or knobs) or 'no quality ranges'}",
            )
        (knob,) = fits
        if not isinstance(value, int | str) or isinstance(value, bool):
            raise Diagnostic(
                "WRONG_ARGUMENTS",
                f"{value!r} is not a size of windows",
                help="give a text such as '20 minutes', or a whole number of ticks",
            )
        found[knob.name] = value if isinstance(value, int) else parse_period(value, knob.timestamps)
    return found


def still_needed(records: Records, plans: Iterable[Node], horizon: int) -> dict[str, Record]:
    """The records without steps that no answer from the horizon (an instant) on depends on; all of those that no plan knows.

    `snapshot(plan, t)` with what is kept is `snapshot(plan, t)` with everything, at every t from the horizon on.
    """
    reach: dict[str, int | None] = {}
    for plan in plans:
        for node, above in _looked_back(plan):
            if isinstance(node, Window) and isinstance(spec := node.spec, RangedWindow):
                far = None if spec.largest is None else spec.largest + spec.slide + spec.coarsest
                for knob in spec.knobs:
                    reach[knob.name] = _further(reach.get(knob.name, 0), _sum(above, far))

    def kept(name: str, record: Record) -> Record:
        far = reach.get(name)
        return record if far is None else replace(record, steps=record.steps.since(horizon - far))

    return {name: kept(name, record) for name, record in records.items()}


def _looked_back(plan: Node) -> Iterator[tuple[Node, int | None]]:
    """Every operator, with how long before an instant the answer at it may depend on what the operator shows; None: for ever."""
    above: dict[int, int | None] = {id(plan): 0}
    for node in reversed(list(plan.walk())):
        yield node, above[id(node)]
        for below in node.inputs:
            found = _sum(above[id(node)], _looks_back(node))
            above[id(below)] = _further(above.get(id(below), 0), found)


def _looks_back(node: Node) -> int | None:
    """How long before an instant the snapshot of an operator at it asks for those of its inputs; None: for ever."""
    if isinstance(node, Window):
        spec = node.spec
        return _sum(spec.size, spec.slide) if isinstance(spec, TimeWindow) else None
    if isinstance(node, Sync):
        return node.points.step * node.points.width if isinstance(node.points, Clock) else None
    if isinstance(node, Istream | Dstream):
        return 1
    return None if isinstance(node, Modify | Since) or (isinstance(node, Restrict) and node.points) else 0


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other


def _further(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else max(one, other)


def lines(graph: str, records: Records, plans: Mapping[str, Node]) -> Iterator[tuple[Any, ...]]:
    """The rows of `tidegate.settings` about one graph: each value with the instants from and to which it is in force."""
    users = {query: knobs_of(plan) for query, plan in plans.items()}
    knobs = {**{n: r.knob for n, r in records.items()}, **knobs_in(plans.values())}
    for name, knob in sorted(knobs.items()):
        steps = knob.steps(in_force(records))
        starts, values = (
            [None, *(at for at, _ in steps.changes)],
            [steps.first, *(v for _, v in steps.changes)],
        )
        names = ", ".join(query for query, mine in users.items() if name in mine)
        about = (name, knob.stream, knob.kind, knob.lowest, knob.highest, knob.priority)
        for start, end, value in zip(starts, [*starts[1:], None], values, strict=True):
            yield (graph, *about, value, start, end, names)
