"""`namespace_quota`: limits the usage of a namespace. Further jobs wait, by priority, then by age.

A gang is admitted whole or not at all: its PodGroup, which is created only then, represents its usage until its pods
exist. So the admission is stored, and a new process computes the same usage. Between a decision and the resulting
PodGroup or pods, the policy keeps a reservation in memory.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from volcanoio.framework.arguments import ArgumentError, convert
from volcanoio.framework.decisions import Abstain, Decision, Hold, Wake
from volcanoio.framework.jobpods import gang_members, priority_class_of
from volcanoio.framework.lifecycle import PolicyContext, PolicyEvent
from volcanoio.framework.overrides import stored_overrides, with_overrides
from volcanoio.framework.podusage import Usage, format_usage, pod_usage, spec_usage
from volcanoio.model import kinds, names, quantity
from volcanoio.model.batch import FINISHED_PHASES, Job, JobPhase
from volcanoio.model.core import Pod, PriorityClass
from volcanoio.model.quantity import QuantityError
from volcanoio.model.resources import add
from volcanoio.model.scheduling import PodGroup

WAITING_PREFIX = "waits for the quota"
"""Start of the message of a waiting job, by which a new process recognises it."""

INACTIVE_PHASES = (*FINISHED_PHASES, JobPhase.ABORTED, JobPhase.ABORTING, JobPhase.COMPLETING, JobPhase.TERMINATING)
"""Phases in which a job neither uses nor waits for quota."""


def may_start(job: Job) -> bool:
    """Return whether the job may still create pods."""
    return job.status.state.phase not in INACTIVE_PHASES and job.metadata.deletion_timestamp is None


class _JobOrder(NamedTuple):
    """Sort key of waiting jobs: highest priority first, then the oldest; within a second, the first request."""

    priority: int
    created: str
    asked: int
    name: str


class WaitingJobs:
    """The waiting jobs of a namespace, in order."""

    def __init__(self, context: PolicyContext, waiting: dict[str, str]) -> None:
        self._asked = {uid: number for number, uid in enumerate(waiting)}
        namespace = context.job.metadata.namespace
        self._classes = context.indexes[kinds.PRIORITY_CLASS.resource]
        jobs = context.indexes[kinds.JOB.resource].in_namespace(namespace)
        self._jobs: list[Job] = []
        for uid, name in list(waiting.items()):
            if isinstance(job := jobs.get(name), Job) and job.metadata.uid == uid and may_start(job):
                self._jobs.append(job)
            else:
                del waiting[uid]

    def ahead(self, job: Job) -> list[Job]:
        """Return the jobs before this one, in order."""
        own = self._place(job)
        before = [(place, other) for other in self._jobs if (place := self._place(other)) < own]
        return [other for _, other in sorted(before, key=lambda each: each[0])]

    def is_before(self, one: Job, other: Job) -> bool:
        """Return whether the first job is, or would be, before the other in the order."""
        return self._place(one) < self._place(other)

    def _place(self, job: Job) -> _JobOrder:
        named = [job.spec.priority_class_name, *(priority_class_of(task) for task in job.spec.tasks[:1])]
        found = self._classes.get(next(filter(None, named), ""))
        priority = found.value if isinstance(found, PriorityClass) else 0
        meta = job.metadata
        asked = self._asked.get(meta.uid, len(self._asked))
        return _JobOrder(-priority, meta.creation_timestamp or "", asked, meta.name)


def find_waiting(context: PolicyContext) -> dict[str, str]:
    """Return the jobs that an earlier process left waiting, by the message in their status."""
    jobs = context.indexes[kinds.JOB.resource].in_namespace(context.job.metadata.namespace).values()
    return {
        job.metadata.uid: job.metadata.name
        for job in jobs
        if isinstance(job, Job) and job.status.state.message.startswith(WAITING_PREFIX) and may_start(job)
    }


PODS, JOBS, GROUPS, CLASSES = (
    kinds.POD.resource, kinds.JOB.resource, kinds.POD_GROUP.resource, kinds.PRIORITY_CLASS.resource,
)  # fmt: skip
CACHE_LIMIT = 200_000
_ENDED = ("Succeeded", "Failed")


class _Reservation(NamedTuple):
    """The pods that a job's version was granted, by task."""

    version: int
    pods: dict[str, int]


