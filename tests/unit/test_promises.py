"""What sources promise, without Spark: by rows, by the clock, by a call, and by silence."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tidegate.connectors import registry
from tidegate.errors import Diagnostic
from tidegate.language.catalog import SourceCall, StreamDefinition
from tidegate.language.dialect import parse
from tidegate.language.statements import define
from tidegate.runtime.ledger import SourceProgress
from tidegate.runtime.promises import Promises, Seen
from tidegate.time import BATCHES, MIN
from tidegate.types import BIGINT, TIMESTAMP, Field

ROWS = StreamDefinition("S", (Field("t", BIGINT),), SourceCall("memory", ("S",)), ordered_by="t")
TIMED = StreamDefinition("S", (Field("t", TIMESTAMP),), SourceCall("memory", ("S",)), ordered_by="t")
STAMPED = StreamDefinition("S", (Field("v", BIGINT),), SourceCall("memory", ("S",)))

NOTHING: dict[str, SourceProgress] = {}


def upto(
    streams: dict[str, StreamDefinition],
    seen: dict[str, Seen],
    promises: Promises | None = None,
    wall: int = 0,
) -> int:
    promises = promises or Promises(lambda: 0.0)
    sources = promises.progress(streams, NOTHING, seen, wall)
    return promises.watermark(streams, sources, max(d.width for d in streams.values()))


def test_rows_of_the_epoch_count_for_its_own_watermark() -> None:
    assert upto({"S": ROWS}, {"S": Seen(7, 3)}) == 7
    assert upto({"S": replace(ROWS, slack=5)}, {"S": Seen(7, 3)}) == 2


def test_the_source_that_has_promised_least_decides() -> None:
    streams = {"S": ROWS, "R": replace(ROWS, name="R", slack=2)}
    assert upto(streams, {"S": Seen(7, 3), "R": Seen(8, 1)}) == 6
    assert upto(streams, {"S": Seen(7, 3)}) == MIN  # R has said nothing


def test_a_stream_that_follows_the_clock_promises_without_rows() -> None:
    streams = {"S": replace(TIMED, behind=5_000_000)}
    assert upto(streams, {}, wall=20_000_000) == 15_000_000
    # rows of times that are ahead do not promise anything, and what is behind the clock holds nothing back
    assert upto(streams, {"S": Seen(19_000_000, 1)}, wall=20_000_000) == 15_000_000
    assert upto(streams, {"S": Seen(1, 1)}, wall=20_000_000) == 15_000_000


def test_streams_stamped_on_arrival_promise_by_the_millisecond() -> None:
    assert upto({"S": STAMPED}, {}, wall=20_000_999) == 20_000_000
    assert upto({"S": STAMPED.in_batches}, {}, wall=20_000_999) == 20_000_000 * BATCHES


def test_a_call_promises_what_rows_do_not() -> None:
    promises = Promises(lambda: 0.0)
    promises.say("S", 30)
    promises.say("S", 12)  # nothing is taken back
    assert upto({"S": ROWS}, {"S": Seen(7, 1)}, promises) == 30
    assert upto({"S": ROWS}, {"S": Seen(40, 1)}, promises) == 40


def test_promises_are_kept_by_those_who_go_on() -> None:
    """A clock that was set back takes nothing back; a new process knows what the manifest says."""
    streams = {"S": replace(TIMED, behind=0)}
    known = Promises(lambda: 0.0).progress(streams, NOTHING, {}, wall=9_000_000)
    again = Promises(lambda: 0.0)
    sources = again.progress(streams, known, {}, wall=4_000_000)
    assert sources["S"].promised == 9_000_000
    assert again.watermark(streams, sources, 1) == 9_000_000


def test_a_silent_source_holds_nobody_back_until_it_speaks() -> None:
    now = [0.0]
    promises = Promises(lambda: now[0])
    streams = {"S": ROWS, "R": replace(ROWS, name="R", idle=5_000_000)}
    sources = promises.progress(streams, NOTHING, {"S": Seen(10, 1), "R": Seen(4, 1)}, 0)
    assert promises.watermark(streams, sources, 1) == 4
    now[0] = 6.0
    assert promises.watermark(streams, sources, 1) == 10
    sources = promises.progress(streams, sources, {"R": Seen(5, 0)}, 0)  # a heartbeat is a word
    assert promises.watermark(streams, sources, 1) == 5


def test_silence_does_not_stop_the_clock() -> None:
    now = [0.0]
    promises = Promises(lambda: now[0])
    streams = {"S": replace(TIMED, behind=5_000_000, idle=10_000_000)}
    sources = promises.progress(streams, NOTHING, {"S": Seen(20_000_000, 1)}, 20_000_000)
    assert promises.watermark(streams, sources, 1) == 15_000_000
    now[0] = 10.0
    sources = promises.progress(streams, sources, {}, 30_000_000)
    assert promises.watermark(streams, sources, 1) == 25_000_000


def test_what_is_promised_by_a_call_counts_in_silence() -> None:
    now = [0.0]
    promises = Promises(lambda: now[0])
    streams = {n: replace(ROWS, name=n, idle=5_000_000) for n in "SR"}
    sources = promises.progress(streams, NOTHING, {"S": Seen(10, 1)}, 0)
    now[0] = 4.0
    promises.say("R", 7)  # a word, as a row is
    now[0] = 8.0
    sources = promises.progress(streams, sources, {}, 0)
    assert promises.watermark(streams, sources, 1) == 7
    now[0] = 9.0
    assert promises.watermark(streams, sources, 1) == 11  # all are silent: what S has said is final
    promises.say("R", 30)
    now[0] = 60.0
    sources = promises.progress(streams, sources, {}, 0)
    assert promises.watermark(streams, sources, 1) == 30


@pytest.mark.parametrize(
    ("option", "condition"),
    [
        ("watermark = 'noon'", "INVALID_OPTION"),
        ("watermark = 'clock -'", "INVALID_OPTION"),
        ("watermark = 'clock - 5 parsecs'", "INVALID_PERIOD"),
        ("watermark = 'clock', slack = '1 second'", "INVALID_OPTION"),
        ("heartbeats = 'v'", "INVALID_OPTION"),
        ("watermerk = 'clock'", "UNKNOWN_OPTION"),
    ],
)
def test_what_is_no_promise_is_refused_with_its_place(option: str, condition: str) -> None:
    text = f"CREATE STREAM S(v INT, alive BOOLEAN, t TIMESTAMP) SOURCE csv('s') ORDERED BY t WITH ({option})"
    with pytest.raises(Diagnostic) as caught:
        define(parse(text)[0], registry.catalog(), text)
    assert caught.value.condition == condition
    assert caught.value.span is not None


def test_integers_have_no_clock() -> None:
    text = "CREATE STREAM S(v INT, t INT) SOURCE csv('s') ORDERED BY t WITH (watermark = 'clock')"
    with pytest.raises(Diagnostic, match="clock"):
        define(parse(text)[0], registry.catalog(), text)


def test_options_are_read() -> None:
    text = (
        "CREATE STREAM S(v INT, alive BOOLEAN, t TIMESTAMP) SOURCE csv('s') ORDERED BY t "
        "WITH (watermark = 'clock - 5 seconds', heartbeats = 'ALIVE')"
    )
    found = define(parse(text)[0], registry.catalog(), text).find("S")
    assert isinstance(found, StreamDefinition)
    assert (found.behind, found.by_clock, found.beats) == (5_000_000, 5_000_000, "alive")
