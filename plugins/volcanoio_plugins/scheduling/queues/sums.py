"""Sums over jobs that are kept from session to session: what did not change is not looked at again."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Generic, TypeVar

from volcanoio.framework.scheduling.sessionview import SessionView
from volcanoio.framework.scheduling.views import Amounts, Job
from volcanoio.model.scheduling import PodGroupPhase

AT_ONCE = 512
"""Jobs that are looked at in one go, and in one session at most where nothing hangs on it but figures."""
Key = TypeVar("Key", bound=Hashable)


class Sums(Generic[Key]):
    """The sum of each of several parts of jobs, by a key of the job. A part follows from the job alone.

    They hold in sessions in which a job waits for admission; in others they may still lack something.
    """

    def __init__(self, by: Callable[[Job], Key], *parts: Callable[[Job], Amounts]) -> None:
        self._by = by
        self._parts = parts
        self._counted: dict[str, tuple[Key, list[Amounts]]] = {}
        """What was counted of each job, by its key."""
        self._totals: dict[Key, list[dict[str, int]]] = {}
        self._looked = 0
        """How many jobs were looked at since those that are gone were last looked for."""

    def follow(self, session: SessionView) -> Iterator[None]:
        """Take over what changed since this was last done; all of it where a job waits for admission, else some."""
        asked = session.any_in(PodGroupPhase.PENDING)
        jobs = session.jobs
        while True:
            changed = session.changes(self, AT_ONCE)
            for job in changed:
                self._look(jobs, job)
            self._looked += len(changed)
            if self._looked >= max(len(session.jobs), AT_ONCE) and len(changed) < AT_ONCE:
                self._forget_gone(session)
            if not asked or len(changed) < AT_ONCE:
                return
            yield

    def _look(self, jobs: Mapping[str, Job], job: Job) -> None:
        key = job.key
        counted = self._counted.get(key)
        amounts = [part(job) for part in self._parts] if key in jobs else []
        if any(amounts):
            now = self._by(job), amounts
            if now != counted:
                if counted is not None:
                    self._add(*counted, -1)
                self._counted[key] = now
                self._add(*now, 1)
        elif counted is not None:
            del self._counted[key]
            self._add(*counted, -1)

    def _forget_gone(self, session: SessionView) -> None:
        """Who is told of everything, because too much changed since it asked, is not told what is there no more."""
        self._looked = 0
        jobs = session.jobs
        for gone in [key for key in self._counted if key not in jobs]:
            self._add(*self._counted.pop(gone), -1)

    def of(self, key: Key) -> list[dict[str, int]]:
        """The sums of the parts; never write to them."""
        return self._totals.get(key) or [{} for _ in self._parts]

    def _add(self, key: Key, amounts: list[Amounts], times: int) -> None:
        totals = self._totals.get(key)
        if totals is None:
            totals = self._totals[key] = [{} for _ in self._parts]
        emptied = False
        for total, part in zip(totals, amounts):  # noqa: B905 - done for every job; there is one of each
            for name, amount in part.items():
                value = total.get(name, 0) + amount * times
                if value:
                    total[name] = value
                else:
                    total.pop(name, None)
                    emptied = True
        if emptied and not any(totals):
            del self._totals[key]
