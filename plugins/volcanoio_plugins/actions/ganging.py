"""What gangpreempt and gangreclaim have in common: whole gangs make room for whole gangs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import msgspec

from volcanoio.framework.arguments import convert
from volcanoio.framework.scheduling.points import Purpose
from volcanoio.framework.scheduling.session import Session
from volcanoio.framework.scheduling.views import Job
from volcanoio_plugins.actions.gangtaking import GangTaking
from volcanoio_plugins.actions.offers import Offers, domains
from volcanoio_plugins.actions.startups import demanded
from volcanoio_plugins.actions.taking import in_queues, takers

DOMAINS = 8
"""Volcano's default, also for numbers below 1."""


class GangArguments(msgspec.Struct, frozen=True):
    """`maxDomains`: in how many domains of nodes to look at most. `allowWholeBundle`: whether gangs may be ended."""

    domains: int = msgspec.field(default=DOMAINS, name="maxDomains")
    whole: bool = msgspec.field(default=True, name="allowWholeBundle")


class GangEviction:
    """Queue by queue, each starving job once, in the order of queues and jobs."""

    name: ClassVar[str]
    purpose: ClassVar[Purpose]

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        self._options = convert(arguments, GangArguments, f"action {self.name}")

    def run(self, session: Session) -> Iterator[None]:
        """Evict for starving jobs."""
        jobs = yield from in_queues(session, takers(session))
        if not jobs:
            return
        yield from session.victims.prepare()
        offers = Offers(session, self.purpose, whole=self._options.whole)
        queues = session.queue_turns(jobs)
        while queues:
            queue = queues.pop()
            if self.purpose is Purpose.RECLAIM and session.overused(queue):
                continue
            while jobs[queue.name]:
                if session.exhausted():
                    return
                yield from self._take(session, jobs[queue.name].pop(), offers)

    def _take(self, session: Session, job: Job, offers: Offers) -> Iterator[None]:
        """Make room for what a job lacks, in the first domain in which that can be done."""
        runs, victims = demanded(session, job), session.victims
        tasks = [task for run in runs for task in run.tasks]
        if not tasks or not all(task.may_evict for task in tasks) or victims.failed(self.purpose, job, runs):
            return
        if self.purpose is Purpose.RECLAIM and not victims.preemptive(job, tasks):
            return
        taking = GangTaking(session, job, runs, self.purpose, offers, self.name)
        most = self._options.domains if self._options.domains > 0 else DOMAINS
        for domain in domains(session, job, most):
            if (yield from taking.within(domain)):
                return
        victims.fail(self.purpose, job, runs)
