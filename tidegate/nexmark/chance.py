"""Chance as a function: what event n draws depends on the seed and n alone, however the events are cut into batches.

So any part of the stream can be generated anywhere, in any order, and the same seed gives the same bytes.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Ints = npt.NDArray[np.int64]
Bits = npt.NDArray[np.uint64]
Floats = npt.NDArray[np.float64]

_GOLDEN = 0x9E3779B97F4A7C15
_WORD = (1 << 64) - 1


class Dice:
    """Independent draws for the events `numbers`; each draw is known by its name.

    >>> whole, part = Dice(7, np.arange(10)), Dice(7, np.arange(4, 6))
    >>> bool((whole.below("price", 100)[4:6] == part.below("price", 100)).all())
    True
    """

    def __init__(self, seed: int, numbers: Ints) -> None:
        self.seed = seed
        self.numbers = numbers.astype(np.uint64)

    def bits(self, name: str) -> Bits:
        """64 random bits for each event (SplitMix64 on a lattice that the seed and the name choose)."""
        with np.errstate(over="ignore"):
            return _mixed(self.numbers * np.uint64(_GOLDEN) + np.uint64(_start(self.seed, name)))

    def uniform(self, name: str) -> Floats:
        """Uniform in [0, 1)."""
        return (self.bits(name) >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def below(self, name: str, limit: int | Ints) -> Ints:
        """Uniform in 0 … limit - 1."""
        # the upper 32 bits decide: limits are far below 2**32, so no value is favoured noticeably
        high = self.bits(name) >> np.uint64(32)
        scaled = high * np.asarray(limit).astype(np.uint64) >> np.uint64(32)
        return scaled.astype(np.int64)


def _start(seed: int, name: str) -> int:
    """Where the lattice of a draw begins."""
    start = (seed * 0xD1342543DE82EF95 + 1) & _WORD
    for letter in name.encode():
        start = (start ^ letter) * 0x100000001B3 & _WORD
    return int(_mixed(np.array([start], np.uint64))[0])


def _mixed(x: Bits) -> Bits:
    with np.errstate(over="ignore"):
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))


def letters(seed: int, name: str, count: int, least: int, most: int) -> pa.Array:
    """So many strings of lower-case letters, their lengths uniform in least … most.

    >>> letters(1, "extra", 2, 3, 3).to_pylist() == letters(1, "extra", 2, 3, 3).to_pylist()
    True
    """
    lengths = least + Dice(seed, np.arange(count)).below(name + ".length", most - least + 1)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    # eight letters of each draw; that 26 does not divide 256 favours some letters by a tenth, which nobody minds
    drawn = Dice(seed, np.arange(-(-int(offsets[-1]) // 8))).bits(name).view(np.uint8)[: int(offsets[-1])]
    text = drawn % np.uint8(26) + np.uint8(ord("a"))
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(text))


def digits(values: Ints, width: int) -> npt.NDArray[np.uint8]:
    """Numbers as rows of `width` decimal digits.

    >>> bytes(digits(np.array([42]), 4)[0])
    b'0042'
    """
    powers = 10 ** np.arange(width - 1, -1, -1)
    return (values[:, None] // powers % 10 + ord("0")).astype(np.uint8)


def fixed(rows: npt.NDArray[np.uint8]) -> pa.Array:
    """Rows of bytes, all of one width, as strings."""
    count, width = rows.shape
    offsets = np.arange(0, (count + 1) * width, width, dtype=np.int32)
    return pa.StringArray.from_buffers(
        count, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(rows).reshape(-1))
    )
