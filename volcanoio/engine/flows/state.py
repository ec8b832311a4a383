"""State of one JobFlow as observed, its Events, and the status that follows from it.

Source of the phases: Volcano, pkg/controllers/jobflow/state.
"""

from collections.abc import Iterable, Mapping

import msgspec
from msgspec.structs import replace

from volcanoio.engine.flows.jobs import flow_keys, job_name
from volcanoio.framework.backoff import WriteBackoff
from volcanoio.framework.effects import CheckEndpoint, Create, Delete, Effect, Patch, Record, record_event
from volcanoio.framework.events import Change
from volcanoio.model import kinds, times
from volcanoio.model.base import ApiObject
from volcanoio.model.batch import Job, JobPhase
from volcanoio.model.flow import (
    FlowCondition,
    FlowJobStatus,
    FlowPhase,
    FlowState,
    JobFlow,
    JobFlowStatus,
    RunningHistory,
)
from volcanoio.model.times import epoch, rfc3339

STATUS_WRITE = "status"


class JobFlowState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of one key.

    - `jobs`: Jobs that JobFlows of this name control, by uid
    - `in_flight`, `backoffs`: effects in flight and refused ones, by `effect_key`
    - `name_conflicts`: jobs whose names other objects use
    - `passed_checks`: successful checks; `checked`: those sent in the current round; the next is at `check_at`
    - `has_new_results`: a check ended since dependencies were last examined
    - `last_messages`: last message by reason and subject; `timers`: running timers with their times
    """

    flow: JobFlow | None = None
    jobs: dict[str, Job] = {}
    in_flight: frozenset[str] = frozenset()
    backoffs: dict[str, WriteBackoff] = {}
    name_conflicts: frozenset[str] = frozenset()
    passed_checks: frozenset[str] = frozenset()
    checked: frozenset[str] = frozenset()
    check_at: float = 0.0
    has_new_results: bool = False
    last_messages: dict[str, str] = {}
    timers: dict[str, float] = {}

    @property
    def own_jobs(self) -> dict[str, Job]:
        """The Jobs of this very JobFlow, by name."""
        if self.flow is None:
            return {}
        uid = self.flow.metadata.uid
        owners = ((job, job.metadata.controller) for job in self.jobs.values())
        return {job.metadata.name: job for job, owner in owners if owner is not None and owner.uid == uid}

    def is_backing_off(self, key: str, now: float) -> bool:
        """Return whether a refused effect must still wait."""
        backoff = self.backoffs.get(key)
        return backoff is not None and self.flow is not None and backoff.is_active(now, self.flow.metadata.revision)


def effect_key(effect: Effect) -> str:
    """Return what identifies an effect of this controller among those in flight."""
    match effect:
        case Create(manifest=manifest):
            return f"create {manifest['metadata']['name']}"
        case Delete(name=name):
            return f"delete {name}"
        case CheckEndpoint(check=check):
            return check
        case Patch():
            return STATUS_WRITE
        case _:
            return ""


def remove_finished_effects(state: JobFlowState, in_flight: Iterable[Effect]) -> tuple[JobFlowState, list[str]]:
    """Remove effects that are not in flight any more from the state; returns them too."""
    still = {effect_key(effect) for effect in in_flight}
    return replace(state, in_flight=state.in_flight & still), sorted(state.in_flight - still)


def fold(state: JobFlowState, obj: ApiObject, change: Change, key: str) -> JobFlowState:
    """Fold one object's newest state; references change nothing here, they are looked up."""
    match obj:
        case JobFlow() if obj.metadata.key == key:
            return _fold_flow(state, None if change is Change.GONE else obj)
        case Job() if key in flow_keys(obj):
            jobs = {uid: job for uid, job in state.jobs.items() if uid != obj.metadata.uid}
            if change is not Change.GONE:
                jobs[obj.metadata.uid] = obj
            return replace(state, jobs=jobs)
        case _:
            return state


def _fold_flow(state: JobFlowState, flow: JobFlow | None) -> JobFlowState:
    """Fold a newer version of the JobFlow; another spec is tried and reported at once."""
    known = state.flow
    if flow is None or known is None or known.metadata.uid != flow.metadata.uid:
        return JobFlowState(flow=flow, jobs=state.jobs, in_flight=state.in_flight, timers=state.timers)
    if flow.metadata.revision < known.metadata.revision:
        return state
    if flow.spec == known.spec:
        return replace(state, flow=flow)
    return replace(state, flow=flow, last_messages={}, backoffs={}, check_at=0.0)


WARNING, NORMAL = "Warning", "Normal"


def flow_event(flow: JobFlow, type_: str, reason: str, message: str) -> Record:
    """Return an Event about the JobFlow."""
    return record_event(kinds.JOB_FLOW, flow, reason, message, type_=type_)