class ReservationCache:
    """Reservations of jobs, and cached usages of pods and tasks."""

    def __init__(self) -> None:
        self._reservations: dict[str, _Reservation] = {}
        self._usages: dict[str, Usage] = {}
        self._of_tasks: dict[tuple[str, int, str, str], Usage] = {}

    def reserve(self, job: Job, pods: dict[str, int]) -> None:
        """Record the pods that this job's version was granted, by task."""
        self._reservations[job.metadata.uid] = _Reservation(job.status.version, pods)

    def release(self, job: Job) -> None:
        """Remove the job's reservation, so that others need not wait for its pods."""
        self._reservations.pop(job.metadata.uid, None)

    def reserved(self, job: Job) -> Mapping[str, int]:
        """Return the pods that this job's version was granted, by task."""
        found = self._reservations.get(job.metadata.uid)
        return found.pods if found is not None and found.version == job.status.version else {}

    def keep(self, jobs: Iterable[str]) -> None:
        """Remove reservations of deleted jobs, by uid, when there are many."""
        if len(self._reservations) > 2 * len(there := set(jobs)) + 100:
            self._reservations = {uid: found for uid, found in self._reservations.items() if uid in there}

    def of_task(self, job: Job, name: str) -> Usage:
        """Return the usage of one pod of a task, cached by spec and overrides."""
        text = job.status.controlled_resources.get(names.OVERRIDES, "")
        key = (job.metadata.uid, job.metadata.generation, text, name)
        if (known := self._of_tasks.get(key)) is None:
            if len(self._of_tasks) > CACHE_LIMIT:
                self._of_tasks.clear()
            found = with_overrides(job, stored_overrides(job)).spec.tasks
            known = next((pod_usage(task.template) for task in found if task.name == name), {})
            self._of_tasks[key] = known
        return known

    def of_pod(self, pod: Pod) -> Usage:
        """Return the usage of a pod, cached."""
        if (known := self._usages.get(pod.metadata.uid)) is None:
            if len(self._usages) > CACHE_LIMIT:
                self._usages.clear()
            known = self._usages[pod.metadata.uid] = spec_usage(pod.spec)
        return known


