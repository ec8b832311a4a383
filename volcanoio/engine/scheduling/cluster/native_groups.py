"""Native groups: PodGroups of scheduling.k8s.io, scheduled as Volcano's PodGroups are.

A pod names its native group in `spec.schedulingGroup`. A native group names no scheduler, so it becomes a job once it
has a pod of ours. The job's `group` is Volcano's PodGroup that corresponds to it; its counts are kept in memory only.
What is written to the native group are the conditions that Kubernetes defines, and one of ours that contains its queue
and phase, by which the queue controller counts it.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

import msgspec

from volcanoio.engine.scheduling.cluster.attempts import UNSCHEDULABLE
from volcanoio.engine.scheduling.cluster.jobs import JobInfo
from volcanoio.engine.scheduling.cluster.ledger import Ledger
from volcanoio.engine.scheduling.cluster.pod_fields import job_key, native_key
from volcanoio.framework.effects import Patch, PatchType
from volcanoio.framework.scheduling.views import TaskStatus
from volcanoio.model import kinds
from volcanoio.model.base import StatusCondition
from volcanoio.model.batch import NetworkTopology
from volcanoio.model.core import Pod
from volcanoio.model.names import QUEUE_NAME_ANNOTATION
from volcanoio.model.scheduling import PodGroup, PodGroupCondition, PodGroupPhase, PodGroupSpec, PodGroupStatus
from volcanoio.model.workloads import (
    DISRUPTION_TARGET,
    INITIALLY_SCHEDULED,
    QUEUE_PHASE,
    REASON_ERROR,
    REASON_PREEMPTION,
    REASON_SCHEDULED,
    REASON_UNSCHEDULABLE,
    NativePodGroup,
    Workload,
    named_queue,
    place_message,
)

NATIVE_RESOURCES = tuple(kind.resource for kind in kinds.NATIVE_GROUPS)
"""Resources of which native groups consist."""
_SCHEDULED_PHASES = (PodGroupPhase.RUNNING, PodGroupPhase.COMPLETED)


def as_pod_group(native: NativePodGroup, queue: str, status: PodGroupStatus) -> PodGroup:
    """Return Volcano's PodGroup that corresponds to a native group: minMember is minCount, or 1 without gang policy.

    There are no minResources: Kubernetes has no admission of groups, so the group is admitted to its queue at once. The
    topology constraint is the hard network topology whose highest tier has the name of the label.
    """
    spec = native.spec
    gang, constraints = spec.scheduling_policy.gang, spec.scheduling_constraints
    key = constraints.topology[0].key if constraints is not None and constraints.topology else ""
    return PodGroup(
        metadata=native.metadata,
        spec=PodGroupSpec(
            min_member=1 if gang is None else max(gang.min_count, 1),
            queue=queue,
            priority_class_name=spec.priority_class_name,
            network_topology=NetworkTopology(mode="hard", highest_tier_name=key) if key else None,
        ),
        status=status,
    )


def status_of(native: NativePodGroup) -> PodGroupStatus:
    """Return the status that follows from a group's conditions: its phase, and why it was last unschedulable."""
    written, phase = native.condition(INITIALLY_SCHEDULED), PodGroupPhase.PENDING.value
    if native.phase in tuple(PodGroupPhase):
        phase = native.phase
    if written is None or written.status != "False":
        return PodGroupStatus(phase=phase)
    waiting = PodGroupCondition(
        type=UNSCHEDULABLE,
        status="True",
        reason=written.reason,
        message=written.message,
        last_transition_time=written.last_transition_time,
    )
    return PodGroupStatus(phase=phase, conditions=(waiting,))


class SchedulerNames(NamedTuple):
    """Names of this scheduler, and the queue of groups that name none."""

    schedulers: frozenset[str]
    default_queue: str


