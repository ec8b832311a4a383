"""Which timers a change wakes."""

from __future__ import annotations

import pytest

from volcanoio.framework.decisions import Wake
from volcanoio.framework.events import Change, Observed
from volcanoio.model.base import ObjectMeta
from volcanoio.model.core import Pod
from volcanoio.runtime.timers import Wakes


def changed(name: str = "p", namespace: str = "ns", change: Change = Change.CHANGED) -> Observed:
    return Observed(
        resource="pods", change=change, object=Pod(metadata=ObjectMeta(namespace=namespace, name=name, uid="u"))
    )


@pytest.mark.parametrize(
    ("wake", "event", "woken"),
    [
        (Wake("pods"), changed(), True),
        (Wake("nodes"), changed(), False),
        (Wake("pods", "ns"), changed(), True),
        (Wake("pods", "other"), changed(), False),
        (Wake("pods", "ns", "p"), changed(), True),
        (Wake("pods", "ns", "p"), changed("q"), False),
        (Wake("pods", "ns", "p"), changed(change=Change.GONE), True),
        (Wake("pods", "ns", "p", gone=True), changed(), False),
        (Wake("pods", "ns", "p", gone=True), changed(change=Change.GONE), True),
    ],
)
def test_timers_that_a_change_fires(wake: Wake, event: Observed, woken: bool) -> None:
    wakes = Wakes()
    assert not wakes
    wakes.wait("timer", (wake,))
    assert wakes
    assert wakes.woken(event) == (["timer"] if woken else [])


def test_a_timer_that_was_reset_or_fired_does_not_fire_for_its_old_time() -> None:
    wakes = Wakes()
    wakes.wait("a", (Wake("pods", "ns"), Wake("pods", "ns")))
    wakes.wait("b", (Wake("pods"),))
    wakes.wait("a", (Wake("nodes"),))
    assert wakes.woken(changed()) == ["b"]
    wakes.forget("b")
    wakes.forget("b")
    assert wakes.woken(changed()) == []
    assert wakes.all() == ["a"]
    wakes.wait("a", ())
    assert not wakes
