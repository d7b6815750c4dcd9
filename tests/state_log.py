"""State as the runtime keeps it: a segment after each epoch, read back by the way that a restarted worker takes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tidegate.kernels.rows import Kernel, State
from tidegate.physical.flow import Bound, Rows
from tidegate.physical.lowering import Operator, Program
from tidegate.worker import segments
from tidegate.worker.segments import States


@dataclass
class StateLog:
    """The segments of one program, in order; as much of a storage as it takes to read them."""

    program: Program
    files: dict[str, Any] = field(default_factory=dict)

    def append(self, states: States) -> None:
        """What an epoch appended to its tables."""
        self.files[f"{len(self.files)}"] = segments.encode(segments.deltas(states))

    def read_sealed(self, name: str) -> Any:
        return self.files[name]

    def restored(self, upto: int) -> States:
        """The states that the segments alone stand for, after the epoch that ended before `upto`."""
        return segments.restored(self, self.program, tuple(self.files), upto)  # type: ignore[arg-type]


@dataclass
class KernelLog:
    """The same for one kernel."""

    kernel: Kernel

    def __post_init__(self) -> None:
        rows = Rows("changes", Bound.NOTHING)
        operator = Operator("kernel", self.kernel, (), "", "", rows, Bound.NOTHING)
        self._log = StateLog(Program((), (operator,), ()))

    def append(self, state: State) -> None:
        self._log.append({"kernel": state})

    def base(self, state: State) -> None:
        """A segment that holds the tables themselves."""
        self._log.files["base"] = segments.encode(segments.whole({"kernel": state}))

    def restored(self, upto: int) -> State:
        return self._log.restored(upto)["kernel"]
