"""Which jobs a session looks at as it closes: found and sorted in steps, as there may be 100,000 of them."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from heapq import merge
from itertools import islice
from math import inf
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from volcanoio.engine.scheduling.session import CycleSession

SOME, EFFORT = 2048, 1.0
"""How many keys are looked at and sorted in one step, and what that counts as: as asking plugins about all nodes."""
Source: TypeAlias = tuple[Iterable[Any], Callable[[list[Any]], set[str]]]
"""Something of each job, and the keys of those that are meant among some of these."""


def touched(session: CycleSession) -> list[Source]:
    """The jobs that changed since the last look or are due for another one; they may occur several times."""
    ledger, now, listed = session.state.ledger, session.now, session.state.ledger.listed
    dirty, put_off, revisit, backlog = ledger.dirty, ledger.put_off, session.state.revisit, ledger.backlog

    def there(keys: list[str]) -> set[str]:
        return {key for key in keys if key in listed}

    if not session.cut:
        due: Source = revisit.items(), lambda some: {key for key, at in some if at <= now and key in listed}
        return [due, (dirty, there), (put_off, there)]
    tried, unfinished = session.tried, session.unfinished

    def due_or_new(keys: list[str]) -> set[str]:
        return {
            key
            for key in keys
            if key in listed
            and (((key in dirty or key in put_off) and key not in unfinished) or revisit.get(key, inf) <= now)
        }

    # of waiting jobs that it neither came to nor moved, or is not done with, it knows nothing new
    found: list[Source] = [
        (tried, due_or_new),
        (dirty, lambda keys: {key for key in keys if key not in backlog and key in listed}),
    ]
    if now >= session.state.gone_through + session.period:
        at_rest: Source = (
            revisit.items(),
            lambda some: {key for key, at in some if at <= now and key not in backlog and key in listed},
        )
        found.append(at_rest)
    return found


def orphaned(session: CycleSession) -> list[Source]:
    """The jobs whose queue does not exist that are due for a look."""
    revisit, now = session.state.revisit, session.now
    return [(session.state.ledger.orphans, lambda keys: {key for key in keys if revisit.get(key, now) <= now})]


def in_order(session: CycleSession, sources: Iterable[Source]) -> Generator[None, None, Iterator[str]]:
    """The keys that are meant, sorted and each once."""
    parts: list[list[str]] = []
    seen: set[str] = set()
    for every, meant in sources:
        left = iter(every)
        while some := list(islice(left, SOME)):
            new = meant(some)
            if new:
                new -= seen
                seen |= new
                parts.append(sorted(new))
            if len(some) == SOME:
                session.state.placer.overall += EFFORT
                yield
    return merge(*parts) if len(parts) != 1 else iter(parts[0])
