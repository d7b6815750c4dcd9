"""Epochs reach sinks once each and in order, also those that fail for a while; no Spark is needed to tell."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import pytest

from tidegate.errors import Diagnostic
from tidegate.runtime import deliveries
from tidegate.runtime.deliveries import Deliveries
from tidegate.runtime.ledger import Ledger, Manifest
from tidegate.storage import Storage


class Bounds:
    """An answer of which only is told from where to where it was asked for."""

    name = "q"

    def delivered(self, form: str, since: int, upto: int) -> tuple[int, int]:
        return since, upto


class Place:
    """A sink that keeps what it got, and may fail."""

    form: Literal["changes"] = "changes"

    def __init__(self, place: str) -> None:
        self.place = place
        self.taken: list[tuple[int, Any]] = []
        self.problem: Exception | None = None

    def has(self, epoch: int) -> bool:
        return any(epoch == e for e, _ in self.taken)

    def write(self, epoch: int, changes: Any) -> None:
        if self.problem is not None:
            raise self.problem
        self.taken.append((epoch, changes))


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(Storage(str(tmp_path)))


class Clock:
    now = 1000.0

    def time(self) -> float:
        return self.now


def committed(ledger: Ledger, epoch: int) -> None:
    ledger.commit(Manifest(epoch=epoch, upto=10 * epoch))


def test_a_sink_that_fails_gets_what_it_missed_in_order_and_others_go_on(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr(deliveries, "time", clock)
    good, bad, found = Place("good"), Place("bad"), Deliveries(patient=True)
    result: Any = Bounds()
    for epoch in range(1, 10):
        bad.problem = OSError("password='sesame' was refused") if 3 <= epoch <= 7 else None
        committed(ledger, epoch)
        found.bring([bad, good], "o", result, ledger)
        assert len(good.taken) == epoch
        if epoch == 7:
            (told,) = found.status([bad, good], "o", ledger)
            assert (told["place"], told["behind"]) == ("bad", 5)
            assert "refused" in told["error"]
            assert "sesame" not in str(told)
        clock.now += 0.15
    clock.now += 60
    found.bring([bad, good], "o", result, ledger)
    assert bad.taken == good.taken
    assert [epoch for epoch, _ in bad.taken] == list(range(1, 10))
    assert found.away == {}


def test_what_fails_is_tried_after_pauses_that_grow(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(deliveries, "time", clock)
    sink, found, result = Place("sink"), Deliveries(patient=True), Bounds()
    sink.problem = OSError("no")
    committed(ledger, 1)
    tried = []
    for _ in range(100):
        before = found.away.get(("o", 0))
        found.bring([sink], "o", result, ledger)  # type: ignore[arg-type]
        if found.away["o", 0] is not before:
            tried.append(round(clock.now - 1000, 1))
        clock.now += 0.1
    assert len(tried) in (5, 6)
    gaps = [round(b - a, 1) for a, b in pairwise(tried)]
    assert gaps == sorted(gaps)


def test_what_waiting_cannot_mend_is_raised(ledger: Ledger) -> None:
    sink, result = Place("sink"), Bounds()
    committed(ledger, 1)
    sink.problem = Diagnostic("STATE_DAMAGED", "a file is missing")
    with pytest.raises(Diagnostic, match="STATE_DAMAGED"):
        Deliveries(patient=True).bring([sink], "o", result, ledger)  # type: ignore[arg-type]
    sink.problem = OSError("no")
    with pytest.raises(OSError, match="no"):
        Deliveries().bring([sink], "o", result, ledger)  # type: ignore[arg-type]


def test_a_sink_goes_on_after_a_restart_where_it_stopped(ledger: Ledger, tmp_path: Path) -> None:
    sink, found, result = Place("sink"), Deliveries(patient=True), Bounds()
    for epoch in range(1, 6):
        sink.problem = OSError("no") if epoch > 2 else None
        committed(ledger, epoch)
        found.bring([sink], "o", result, ledger)  # type: ignore[arg-type]
    assert len(sink.taken) == 2
    sink.problem = None
    Deliveries(patient=True).bring([sink], "o", result, Ledger(Storage(str(tmp_path))))  # type: ignore[arg-type]
    assert [epoch for epoch, _ in sink.taken] == [1, 2, 3, 4, 5]
