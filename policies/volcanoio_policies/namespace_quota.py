"""`namespace_quota`: what a namespace may have at once. Jobs beyond it wait in line, by priority, then by age.

A gang is let in whole or not at all: its PodGroup, which is made only then, stands for its share until its pods are
there. So what was let in is stored, and a new process counts the same. Between an answer and the PodGroup or pods that
follow from it, the policy remembers what it promised.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from volcanoio.framework.arguments import ArgumentError, convert
from volcanoio.framework.decisions import Abstain, Decision, Hold, Wake
from volcanoio.framework.gangs import members, priority_class_of
from volcanoio.framework.lifecycle import Occasion, PolicyContext
from volcanoio.framework.overrides import effective, stored
from volcanoio.framework.podusage import as_resource_list, pod_usage, usage_of
from volcanoio.model import kinds, names, quantity
from volcanoio.model.batch import FINISHED_PHASES, Job, JobPhase
from volcanoio.model.core import Pod, PriorityClass
from volcanoio.model.quantity import QuantityError
from volcanoio.model.resources import Amounts, add
from volcanoio.model.scheduling import PodGroup

PODS, JOBS, GROUPS, CLASSES = (
    kinds.POD.resource, kinds.JOB.resource, kinds.POD_GROUP.resource, kinds.PRIORITY_CLASS.resource,
)  # fmt: skip
OTHERS = "*"
"""Stands for namespaces that are not named."""
LOOK_AGAIN = 30.0
"""Seconds until the first in line is asked again when nothing changed."""
MOST = 200_000
"""Usages that are remembered."""
NEAR = 4
"""Places whose holders look at every change of the job before them."""
LONGEST = 60.0
"""Seconds until one far back in line is, to show its place."""
WAITS = "waits for the quota"
"""What a job in line shows, so that a new process knows it by that."""


class NamespaceQuotaArguments(msgspec.Struct, frozen=True):
    """`namespaces`: caps by namespace, then by resource, as ResourceQuota names them: cpu, memory, pods, limits.cpu,
    nvidia.com/gpu and so on; `*` is each namespace that is not named.
    """

    namespaces: dict[str, dict[str, str | int | float]]


class _Place(NamedTuple):
    """The order of the line: the highest priority first, then the oldest; within a second, who asked first."""

    priority: int
    created: str
    asked: int
    name: str


class _Promise(NamedTuple):
    """How many pods of each task a job's version was let have."""

    version: int
    pods: dict[str, int]


class NamespaceQuota:
    """Holds back what is over the cap of its namespace."""

    name = "namespace_quota"
    events = (Occasion.PODS_DUE,)
    indexes = (PODS, JOBS, GROUPS, CLASSES)

    def __init__(self, arguments: Mapping[str, Any] | None = None) -> None:
        given = convert(arguments, NamespaceQuotaArguments, self.name)
        self._caps: dict[str, Amounts] = {}
        for namespace, caps in given.namespaces.items():
            try:
                self._caps[namespace] = {name: quantity.milli(str(text)) for name, text in caps.items()}
            except QuantityError as error:
                msg = f'{self.name}: "namespaces": {namespace}: {error}'
                raise ArgumentError(msg, key="namespaces") from None
        self._promises: dict[str, _Promise] = {}
        self._waiting: dict[str, dict[str, str]] = {}
        """Uids and names of the jobs that were held, by namespace."""
        self._usages: dict[str, Amounts] = {}
        self._of_tasks: dict[tuple[str, int, str, str], Amounts] = {}

    async def decide(self, context: PolicyContext) -> Decision:
        """Let through what fits and whose turn it is."""
        job = context.job
        namespace = job.metadata.namespace
        caps = self._caps.get(namespace, self._caps.get(OTHERS))
        if caps is None:
            return Abstain()
        waiting = self._waiting.get(namespace)
        if waiting is None:
            waiting = self._waiting[namespace] = _held_before(context)
        state = _State(self, context, caps)
        gang, extra = state.wanted(job, context.event.due)
        if not _fits(gang, caps):
            waiting.pop(job.metadata.uid, None)
            why = f"needs {_text(gang, caps)}, more than the cap of {_caps(caps)}"
            reason = f"namespace {namespace} can never have it: {why}"
            return Hold(reason=reason, until=context.now + LONGEST)
        let_in = state.started(job) or bool(self.promised(job))
        ahead = _Line(context, waiting).ahead(job)
        free = state.free
        if gang and ((ahead and not let_in) or not _fits(gang, free)):
            why = f"needs {_text(gang, caps)} at once; free are {_caps(free)} of {_caps(caps)}"
            waiting.setdefault(job.metadata.uid, job.metadata.name)
            return _in_line(context, ahead, why)
        waiting.pop(job.metadata.uid, None)
        through = state.gang_due(job, context.event.due)
        _take(free, gang)
        held_back = False
        for task, usage in extra:
            if ahead or held_back or not _fits(usage, free):
                held_back = True
                continue
            _take(free, usage)
            through[task] = through.get(task, 0) + 1
        self._promise(job, through, state, started=state.started(job))
        if not held_back:
            return Abstain()
        reason = f"has what its gang needs; for more pods, of {_text(extra[0][1], caps)} each, free are {_caps(free)}"
        return Hold(reason=reason, until=context.now + LOOK_AGAIN, pods=through, wake=_freed(namespace))

    def _promise(self, job: Job, through: Mapping[str, int], state: _State, *, started: bool) -> None:
        there = state.existing(job)
        pods = {task: there.get(task, 0) + number for task, number in through.items()} if started else {}
        gang = members(job, state.priorities)
        pods = {task: max(pods.get(task, 0), number) for task, number in gang.items()}
        self._promises[job.metadata.uid] = _Promise(job.status.version, pods)

    def promised(self, job: Job) -> Mapping[str, int]:
        """What this job was let have, by task."""
        promise = self._promises.get(job.metadata.uid)
        return promise.pods if promise is not None and promise.version == job.status.version else {}

    def keep(self, jobs: Iterable[str]) -> None:
        """Forget promises to jobs that are no more, by uid, when there are many."""
        if len(self._promises) > 2 * len(there := set(jobs)) + 100:
            self._promises = {uid: promise for uid, promise in self._promises.items() if uid in there}

    def usage_of(self, job: Job, name: str) -> Amounts:
        """What one pod of a task takes, worked out once per spec and overrides."""
        text = job.status.controlled_resources.get(names.OVERRIDES, "")
        key = (job.metadata.uid, job.metadata.generation, text, name)
        known = self._of_tasks.get(key)
        if known is None:
            if len(self._of_tasks) > MOST:
                self._of_tasks.clear()
            found = effective(job, stored(job)).spec.tasks
            known = next((pod_usage(task.template) for task in found if task.name == name), {})
            self._of_tasks[key] = known
        return known

    def usage(self, pod: Pod) -> Amounts:
        """What a pod takes, worked out once."""
        known = self._usages.get(pod.metadata.uid)
        if known is None:
            if len(self._usages) > MOST:
                self._usages.clear()
            known = self._usages[pod.metadata.uid] = usage_of(pod.spec)
        return known


