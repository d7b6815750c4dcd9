"""Where epochs run: what was asked for, what is possible, and what costs less."""

from __future__ import annotations

from tidegate.runtime.places import FEW, MOST, WARM, Place, Places


def played(places: Places, rows: int, seconds: dict[Place, float], epochs: int) -> list[Place]:
    found = []
    for _ in range(epochs):
        place = places.choose(rows, possible=True)
        places.learn(place, rows, seconds[place])
        found.append(place)
    return found


def test_small_epochs_run_in_the_driver_and_large_ones_as_jobs() -> None:
    assert Places().choose(100, possible=True) == "driver"
    assert Places().choose(500_000, possible=True) == "spark"


def test_what_is_asked_for_is_done_where_it_can_be() -> None:
    assert Places("spark").choose(1, possible=True) == "spark"
    assert Places("driver").choose(10 * MOST, possible=True) == "driver"
    assert Places("driver").choose(1, possible=False) == "spark"


def test_a_slow_start_says_nothing() -> None:
    places = Places()
    for _ in range(WARM):
        places.learn(places.choose(50_000, possible=True), 50_000, 30.0)
    assert places.choose(50_000, possible=True) == "driver"


def test_the_place_that_costs_less_is_found_and_kept() -> None:
    places = Places()
    found = played(places, 60_000, {"driver": 2.0, "spark": 0.6}, 30)
    assert found[0] == "driver"
    assert found[-20:] == ["spark"] * 20
    # a little noise moves nobody
    assert played(places, 60_000, {"driver": 2.0, "spark": 0.7}, 10) == ["spark"] * 10


def test_rows_that_come_all_at_once_are_not_gathered() -> None:
    places = Places()
    played(places, 10, {"driver": 0.1, "spark": 9.0}, 10)
    assert places.choose(MOST + 1, possible=True) == "spark"


def test_an_epoch_is_expected_to_be_as_the_last_one() -> None:
    places = Places()
    assert not places.small
    places.learn("driver", FEW, 0.1)
    assert places.small
    places.learn("spark", FEW + 1, 0.1)
    assert not places.small


def test_one_large_epoch_does_not_start_what_is_cold() -> None:
    """A thousand rows an epoch cost little in the driver; after a pause many have come at once. Spark's workers would take longer to start."""
    places = Places()
    played(places, 20_000, {"driver": 0.08, "spark": 9.0}, 10)
    assert places.choose(900_000, possible=True) == "driver"
    places.learn("driver", 900_000, 3.0)
    assert places.choose(20_000, possible=True) == "driver"
    # once they have started, what is expected to cost less is chosen at once
    places.learn("spark", 900_000, 1.5)
    places.learn("driver", 20_000, 0.08)
    assert places.choose(900_000, possible=True) == "spark"
