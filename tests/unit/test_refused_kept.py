"""Refused rows are kept as long as answers are, also those that came before any time was known."""

from __future__ import annotations

from pathlib import Path

from tidegate.exchange.messages import Refused
from tidegate.runtime.ledger import Ledger, Manifest, after
from tidegate.storage import Storage
from tidegate.time import MIN
from tidegate.worker.quarantine import quarantined


def test_rows_that_are_refused_first_are_kept_as_long_as_others(tmp_path: Path) -> None:
    storage = Storage(str(tmp_path))
    ledger = Ledger.held(storage)
    kept = []
    for epoch, upto in enumerate((MIN, 100, 140, 160), 1):
        before = ledger.latest
        refused = [Refused("S", f"no INT: {epoch}", None, None)] if epoch < 3 else []
        messages = [quarantined(storage, epoch, (before.upto, upto), "0", refused)] if refused else []
        horizon = MIN if upto == MIN else upto - 50
        ledger.commit(after(before, messages, upto=upto, horizon=horizon))
        if horizon != MIN:
            ledger.forget_before(horizon)
        kept.append(len(storage.names("quarantine/S")))
    # Both are of the time up to 100, and 50 ticks are kept.
    assert kept == [1, 2, 2, 0]
    ledger.release()
    assert Ledger(storage).latest == Manifest(
        4, 160, horizon=110, sources=ledger.latest.sources, checkpoint=ledger.latest.checkpoint
    )
