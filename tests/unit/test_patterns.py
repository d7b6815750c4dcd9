"""Patterns take no longer than their texts are long, or are refused; what they match is what it was."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.language.world import World
from tidegate.errors import Diagnostic
from tidegate.scalars.patterns import (
    backtracks,
    is_like,
    java_regex,
    like_parts,
    like_regex,
    regexp_replace,
    rlike,
    search_regex,
)

SECONDS = 5.0
"""Processor time for a pattern over a text of thousands of characters; what tries very many ways would need years."""

LOOSE = (
    "(a+)+$", "(a|a)*c", "(a|aa)+c", "(a*)*b", "(.*a)+$", "a*a*a*a*c", "([a-z]+)*[0-9]", ".*a.*a.*a.*a.*b",
)  # fmt: skip


@given(st.text("ab_%\n.*\\", max_size=8), st.text("ab\n.*\\_%", max_size=10))
def test_like_is_what_its_regular_expression_says(pattern: str, text: str) -> None:
    try:
        whole = re.compile(like_regex(pattern, "!"), re.DOTALL)
    except Diagnostic:
        return
    assert is_like(text, like_parts(pattern, "!")) == (whole.fullmatch(text) is not None)


def test_like_looks_through_a_text_once() -> None:
    began = time.process_time()
    assert not is_like("a" * 5_000, like_parts("%a" * 30 + "%b", "\\"))
    assert is_like("a" * 5_000 + "b", like_parts("%a" * 30 + "%b", "\\"))
    assert time.process_time() - began < SECONDS


@pytest.mark.parametrize("pattern", LOOSE)
def test_a_loose_pattern_is_searched_in_time_or_refused(pattern: str) -> None:
    assert backtracks(pattern)
    began = time.process_time()
    assert not rlike("a" * 3_000 + "-", pattern)
    with pytest.raises(Diagnostic) as caught:
        regexp_replace("a" * 3_000 + "-", pattern, "")
    assert caught.value.condition == "PATTERN_UNBOUNDED"
    assert pattern in caught.value.message
    assert time.process_time() - began < SECONDS


@pytest.mark.parametrize("pattern", [r"(\w)\1+(a+)+", "(?=a)(a+)+"])
def test_what_nobody_can_search_in_time_is_refused(pattern: str) -> None:
    with pytest.raises(Diagnostic) as caught:
        rlike("aaaa", pattern)
    assert caught.value.condition == "PATTERN_UNBOUNDED"


@pytest.mark.parametrize(
    "pattern",
    [
        "[a-z]+@[a-z.]+",
        r"(\d+)-(\d+)-(\d+)T(\d+):(\d+):(\d+)",
        "^a.*b$",
        "(?:ab)+",
        "a{2,5}",
        "(ab|cd)",
        r"\(a+\)+",
    ],
)
def test_ordinary_patterns_are_not_loose(pattern: str) -> None:
    assert not backtracks(pattern)


@given(
    st.sampled_from(["(a+)+$", "(a|ab)*c", "(ab*)+", "^(a|b)+$", "(a?b)*$", "(.a)+$", "a|(b+)+$"]),
    st.text("abc\n\r\u2028", max_size=9),
)
def test_a_search_finds_what_python_finds(pattern: str, text: str) -> None:
    assert search_regex(pattern) is not None
    assert rlike(text, pattern) == (java_regex(pattern).search(text) is not None)


@pytest.mark.parametrize(
    ("marked", "condition"),
    [
        ("SELECT ‸REGEXP_REPLACE(s, '(a+)+', '') FROM S", "PATTERN_UNBOUNDED"),
        ("SELECT ‸SPLIT(s, '(a|a)*') FROM S", "PATTERN_UNBOUNDED"),
        ("SELECT ‸REPEAT('x', 2000000000) FROM S", "TEXT_TOO_LONG"),
        ("SELECT ‸LPAD(s, 2000000000, 'x') FROM S", "TEXT_TOO_LONG"),
        ("SELECT ‸SPACE(2000000000) FROM S", "TEXT_TOO_LONG"),
        ("SELECT s FROM S ORDER BY s LIMIT ‸100000000000000000000", "INVALID_LIMIT"),
        ("SELECT s FROM S ORDER BY s LIMIT ‸1e20", "INVALID_LIMIT"),
        ("SELECT s FROM S ORDER BY s LIMIT 1 OFFSET ‸100000000000000000000", "INVALID_LIMIT"),
        ("SELECT s FROM S WINDOW(RANGE ‸99999999999999999999)", "INVALID_WINDOW"),
        ("SELECT s FROM S WINDOW(ROWS ‸99999999999999999999)", "INVALID_WINDOW"),
        ("SELECT s FROM S AS OF 1 BATCH ‸1.5", "SYNTAX_ERROR"),
        ("VERIFY ‸1.5 INSTANTS SELECT s FROM S", "SYNTAX_ERROR"),
        ("VERIFY ‸99999999999999999999 INSTANTS SELECT s FROM S", "SYNTAX_ERROR"),
    ],
)
def test_numbers_and_patterns_without_bound_are_refused_where_they_stand(marked: str, condition: str) -> None:
    world = World().run("CREATE STREAM S(s STRING, t BIGINT) SOURCE memory('S') ORDERED BY t")
    with pytest.raises(Diagnostic) as caught:
        world.bound(marked.replace("‸", ""))
    assert caught.value.condition == condition
    assert caught.value.position is not None
    assert abs(caught.value.position.start - marked.index("‸")) <= len("REGEXP_REPLACE(")
