"""Which queries of a script wait for each other: none that may read what a sink before it gets."""

from __future__ import annotations

import pytest

from tidegate.connectors import registry
from tidegate.connectors.sinks import make_sink
from tidegate.language.catalog import StreamDefinition
from tidegate.language.dialect import parse
from tidegate.language.statements import define
from tidegate.script import _may_read


def stream(source: str) -> StreamDefinition:
    text = f"CREATE STREAM S(k INT, t BIGINT) SOURCE {source} ORDERED BY t"
    found = define(parse(text)[0], registry.catalog(), text).find("S")
    assert isinstance(found, StreamDefinition)
    return found


@pytest.mark.parametrize(
    ("source", "path", "may"),
    [
        ("json('data/in')", "data/out", False),
        ("json('data/in')", "data/in", True),
        ("json('data/in')", "data/in/below", True),
        ("json('data/out/epoch=1')", "data/out", True),
        ("json('data/../data/out')", "data/out", True),
        ("json('data/inner')", "data/in", False),
        ("csv('data/*.csv')", "data/out", True),
        ("csv('data/in*')", "other", False),
        ("csv('*.csv')", "out", True),
        ("parquet('s3a://bucket/in')", "out", True),
        ("memory('S')", "out", False),
        ("kafka('localhost:9092', 'S')", "out", True),
    ],
)
def test_a_stream_may_be_what_a_sink_writes(source: str, path: str, may: bool) -> None:
    assert _may_read(stream(source), make_sink("json", (path,))) is may


def test_nobody_knows_what_other_sinks_do() -> None:
    assert _may_read(stream("json('data/in')"), make_sink("console"))
    assert not _may_read(stream("json('data/in')"), None)
