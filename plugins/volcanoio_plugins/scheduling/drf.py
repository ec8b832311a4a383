"""Plugin drf: jobs with the smaller dominant share first (Volcano: pkg/scheduler/plugins/drf).

With `enableHierarchy` queues are ordered too, by their shares in the tree of `sharetree`, and give way to each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from volcanoio.framework.arguments import convert
from volcanoio.framework.probe import Probe
from volcanoio.framework.scheduling.points import Checkpoints, SortKey
from volcanoio.framework.scheduling.sessionview import SessionView
from volcanoio.framework.scheduling.views import Amounts, Job, QueueView, Shape, Task, TaskStatus
from volcanoio.model.resources import add
from volcanoio_plugins.scheduling.queues.sharetree import ShareTree, held_by
from volcanoio_plugins.scheduling.queues.sums import AT_ONCE

SHARE_TOLERANCE = 1e-6
"""Shares that differ by less are equal."""
TOLD = 256
"""Figures told in one step."""


class DrfArguments(msgspec.Struct, frozen=True):
    """The plugin takes none."""


class Drf:
    """A job's dominant share is the largest part it holds of any resource of the cluster."""

    name = "drf"
    keeps_job_keys = True
    keeps_verdicts = True

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        convert(arguments, DrfArguments, self.name)
        self._total: Amounts = {}
        self._jobs: Mapping[str, Job] = {}
        self._hierarchical = False
        self._tree: ShareTree | None = None
        self._moved: dict[str, Job] = {}
        """Jobs that changed since figures were told, by key."""

    def use_hierarchy(self, enabled: bool) -> None:
        """Whether queues share by their hierarchy."""
        self._hierarchical = enabled

    def open(self, session: SessionView) -> None:
        """Keep the cluster's total and the jobs at hand; sum up the tree of queues."""
        self._total = {name: amount for name, amount in session.total.items() if amount > 0}
        self._jobs = session.jobs
        self._moved.update((job.key, job) for job in session.changes(self, AT_ONCE))
        self._tree = ShareTree(session, self.name) if self._hierarchical else None

    def queue_key(self, queue: QueueView) -> SortKey:
        """At the first step from the root that differs: what can still grow evenly first, then the smaller share."""
        return self._tree.standing(queue.name) if self._tree is not None else ()

    def queue_epoch(self) -> int | None:
        """Every placement may move every queue of the tree."""
        return None if self._tree is None else self._tree.version

    def job_key(self, job: Job) -> float:
        """The smaller share first."""
        if not job.ready_count and not job.count(TaskStatus.PIPELINED):
            return 0.0
        return self._share(held_by(job))

    def preemptable(self, preemptor: Task, candidates: Sequence[Task]) -> Sequence[Task]:
        """Tasks whose job would still hold no less than the preemptor's with its new task."""
        wanted = dict(held_by(self._jobs[preemptor.job]))
        add(wanted, preemptor.shape.requests)
        own = self._share(wanted)
        left: dict[str, dict[str, int]] = {}
        victims = []
        for task in candidates:
            if task.job not in self._jobs:
                continue
            held = left.setdefault(task.job, dict(held_by(self._jobs[task.job])))
            add(held, task.shape.requests, -1)
            other = self._share(held)
            if own < other or abs(own - other) <= SHARE_TOLERANCE:
                victims.append(task)
        return victims

    def reclaimable(self, reclaimer: Task, candidates: Sequence[Task]) -> Sequence[Task] | None:
        """In a tree, tasks of queues that still come after the reclaimer's, when that has its task and they have lost
        theirs; else it abstains.
        """
        tree, job = self._tree, self._jobs.get(reclaimer.job)
        if tree is None or job is None:
            return None
        victims = []
        with tree.supposing() as supposition:
            supposition.change(job, reclaimer.shape.requests, 1)
            for task in candidates:
                other = self._jobs.get(task.job)
                if other is None:
                    continue
                supposition.change(other, task.shape.requests, -1)
                if tree.shares(job.queue) < tree.shares(other.queue):
                    victims.append(task)
                else:
                    supposition.take_back(1)
        return victims

    def allocated(self, job: Job, shape: Shape, count: int) -> None:
        """Count what was placed or reserved."""
        if self._tree is not None:
            self._tree.tell(job, shape.requests, count)

    def released(self, job: Job, shape: Shape, count: int) -> None:
        """Count what was taken back."""
        if self._tree is not None:
            self._tree.tell(job, shape.requests, -count)

    def report(self, probe: Probe) -> Checkpoints:
        """Tell the shares of jobs that changed."""
        moved, self._moved = self._moved, {}
        for number, (key, job) in enumerate(moved.items(), 1):
            labels = {"job_ns": job.namespace, "job_id": key.partition("/")[2]}
            if key in self._jobs:
                probe.gauge("volcano_job_share", self._share(held_by(job)), **labels)
            else:
                probe.forget("volcano_job_share", **labels)
            if not number % TOLD:
                yield

    def _share(self, held: Amounts) -> float:
        largest = 0.0
        for name, total in self._total.items():  # asked for every job of a backlog: a generator would cost twice
            part = held.get(name, 0) / total
            largest = max(largest, part)
        return largest
