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
OLDEST = 2
"""The generation of the oldest objects."""
OLD_OBJECTS = 20_000
"""Number of old objects above which they are frozen instead of collected.

They have lived long, and a collection of all of them would block the event loop for longer than anything else. A cycle
among them that becomes garbage later is not freed. Below the number they are collected, so that rare work leaves no
garbage.
"""


def tune_garbage_collector() -> None:
    """Set up the collector for the whole process; a second call has no further effect."""
    gc.set_threshold(NEW_OBJECTS, YOUNG_RUNS, MIDDLE_RUNS)
    if _freeze_old_objects not in gc.callbacks:
        gc.callbacks.append(_freeze_old_objects)


def _freeze_old_objects(phase: str, about: Mapping[str, int]) -> None:
    """Freeze the old objects before the collector visits them by itself, to keep that short."""
    by_itself = phase == "start" and about["generation"] == OLDEST and gc.get_count()[OLDEST] > MIDDLE_RUNS
    if by_itself and len(gc.get_objects(OLDEST)) > OLD_OBJECTS:
        gc.freeze()
