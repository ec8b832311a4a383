"""Answers to people: what a name means to the scheduler, why it waits, and why its pods were evicted.

The functions read a session that has closed and is not undone yet. Those that look at many jobs are generators: between
their steps a running scheduler does other work.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from difflib import get_close_matches
from typing import NamedTuple

import msgspec

from volcanoio.engine.scheduling.cluster.jobs import JobInfo
from volcanoio.engine.scheduling.cluster.ledger import Ledger
from volcanoio.engine.scheduling.cluster.nominations import EvictionRecord
from volcanoio.engine.scheduling.cluster.pod_fields import group_name_of, is_native, native_key
from volcanoio.engine.scheduling.cluster.state import ClusterState
from volcanoio.engine.scheduling.diagnosis import codes
from volcanoio.engine.scheduling.diagnosis.codes import Stage
from volcanoio.engine.scheduling.diagnosis.diagnosis import JOBS_PER_STEP, Diagnosis, diagnose_job, in_line
from volcanoio.engine.scheduling.session.session import CycleSession
from volcanoio.framework.scheduling.views import TaskStatus
from volcanoio.model import kinds
from volcanoio.model.core import Pod
from volcanoio.model.resources import resource_list
from volcanoio.model.scheduling import PodGroup, PodGroupPhase

_NATIVE_KINDS = ("podgroup.scheduling.k8s.io", "podgroups.scheduling.k8s.io")
KINDS = {
    "job": "job", "jobs": "job", "vcjob": "job", "vj": "job",
    "podgroup": "podgroup", "podgroups": "podgroup", "pg": "podgroup",
    "pod": "pod", "pods": "pod", "po": "pod",
    "queue": "queue", "queues": "queue", "q": "queue",
    "workload": "workload", "workloads": "workload",
}  # fmt: skip
"""What a name may be prefixed with, as in `job/train`, and what that means."""
MAX_LISTED = 100
"""Most jobs of a queue, and most evictions, in one answer."""
MAX_ALIKE = 500
"""Number of names after which no more are compared with an unknown one, as that takes some 20 µs each."""
MAX_EXAMPLES = 5
"""Most pods that are named as being refused or nominated."""
FindPod = Callable[[str], Pod | None]
"""Returns a pod by `namespace/name`."""


class UnknownTargetError(Exception):
    """Nothing of that name is known; the message says what is."""


class RefusedPod(msgspec.Struct, frozen=True, rename="camel"):
    """A pod whose bind was refused: how often in a row, until when it is not tried (epoch seconds), and the reason."""

    pod: str
    refusals: int
    retry_at: float
    message: str


class WaitingPod(msgspec.Struct, frozen=True, rename="camel"):
    """A nominated pod, its node, and the number of evicted pods that still terminate there for its job."""

    pod: str
    node: str
    victims: int


class JobMemory(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What only a running scheduler knows of a job; times in epoch seconds, 0 for none.

    `binding` pods have a bind in flight. `first_until` is when the job, after a refused bind, stops to go before all
    others; `reserved` is the number of places that are kept for it until then. `skipped_until` is when it is tried
    again although nothing changed. `refused` and `nominated` name at most five pods each.
    """

    binding: int = 0
    refused: tuple[RefusedPod, ...] = ()
    nominated: tuple[WaitingPod, ...] = ()
    reserved: int = 0
    first_until: float = 0.0
    skipped_until: float = 0.0
    waits_since: float = 0.0


class WaitingJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job that waits in a queue; those that wait for admission come last, and have positions of their own."""

    target: str
    position: int
    stage: str
    code: str
    message: str


class QueueAnswer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What waits in a queue, in order, and what one cycle would place in it; amounts are Kubernetes quantities.

    `waiting` names 100 jobs at most; `waiting_count` is the number of all. `source` is where this is known from.
    """

    target: str
    state: str
    allocated: dict[str, str]
    capability: dict[str, str]
    deserved: dict[str, str]
    waiting: tuple[WaitingJob, ...]
    waiting_count: int
    source: str = ""
    placed_now: tuple[str, ...] = ()


