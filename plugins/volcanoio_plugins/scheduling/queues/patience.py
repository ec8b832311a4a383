"""Who waits for room that others, who have more already, take in small pieces; and how long they hold back for it.

A job that needs much at once never finds it while jobs that need little take whatever becomes free. Where the namespace
that has least of a queue has waited longer than its patience, those that have more get nothing new until it has had its
turn: as their pods end, room gathers. As nobody knows whether a job can be placed at all (its own rules may forbid
every node), they hold back for no longer than that patience at a time, and after each time in vain go on four times as
long as before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

import numpy as np

from volcanoio.framework.scheduling.sessionview import SessionView
from volcanoio.framework.scheduling.views import Job, Nodes, TaskStatus
from volcanoio.model.scheduling import PodGroupPhase

_GROWTH = 4
_LONGEST = 6 * 3600.0
"""Seconds that others go on at most before they hold back again."""


class Stage(StrEnum):
    """What a job waits for."""

    ADMISSION = PodGroupPhase.PENDING
    NODES = PodGroupPhase.INQUEUE


Share: TypeAlias = Callable[[str, str], float]
"""The weighted share of a namespace in a queue: queue, namespace."""


@dataclass(slots=True)
class Wait:
    """A namespace that has waited at every look: what it had at least, whether others hold back, and until when."""

    share: float
    until: float
    pause: float
    held_back: bool = False


@dataclass(frozen=True, slots=True)
class Turn:
    """Whose turn it is, and what it has."""

    namespace: str
    share: float


class Patience:
    """Keeps, from session to session, who waits since when. `seconds` 0 means that nobody ever holds back."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._waits: dict[tuple[str, Stage, str], Wait] = {}
        self._turns: dict[tuple[str, Stage], Turn] = {}

    def look(self, session: SessionView, share: Share) -> None:
        """See who waits as a session opens."""
        self._turns = {}
        if not self._seconds:
            return
        waits, self._waits = self._waits, {}
        for (queue, stage), jobs in _waiting(session).items():
            namespaces = session.queues[queue].namespaces
            least, namespace = min((share(queue, name), name) for name in jobs)
            if not any(share(queue, name) > least for name in namespaces):
                continue
            wait = waits.get((queue, stage, namespace))
            if wait is None or least > wait.share:
                wait = Wait(least, session.now + self._seconds, self._seconds)
            wait.share = least
            self._waits[queue, stage, namespace] = wait
            if session.now >= wait.until:
                wait.held_back = not wait.held_back
                wait.until = session.now + (self._seconds if wait.held_back else wait.pause)
                if not wait.held_back:
                    wait.pause = min(wait.pause * _GROWTH, _LONGEST)
            if wait.held_back and _fits_somewhere(jobs[namespace], session.nodes):
                self._turns[queue, stage] = Turn(namespace, least)

    def turn(self, job: Job, stage: Stage, share: Share) -> Turn | None:
        """For whom a job's namespace holds back, if it does."""
        turn = self._turns.get((job.queue, stage)) if self._turns else None
        if turn is None or job.namespace == turn.namespace or share(job.queue, job.namespace) <= turn.share:
            return None
        return turn


def _waiting(session: SessionView) -> Mapping[tuple[str, Stage], dict[str, Job]]:
    """A job of each namespace that waits, by queue and by what for."""
    waiting: dict[tuple[str, Stage], dict[str, Job]] = {}
    for stage in Stage:
        for job in session.jobs_in(stage):
            if stage is Stage.NODES and not job.count(TaskStatus.PENDING):
                continue
            waiting.setdefault((job.queue, stage), {}).setdefault(job.namespace, job)
    return waiting


def _fits_somewhere(job: Job, nodes: Nodes) -> bool:
    """Whether any node is large enough for the job's first pending task; true of one that has no pods yet."""
    task = next((task for task in job.tasks if task.status is TaskStatus.PENDING), None)
    if task is None:
        return True
    fits = np.ones(len(nodes), dtype=bool)
    for name, amount in task.shape.requests.items():
        fits &= nodes.allocatable(name) >= amount
    return bool(fits.any())
