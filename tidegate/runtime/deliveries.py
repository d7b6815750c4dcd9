"""Bringing epochs to sinks: each once, whole, in order; what is there already is not written again.

A sink that knows what it took only while the program runs (a function, the console) has it noted in the state after each epoch that it took, so
a run that goes on repeats no more than the one epoch that was taken and not noted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tidegate.codec import read_signed_json, signed_json
from tidegate.connectors.sinks import Sink, claim, forgets
from tidegate.errors import Diagnostic
from tidegate.runtime.faults import reach
from tidegate.runtime.jobs import told
from tidegate.runtime.ledger import Ledger
from tidegate.runtime.results import Result
from tidegate.storage import Storage, name_in_path
from tidegate.time import MIN


@dataclass
class Deliveries:
    """How far each sink of a graph has come, by the owner of the sinks and their numbers."""

    done: dict[tuple[str, int], int] = field(default_factory=dict)

    def bring(self, sinks: Sequence[Sink], owner: str, result: Result, ledger: Ledger) -> None:
        """Bring a query's sinks up to the last committed epoch."""
        for number, sink in enumerate(sinks):
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
                reach("after sink")
            self.done[owner, number] = ledger.latest.epoch


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