def flow_warning_once(
    state: JobFlowState, flow: JobFlow, reason: str, about: str, message: str
) -> tuple[JobFlowState, list[Record]]:
    """Return a Warning, unless the last one of this reason and subject had the same message."""
    key = f"{reason} {about}"
    if state.last_messages.get(key) == message:
        return state, []
    messages = {**state.last_messages, key: message}
    return replace(state, last_messages=messages), [flow_event(flow, WARNING, reason, message)]


STATUS_LISTS: Mapping[str, str] = {
    JobPhase.PENDING: "pending_jobs",
    JobPhase.RUNNING: "running_jobs",
    JobPhase.FAILED: "failed_jobs",
    JobPhase.COMPLETED: "completed_jobs",
    JobPhase.TERMINATED: "terminated_jobs",
    JobPhase.ABORTING: "un_know_jobs",
    JobPhase.ABORTED: "un_know_jobs",
    JobPhase.RESTARTING: "un_know_jobs",
}
"""Status list with the jobs of a phase; Completing and Terminating are in none, as in Volcano."""


def phase_of(job: Job) -> str:
    """Return the job's phase; a new one is Pending."""
    return job.status.state.phase or JobPhase.PENDING


def job_phases(flow: JobFlow, own_jobs: Mapping[str, Job]) -> dict[str, str]:
    """Return the phase of every job by name; a completed job that was deleted stays completed."""
    stored = {entry.name: entry.state for entry in flow.status.job_status_list}
    found: dict[str, str] = {}
    for part in flow.spec.flows:
        if (name := job_name(flow, part.name)) in own_jobs:
            found[name] = phase_of(own_jobs[name])
        elif stored.get(name) == JobPhase.COMPLETED:
            found[name] = JobPhase.COMPLETED
    return found


def next_phase(stored: str, phases: Mapping[str, str], total: int) -> str:
    """Return the flow's phase: a failed or terminated job ends it, all jobs completed is success."""
    if stored not in ("", FlowPhase.PENDING, FlowPhase.RUNNING):
        return stored
    found = list(phases.values())
    if JobPhase.FAILED in found or JobPhase.TERMINATED in found:
        return FlowPhase.FAILED
    if total and found.count(JobPhase.COMPLETED) == total:
        return FlowPhase.SUCCEED
    begun = stored == FlowPhase.RUNNING or JobPhase.RUNNING in found or JobPhase.COMPLETED in found
    return FlowPhase.RUNNING if begun else FlowPhase.PENDING


def desired_status(flow: JobFlow, own_jobs: Mapping[str, Job], now: float) -> JobFlowStatus:
    """Return the status of a flow with these jobs (by name)."""
    phases = job_phases(flow, own_jobs)
    names: dict[str, list[str]] = {}
    for name, phase in phases.items():
        if phase in STATUS_LISTS:
            names.setdefault(STATUS_LISTS[phase], []).append(name)
    entries = {entry.name: entry for entry in flow.status.job_status_list}
    total = len({part.name for part in flow.spec.flows})
    return JobFlowStatus(
        **{field: tuple(listed) for field, listed in names.items()},
        job_status_list=tuple(
            _job_status(entries.get(name), own_jobs[name], now) if name in own_jobs else entries[name]
            for name in phases
        ),
        conditions={
            name: _job_condition(own_jobs[name])
            if name in own_jobs
            else flow.status.conditions.get(name, FlowCondition(phase=phase))
            for name, phase in phases.items()
        },
        state=FlowState(phase=next_phase(flow.status.state.phase, phases, total)),
    )


def _job_status(before: FlowJobStatus | None, job: Job, now: float) -> FlowJobStatus:
    """Return a job's entry; its history grows when it entered another phase."""
    phase = phase_of(job)
    history = before.running_histories if before is not None and _is_about(before, job) else ()
    if not history or history[-1].state != phase:
        moment = rfc3339(now)
        closed = tuple(replace(each, end_timestamp=moment) for each in history[-1:])
        history = (*history[:-1], *closed, RunningHistory(start_timestamp=moment, state=phase))
    return FlowJobStatus(
        name=job.metadata.name,
        state=phase,
        start_timestamp=job.metadata.creation_timestamp,
        end_timestamp=_end_time(job),
        restart_count=job.status.retry_count,
        running_histories=history,
    )


def _is_about(before: FlowJobStatus, job: Job) -> bool:
    """Return whether an entry is about this very job, not an older one of its name."""
    return before.start_timestamp == job.metadata.creation_timestamp


def _end_time(job: Job) -> str | None:
    """Return when the job ended: its creation plus its running time."""
    created, ran = epoch(job.metadata.creation_timestamp), job.status.running_duration
    return rfc3339(created + times.parse_duration(ran)) if created is not None and ran else None


def _job_condition(job: Job) -> FlowCondition:
    return FlowCondition(
        phase=phase_of(job),
        create_time=job.metadata.creation_timestamp,
        running_duration=job.status.running_duration,
        task_status_count=job.status.task_status_count,
    )
