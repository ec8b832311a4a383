"""When cycles open: at once after idleness, debounced behind a cycle, never later than the period."""

from __future__ import annotations

import pytest

from volcanoio.runtime.scheduler.cycle_timing import CycleTimer


def closed_at(now: float, *, debounce: float = 0.005, **ending: bool) -> CycleTimer:
    """A pace whose only cycle opened at 99 and closed at `now`."""
    pace = CycleTimer(debounce=debounce, period=1.0)
    pace.open(99.0)
    pace.close(now, **ending)
    return pace


def test_the_first_cycle_is_due_at_once() -> None:
    assert CycleTimer(debounce=0.005, period=1.0).wait(50.0) == 0


def test_an_event_after_idleness_opens_at_once() -> None:
    pace = closed_at(99.1)
    assert pace.wait(99.5) == pytest.approx(0.5)
    assert not pace.wanted
    pace.want()
    assert pace.wait(99.5) == 0
    assert pace.wanted


@pytest.mark.parametrize(("debounce", "left"), [(0.0, 0.0), (0.005, 0.004), (0.05, 0.049)])
def test_an_event_behind_a_cycle_waits_for_the_debounce(debounce: float, left: float) -> None:
    pace = closed_at(99.2, debounce=debounce)
    pace.want()
    assert pace.wait(99.201) == pytest.approx(left)


def test_no_gap_is_longer_than_the_period() -> None:
    pace = closed_at(99.999, debounce=0.05)
    pace.want()
    assert pace.wait(99.999) == pytest.approx(0.001)
    assert closed_at(99.1).wait(100.5) == 0


def test_a_cut_cycle_is_followed_by_the_next() -> None:
    pace = closed_at(99.2, debounce=0.05, cut=True)
    assert pace.wait(99.2) == 0
    pace.open(99.2)
    pace.close(99.3)
    assert pace.wait(99.3) == pytest.approx(0.9)


def test_a_fault_waits_for_the_period_whatever_happens() -> None:
    pace = closed_at(99.2, fault=True)
    pace.want()
    assert pace.wait(99.3) == pytest.approx(0.7)


@pytest.mark.parametrize(("debounce", "period"), [(-0.1, 1.0), (0.0, 0.0)])
def test_impossible_times_are_refused(debounce: float, period: float) -> None:
    with pytest.raises(ValueError, match="seconds"):
        CycleTimer(debounce=debounce, period=period)