class NamespaceUsage:
    """The usage and reservations of a namespace during one decision.

    `free` is the room that is neither used nor reserved. `free_for_gang` is the same for a job that was not admitted
    yet. For an admitted job that lost pods, only reservations and the shares of jobs before it count: if room is too
    short for all of them, one gets it.
    """

    def __init__(
        self, memory: ReservationCache, context: PolicyContext, caps: Usage, waiting_jobs: WaitingJobs
    ) -> None:
        self._memory = memory
        self._caps = caps
        job, namespace, indexes = context.job, context.job.metadata.namespace, context.indexes
        self.priorities = {
            name: each.value
            for name, each in indexes[CLASSES].in_namespace("").items()
            if isinstance(each, PriorityClass)
        }
        self._groups = {
            str(group.metadata.controller.uid): group
            for group in indexes[GROUPS].in_namespace(namespace).values()
            if isinstance(group, PodGroup) and group.metadata.controller is not None
        }
        self._pods: dict[str, list[Pod]] = {}
        used: Usage = {}
        for pod in indexes[PODS].in_namespace(namespace).values():
            assert isinstance(pod, Pod)
            if (owner := pod.metadata.controller) is not None:
                self._pods.setdefault(owner.uid, []).append(pod)
            if pod.status.phase not in _ENDED:
                add(used, memory.of_pod(pod))
        jobs = [each for each in indexes[JOBS].in_namespace(namespace).values() if isinstance(each, Job)]
        memory.keep(each.metadata.uid for each in jobs)
        behind: Usage = {}
        started = self.started(job)
        for each in jobs:
            if each.metadata.uid == job.metadata.uid or each.status.state.phase in INACTIVE_PHASES:
                continue
            in_the_way = not started or waiting_jobs.is_before(each, job)
            for task, (reserved, share) in self._missing(each).items():
                usage = memory.of_task(each, task)
                add(used, usage, share if in_the_way else reserved)
                if share > reserved and not in_the_way:
                    add(behind, usage, share - reserved)
        self.free_for_gang: Usage = {name: cap - used.get(name, 0) for name, cap in caps.items()}
        self.free: Usage = {name: amount - behind.get(name, 0) for name, amount in self.free_for_gang.items()}

    def started(self, job: Job) -> bool:
        """Return whether the job's version was admitted: it has its PodGroup."""
        if (group := self._groups.get(job.metadata.uid)) is None or group.metadata.deletion_timestamp is not None:
            return False
        text = group.metadata.annotations.get(names.JOB_VERSION, "")
        return not text.isdigit() or int(text) >= job.status.version

    def existing(self, job: Job) -> dict[str, int]:
        """Return the number of pods of the job's version, by task."""
        found: dict[str, int] = {}
        for pod in self._own(job):
            task = pod.metadata.annotations.get(names.TASK_SPEC, "")
            found[task] = found.get(task, 0) + 1
        return found

    def wanted(self, job: Job, due: Mapping[str, tuple[int, ...]]) -> tuple[Usage, list[tuple[str, Usage]]]:
        """Return the usage of the missing gang members together, and of each due pod beyond them."""
        gang: Usage = {}
        rest = self._gang_missing(job)
        for task, missing in rest.items():
            add(gang, self._memory.of_task(job, task), missing)
        beyond = [
            (task, self._memory.of_task(job, task))
            for task, indexes in due.items()
            for _ in range(max(0, len(indexes) - rest.get(task, 0)))
        ]
        return {name: gang[name] for name in self._caps if gang.get(name)}, beyond

    def gang_due(self, job: Job, due: Mapping[str, tuple[int, ...]]) -> dict[str, int]:
        """Return the number of due pods that belong to the gang, by task."""
        rest = self._gang_missing(job)
        return {task: min(len(indexes), rest[task]) for task, indexes in due.items() if rest.get(task)}

    def _gang_missing(self, job: Job) -> dict[str, int]:
        there = self.existing(job)
        return {
            task: missing
            for task, number in gang_members(job, self.priorities).items()
            if (missing := number - there.get(task, 0)) > 0
        }

    def _missing(self, job: Job) -> dict[str, tuple[int, int]]:
        """Return the missing pods by task: those that were reserved, and those of the job's complete share."""
        if not (reserved := self._memory.reserved(job)) and job.metadata.uid not in self._groups:
            return {}
        target = gang_members(job, self.priorities) if self.started(job) else {}
        there = self.existing(job)
        for task, number in self._undecided(job).items():
            there[task] -= number
        replicas = {task.name: task.replicas for task in job.spec.tasks}
        found: dict[str, tuple[int, int]] = {}
        for task in {*target, *reserved}:
            most, here = replicas.get(task, 0), there.get(task, 0)
            first = max(0, min(reserved.get(task, 0), most) - here)
            if share := max(first, min(target.get(task, 0), most) - here):
                found[task] = (first, share)
        return found

    def _undecided(self, job: Job) -> dict[str, int]:
        """Return failed pods that may be created again, by task: their quota is kept until the job has handled them.

        It has when its status counts them and no restart is in progress or due.
        """
        failed: dict[str, int] = {}
        for pod in self._own(job):
            if pod.status.phase == "Failed":
                task = pod.metadata.annotations.get(names.TASK_SPEC, "")
                failed[task] = failed.get(task, 0) + 1
        status = job.status
        if status.state.phase != JobPhase.RESTARTING and names.PENDING_ACTION not in status.controlled_resources:
            return failed if sum(failed.values()) > status.failed else {}
        return failed

    def _own(self, job: Job) -> Iterator[Pod]:
        for pod in self._pods.get(job.metadata.uid, ()):
            text = pod.metadata.annotations.get(names.JOB_VERSION, "")
            if pod.metadata.deletion_timestamp is None and (not text.isdigit() or int(text) >= job.status.version):
                yield pod


ANY_NAMESPACE = "*"
"""Key of the cap for all namespaces without their own."""
RECHECK = 30.0
"""Seconds after which the first in line is evaluated again if nothing changed."""
WATCHED_PLACES = 4
"""Number of first places in line whose jobs are woken by every change of the job before them."""
MAX_RECHECK = 60.0
"""Seconds after which jobs further back are evaluated again, to update the place they report."""


class NamespaceQuotaArguments(msgspec.Struct, frozen=True):
    """`namespaces`: caps by namespace, then by resource.

    Resources are named as in ResourceQuota: cpu, memory, pods, limits.cpu, nvidia.com/gpu and so on; `*` stands for
    each namespace without its own cap.
    """

    namespaces: dict[str, dict[str, str | int | float]]


