"""Patience of namespace-fairshare: which namespaces have waited so long that others wait for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from hypothesis import assume

from tests.oracle.cluster import Job, Node

LONGEST = 6 * 3600.0
STAGES = ("Pending", "Inqueue")
"""Waiting to be admitted, and for nodes."""


@dataclass
class Waiting:
    """A namespace that has had the smallest share in every session since it began to wait.

    At time `change`, others begin or cease to hold back for it.
    """

    share: float
    change: float
    pause: float
    held_back: bool = False


@dataclass
class Patience:
    """The waiting namespaces by queue, stage and namespace, kept between sessions."""

    waiting: dict[tuple[str, str, str], Waiting] = field(default_factory=dict)

    def open(
        self, jobs: list[Job], nodes: list[Node], share: Callable[[str, str], float], now: float, seconds: float
    ) -> dict[tuple[str, str], tuple[str, float]]:
        """Return the namespace for which others wait, and its share, by queue and stage."""
        before, self.waiting = self.waiting, {}
        turns: dict[tuple[str, str], tuple[str, float]] = {}
        if not seconds:
            return turns
        for queue in {job.queue for job in jobs}:
            for stage in STAGES:
                waiting = [job for job in jobs if job.queue == queue and _waits(job, stage)]
                if not waiting:
                    continue
                least, namespace = min((share(queue, job.namespace), job.namespace) for job in waiting)
                if all(share(queue, job.namespace) <= least for job in jobs if job.queue == queue):
                    continue
                known = before.get((queue, stage, namespace))
                if known is None or known.share < least:
                    known = Waiting(least, now + seconds, seconds)
                known.share = least
                self.waiting[queue, stage, namespace] = known
                if known.change <= now:
                    known.held_back = not known.held_back
                    known.change = now + (seconds if known.held_back else known.pause)
                    if not known.held_back:
                        known.pause = min(4 * known.pause, LONGEST)
                if known.held_back and _fits([job for job in waiting if job.namespace == namespace], nodes):
                    turns[queue, stage] = namespace, least
        return turns


def _waits(job: Job, stage: str) -> bool:
    return job.phase == stage and (stage == "Pending" or job.count("pending") > 0)


def _fits(jobs: list[Job], nodes: list[Node]) -> bool:
    """Return whether the waiting pods fit on an empty node; discard examples where only some of them do."""
    answers = {
        any(all(node.allocatable.get(name, 0) >= amount for name, amount in task.requests.items()) for node in nodes)
        for job in jobs
        for task in job.tasks
        if task.state == "pending"
    }
    assume(len(answers) < 2)
    return all(answers)