def _in_line(context: PolicyContext, ahead: list[Job], why: str) -> Hold:
    """A hold that shows the place; the first is woken by what frees quota, each other one when who is before it is let
    in or gone, and the first few by any change of that job, as it may be aborted.
    """
    namespace, place = context.job.metadata.namespace, len(ahead) + 1
    reason = f"{WAITS} of namespace {namespace}, place {place} in line: {why}"
    if ahead:
        before = ahead[-1]
        of_job = Wake(JOBS, namespace, before.metadata.name, gone=place > NEAR)
        let_in = Wake(GROUPS, namespace, f"{before.metadata.name}-{before.metadata.uid}")
        return Hold(reason=reason, until=context.now + min(LONGEST, 5.0 * place), wake=(of_job, let_in))
    return Hold(reason=reason, until=context.now + LOOK_AGAIN, wake=_freed(namespace))


def _freed(namespace: str) -> tuple[Wake, ...]:
    return Wake(PODS, namespace), Wake(GROUPS, namespace)


class _State:
    """What a namespace has, and what it promised, as one question sees it."""

    def __init__(self, policy: NamespaceQuota, context: PolicyContext, caps: Amounts) -> None:
        self._policy = policy
        self._caps = caps
        namespace = context.job.metadata.namespace
        indexes = context.indexes
        self.priorities = {
            name: each.value for name, each in indexes[CLASSES].within("").items() if isinstance(each, PriorityClass)
        }
        self._groups = {
            str(group.metadata.controller.uid): group
            for group in indexes[GROUPS].within(namespace).values()
            if isinstance(group, PodGroup) and group.metadata.controller is not None
        }
        self._pods: dict[str, list[Pod]] = {}
        used: Amounts = {}
        for pod in indexes[PODS].within(namespace).values():
            assert isinstance(pod, Pod)
            owner = pod.metadata.controller
            if owner is not None:
                self._pods.setdefault(owner.uid, []).append(pod)
            if pod.status.phase not in ("Succeeded", "Failed"):
                add(used, policy.usage(pod))
        jobs = [job for job in indexes[JOBS].within(namespace).values() if isinstance(job, Job)]
        policy.keep(job.metadata.uid for job in jobs)
        for job in jobs:
            if job.status.state.phase not in _OVER:
                for task, missing in self._missing(job).items():
                    add(used, self._usage_of(job, task), missing)
        self._own = self._missing(context.job)
        for task, missing in self._own.items():
            add(used, self._usage_of(context.job, task), -missing)
        self.free: Amounts = {name: cap - used.get(name, 0) for name, cap in caps.items()}

    def started(self, job: Job) -> bool:
        """Whether the job's version was let in: it has its PodGroup."""
        group = self._groups.get(job.metadata.uid)
        if group is None or group.metadata.deletion_timestamp is not None:
            return False
        text = group.metadata.annotations.get(names.JOB_VERSION, "")
        return not text.isdigit() or int(text) >= job.status.version

    def existing(self, job: Job) -> dict[str, int]:
        """The pods that the job's version has, by task."""
        found: dict[str, int] = {}
        for pod in self._pods.get(job.metadata.uid, ()):
            text = pod.metadata.annotations.get(names.JOB_VERSION, "")
            if pod.metadata.deletion_timestamp is None and (not text.isdigit() or int(text) >= job.status.version):
                task = pod.metadata.annotations.get(names.TASK_SPEC, "")
                found[task] = found.get(task, 0) + 1
        return found

    def wanted(self, job: Job, due: Mapping[str, tuple[int, ...]]) -> tuple[Amounts, list[tuple[str, Amounts]]]:
        """What the rest of the gang needs at once, and each due pod beyond it."""
        gang: Amounts = {}
        rest = self._gang_missing(job)
        for task, missing in rest.items():
            add(gang, self._usage_of(job, task), missing)
        beyond = [
            (task, self._usage_of(job, task))
            for task, indexes in due.items()
            for _ in range(max(0, len(indexes) - rest.get(task, 0)))
        ]
        return {name: gang[name] for name in self._caps if gang.get(name)}, beyond

    def gang_due(self, job: Job, due: Mapping[str, tuple[int, ...]]) -> dict[str, int]:
        """Of the due pods, those of the gang by task."""
        rest = self._gang_missing(job)
        return {task: min(len(indexes), rest[task]) for task, indexes in due.items() if rest.get(task)}

    def _gang_missing(self, job: Job) -> dict[str, int]:
        there = self.existing(job)
        return {
            task: missing
            for task, number in members(job, self.priorities).items()
            if (missing := number - there.get(task, 0)) > 0
        }

    def _missing(self, job: Job) -> dict[str, int]:
        """Pods that a job was let have and that are not there, by task."""
        promised = self._policy.promised(job)
        if not promised and job.metadata.uid not in self._groups:
            return {}
        target = members(job, self.priorities) if self.started(job) else {}
        there = self.existing(job)
        replicas = {task.name: task.replicas for task in job.spec.tasks}
        wanted = {task: max(target.get(task, 0), promised.get(task, 0)) for task in {*target, *promised}}
        return {
            task: missing
            for task, number in wanted.items()
            if (missing := min(number, replicas.get(task, 0)) - there.get(task, 0)) > 0
        }

    def _usage_of(self, job: Job, name: str) -> Amounts:
        return self._policy.usage_of(job, name)