class NamespaceQuota:
    """Delays pods beyond the cap of their namespace."""

    name = "namespace_quota"
    events = (PolicyEvent.PODS_DUE,)
    indexes = (PODS, JOBS, GROUPS, CLASSES)

    def __init__(self, arguments: Mapping[str, Any] | None = None) -> None:
        given = convert(arguments, NamespaceQuotaArguments, self.name)
        self._caps: dict[str, Usage] = {}
        for namespace, caps in given.namespaces.items():
            try:
                self._caps[namespace] = {name: quantity.milli(str(text)) for name, text in caps.items()}
            except QuantityError as error:
                raise ArgumentError(f'{self.name}: "namespaces": {namespace}: {error}', key="namespaces") from None
        self._memory = ReservationCache()
        self._waiting: dict[str, dict[str, str]] = {}
        """Uids and names of the jobs that were held, by namespace."""

    async def decide(self, context: PolicyContext) -> Decision:
        """Admit what fits, in the order of the waiting jobs."""
        job = context.job
        namespace = job.metadata.namespace
        if (caps := self._caps.get(namespace, self._caps.get(ANY_NAMESPACE))) is None:
            return Abstain()
        if (waiting := self._waiting.get(namespace)) is None:
            waiting = self._waiting[namespace] = find_waiting(context)
        waiting_jobs = WaitingJobs(context, waiting)
        usage_view = NamespaceUsage(self._memory, context, caps, waiting_jobs)
        gang, extra = usage_view.wanted(job, context.event.due)
        if not _fits(gang, caps):
            waiting.pop(job.metadata.uid, None)
            self._memory.release(job)
            why = f"needs {_text(gang, caps)}, more than the cap of {_caps(caps)}"
            reason = f"namespace {namespace} can never have it: {why}"
            return Hold(reason=reason, until=context.now + MAX_RECHECK)
        started = usage_view.started(job)
        admitted = started or bool(self._memory.reserved(job))
        ahead = waiting_jobs.ahead(job)
        if gang and ((ahead and not admitted) or not _fits(gang, usage_view.free_for_gang)):
            self._memory.release(job)
            why = f"needs {_text(gang, caps)} at once; free: {_caps(usage_view.free_for_gang)} of {_caps(caps)}"
            waiting.setdefault(job.metadata.uid, job.metadata.name)
            return _waiting_hold(context, [] if started else ahead, why)
        waiting.pop(job.metadata.uid, None)
        allowed = usage_view.gang_due(job, context.event.due)
        free = usage_view.free
        _take(free, gang)
        held_back = False
        for task, usage in extra:
            if ahead or held_back or not _fits(usage, free):
                held_back = True
                continue
            _take(free, usage)
            allowed[task] = allowed.get(task, 0) + 1
        self._reserve(job, allowed, usage_view, started=started)
        if not held_back:
            return Abstain()
        reason = f"has what its gang needs; more pods need {_text(extra[0][1], caps)} each; free: {_caps(free)}"
        return Hold(reason=reason, until=context.now + RECHECK, pods=allowed, wake=_freed(namespace))

    def _reserve(self, job: Job, allowed: Mapping[str, int], usage_view: NamespaceUsage, *, started: bool) -> None:
        there = usage_view.existing(job)
        pods = {task: there.get(task, 0) + number for task, number in allowed.items()} if started else {}
        gang = gang_members(job, usage_view.priorities)
        pods = {task: max(pods.get(task, 0), number) for task, number in gang.items()}
        self._memory.reserve(job, pods)


def _waiting_hold(context: PolicyContext, ahead: list[Job], why: str) -> Hold:
    """Return a hold that shows the job's place in line.

    The first job is woken by freed quota, the others when the job before them is admitted or deleted; the first few by
    any change of that job, as it may be aborted.
    """
    namespace, place = context.job.metadata.namespace, len(ahead) + 1
    reason = f"{WAITING_PREFIX} of namespace {namespace}, place {place} in line: {why}"
    if ahead:
        before = ahead[-1]
        of_job = Wake(JOBS, namespace, before.metadata.name, gone=place > WATCHED_PLACES)
        admitted = Wake(GROUPS, namespace, f"{before.metadata.name}-{before.metadata.uid}")
        return Hold(reason=reason, until=context.now + min(MAX_RECHECK, 5.0 * place), wake=(of_job, admitted))
    return Hold(reason=reason, until=context.now + RECHECK, wake=_freed(namespace))


def _freed(namespace: str) -> tuple[Wake, ...]:
    return Wake(PODS, namespace), Wake(GROUPS, namespace), Wake(JOBS, namespace)


def _take(free: Usage, needs: Mapping[str, int]) -> None:
    for name in free:
        free[name] -= needs.get(name, 0)


def _fits(needs: Mapping[str, int], free: Mapping[str, int]) -> bool:
    return all(amount <= free[name] for name, amount in needs.items() if name in free and amount > 0)


def _text(needs: Mapping[str, int], caps: Mapping[str, int]) -> str:
    return _caps({name: needs[name] for name in caps if needs.get(name)}) or "nothing"


def _caps(amounts: Mapping[str, int]) -> str:
    texts = format_usage({name: max(0, amount) for name, amount in amounts.items()})
    return ", ".join(f"{name} {text}" for name, text in texts.items())
