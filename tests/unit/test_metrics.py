"""What tasks measure, against counting by hand; and Prometheus' text, read by a parser of its own."""

from __future__ import annotations

import re
from itertools import pairwise
from math import gcd

import numpy as np
import polars as pl
import pytest

from tests.unit.test_query_figures import plans
from tidegate.algebra import operators as op
from tidegate.algebra.windows import RowWindow, TimeWindow
from tidegate.physical.lowering import Program, compile_plan
from tidegate.physical.meter import IN_TURN, KEYS_EVERY, Meter, distinct
from tidegate.runtime.activities import EPOCHS, MeasuredEpoch, kept
from tidegate.runtime.jobs import physical
from tidegate.runtime.ledger import Manifest, SourceProgress
from tidegate.runtime.notes import Note
from tidegate.runtime.prometheus import Reading, exposition
from tidegate.time import MAX
from tidegate.types import BIGINT, Field
from tidegate.worker.tasks import _tally

SCAN = op.Scan("S", (Field("k", BIGINT), Field("v", BIGINT), Field("t", BIGINT, hidden=True)))
COUNT = op.Aggregation("COUNT", (), BIGINT, "n", nullable=False)


def chunk(keys: list[int], times: list[int]) -> pl.DataFrame:
    columns = {"c0": keys, "c1": keys, "c2": times, "ts": times, "te": [t + 1 for t in times]}
    return pl.DataFrame({**columns, "n": [1] * len(keys)})


def played(program: Program, rows: pl.DataFrame, upto: int, turn: int = 1) -> tuple[Meter, dict[str, str]]:
    meter = Meter(program.ids, turn)
    after, _ = program.step_all(program.initial(), {"S": rows}, upto, meter=meter)
    tally = _tally(program, meter, after, {})
    state = {o.id: sum(t.rows.height for t in after.get(o.id, {}).values()) for o in program.operators}
    assert dict(zip(program.ids, tally.kept, strict=True)) == {program.leaves[0].id: 0, **state}
    return meter, {o.name: o.id for o in program.operators}


def test_a_meter_counts_what_passes() -> None:
    keys, times = [i % 7 for i in range(200)], [30 * i for i in range(200)]
    program = compile_plan(op.Aggregate(op.Window(SCAN, TimeWindow(600)), (0,), (COUNT,)))
    meter, ids = played(program, chunk(keys, times), MAX)
    leaf = meter.details[program.leaves[0].id]
    assert (leaf.rows, leaf.open, leaf.lasting, leaf.granule) == (200, 0, 1.0, 30)
    window = meter.details[ids["TimeWindow"]]
    assert (window.rows, window.open, window.lasting, window.granule) == (200, 0, 600.0, gcd(30, 600))
    assert meter.flows[ids["TimeWindow"]] == (200, 200)
    # Of each key, the count changes at every begin and every end; what follows the last end is nothing.
    changes = [
        sorted({t + d for k, t in zip(keys, times, strict=True) if k == key for d in (0, 600)})
        for key in range(7)
    ]
    lengths = [b - a for points in changes for a, b in pairwise(points)]
    aggregate = meter.details[ids["Aggregate"]]
    assert aggregate.keys == 7
    assert aggregate.lasting * aggregate.rows == pytest.approx(sum(lengths))
    assert meter.seconds[ids["Aggregate"]] > 0
    assert not meter.retracted


def test_rows_that_take_others_back_are_told_apart() -> None:
    program = compile_plan(op.Window(SCAN, RowWindow(3), (0,)))
    (window,) = (o.id for o in program.operators)
    states, told = program.initial(), []
    for epoch, (keys, times) in enumerate((([1, 1, 1], [0, 1, 2]), ([1, 1, 2], [3, 4, 5]))):
        rows = chunk(keys, times).with_columns(seq=pl.Series(times))
        meter = Meter(program.ids)
        after, _ = program.step_all(states, {"S": rows}, 3 * epoch + 3, meter=meter)
        states = {id_: {name: t.settled for name, t in state.items()} for id_, state in after.items()}
        detail = meter.details[window]
        told.append((meter.flows[window], meter.retracted.get(window, 0), detail.open, detail.keys))
    # Each of the second epoch's rows of key 1 sends one out of a window of three; who is in has no known end.
    assert told == [((3, 3), 0, 3, 1), ((3, 5), 2, 3, 2)]


def test_keys_are_counted_within_the_error_that_is_stated() -> None:
    rng = np.random.default_rng(5)
    for known in (300, 5_000, 80_000):
        keys = np.concatenate([np.arange(known), rng.integers(0, known, 50_000)])
        rows = pl.DataFrame({"c0": keys, "c1": keys.astype(str)})
        for columns in (["c0"], ["c0", "c1"]):
            assert distinct(rows, columns) == pytest.approx(known, rel=0.03), (known, columns)
    few = pl.DataFrame({"c0": [None, None, 1.5, 1.5, 2.0]})
    assert distinct(few, ["c0"]) == 3


