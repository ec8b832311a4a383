"""`why`: diagnoses of what waits in a state, and what would help, by the scheduling engine itself.

One cycle decides about the state; the jobs that it leaves waiting are diagnosed.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from functools import partial

import msgspec

from volcanoio.compose.simulate import Simulator
from volcanoio.compose.state_files import State
from volcanoio.engine.scheduling.cluster.jobs import JobInfo
from volcanoio.engine.scheduling.diagnosis import codes
from volcanoio.engine.scheduling.diagnosis.codes import Stage
from volcanoio.engine.scheduling.diagnosis.diagnosis import Diagnosis
from volcanoio.engine.scheduling.offline.offline import Offline
from volcanoio.engine.scheduling.offline.remedies import MAX_TRIALS, Remedy, RemedySearch
from volcanoio.framework.scheduling.views import TaskStatus
from volcanoio.framework.scheduling_effects import Evict
from volcanoio.model import kinds
from volcanoio.model.base import ApiObject
from volcanoio.model.core import Pod
from volcanoio.model.resources import resource_list
from volcanoio.model.scheduling import PodGroup, PodGroupPhase, Queue

KINDS = {
    "job": "job", "jobs": "job", "vcjob": "job", "vj": "job",
    "podgroup": "podgroup", "podgroups": "podgroup", "pg": "podgroup",
    "pod": "pod", "pods": "pod", "po": "pod",
    "queue": "queue", "queues": "queue", "q": "queue",
}  # fmt: skip
"""What a name may be prefixed with, as in `job/train`, and what that means."""
OBJECTS_PER_SEARCH = 2_000_000
"""Objects read by all trials of one search: larger states get fewer trials, so that an answer takes minutes at most."""
LEAST_TRIALS = 20


class UnknownTargetError(Exception):
    """Nothing of that name is in the state; the message says what is."""


class JobAnswer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Why one job waits, and what would help.

    `target` is the PodGroup or pod, as `namespace/name`; `phase` its phase in the state. Without `diagnosis` it does
    not wait: `placed_now` and `evicted_now` are pods that one cycle would place and evict, `admitted_now` is whether it
    would admit the PodGroup, whose pods do not exist yet. `is_complete` is False where more could help than was tried.
    """

    target: str
    phase: str = ""
    diagnosis: Diagnosis | None = None
    placed_now: int = 0
    evicted_now: int = 0
    admitted_now: bool = False
    remedies: tuple[Remedy, ...] = ()
    is_complete: bool = True


class WaitingJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job that waits in a queue; those that wait for admission come last, and have positions of their own."""

    target: str
    position: int
    stage: str
    code: str
    message: str


class QueueAnswer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What waits in a queue, in order, and what one cycle would place in it; amounts are Kubernetes quantities."""

    target: str
    state: str
    allocated: dict[str, str]
    capability: dict[str, str]
    deserved: dict[str, str]
    waiting: tuple[WaitingJob, ...]
    placed_now: tuple[str, ...] = ()


