"""Cycles until groups run or have completed, in a cluster whose pods start at once and end after their run time.

A pod that is evicted is replaced by a pending one if a controller owns it, as controllers do. Time passes by one period
per cycle, and jumps to the next end of a pod when cycles have nothing to decide. When nothing ends any more either, the
groups that are left never get there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from enum import StrEnum

import msgspec

from volcanoio.engine.scheduling.cluster.jobs import JobInfo
from volcanoio.engine.scheduling.offline.offline import Offline
from volcanoio.engine.scheduling.status.explanation import UNSETTLED
from volcanoio.framework.scheduling.views import TaskStatus
from volcanoio.framework.scheduling_effects import BindBatch, Evict
from volcanoio.model import kinds
from volcanoio.model.core import Pod, PodStatus
from volcanoio.model.scheduling import PodGroupPhase
from volcanoio.model.times import epoch_or_none, rfc3339

QUIET_CYCLES = 8
"""Cycles without a decision after which only the end of a pod can change anything: some reports take five periods."""
MAX_CYCLES = 1000
RunTime = Callable[[Pod], float | None]
"""Returns for how many seconds a pod runs from its start, None for a pod that does not end."""


class Goal(StrEnum):
    """What groups are to reach."""

    RUNNING = "running"
    """Their minimum runs."""
    COMPLETED = "completed"
    """All their pods have ended."""


class GroupProgress(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How far a group got: it reached the goal `after` so many seconds and `cycles`; None if it did not.

    Then `code` and `message` are why it waits.
    """

    target: str
    after: float | None = None
    cycles: int = 0
    code: str = ""
    message: str = ""


class Progress(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The result: `is_stable` is whether nothing would change any more, rather than that the cycles were used up."""

    goal: Goal
    cycles: int
    is_stable: bool
    groups: tuple[GroupProgress, ...]

    @property
    def is_reached(self) -> bool:
        """Whether all groups reached the goal."""
        return all(group.after is not None for group in self.groups)


def run_until(
    offline: Offline, goal: Goal, groups: Collection[str], run_time: RunTime, *, cycles: int = MAX_CYCLES
) -> Progress:
    """Run cycles until all groups (by key) have reached the goal, nothing changes any more, or they are used up."""
    kubelets, begin, quiet, is_stable = _Kubelets(offline, run_time), offline.now, 0, False
    reached: dict[str, GroupProgress] = {}
    while True:
        kubelets.work()
        for key in groups:
            if key not in reached and _has_reached(offline.state.ledger.jobs.get(key), goal):
                reached[key] = GroupProgress(target=key, after=offline.now - begin, cycles=offline.cycles)
        if (offline.cycles and len(reached) == len(groups)) or offline.cycles >= cycles:
            break
        offline.run(1)
        quiet = 0 if kubelets.is_busy() else quiet + 1
        if quiet >= QUIET_CYCLES:
            if not kubelets.skip_to_end():
                is_stable = True
                break
            quiet = 0
    left = [key for key in groups if key not in reached]
    count, found = offline.cycles, offline.diagnose() if left else {}
    for key in left:
        why = found.get(key)
        reached[key] = GroupProgress(
            target=key, code="" if why is None else why.code, message="" if why is None else why.message
        )
    return Progress(goal=goal, cycles=count, is_stable=is_stable, groups=tuple(reached[key] for key in groups))


def waiting_groups(offline: Offline) -> list[str]:
    """Return the keys of the groups that are pending or have pending pods, in order."""
    jobs = offline.state.ledger.jobs.values()
    return sorted(job.key for job in jobs if job.has_group and (job.pending or job.phase in UNSETTLED))


def _has_reached(job: JobInfo | None, goal: Goal) -> bool:
    if job is None or not job.members:
        return False
    if goal is Goal.COMPLETED:
        return job.phase == PodGroupPhase.COMPLETED or job.counts[TaskStatus.SUCCEEDED] == len(job.members)
    running = job.counts[TaskStatus.RUNNING] + job.counts[TaskStatus.SUCCEEDED]
    return running >= max(job.min_available, 1)


class _Kubelets:
    """What nodes and controllers do with pods between two cycles."""

    def __init__(self, offline: Offline, run_time: RunTime) -> None:
        self._offline = offline
        self._run_time = run_time
        self._ends: dict[str, float] = {}
        """When running pods end, by key; only those that do."""
        self._known: set[str] = set()
        """Uids of running pods whose end was looked up."""
        self._replaced = 0
        self._phases: dict[str, str] = {}

    def work(self) -> None:
        """Start bound pods, end those whose time is over, and remove and replace terminating ones."""
        offline, now = self._offline, self._offline.now
        for obj in list(offline.objects.values()):
            if not isinstance(obj, Pod):
                continue
            key = obj.metadata.key
            if obj.metadata.deletion_timestamp:
                self._remove(obj)
            elif obj.spec.node_name and obj.status.phase in ("", "Pending"):
                started = msgspec.structs.replace(obj.status, phase="Running", start_time=rfc3339(now))
                offline.put(msgspec.structs.replace(obj, status=started))
                self._begin(obj, now)
            elif obj.status.phase == "Running":
                if obj.metadata.uid not in self._known:
                    self._begin(obj, epoch_or_none(obj.status.start_time) or now)
                if now >= self._ends.get(key, now + 1):
                    ended = msgspec.structs.replace(obj.status, phase="Succeeded")
                    offline.put(msgspec.structs.replace(obj, status=ended))
                    del self._ends[key]

    def _begin(self, pod: Pod, since: float) -> None:
        self._known.add(pod.metadata.uid)
        if (seconds := self._run_time(pod)) is not None:
            self._ends[pod.metadata.key] = since + seconds

    def _remove(self, pod: Pod) -> None:
        """Remove a pod that has terminated; its controller, if it has one, creates the next one."""
        offline, meta = self._offline, pod.metadata
        self._ends.pop(meta.key, None)
        offline.remove(kinds.POD, meta.key)
        if pod.status.phase in ("Succeeded", "Failed") or not any(owner.controller for owner in meta.owner_references):
            return
        self._replaced += 1
        fresh = msgspec.structs.replace(meta, uid=f"{meta.uid}-{self._replaced}", deletion_timestamp=None)
        spec = msgspec.structs.replace(pod.spec, node_name="")
        offline.put(msgspec.structs.replace(pod, metadata=fresh, spec=spec, status=PodStatus(phase="Pending")))

    def is_busy(self) -> bool:
        """Return whether the last cycle decided anything about pods or admission."""
        before, jobs = self._phases, self._offline.state.ledger.jobs
        self._phases = {key: job.phase for key, job in jobs.items()}
        return self._phases != before or any(isinstance(each, BindBatch | Evict) for each in self._offline.last)

    def skip_to_end(self) -> bool:
        """Set the time to the next end of a pod; return whether there is one."""
        if not self._ends:
            return False
        self._offline.now = max(self._offline.now, min(self._ends.values()))
        return True
