"""Actions by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tests.oracle.actions.allocate import allocate
from tests.oracle.actions.backfill import backfill
from tests.oracle.actions.enqueue import enqueue
from tests.oracle.actions.gangs import gangpreempt, gangreclaim
from tests.oracle.actions.preempt import preempt
from tests.oracle.actions.reclaim import reclaim
from tests.oracle.actions.shuffle import shuffle
from tests.oracle.session import Session

ACTIONS: Mapping[str, Callable[[Session], None]] = {
    "enqueue": enqueue,
    "allocate": allocate,
    "backfill": backfill,
    "preempt": preempt,
    "reclaim": reclaim,
    "shuffle": shuffle,
    "gangpreempt": gangpreempt,
    "gangreclaim": gangreclaim,
}
