"""Bringing epochs to sinks: each once, whole, in order; what is there already is not written again.

A sink that knows what it took only while the program runs (a function, the console) has it noted in the state after each epoch that it took, so
a run that goes on repeats no more than the one epoch that was taken and not noted.

A sink that fails holds back its own epochs, not the graph's: where epochs go on by themselves (`patient`), it is tried again between two
of them, after pauses that grow, and then gets what it has missed, epoch by epoch. Until then no index takes over from the manifests, and
nothing is forgotten, so every epoch that is missing can still be told from the others. By hand, and at the end of a run, its failure is raised.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tidegate.codec import read_signed_json, signed_json
from tidegate.connectors.sinks import Sink, claim, forgets, wants_plain
from tidegate.errors import Diagnostic, foreign
from tidegate.redaction import masked
from tidegate.runtime.faults import reach
from tidegate.runtime.jobs import told
from tidegate.runtime.ledger import Ledger
from tidegate.runtime.polling import Away
from tidegate.runtime.results import Result
from tidegate.storage import Storage, name_in_path
from tidegate.time import MIN

LOG = logging.getLogger("tidegate")


@dataclass
class Deliveries:
    """How far each sink of a graph has come, by the owner of the sinks and their numbers."""

    done: dict[tuple[str, int], int] = field(default_factory=dict)
    patient: bool = False
    """Whether a sink that fails is tried again."""
    away: dict[tuple[str, int], Away] = field(default_factory=dict)
    """Sinks that fail."""

    def bring(self, sinks: Sequence[Sink], owner: str, result: Result, ledger: Ledger) -> None:
        """Bring a query's sinks up to the last committed epoch, as far as they can be reached."""
        for number, sink in enumerate(sinks):
            away = self.away.get((owner, number))
            if self.patient and away is not None and time.time() < away.next_try:
                continue
            try:
                self._bring(number, sink, owner, result, ledger)
            except Exception as problem:
                if not self.patient or not _may_pass(problem):
                    raise
                text = masked(str(foreign(problem)))
                if away is None:
                    LOG.warning("%s of '%s' fails and is tried again: %s", sink.place, result.name, text)
                failed = Away.after(away, RuntimeError(text), time.time())
                self.away = {**self.away, (owner, number): failed}
            else:
                if away is not None:
                    LOG.warning("%s of '%s' has got all epochs that it missed", sink.place, result.name)
                    self.away = {key: a for key, a in self.away.items() if key != (owner, number)}

    def leave(self, owner: str) -> None:
        """A query has left: nobody waits for its sinks."""
        self.away = {key: a for key, a in self.away.items() if key[0] != owner}

    def status(self, sinks: Sequence[Sink], owner: str, ledger: Ledger) -> list[dict[str, Any]]:
        """The sinks of a query that fail: how many epochs they are behind, since when, why."""
        found, away, done = [], self.away, self.done
        for number, sink in enumerate(sinks):
            if (failed := away.get((owner, number))) is not None:
                last = done.get((owner, number), ledger.index.epoch)
                behind = sum(epoch > last for epoch in ledger.epochs)
                found.append({"place": masked(sink.place), "behind": behind, **failed.status()})
        return found

    def _bring(self, number: int, sink: Sink, owner: str, result: Result, ledger: Ledger) -> None:
        if wants_plain(sink):
            result = replace(result, key=None)
        note = _Note(ledger.storage, owner, sink.place) if forgets(sink) else None
        done = self.done.get((owner, number))
        if done is None:
            claim(sink, owner)
            epoch, upto = note.read() if note is not None else (0, MIN)
            done = epoch if epoch >= ledger.index.epoch else _catch_up(sink, result, ledger, upto)
        for epoch in ledger.epochs:
            bounds = ledger.bounds(epoch)
            if epoch <= done or bounds is None or bounds[0] == bounds[1] or sink.has(epoch):
                continue
            reach("before sink")
            with told():
                sink.write(epoch, result.delivered(sink.form, *bounds))
            if note is not None:
                note.write(epoch, bounds[1])
            self.done = {**self.done, (owner, number): epoch}
            reach("after sink")
        self.done = {**self.done, (owner, number): ledger.latest.epoch}


_LASTING = ("SINK_TAKEN", "SINK_BEHIND", "SINK_CHANGED", "SINK_FORM", "STATE_DAMAGED", "STATE_IN_USE")


def _may_pass(problem: Exception) -> bool:
    """Whether the same attempt may succeed later: what is wrong with the query or its state may not."""
    return not (isinstance(problem, Diagnostic) and problem.condition in _LASTING)


def _catch_up(sink: Sink, result: Result, ledger: Ledger, since: int) -> int:
    """Epochs that only the index knows: a sink has got all of them, or gets those after an instant as one."""
    index = ledger.index
    if index.marked and index.upto > since and not sink.has(index.marked):
        if any(sink.has(epoch) for epoch in range(1, index.marked)):
            raise Diagnostic(
                "SINK_BEHIND",
                f"the sink of '{result.name}' was away while epochs up to {index.marked} passed",
                help="write to an empty place: it gets everything",
            )
        sink.write(index.marked, result.delivered(sink.form, since, index.upto))
    return index.epoch


@dataclass(frozen=True)
class _Note:
    """The last epoch that a forgetful sink took, and how far that reached."""

    storage: Storage
    owner: str
    place: str

    @property
    def _name(self) -> str:
        return f"deliveries/{self.owner}-{name_in_path(self.place)}.json"

    def read(self) -> tuple[int, int]:
        folder, _, name = self._name.partition("/")
        if name not in self.storage.names(folder):
            return 0, MIN
        noted = read_signed_json(self.storage.read(self._name).to_pybytes())
        if noted is None:
            raise self.storage.damaged(self._name, "has been changed: its checksum is another")
        return noted["epoch"], noted["upto"]

    def write(self, epoch: int, upto: int) -> None:
        self.storage.publish(self._name, signed_json({"epoch": epoch, "upto": upto}))
