"""Pods without gang and queue in the order of their turns, kept across cycles. Order: kube-scheduler's PrioritySort."""

from __future__ import annotations

from collections.abc import Iterator

from volcanoio.engine.scheduling.jobs import JobInfo
from volcanoio.engine.scheduling.ledger import Ledger
from volcanoio.engine.scheduling.queuebacklog import QueueBacklog

AT_ONCE = 64
"""Jobs that are looked at in one step."""


class SingleTurns:
    """Opening a cycle costs what changed since the last one; nothing is kept before there is such a pod."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._backlog = QueueBacklog()

    def begin(self) -> Iterator[None]:
        """Take in what changed, a few at a time; then all that wait can have a turn."""
        waiting, backlog = self._ledger.singles, self._backlog
        while changed := self._ledger.changes.since(self, waiting, AT_ONCE):
            for job in changed:
                if job.single:
                    if waiting.get(job.key) is job:
                        backlog.put(_order(job), job)
                    else:
                        job.place = None
                    backlog.forget(job)
            yield
        yield from backlog.rewind()

    def __iter__(self) -> Iterator[JobInfo]:
        """Those that had no turn since `begin`."""
        waiting = self._ledger.singles
        while (job := self._backlog.pop()) is not None:
            self._backlog.forget(job)
            if waiting.get(job.key) is job:
                yield job


def _order(job: JobInfo) -> tuple[int, str, str]:
    task = next(iter(job.waiting.values()))
    return -task.priority, task.created, job.key
