"""Settings of Python's garbage collector for a process that holds a whole cluster and must react within milliseconds.

With the defaults, a full collection follows every 70,000 new objects, although almost no object is in a cycle: a
seventh of the CPU time of a thousand gangs. Reference counting frees nearly everything at once.
"""

from __future__ import annotations

import gc
from collections.abc import Mapping

NEW_OBJECTS, YOUNG_RUNS, MIDDLE_RUNS = 8_000, 2, 10
"""Thresholds: new objects per young collection, young ones per middle one, and middle ones per old one.

A collection takes up to half a microsecond per object and blocks the event loop, so each one covers few objects.
"""
YOUNG, MIDDLE, OLDEST = 0, 1, 2
"""The generations."""
OLD_OBJECTS = 20_000
"""Number of old objects above which they are frozen instead of collected.

They have lived long, and a collection of all of them would block the event loop for longer than anything else. A cycle
among them that becomes garbage later is not freed. Below the number they are collected, so that rare work leaves no
garbage.
"""
FREEZE_GROWTH_DIVISOR, FREEZE_MIN_GROWTH = 10, 1000
"""Growth in number of pods after which all objects are frozen again: a tenth, and at least so many."""
EVENTS_PER_COLLECTION = 512
"""Events after which a process that keeps their objects has the young ones collected: some 4,000."""


def tune_garbage_collector() -> None:
    """Set up the collector for the whole process; a second call has no further effect."""
    gc.set_threshold(NEW_OBJECTS, YOUNG_RUNS, MIDDLE_RUNS)
    if _freeze_old_objects not in gc.callbacks:
        gc.callbacks.append(_freeze_old_objects)


class CollectionPace:
    """Runs collections by the number of events, while objects are replaced as fast as they are created.

    Python counts new objects less freed ones, also when those are old: where the number of objects stays the same, it
    runs no collection until the young generation holds most of them, and then blocks for 20 ms and more.
    """

    def __init__(self) -> None:
        self._events = self._runs = self._next_freeze_pods = 0

    def folded(self, events: int) -> None:
        """Count events whose objects are kept, and run a collection when it is due."""
        self._events += events
        if self._events >= EVENTS_PER_COLLECTION:
            self._events = 0
            self._runs += 1
            gc.collect(MIDDLE if self._runs % YOUNG_RUNS == 0 else YOUNG)
            if self._runs % (YOUNG_RUNS * MIDDLE_RUNS) == 0 and _has_many_old_objects():
                gc.freeze()  # all objects, so after the young garbage is gone

    def freeze_when_grown(self, pods: int) -> None:
        """Freeze all objects if there are many more pods: objects that exist then live long."""
        if pods >= self._next_freeze_pods:
            gc.freeze()
            self._next_freeze_pods = pods + pods // FREEZE_GROWTH_DIVISOR + FREEZE_MIN_GROWTH


def _freeze_old_objects(phase: str, about: Mapping[str, int]) -> None:
    """Freeze the old objects before the collector visits them by itself, to keep that short."""
    by_itself = phase == "start" and about["generation"] == OLDEST and gc.get_count()[OLDEST] > MIDDLE_RUNS
    if by_itself and _has_many_old_objects():
        gc.freeze()


def _has_many_old_objects() -> bool:
    return len(gc.get_objects(OLDEST)) > OLD_OBJECTS