class Waiting(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A job or pod as a cycle left it: `target` is the PodGroup or pod, as `namespace/name`, `phase` that of it.

    Without `diagnosis` it does not wait.
    """

    target: str
    phase: str = ""
    diagnosis: Diagnosis | None = None
    memory: JobMemory | None = None


class Beneficiary(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The job for which pods were evicted, as it is now; `ready` pods have a node."""

    job: str
    queue: str
    priority: int
    phase: str = ""
    ready: int = 0
    min_available: int = 0
    pending: int = 0
    exists: bool = True


class EvictionAnswer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One eviction: the victim, the decision, and who profits; `at` in epoch seconds.

    `refusal` is the API server's message if it was refused. `by` is None where pods are moved for no other job, and
    `nodes` are the nominated nodes of its pods. `source` is where this is known from.
    """

    pod: str
    job: str
    queue: str
    priority: int
    node: str
    action: str
    at: float
    cycle: int = 0
    by: Beneficiary | None = None
    nodes: tuple[str, ...] = ()
    refusal: str = ""
    together: int = 1
    """Pods of the same decision."""


class LiveAnswer(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The answer of a running scheduler, one of the three; `cycle` and `at` (epoch seconds) are of its last cycle."""

    cycle: int
    at: float
    waiting: Waiting | None = None
    queue: QueueAnswer | None = None
    evictions: tuple[EvictionAnswer, ...] | None = None


class Target(NamedTuple):
    """What a name means: a job of the scheduler, a pod without one, a queue, or the key of a PodGroup of another's."""

    job: JobInfo | None = None
    pod: Pod | None = None
    queue: str = ""
    foreign_group: str = ""


def parse_target(text: str) -> tuple[str, str]:
    """Return kind ("" if none is given) and name of `NAME` or `KIND/NAME`. Raises UnknownTargetError.

    A native group, `podgroup.scheduling.k8s.io/NAME`, keeps its group in the name, as in the key of its job.
    """
    prefix, slash, name = text.partition("/")
    if not slash:
        return "", text
    if prefix.lower() in _NATIVE_KINDS:
        return "podgroup", native_key("", name).removeprefix("/")
    if (kind := KINDS.get(prefix.partition(".")[0].lower())) is None:
        valid = ", ".join(sorted(set(KINDS.values())))
        raise UnknownTargetError(f'"{prefix}" is no kind that waits; valid values: {valid}, or the name alone')
    return kind, name


def find(state: ClusterState, pod_of: FindPod, kind: str, name: str, namespace: str) -> Generator[None, None, Target]:
    """Return what a name means. Raises UnknownTargetError."""
    ledger = state.ledger
    if kind in ("", "job", "podgroup"):
        if (job := (yield from _job(ledger, kind, name, namespace))) is not None:
            return Target(job=job)
        if key := (yield from _foreign_group(state, kind, name, namespace)):
            return Target(foreign_group=key)
    if kind in ("", "pod") and (pod := pod_of(f"{namespace}/{name}")) is not None:
        task = ledger.tasks.get(pod.metadata.uid)
        if task is None or task.job_info is None or pod.spec.node_name or pod.status.phase != "Pending":
            return Target(pod=pod)
        return Target(job=task.job_info)
    if kind in ("", "workload") and (job := state.native_groups.job_of_workload(f"{namespace}/{name}")) is not None:
        return Target(job=job)
    if kind in ("", "queue") and name in ledger.existing_queues:
        return Target(queue=name)
    raise UnknownTargetError((yield from _unknown(ledger, kind, name, namespace)))


def _job(ledger: Ledger, kind: str, name: str, namespace: str) -> Generator[None, None, JobInfo | None]:
    """Return the scheduler's job of a Job or PodGroup of that name; None if there is none."""
    if kind != "podgroup":
        for number, job in enumerate(ledger.jobs.values(), start=1):
            if job.namespace == namespace and name in job_owners(job.key, job.group):
                return job
            if not number % JOBS_PER_STEP:
                yield
    if kind == "job":
        return None
    return ledger.jobs.get(f"{namespace}/{name}") or ledger.jobs.get(native_key(namespace, name))


def _foreign_group(state: ClusterState, kind: str, name: str, namespace: str) -> Generator[None, None, str]:
    """Return the key of a PodGroup of that name, or of a Job of that name, whose pods are another scheduler's."""
    if kind != "job" and (key := f"{namespace}/{name}") in state.foreign_groups:
        return key
    if kind != "podgroup":
        for number, (key, group) in enumerate(state.foreign_groups.items(), start=1):
            if group is not None and key.startswith(f"{namespace}/") and name in job_owners(key, group):
                return key
            if not number % JOBS_PER_STEP:
                yield
    return ""


def job_owners(key: str, group: PodGroup) -> list[str]:
    """Return the names of the Jobs of a PodGroup: Volcano's, or for a native group Kubernetes' own."""
    return kinds.owner_names(kinds.KUBERNETES_JOB if is_native(key) else kinds.JOB, group.metadata)


def _unknown(ledger: Ledger, kind: str, name: str, namespace: str) -> Generator[None, None, str]:
    alike = {queue for queue in ledger.existing_queues if queue[:1] == name[:1]}
    for number, job in enumerate(ledger.jobs.values(), start=1):
        if len(alike) >= MAX_ALIKE:
            break
        if job.has_group and job.namespace == namespace:
            own = (group_name_of(job.key), *job_owners(job.key, job.group))
            alike.update(each for each in own if each[:1] == name[:1])
        if not number % JOBS_PER_STEP:
            yield
    close = get_close_matches(name, alike, n=1)
    hint = f"; did you mean {close[0]}?" if close else "; name its namespace with -n, or its kind as in pod/NAME"
    wanted = kind or "job, podgroup, pod or queue"
    return f'no {wanted} "{name}" is known to the scheduler in namespace {namespace}{hint}'


def about_unscheduled(target: Target, scheduler_names: Iterable[str]) -> Waiting | None:
    """Return why something waits that is no job of the scheduler; None for a job or queue."""
    if target.pod is not None:
        return about_pod(target.pod, scheduler_names)
    if not target.foreign_group:
        return None
    names = ", ".join(sorted(scheduler_names))
    text = f"its pods name another scheduler than {names}: set schedulerName in their template"
    return Waiting(
        target=target.foreign_group, diagnosis=Diagnosis(stage=Stage.GROUP, code=codes.OTHER_SCHEDULER, message=text)
    )


def about_pod(pod: Pod, scheduler_names: Iterable[str]) -> Waiting:
    """Return why a pod waits that belongs to no job of the scheduler, or that it does not wait."""
    key = pod.metadata.key
    if pod.spec.node_name or pod.status.phase != "Pending":
        return Waiting(target=key, phase=pod.status.phase)
    if pod.spec.scheduler_name not in scheduler_names:
        wanted = ", ".join(sorted(scheduler_names))
        code, text = codes.OTHER_SCHEDULER, f"its schedulerName is {pod.spec.scheduler_name}, not {wanted}"
    else:
        code = codes.NO_POD_GROUP
        text = (
            "it has no PodGroup; the podgroup controller of volcano-controllers makes one for such a pod: does it run?"
        )
    return Waiting(target=key, diagnosis=Diagnosis(stage=Stage.GROUP, code=code, message=text, pending=1))


def about_job(session: CycleSession, job: JobInfo) -> Generator[None, None, Waiting]:
    """Return why a job waits, with what the scheduler remembers of it."""
    diagnosis = yield from diagnose_job(session, job)
    return Waiting(
        target=job.key, phase=job.phase, diagnosis=diagnosis, memory=_memory(session.state, job, session.now)
    )


def _memory(state: ClusterState, job: JobInfo, now: float) -> JobMemory:
    refused = [task for task in job.pending.values() if task.retry_at > now]
    nominated = [(task, each) for uid, task in job.members.items() if (each := state.nominations.by_task.get(uid))]
    until, urgent = job.attempts.unschedulable_until, job.key in state.bind_refused_jobs
    return JobMemory(
        binding=job.counts[TaskStatus.BINDING],
        refused=tuple(
            RefusedPod(f"{task.namespace}/{task.name}", task.bind_refusals, task.retry_at, task.last_refusal)
            for task in refused[:MAX_EXAMPLES]
        ),
        nominated=tuple(
            WaitingPod(f"{task.namespace}/{task.name}", each.node, len(each.victims or ()))
            for task, each in nominated[:MAX_EXAMPLES]
        ),
        reserved=len(state.reservations.by_job.get(job.key, ())) if urgent else 0,
        first_until=job.urgent_until if urgent else 0.0,
        skipped_until=until.until if until is not None and until.until > now else 0.0,
        waits_since=job.not_ready_since or job.pending_since or 0.0,
    )


def about_queue(session: CycleSession, name: str) -> Generator[None, None, QueueAnswer]:
    """Return what waits in a queue: the first jobs in order, with their reasons."""
    queue = session.state.ledger.existing_queues[name]
    lines = yield from in_line(session, name)
    waiting = list[WaitingJob]()
    for line in lines:
        for at, job in enumerate(line):
            if len(waiting) >= MAX_LISTED:
                break
            found = yield from diagnose_job(session, job, position=(at + 1, ()))
            if found is not None:
                waiting.append(
                    WaitingJob(
                        target=job.key, position=at + 1, stage=found.stage, code=found.code, message=found.message
                    )
                )
            yield
    return QueueAnswer(
        target=f"queue/{name}",
        state="Open" if queue.is_open else queue.object.status.state,
        allocated=resource_list(queue.allocated),
        capability=resource_list(queue.capability),
        deserved=resource_list(queue.deserved),
        waiting=tuple(waiting),
        waiting_count=sum(map(len, lines)),
    )


def about_evictions(state: ClusterState, kind: str, name: str, namespace: str) -> tuple[EvictionAnswer, ...]:
    """Return the remembered evictions of a pod or of a job's pods, the newest first. Raises UnknownTargetError."""
    key = f"{namespace}/{name}"
    groups = (key, native_key(namespace, name))
    if kind == "queue":
        raise UnknownTargetError(f'"queue/{name}" is not evicted; name a job or a pod')
    found = [
        each
        for each in reversed(state.nominations.evictions)
        if (kind != "pod" and (each.job in groups or (kind != "podgroup" and _is_of_job(state, each, name, namespace))))
        or (kind in ("", "pod") and each.pod == key)
    ]
    return tuple(_eviction(state, each) for each in found[:MAX_LISTED])


def _is_of_job(state: ClusterState, record: EvictionRecord, job: str, namespace: str) -> bool:
    """Return whether the PodGroup of a victim is a Job's, or has the name of one: the Job may be gone."""
    group = state.ledger.jobs.get(record.job)
    if group is not None and group.namespace == namespace and job in job_owners(group.key, group.group):
        return True
    return record.job.startswith(f"{namespace}/{job}-") and len(record.job) == len(f"{namespace}/{job}-") + _UID_LENGTH


_UID_LENGTH = 36


def _eviction(state: ClusterState, record: EvictionRecord) -> EvictionAnswer:
    by = None
    if record.by:
        job = state.ledger.jobs.get(record.by)
        by = Beneficiary(job=record.by, queue=record.by_queue, priority=record.by_priority, exists=False)
        if job is not None and job.has_group:
            by = Beneficiary(
                job=record.by,
                queue=record.by_queue,
                priority=record.by_priority,
                phase=job.phase,
                ready=job.ready_count,
                min_available=job.min_available,
                pending=len(job.pending),
            )
    together = sum(
        1
        for each in state.nominations.evictions
        if (each.cycle, each.by, each.at) == (record.cycle, record.by, record.at)
    )
    return EvictionAnswer(
        pod=record.pod,
        job=record.job,
        queue=record.queue,
        priority=record.priority,
        node=record.node,
        action=record.action,
        at=record.at,
        cycle=record.cycle,
        by=by,
        nodes=record.nodes[:MAX_EXAMPLES],
        refusal=record.refusal,
        together=together,
    )


def is_admitted_now(job: JobInfo, before: str) -> bool:
    """Return whether a cycle admitted a job that had this phase before."""
    return before in ("", PodGroupPhase.PENDING) and job.phase == PodGroupPhase.INQUEUE