def explain(
    simulator: Simulator, state: State, target: str, namespace: str, *, with_remedies: bool = True
) -> JobAnswer | QueueAnswer:
    """Return why the target waits: a name, or kind and name as in `job/train`. Raises UnknownTargetError."""
    kind, name = _parsed(target)
    objects, build = state.objects, partial(simulator.build, usage=state.usage)
    offline = build(objects)
    before = {key: job.phase for key, job in offline.state.ledger.jobs.items()}
    allocated = {key: dict(queue.allocated) for key, queue in offline.state.ledger.existing_queues.items()}
    diagnoses = offline.diagnose()
    if kind in ("", "job", "podgroup") and (job := _job(offline, objects, kind, name, namespace)) is not None:
        pass
    elif kind in ("", "pod") and (pod := _pod(objects, name, namespace)) is not None:
        owner = next((job for job in offline.state.ledger.jobs.values() if pod.metadata.uid in job.members), None)
        if owner is None or pod.spec.node_name or pod.status.phase != "Pending":
            return _pod_answer(simulator, pod)
        job = owner
    elif kind in ("", "queue") and name in allocated:
        return _queue_answer(offline, name, diagnoses, allocated[name])
    else:
        raise UnknownTargetError(_unknown(objects, kind, name, namespace))
    answer = _decided(offline, job, before[job.key])
    if (diagnosis := diagnoses.get(job.key)) is None or answer.admitted_now or _runs(job, before[job.key]):
        return answer
    if not with_remedies:
        return JobAnswer(target=job.key, phase=before[job.key], diagnosis=diagnosis)
    trials = min(MAX_TRIALS, max(OBJECTS_PER_SEARCH // max(len(objects), 1), LEAST_TRIALS))
    search = RemedySearch(objects, build, job.key, diagnosis, trials=trials)
    remedies = tuple(search.search())
    return JobAnswer(
        target=job.key,
        phase=before[job.key],
        diagnosis=diagnosis,
        remedies=remedies,
        is_complete=search.is_complete,
    )


def _runs(job: JobInfo, phase: str) -> bool:
    """Return whether a job ran with all its pods before the cycle, which may have evicted some."""
    return phase == PodGroupPhase.RUNNING and not job.pending and not job.counts[TaskStatus.PIPELINED]


def _is_admitted_now(job: JobInfo, before: str) -> bool:
    return before in ("", PodGroupPhase.PENDING) and job.phase == PodGroupPhase.INQUEUE


def _decided(offline: Offline, job: JobInfo, before: str) -> JobAnswer:
    """Return what the cycle decided about a job that does not wait."""
    return JobAnswer(
        target=job.key,
        phase=before,
        placed_now=sum(1 for bind in offline.requests if bind.uid in job.members),
        evicted_now=sum(1 for each in offline.last if isinstance(each, Evict) and each.group == job.key),
        admitted_now=_is_admitted_now(job, before) and not job.members,
    )


def _parsed(target: str) -> tuple[str, str]:
    prefix, slash, name = target.partition("/")
    if not slash:
        return "", target
    if (kind := KINDS.get(prefix.partition(".")[0].lower())) is None:
        valid = ", ".join(sorted(set(KINDS.values())))
        raise UnknownTargetError(f'"{prefix}" is no kind that waits; valid values: {valid}, or the name alone')
    return kind, name


def _job(offline: Offline, objects: Sequence[ApiObject], kind: str, name: str, namespace: str) -> JobInfo | None:
    """Return the scheduler's job of a Job or PodGroup of that name; None if there is none."""
    jobs = offline.state.ledger.jobs
    if kind != "podgroup":
        for obj in objects:
            if isinstance(obj, PodGroup) and obj.metadata.namespace == namespace:
                owners = obj.metadata.owner_references
                if any(owner.kind == kinds.JOB.kind and owner.name == name for owner in owners):
                    return jobs.get(obj.metadata.key)
    return jobs.get(f"{namespace}/{name}") if kind != "job" else None


def _pod(objects: Sequence[ApiObject], name: str, namespace: str) -> Pod | None:
    key = f"{namespace}/{name}"
    return next((obj for obj in objects if isinstance(obj, Pod) and obj.metadata.key == key), None)


def _pod_answer(simulator: Simulator, pod: Pod) -> JobAnswer:
    """Return why a pod waits that belongs to no job of the scheduler, or that it does not wait."""
    key = pod.metadata.key
    if pod.spec.node_name or pod.status.phase != "Pending":
        return JobAnswer(target=key, phase=pod.status.phase)
    names = simulator.options.state.scheduler_names
    if pod.spec.scheduler_name not in names:
        wanted = ", ".join(sorted(names))
        code, text = codes.OTHER_SCHEDULER, f"its schedulerName is {pod.spec.scheduler_name}, not {wanted}"
    else:
        code = codes.NO_POD_GROUP
        text = (
            "it has no PodGroup; the podgroup controller of volcano-controllers makes one for such a pod: does it run?"
        )
    return JobAnswer(target=key, diagnosis=Diagnosis(stage=Stage.GROUP, code=code, message=text, pending=1))


def _unknown(objects: Sequence[ApiObject], kind: str, name: str, namespace: str) -> str:
    names = {obj.metadata.name for obj in objects if isinstance(obj, PodGroup) and obj.metadata.namespace == namespace}
    names |= {
        owner.name
        for obj in objects
        if isinstance(obj, PodGroup) and obj.metadata.namespace == namespace
        for owner in obj.metadata.owner_references
    }
    names |= {obj.metadata.name for obj in objects if isinstance(obj, Queue)}
    close = get_close_matches(name, sorted(names), n=1)
    hint = f"; did you mean {close[0]}?" if close else "; name its namespace with -n, or its kind as in pod/NAME"
    wanted = kind or "job, podgroup, pod or queue"
    return f'no {wanted} "{name}" is known to the scheduler in namespace {namespace}{hint}'


def _queue_answer(
    offline: Offline, name: str, diagnoses: dict[str, Diagnosis], allocated: dict[str, int]
) -> QueueAnswer:
    queue = offline.state.ledger.existing_queues[name]
    waiting = [
        WaitingJob(target=key, position=each.position, stage=each.stage, code=each.code, message=each.message)
        for key, each in diagnoses.items()
        if each.queue == name
    ]
    tasks = offline.state.ledger.tasks
    placed = {tasks[bind.uid].job for bind in offline.requests}
    return QueueAnswer(
        target=f"queue/{name}",
        state="Open" if queue.is_open else queue.object.status.state,
        allocated=resource_list(allocated),
        capability=resource_list(queue.capability),
        deserved=resource_list(queue.deserved),
        waiting=tuple(sorted(waiting, key=lambda job: (job.stage == Stage.ENQUEUE, job.position, job.target))),
        placed_now=tuple(sorted(key for key in placed if key in queue.jobs_by_key)),
    )
