"""Bringing epochs to sinks: each once, whole, in order; what is there already is not written again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tidegate.connectors.sinks import Sink, claim
from tidegate.errors import Diagnostic
from tidegate.runtime.faults import reach
from tidegate.runtime.jobs import told
from tidegate.runtime.ledger import Ledger
from tidegate.runtime.results import Result
from tidegate.time import MIN


@dataclass
class Deliveries:
    """How far each sink of a graph has come, by the owner of the sinks and their numbers."""

    done: dict[tuple[str, int], int] = field(default_factory=dict)

    def bring(self, sinks: Sequence[Sink], owner: str, result: Result, ledger: Ledger) -> None:
        """Bring a query's sinks up to the last committed epoch."""
        for number, sink in enumerate(sinks):
            done = self.done.get((owner, number))
            if done is None:
                claim(sink, owner)
                done = _catch_up(sink, result, ledger)
            for epoch in ledger.epochs:
                bounds = ledger.bounds(epoch)
                if epoch <= done or bounds is None or bounds[0] == bounds[1] or sink.has(epoch):
                    continue
                reach("before sink")
                with told():
                    sink.write(epoch, result.delivered(sink.form, *bounds))
                reach("after sink")
            self.done[owner, number] = ledger.latest.epoch


def _catch_up(sink: Sink, result: Result, ledger: Ledger) -> int:
    """Epochs that only the index knows: a sink has got all of them, or gets them as one."""
    index = ledger.index
    if index.marked and not sink.has(index.marked):
        if any(sink.has(epoch) for epoch in range(1, index.marked)):
            raise Diagnostic(
                "SINK_BEHIND",
                f"the sink of '{result.name}' was away while epochs up to {index.marked} passed",
                help="write to an empty place: it gets everything",
            )
        sink.write(index.marked, result.delivered(sink.form, MIN, index.upto))
    return index.epoch
