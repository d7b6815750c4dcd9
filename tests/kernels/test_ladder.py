"""A ladder against counting in plain Python."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from tidegate.kernels.ladder import GROWTH, Ladder

NONE = np.empty(0, np.int64)


class Counted:
    """How often each value of each group is valid, with what a step changes."""

    def __init__(self, seed: int, groups: int, span: int) -> None:
        self.dice, self.groups, self.span = np.random.default_rng(seed), groups, span
        self.values: dict[int, Counter[int]] = {g: Counter() for g in range(groups)}

    def change(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        dice, span = self.dice, self.span
        changes = [
            (int(dice.integers(self.groups)), int(dice.integers(-span, span)), 1)
            for _ in range(dice.integers(60))
        ]
        for g, values in self.values.items():
            for value, count in values.items():
                if dice.random() < 0.3:
                    changes.append((g, value, -int(dice.integers(1, count + 1))))
        for g, value, n in changes:
            self.values[g][value] += n
        self.values = {g: +values for g, values in self.values.items()}
        return tuple(np.array([c[i] for c in changes], np.int64) for i in range(3))  # type: ignore[return-value]

    def stretch(self, group: int, first: int, last: int) -> tuple[int, list[tuple[int, int]], int]:
        position, below, found, above = 0, 0, [], 0
        for value, count in sorted(self.values.get(group, Counter()).items()):
            if position + count <= first:
                below += count
            elif position >= last:
                above += count
            else:
                found.append((value, count))
            position += count
        return below, found, above


@pytest.mark.parametrize("span", [3, 20, 1000, 2**62])
@pytest.mark.parametrize("seed", range(5))
def test_positions_counts_and_totals_are_those_of_the_values(seed: int, span: int) -> None:
    counted, ladder = Counted(seed, 4, span), Ladder.of(NONE, NONE, NONE)
    asked = np.arange(-1, 5)
    for _ in range(40):
        change = counted.change()
        ladder = ladder.added(*change)
        assert ladder.totals(asked).tolist() == [
            counted.values.get(g, Counter()).total() for g in asked.tolist()
        ]
        told = [counted.values[g][v] for g, v in zip(change[0].tolist(), change[1].tolist(), strict=True)]
        assert ladder.counts(change[0], change[1]).tolist() == told
        first = counted.dice.integers(0, 40, len(asked))
        last = first + counted.dice.integers(1, 20, len(asked))
        found = ladder.stretch(asked, first, last)
        for i, group in enumerate(asked.tolist()):
            part = slice(found.offsets[i], found.offsets[i + 1])
            entries = list(zip(found.codes[part].tolist(), found.counts[part].tolist(), strict=True))
            expected = counted.stretch(group, int(first[i]), int(last[i]))
            assert (found.below[i], entries, found.above[i]) == expected


def test_a_small_change_copies_little() -> None:
    many = np.arange(100_000)
    ladder = before = Ladder.of(many % 7, many, np.ones_like(many))
    for i in range(20):
        ladder = ladder.added(np.array([i % 7]), np.array([-i]), np.array([1]))
    assert ladder.runs[0] is before.runs[0]
    assert sum(map(len, ladder.runs[1:])) == 20
    assert len(ladder.runs[-1]) <= GROWTH