class NativeGroups:
    """Folds native groups and their Workloads into jobs.

    `priority_of` returns the priority of a job, `forget` drops what follows from a job's PodGroup.
    """

    def __init__(
        self,
        ledger: Ledger,
        names: SchedulerNames,
        priority_of: Callable[[JobInfo], int],
        forget: Callable[[JobInfo], None],
    ) -> None:
        self._ledger = ledger
        self._scheduler_names, self._default_queue = names
        self._priority_of = priority_of
        self._forget = forget
        self._groups: dict[str, NativePodGroup] = {}
        """Native groups by job key, also those without a pod of ours."""
        self.disrupted_whole: set[str] = set()
        """Job keys of those whose pods are evicted all together or not at all."""
        self._workloads: dict[str, Workload] = {}
        """Workloads by `namespace/name`."""
        self._keys_by_workload: dict[str, set[str]] = {}

    def observe_group(self, group: NativePodGroup, deleted: bool) -> bool:
        """Fold a native group; return whether that could alter a decision."""
        key, meta = native_key(group.metadata.namespace, group.metadata.name), group.metadata
        known = self._groups.get(key)
        if known is not None and known.metadata.uid == meta.uid and meta.revision < known.metadata.revision:
            return False
        if deleted:
            if known is None or known.metadata.uid != meta.uid:
                return False
            self._drop(key, known)
            job = self._ledger.jobs.get(key)
            if job is None or not job.has_group:
                return False
            self._forget(job)
            return True
        if known is not None:
            self._drop(key, known)
        self._groups[key] = group
        if group.is_disrupted_whole:
            self.disrupted_whole.add(key)
        if workload := group.workload_key:
            self._keys_by_workload.setdefault(workload, set()).add(key)
        return self._update_job(key)

    def observe_workload(self, workload: Workload, deleted: bool) -> bool:
        """Fold a Workload, which may name the queue of its groups; return whether that could alter a decision."""
        key = workload.metadata.key
        if deleted:
            self._workloads.pop(key, None)
        else:
            self._workloads[key] = workload
        changed = False
        for group in sorted(self._keys_by_workload.get(key, ())):
            changed = self._update_job(group) or changed
        return changed

    def job_of_workload(self, key: str) -> JobInfo | None:
        """Return the first job of a Workload's groups that has waiting pods, else the first; None without any."""
        jobs = self._ledger.jobs
        found = [jobs[group] for group in sorted(self._keys_by_workload.get(key, ())) if group in jobs]
        return min(found, key=lambda job: not job.pending, default=None)

    def join(self, pod: Pod) -> bool:
        """Fold that a pod is in a group; return whether that could alter a decision."""
        job = self._ledger.jobs.get(job_key(pod))
        if job is None:
            return False
        if job.native is None:
            return self._update_job(job.key)
        queue = pod.metadata.annotations.get(QUEUE_NAME_ANNOTATION, "")
        return bool(queue) and queue != job.group.spec.queue and self._update_job(job.key)

    def written(self, group: str, obj: object) -> bool:
        """Fold the accepted write of a group's conditions; return whether that could alter a decision."""
        job = self._ledger.jobs.get(native_key(*group.split("/")))
        if job is not None:
            job.conditions_in_flight = None
        if not isinstance(obj, NativePodGroup) or job is None or not job.has_group or job.uid != obj.metadata.uid:
            return False
        return self.observe_group(obj, deleted=False)

    def write_failed(self, group: str) -> None:
        """Forget the failed write of a group's conditions, so that the next close writes them again."""
        job = self._ledger.jobs.get(native_key(*group.split("/")))
        if job is not None and job.has_group:
            job.conditions_in_flight = None
            self._ledger.dirty[job.key] = job

    def _drop(self, key: str, group: NativePodGroup) -> None:
        del self._groups[key]
        self.disrupted_whole.discard(key)
        if keys := self._keys_by_workload.get(group.workload_key):
            keys.discard(key)
            if not keys:
                del self._keys_by_workload[group.workload_key]

    def _update_job(self, key: str) -> bool:
        """Update the job of a group that is ours; return whether that could alter a decision."""
        job, group = self._ledger.jobs.get(key), self._groups.get(key)
        if group is None:
            return False
        if not self._is_ours(group, job):
            if job is None or not job.has_group:
                return False
            self._forget(job)
            return True
        job = self._ledger.get_or_create_job(key)
        if job.has_group and job.uid != group.metadata.uid:  # deleted and created again
            self._forget(job)
            if not job.members:
                return True
        old, queue = job.native, self._queue_of(group, job)
        status = status_of(group) if old is None else job.group.status
        previous = job.group
        job.observe(as_pod_group(group, queue, status), group)
        job.priority = self._priority_of(job)
        same_annotations = old is not None and old.metadata.annotations == group.metadata.annotations
        if same_annotations and job.group.spec == previous.spec:
            return False
        if old is None:
            self._ledger.set_phase(job, status.phase)
        self._ledger.set_queue(job, self._ledger.get_or_create_queue(job.queue_name(self._default_queue)))
        return True

    def _is_ours(self, group: NativePodGroup, job: JobInfo | None) -> bool:
        """Return whether a group has pods of ours; without pods, whether the last ones that it had were ours."""
        if job is not None and job.members:
            return True
        if group.scheduler:
            return group.scheduler in self._scheduler_names
        return job is not None and job.has_group

    def _queue_of(self, group: NativePodGroup, job: JobInfo) -> str:
        """Return the queue that the group names, else its Workload, else the first pod by name that names one."""
        workload = self._workloads.get(group.workload_key)
        if queue := named_queue((group,) if workload is None else (group, workload)):
            return queue
        pods = sorted(job.members.values(), key=lambda task: task.name)
        named = (task.pod.metadata.annotations.get(QUEUE_NAME_ANNOTATION, "") for task in pods)
        return next(filter(None, named), "")


