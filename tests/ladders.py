"""Whether steps ask ladders, which otherwise pay only over many more rows than tests play."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from tidegate.kernels import index, sweep_ladders
from tidegate.kernels.index import Hashes
from tidegate.kernels.rows import Frame

HASHES = index.hashes


@contextmanager
def asked(always: bool, colliding: bool = False) -> Iterator[None]:
    """Steps ask ladders whenever they can, or as they do; groups share their hashes, or not."""
    with pytest.MonkeyPatch.context() as patch:
        if always:
            patch.setattr(sweep_ladders, "MANY", 0)
            patch.setattr(sweep_ladders, "FEW", 0)
        if colliding:
            patch.setattr(index, "hashes", _few_hashes)
            patch.setattr(sweep_ladders, "hashes", _few_hashes)
        yield


def _few_hashes(rows: Frame, keys: Sequence[str]) -> Hashes:
    return HASHES(rows, keys) % 3
