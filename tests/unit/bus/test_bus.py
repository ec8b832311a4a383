"""Events have one total order, regardless of their publisher."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from volcanoio.bus.event_bus import Batch, EventBus, Subscriber
from volcanoio.framework.events import Event, Synced, TimerFired


def synced(name: str, *, at: float = 0.0, cause: int = 0) -> Synced:
    return Synced(resource=name, at=at, cause=cause)


def names(batch: Batch | list[Event]) -> list[str]:
    return [event.resource for event in batch if isinstance(event, Synced)]


def test_stamps_seq_and_time_but_keeps_a_time_and_cause_an_event_brings() -> None:
    bus = EventBus(lambda: 50.0)
    first, second = bus.publish([synced("a"), synced("b", at=7.0, cause=9)])
    assert (first.seq, first.at, first.cause) == (1, 50.0, 0)
    assert (second.seq, second.at, second.cause) == (2, 7.0, 9)
    assert bus.seq == 2


def test_subscribers_see_batches_in_the_order_they_subscribed() -> None:
    bus, seen = EventBus(lambda: 1.0), list[str]()
    bus.subscribe(lambda batch: seen.append("one:" + ",".join(names(batch))))
    stop = bus.subscribe(lambda batch: seen.append("two:" + ",".join(names(batch))))
    bus.publish([synced("a"), synced("b")])
    stop()
    bus.publish([synced("c")])
    bus.publish([])
    assert seen == ["one:a,b", "two:a,b", "one:c"]


def test_events_published_in_a_subscriber_are_queued_with_the_handled_event_as_cause() -> None:
    bus, seen = EventBus(lambda: 1.0), list[tuple[str, int]]()

    def echo(batch: Batch) -> None:
        for event in batch:
            assert isinstance(event, Synced)
            if event.resource == "a":
                bus.publish([synced("from-a")])
                with bus.caused_by(77):
                    bus.publish([synced("named")])

    bus.subscribe(echo)
    bus.subscribe(lambda batch: seen.extend((event.resource, event.cause) for event in batch))  # type: ignore[attr-defined]  # only Synced here
    bus.publish([synced("a")])
    bus.publish([synced("b")])
    assert seen == [("a", 0), ("from-a", 1), ("named", 77), ("b", 0)]


def test_a_fault_stops_no_subscriber_and_is_raised_at_the_end() -> None:
    bus, seen = EventBus(lambda: 1.0), list[str]()

    def broken(batch: Batch) -> None:
        raise ValueError(batch)

    bus.subscribe(broken)
    bus.subscribe(lambda batch: seen.extend(names(batch)))
    with pytest.raises(ExceptionGroup) as caught:
        bus.publish([synced("a")])
    assert caught.group_contains(ValueError)
    assert seen == ["a"]
    assert bus.publish([]) == ()


def test_a_fault_hook_gets_the_exception_instead() -> None:
    faults: list[tuple[Subscriber, Batch, Exception]] = []
    bus = EventBus(lambda: 1.0, on_fault=lambda *fault: faults.append(fault))

    def broken(batch: Batch) -> None:
        raise ValueError

    bus.subscribe(broken)
    bus.publish([synced("a")])
    assert [(subscriber, names(batch)) for subscriber, batch, _ in faults] == [(broken, ["a"])]


@given(st.lists(st.lists(st.integers(0, 3), max_size=4), max_size=12))
def test_every_subscriber_sees_every_event_once_and_in_order(script: list[list[int]]) -> None:
    """Whatever is republished from where, all subscribers see seq 1, 2, 3, … without a gap."""
    bus = EventBus(lambda: 1.0)
    logs: list[list[int]] = [[], [], []]

    def subscriber(log: list[int]) -> Subscriber:
        def take(batch: Batch) -> None:
            log.extend(event.seq for event in batch)
            for event in batch:
                if isinstance(event, TimerFired) and int(event.name) > 0 and log is logs[0]:
                    bus.publish([TimerFired(controller="c", key="k", name=str(int(event.name) - 1))])

        return take

    for log in logs:
        bus.subscribe(subscriber(log))
    for batch in script:
        bus.publish(TimerFired(controller="c", key="k", name=str(depth)) for depth in batch)
    assert logs[0] == logs[1] == logs[2] == list(range(1, bus.seq + 1))


async def test_an_inbox_is_drained_in_batches() -> None:
    bus = EventBus(lambda: 1.0)
    inbox = bus.subscribe_async()
    waiting = asyncio.ensure_future(inbox.batch())
    await asyncio.sleep(0)
    bus.publish([synced("a"), synced("b")])
    bus.publish([synced("c")])
    assert names(await waiting) == ["a", "b", "c"]
    assert inbox.drain() == []
    bus.publish([synced("d")])
    inbox.close()
    bus.publish([synced("after")])
    assert names(await inbox.batch()) == ["d"]
    assert await inbox.batch() == []
