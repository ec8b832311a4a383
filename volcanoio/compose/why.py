"""`why`: diagnoses of what waits in a state, and what would help, by the scheduling engine itself.

One cycle decides about the state; the jobs that it leaves waiting are diagnosed.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import TypeVar, cast

import msgspec

from volcanoio.compose.simulate import Simulator
from volcanoio.compose.state_files import State
from volcanoio.compose.whatif import missing_pods
from volcanoio.engine.scheduling.cluster.jobs import JobInfo
from volcanoio.engine.scheduling.diagnosis.answers import (
    JobMemory,
    QueueAnswer,
    Waiting,
    about_job,
    about_queue,
    about_unscheduled,
    find,
    is_admitted_now,
    parse_target,
)
from volcanoio.engine.scheduling.diagnosis.diagnosis import Diagnosis
from volcanoio.engine.scheduling.offline.offline import Offline
from volcanoio.engine.scheduling.offline.remedies import MAX_TRIALS, Remedy, RemedySearch
from volcanoio.framework.scheduling.views import TaskStatus
from volcanoio.framework.scheduling_effects import Evict
from volcanoio.model.base import ApiObject
from volcanoio.model.names import GROUP_NAME
from volcanoio.model.resources import resource_list
from volcanoio.model.scheduling import PodGroupPhase

T = TypeVar("T")
OBJECTS_PER_SEARCH = 2_000_000
"""Objects read by all trials of one search: larger states get fewer trials, so that an answer takes minutes at most."""
LEAST_TRIALS = 20
SCHEDULER, CYCLE, CONDITIONS = "scheduler", "cycle", "conditions"
"""Where an answer is from: the running scheduler, a cycle in this process, or conditions and Events alone."""


class JobAnswer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Why one job waits, and what would help.

    `target` is the PodGroup or pod, as `namespace/name`; `phase` its phase in the state. Without `diagnosis` it does
    not wait: `placed_now` and `evicted_now` are pods that one cycle would place and evict, `admitted_now` is whether it
    would admit the PodGroup, whose pods do not exist yet. `is_complete` is False where more could help than was tried,
    `only_admitted` is True if remedies were only shown to have it admitted, because its pods are not known.
    `memory` is what a running scheduler knows besides; `source` is where the answer is from.
    """

    target: str
    phase: str = ""
    diagnosis: Diagnosis | None = None
    placed_now: int = 0
    evicted_now: int = 0
    admitted_now: bool = False
    remedies: tuple[Remedy, ...] = ()
    is_complete: bool = True
    only_admitted: bool = False
    memory: JobMemory | None = None
    source: str = CYCLE


def explain(
    simulator: Simulator, state: State, target: str, namespace: str, *, with_remedies: bool = True
) -> JobAnswer | QueueAnswer:
    """Return why the target waits: a name, or kind and name as in `job/train`. Raises UnknownTargetError."""
    build = builder(simulator, state)
    offline = build(state.objects)
    found = last_of(find(offline.state, offline.pod, *parse_target(target), namespace))
    if (about := about_unscheduled(found, simulator.options.state.scheduler_names)) is not None:
        return JobAnswer(target=about.target, phase=about.phase, diagnosis=about.diagnosis)
    if found.queue:
        return _queue_answer(offline, found.queue)
    assert found.job is not None
    job, phase = found.job, found.job.phase
    about = offline.ask(lambda session: last_of(about_job(session, job)))
    answer = _decided(offline, job, phase)
    if about.diagnosis is None or answer.admitted_now or _runs(job, phase):
        return answer
    answer = JobAnswer(target=job.key, phase=phase, diagnosis=about.diagnosis)
    return with_found_remedies(answer, state, build) if with_remedies else answer


def waiting_answer(waiting: Waiting, source: str) -> JobAnswer:
    """Return what a scheduler or conditions contain about a job as an answer, without remedies."""
    return JobAnswer(
        target=waiting.target,
        phase=waiting.phase,
        diagnosis=waiting.diagnosis,
        memory=waiting.memory,
        source=source,
    )


def builder(simulator: Simulator, state: State) -> Callable[[Sequence[ApiObject]], Offline]:
    """Return the function that builds schedulers which know what a state contains beside objects."""
    return partial(simulator.build, usage=state.usage, memory=state.memory)


def with_found_remedies(answer: JobAnswer, state: State, build: Callable[[Sequence[ApiObject]], Offline]) -> JobAnswer:
    """Return an answer with what would help its job."""
    assert answer.diagnosis is not None
    remedies, is_complete, has_pods = search_remedies(state, build, answer.target, answer.diagnosis)
    return msgspec.structs.replace(answer, remedies=remedies, is_complete=is_complete, only_admitted=not has_pods)


def search_remedies(
    state: State, build: Callable[[Sequence[ApiObject]], Offline], job: str, diagnosis: Diagnosis
) -> tuple[tuple[Remedy, ...], bool, bool]:
    """Return what would help a job, whether everything was tried, and whether enough pods were there to be placed."""
    others, later = list(state.objects), list[ApiObject]()
    for pod in missing_pods(state.objects, state.jobs, ""):
        is_own = f"{pod.metadata.namespace}/{pod.metadata.annotations.get(GROUP_NAME)}" == job
        (later if is_own else others).append(pod)
    search = RemedySearch(others, build, job, diagnosis, later=later)
    search.trials = min(MAX_TRIALS, max(OBJECTS_PER_SEARCH // max(len(state.objects), 1), LEAST_TRIALS))
    return tuple(search.search()), search.is_complete, search.has_pods


def _runs(job: JobInfo, phase: str) -> bool:
    """Return whether a job ran with all its pods before the cycle, which may have evicted some."""
    return phase == PodGroupPhase.RUNNING and not job.pending and not job.counts[TaskStatus.PIPELINED]


def _decided(offline: Offline, job: JobInfo, before: str) -> JobAnswer:
    """Return what the cycle decided about a job that does not wait."""
    return JobAnswer(
        target=job.key,
        phase=before,
        placed_now=sum(1 for bind in offline.requests if bind.uid in job.members),
        evicted_now=sum(1 for each in offline.last if isinstance(each, Evict) and each.group == job.key),
        admitted_now=is_admitted_now(job, before) and not job.members,
    )


def _queue_answer(offline: Offline, name: str) -> QueueAnswer:
    """Return what waits in a queue after one cycle, with its use before it, and what the cycle places."""
    queue = offline.state.ledger.existing_queues[name]
    allocated = resource_list(queue.allocated)
    answer = offline.ask(lambda session: last_of(about_queue(session, name)))
    tasks = offline.state.ledger.tasks
    placed = {tasks[bind.uid].job for bind in offline.requests}
    placed_now = tuple(sorted(key for key in placed if key in queue.jobs_by_key))
    return msgspec.structs.replace(answer, allocated=allocated, placed_now=placed_now, source=CYCLE)


def last_of(steps: Generator[None, None, T]) -> T:
    """Run all steps and return their result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return cast("T", end.value)
