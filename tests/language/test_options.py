"""SET: options of the session, checked before they hold."""

from __future__ import annotations

import pytest

from tidegate.errors import Diagnostic
from tidegate.session import connect


def test_options_hold_for_the_session() -> None:
    session = connect()
    session.sql("SET epoch = 0.25; SET retention = '2 seconds'")
    assert (session.epoch, session.retention) == (0.25, 2_000_000)
    session.sql("SET retention = 40; SET epochs = 'driver'")
    assert (session.retention, session.epochs) == (40, "driver")
    assert connect().epochs == "auto"


@pytest.mark.parametrize(
    ("text", "condition", "column"),
    [
        ("SET retenton = 5", "UNKNOWN_OPTION", 5),
        ("SET epoch = 'soon'", "WRONG_ARGUMENTS", 5),
        ("SET epochs = 'elsewhere'", "WRONG_ARGUMENTS", 5),
        ("SET retention = 'a while'", "INVALID_PERIOD", 5),
    ],
)
def test_wrong_options_are_told_and_change_nothing(text: str, condition: str, column: int) -> None:
    session = connect()
    with pytest.raises(Diagnostic) as caught:
        session.sql(text)
    assert caught.value.condition == condition
    assert caught.value.position is not None
    assert caught.value.position.column == column
    assert (session.epoch, session.retention) == (None, None)