class _Line:
    """Who waits in a namespace, in order."""

    def __init__(self, context: PolicyContext, waiting: dict[str, str]) -> None:
        self._asked = {uid: number for number, uid in enumerate(waiting)}
        namespace = context.job.metadata.namespace
        self._classes = context.indexes[CLASSES]
        jobs = context.indexes[JOBS].within(namespace)
        self._jobs: list[Job] = []
        for uid, name in list(waiting.items()):
            job = jobs.get(name)
            if isinstance(job, Job) and job.metadata.uid == uid and _may_start(job):
                self._jobs.append(job)
            else:
                del waiting[uid]

    def ahead(self, job: Job) -> list[Job]:
        """The jobs before this one, in order."""
        own = self._place(job)
        before = [(place, other) for other in self._jobs if (place := self._place(other)) < own]
        return [other for _, other in sorted(before, key=lambda each: each[0])]

    def _place(self, job: Job) -> _Place:
        named = [job.spec.priority_class_name, *(priority_class_of(task) for task in job.spec.tasks[:1])]
        found = self._classes.get(next(filter(None, named), ""))
        priority = found.value if isinstance(found, PriorityClass) else 0
        meta = job.metadata
        asked = self._asked.get(meta.uid, len(self._asked))
        return _Place(-priority, meta.creation_timestamp or "", asked, meta.name)


_OVER = (*FINISHED_PHASES, JobPhase.ABORTED, JobPhase.ABORTING, JobPhase.COMPLETING, JobPhase.TERMINATING)


def _may_start(job: Job) -> bool:
    return job.status.state.phase not in _OVER and job.metadata.deletion_timestamp is None


def _held_before(context: PolicyContext) -> dict[str, str]:
    """Who an earlier process left waiting in line: such jobs show so, and ask one after the other."""
    jobs = context.indexes[JOBS].within(context.job.metadata.namespace).values()
    return {
        job.metadata.uid: job.metadata.name
        for job in jobs
        if isinstance(job, Job) and job.status.state.message.startswith(WAITS) and _may_start(job)
    }


def _take(free: Amounts, needs: Mapping[str, int]) -> None:
    for name in free:
        free[name] -= needs.get(name, 0)


def _fits(needs: Mapping[str, int], free: Mapping[str, int]) -> bool:
    return all(amount <= free[name] for name, amount in needs.items() if name in free and amount > 0)


def _text(needs: Mapping[str, int], caps: Mapping[str, int]) -> str:
    return _caps({name: needs[name] for name in caps if needs.get(name)}) or "nothing"


def _caps(amounts: Mapping[str, int]) -> str:
    texts = as_resource_list({name: max(0, amount) for name, amount in amounts.items()})
    return ", ".join(f"{name} {text}" for name, text in texts.items())