def test_a_sample_of_many_rows_tells_validity_and_granule() -> None:
    count = 100_000
    times = np.arange(count) * 50
    rows = pl.DataFrame(
        {
            "c0": times % 11,
            "c1": times,
            "c2": times,
            "ts": times,
            "te": times + 1,
            "n": np.ones(count, dtype=int),
        }
    )
    program = compile_plan(op.Window(SCAN, TimeWindow(1_000)))
    meter, ids = played(program, rows, MAX)
    detail = meter.details[ids["TimeWindow"]]
    assert (detail.rows, detail.open, detail.lasting, detail.granule) == (count, 0, 1_000.0, 50)


def test_where_many_operators_run_they_are_measured_in_turn() -> None:
    ids = [f"o{i}" for i in range(5 * IN_TURN)]
    rows, seen = chunk([1, 2], [3, 4]), []
    for turn in range(1, 6):
        meter = Meter(ids, turn)
        for id_ in ids:
            meter.passed(id_, [rows], rows, "instants", (("c0",),))
        assert len(meter.details) <= IN_TURN
        assert all(meter.flows[id_] == (2, 2) for id_ in ids)
        seen += list(meter.details)
    assert sorted(seen) == sorted(ids)
    # Of many rows keys are counted once in a while, and all else always.
    many = chunk([i % 40 for i in range(9_000)], list(range(9_000)))
    found = []
    for turn in range(1, KEYS_EVERY + 2):
        meter = Meter(ids, turn)
        meter.passed("o3", [many], many, "instants", (("c0",),))
        found.append(meter.details["o3"].keys)
    assert found == [40, *[-1] * (KEYS_EVERY - 1), 40]


def test_the_last_epochs_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    (plan,) = plans(q="SELECT k, COUNT(*) AS n FROM S WINDOW(RANGE 5) GROUP BY k").values()
    graph = physical(plan, {})
    epochs: tuple[MeasuredEpoch, ...] = ()
    for number in range(1, 3 * EPOCHS):
        epochs = kept(epochs, MeasuredEpoch("integers", number, number, 1, graph, {}))
    assert [e.number for e in epochs] == list(range(2 * EPOCHS, 3 * EPOCHS))
    monkeypatch.setattr("tidegate.runtime.activities.LINES", 4 * epochs[0].lines)
    assert len(kept(epochs, epochs[0])) == 4


Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def parsed(text: str) -> tuple[dict[str, str], Samples]:
    """Prometheus' text format, as its documentation says: the types of families, and samples by name and labels."""
    types: dict[str, str] = {}
    samples: Samples = {}
    assert text.endswith("\n")
    for line in text.removesuffix("\n").split("\n"):
        if line.startswith("# HELP "):
            assert re.fullmatch(r"# HELP [a-zA-Z_:][a-zA-Z0-9_:]* .+", line)
        elif line.startswith("# TYPE "):
            name, kind = line.removeprefix("# TYPE ").split(" ")
            assert name not in types
            types[name] = kind
        else:
            match = re.fullmatch(
                r"([a-zA-Z_:][a-zA-Z0-9_:]*)\{((?:[^\"}]|\"(?:[^\"\\\n]|\\.)*\")*)\} (\S+)", line
            )
            assert match, line
            name, said, value = match.groups()
            assert name in types, f"{name} before its type"
            labels = re.findall(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"', said)
            assert ",".join(f'{a}="{b}"' for a, b in labels) == said
            plain = {(a, re.sub(r"\\(.)", lambda m: {"n": "\n"}.get(m[1], m[1]), b)) for a, b in labels}
            key = name, frozenset(plain)
            assert key not in samples
            samples[key] = float(value)
    return types, samples


def test_prometheus_reads_what_is_exposed() -> None:
    hostile = 'say "hi"\n\\o/ {x="y"} é'
    done = {
        "number": 1,
        "operator": "ab12",
        "title": hostile,
        "queries": "q",
        "keys": None,
        "skew": 1.25,
        "total_rows_in": 12,
        "state_rows": 3,
    }
    note = Note(delay=0.5, operators=(done,))
    manifest = Manifest(
        epoch=7, upto=41, sources={hostile: SourceProgress(rows=10, refused={"late": 2, "no time": 1})}
    )
    types, samples = parsed(
        exposition(
            [Reading("integers", manifest, note, True), Reading("timestamps", Manifest(), Note(), False)]
        )
    )

    def value(name: str, **labels: str) -> float:
        return samples[f"tidegate_{name}", frozenset(labels.items())]

    assert value("operator_info", graph="integers", operator="ab12", title=hostile, queries="q") == 1
    assert value("operator_rows_in_total", graph="integers", operator="ab12") == 12
    assert value("operator_skew", graph="integers", operator="ab12") == 1.25
    assert value("source_refused_total", graph="integers", source=hostile) == 3
    assert value("epochs_total", graph="integers") == 7
    assert [value("running", graph=g) for g in ("integers", "timestamps")] == [1, 0]
    assert not any(name == "tidegate_operator_keys" for name, _ in samples)
    assert all((kind == "counter") == name.endswith("_total") for name, kind in types.items())
