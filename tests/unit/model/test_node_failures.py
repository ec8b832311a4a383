"""What annotations of a node ask for."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.localcluster.nodes.pods import T0
from volcanoio.model import names
from volcanoio.model.node_failures import NO_FAILURES, ChaosError, Flapping, parse_failures, without_now
from volcanoio.model.times import rfc3339

FAILS, FLAPS, DRAINS = names.NODE_NOT_READY_AT, names.NODE_FLAP, names.NODE_DRAIN


def out_at(annotations: dict[str, str], *moments: float) -> list[bool]:
    expected = parse_failures(annotations, T0)
    return [expected.out(T0 + moment) for moment in moments]


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({FAILS: "10m"}, {599: False, 600: True, 1e6: True}),
        ({FAILS: "10m,for=1m"}, {599: False, 600: True, 659: True, 660: False}),
        ({FAILS: f"{rfc3339(T0 + 60)},for=1m"}, {59: False, 60: True, 120: False}),
        ({FLAPS: "every=60s"}, {0: False, 29: False, 30: True, 59: True, 60: False, 90: True}),
        ({FLAPS: "every=60s,down=20s"}, {39: False, 40: True, 60: False, 100: True}),
        ({FLAPS: "every=60s,from=5m,until=7m"}, {30: False, 329: False, 330: True, 390: True, 419: True, 450: False}),
        ({FLAPS: "every=60s", FAILS: "0s,for=10s"}, {0: True, 10: False, 30: True}),
        ({}, {0: False}),
    ],
)
def test_outages(annotations: dict[str, str], expected: dict[float, bool]) -> None:
    assert out_at(annotations, *expected) == list(expected.values())


def test_a_drain_is_a_moment() -> None:
    assert parse_failures({DRAINS: "2h"}, T0).drain_at == T0 + 7200


@pytest.mark.parametrize(
    ("annotations", "reported"),
    [
        ({FAILS: "soon"}, f"annotation {FAILS}: 'soon' must be now, a time such as"),
        ({FAILS: "1m,down=3s"}, "'down=3s' must be one of for="),
        ({FLAPS: "60s"}, "'60s' must be one of every="),
        ({FLAPS: "down=60s"}, "must say every=DURATION"),
        ({FLAPS: "every=60s,down=60s"}, "down must be more than 0 and less than every"),
        ({DRAINS: "tomorrow"}, "'tomorrow' must be now"),
    ],
)
def test_invalid_annotations_are_named(annotations: dict[str, str], reported: str) -> None:
    with pytest.raises(ChaosError) as raised:
        parse_failures(annotations, T0)
    assert reported in str(raised.value)


def test_now_is_replaced_by_the_time() -> None:
    found = without_now({FAILS: "now,for=1m", FLAPS: "every=5s", "other": "now"}, T0)
    assert found == {FAILS: f"{rfc3339(T0)},for=1m"}


@given(
    every=st.integers(2, 600), part=st.integers(1, 599), start=st.integers(0, 600), length=st.integers(0, 6000),
    at=st.integers(-100, 8000),
)  # fmt: skip
def test_nothing_changes_between_now_and_the_next_change(
    every: int, part: int, start: int, length: int, at: int
) -> None:
    flapping = Flapping(every, min(part, every - 1), start, start + length)
    due = flapping.next_change(at)
    assert due > at
    until = int(min(due, at + 2 * every)) if due != math.inf else at + 2 * every
    assert len({flapping.out(moment) for moment in range(at, until)}) <= 1


def test_no_annotations_are_quiet() -> None:
    assert parse_failures({"some": "other"}, T0) is NO_FAILURES
