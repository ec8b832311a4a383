"""Event names are unique, because a journal identifies event types by name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from volcanoio.framework import scheduling_events
from volcanoio.framework.events import Event


def below(cls: type[Event]) -> Iterator[type[Event]]:
    for each in cls.__subclasses__():
        yield each
        yield from below(each)


def test_every_event_has_a_unique_name() -> None:
    assert scheduling_events.CycleOpened in set(below(Event))
    names = Counter(each.__name__ for each in set(below(Event)) if each.__module__.startswith("volcanoio."))
    assert [name for name, count in names.items() if count > 1] == []
