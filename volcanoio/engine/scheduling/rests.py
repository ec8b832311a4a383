"""Jobs for which actions that evict found nothing: they are not asked for again before something changed.

Anything that could alter a decision counts as a change: an event, a commit, room that is no longer kept. Where answers
depend on the time, which no event tells of, jobs do not rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING
from zlib import crc32

from volcanoio.engine.scheduling.jobs import JobInfo
from volcanoio.framework.scheduling.session import Run

if TYPE_CHECKING:
    from volcanoio.engine.scheduling.session import CycleSession

REST = 60.0
"""Seconds after which a job is asked for again all the same; up to twice as many, by its key."""


class Rests:
    """Until when which job rests, action by action, while `news` is the same."""

    def __init__(self) -> None:
        self.news = 0
        """Counts what could alter a decision."""
        self._as_of = -1
        self._until: dict[tuple[str, str], float] = {}

    def add(self, action: str, job: str, until: float) -> None:
        """The job with that key rests, as far as an action goes, until then (epoch seconds)."""
        if self._as_of != self.news:
            self._until.clear()
            self._as_of = self.news
        self._until[action, job] = until

    def has(self, action: str, job: str, now: float) -> bool:
        """Whether the job with that key rests."""
        return self._as_of == self.news and self._until.get((action, job), now) > now


def rest(session: CycleSession, job: JobInfo, runs: Sequence[Run]) -> None:
    """Let a job rest for which the action at work found nothing, where it would find nothing again."""
    rules, placer = session.rules, session.state.placer
    if not rules.keeps_verdicts or rules.traits or any(task.retry_at > session.now for task in job.waiting.values()):
        return
    if all(placer.by_room_alone(run.shape) and placer.at_all_times(run.shape) for run in runs):
        until = session.now + REST * (1 + crc32(job.key.encode()) % 64 / 64)
        session.state.rests.add(session.action, job.key, until)
