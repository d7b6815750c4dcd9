"""State that goes through its segments after every epoch, however they are merged, gives the reference's answer."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from tests.fuzz.choices import settings_for
from tests.fuzz.players import check, described, difference, frames
from tests.fuzz.queries import Generator
from tests.fuzz.streams import INTEGERS
from tidegate.exchange.messages import Log
from tidegate.kernels.rows import to_rows
from tidegate.physical.lowering import compile_plan
from tidegate.reference.snapshots import PhysicalRow
from tidegate.storage import Storage, level_of
from tidegate.time import MAX, MIN
from tidegate.worker import segments
from tidegate.worker import tasks as worker
from tidegate.worker.segments import WAITING
from tidegate.worker.tasks import Epoch, PackedPlan


@pytest.mark.parametrize("spare", [200_000, 0])
@pytest.mark.parametrize("block", range(2))
def test_merged_segments_stand_for_the_same_state(
    block: int, spare: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "COMPACT_AFTER", 2)
    monkeypatch.setattr(worker, "SPARE_ROWS", spare)
    levels: set[int] = set()
    for seed in range(700_000 + block * 8, 700_008 + block * 8):
        case = Generator(seed, INTEGERS).case()
        if check(case) is not None:
            continue
        plan = case.plan
        program = compile_plan(plan, {**case.catalog.functions, **case.catalog.aggregates})
        chunks = frames(plan, case.streams.sources(case.width))
        storage = Storage(str(tmp_path / str(seed)))
        storage.make_folder("state")
        states, log, since = program.initial(), Log(), MIN
        named: set[str] = set()
        answer: list[PhysicalRow] = []
        for number, upto in enumerate([*range(-3, 21), MAX]):
            arrived = {
                n: f.filter((pl.col("ts") >= since) & (pl.col("ts") < upto)) for n, f in chunks.items()
            }
            states, (out,) = program.step_all(states, arrived, upto, settings=settings_for(program))
            answer += [
                (e, *v)
                for e, v in zip(to_rows(out, plan.schema), out.select("ts", "te", "n").rows(), strict=True)
            ]
            epoch = Epoch(PackedPlan("", b"", {}), 1, number, since, upto, storage, {}, True, False, 1)
            log = worker._save(epoch, "1@0", 0, log, {**states, WAITING: {}})
            assert len(log.segments) <= 3 * segments.BASE
            named.update(log.segments)
            written = {f"state/{name}" for name in storage.names("state")}
            assert written == named, "a file that no manifest names is never deleted"
            levels |= {level_of(name) for name in log.segments}
            states = segments.restored(storage, program, log.segments, upto)
            since = upto
        found = difference(case.reference, plan, answer)
        assert found is None, f"seed {seed}: {found}\n{described(case)}"
    assert levels >= ({0, 1, 2} if spare else {0, 1, segments.BASE})