_Values: TypeAlias = tuple[str, str, str]
"""Status, reason and message of a condition."""


def condition_patch(job: JobInfo, timestamp: str) -> Patch | None:
    """Return the write of the group's conditions except DisruptionTarget; None if they are up to date."""
    wanted = {INITIALLY_SCHEDULED: _initially_scheduled(job), QUEUE_PHASE: _queue_phase(job)}
    return _patch(job, {type_: values for type_, values in wanted.items() if values is not None}, timestamp)


def _initially_scheduled(job: JobInfo) -> _Values | None:
    """Return the condition PodGroupInitiallyScheduled, None to leave it: once True it stays True."""
    before = _current(job, INITIALLY_SCHEDULED)
    if before is not None and before.status == "True":
        return None
    if job.status.phase in _SCHEDULED_PHASES:
        return "True", REASON_SCHEDULED, ""
    newest = job.status.conditions[-1] if job.status.conditions else None
    if newest is None or newest.type != UNSCHEDULABLE:
        return None
    is_refused = any(task.bind_refusals for task in job.pending.values())
    return "False", REASON_ERROR if is_refused else REASON_UNSCHEDULABLE, newest.message


def _queue_phase(job: JobInfo) -> _Values | None:
    """Return the phase and the queue; None while binds are in flight, whose end will change the phase."""
    if job.counts[TaskStatus.BINDING] and job.status.phase == PodGroupPhase.INQUEUE:
        return None
    native, member = job.native, next(iter(job.members.values()), None)
    assert native is not None
    scheduler = native.scheduler if member is None else member.pod.spec.scheduler_name
    return "True", job.status.phase, place_message(job.queue, scheduler)


def disruption_patch(job: JobInfo, message: str, timestamp: str) -> Patch | None:
    """Return the write of the condition DisruptionTarget of a group that is evicted as a whole."""
    return _patch(job, {DISRUPTION_TARGET: ("True", REASON_PREEMPTION, message)}, timestamp)


def _conditions(job: JobInfo) -> tuple[StatusCondition, ...]:
    """Return the conditions of a job's native group, as last written or observed."""
    if job.conditions_in_flight is not None:
        return job.conditions_in_flight
    return () if job.native is None else job.native.status.conditions


def _current(job: JobInfo, type_: str) -> StatusCondition | None:
    return next((entry for entry in _conditions(job) if entry.type == type_), None)


def _patch(job: JobInfo, wanted: Mapping[str, _Values], timestamp: str) -> Patch | None:
    """Return a patch that sets those conditions, by type, that differ; it merges conditions by type."""
    native = job.native
    assert native is not None
    changed: dict[str, StatusCondition] = {}
    for type_, values in wanted.items():
        status, reason, message = values
        before = _current(job, type_)
        if before is not None and (before.status, before.reason, before.message) == values:
            continue
        is_same_status = before is not None and before.status == status
        changed[type_] = StatusCondition(
            type=type_,
            status=status,
            observed_generation=native.metadata.generation,
            last_transition_time=before.last_transition_time if before is not None and is_same_status else timestamp,
            reason=reason,
            message=message,
        )
    if not changed:
        return None
    job.conditions_in_flight = (*(one for one in _conditions(job) if one.type not in changed), *changed.values())
    # a condition without message is invalid
    written = [{"message": "", **msgspec.to_builtins(condition)} for condition in changed.values()]
    return Patch.of(
        kinds.NATIVE_POD_GROUP.resource,
        native,
        {"status": {"conditions": written}},
        subresource="status",
        type=PatchType.STRATEGIC,
    )
