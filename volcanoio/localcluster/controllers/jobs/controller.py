"""The controller of batch Jobs: which pods to create and delete, back-off after failures, and TTL after the end.

Kubernetes: pkg/controller/job (also backoff_utils.go) and pkg/controller/ttlafterfinished.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from volcanoio.framework.backoff import Backoff
from volcanoio.framework.effects import Delete, Record
from volcanoio.framework.events import Observed
from volcanoio.framework.objects import Objects
from volcanoio.framework.reconciler import NO_CHANGES, Plan, ReconcileView, Stage, Write, in_slow_start
from volcanoio.localcluster.controllers.contract import BURST, ClusterController, creating, deleting, patching
from volcanoio.localcluster.controllers.jobs import job_status as verdicts
from volcanoio.localcluster.controllers.jobs.groups import JobGroup
from volcanoio.localcluster.controllers.jobs.job_status import (
    FAILURES,
    FINALIZER,
    IGNORED,
    INDEX,
    PodCounts,
    Verdict,
    failures_before,
    format_indexes,
    index_of,
    match_failure_policy,
)
from volcanoio.localcluster.controllers.objects import (
    BATCH_JOB,
    ConditionUpdate,
    Workload,
    condition_of,
    count,
    with_condition,
)
from volcanoio.localcluster.controllers.ownership import Candidates, affected_keys, claim, status_stages
from volcanoio.localcluster.controllers.pods import PodMetadata, deletion_order, generated, pod_condition, pod_of
from volcanoio.model.base import Manifest
from volcanoio.model.core import Pod
from volcanoio.model.kinds import NATIVE_POD_GROUP, POD, WORKLOAD, object_reference
from volcanoio.model.times import epoch, rfc3339

BACKOFF = Backoff(base=10.0, cap=600.0)
"""Back-off between pods that fail in a row."""


def ended_at(pod: Pod) -> float:
    """Return when a pod ended.

    That is the end of its last container, else when it became unready, was deleted or created.
    """
    moments = [
        moment
        for status in pod.status.container_statuses
        if status.state.terminated is not None and (moment := epoch(status.state.terminated.finished_at)) is not None
    ]
    if moments and len(moments) == len(pod.status.container_statuses):
        return max(moments)
    condition = pod_condition(pod, "Ready")
    for text in (condition.last_transition_time if condition else None, pod.metadata.deletion_timestamp):
        if (moment := epoch(text)) is not None:
            return moment
    return epoch(pod.metadata.creation_timestamp) or 0.0


def resumes_at(pod_counts: PodCounts, pods: Sequence[Pod]) -> float:
    """Return when (epoch seconds) the next pod may be created after these pods' failures."""
    last_success = max((ended_at(pod) for pod in pods if pod.status.phase == "Succeeded"), default=float("-inf"))
    failures = [moment for pod in pods if pod_counts.is_failed(pod) and (moment := ended_at(pod)) > last_success]
    if not failures:
        return 0.0
    return max(failures) + BACKOFF.delay(len(failures))


_ENV = "JOB_COMPLETION_INDEX"


class PodChanges:
    """Missing pods (as manifests), surplus pods, and the end of the back-off of failed ones."""

    def __init__(self, job: Workload, pod_counts: PodCounts, view: ReconcileView) -> None:
        self._job, self._pod_counts, self._view = job, pod_counts, view
        self.missing: list[Manifest] = []
        self.surplus: list[Pod] = []
        self.again: float | None = None
        wanted = 0 if job.spec.get("suspend") else self._wanted()
        if pod_counts.indexed:
            self._plan_with_indexes(wanted)
        else:
            self._plan_without_indexes(wanted)

    def _wanted(self) -> int:
        parallelism, pod_counts = count(self._job.spec.get("parallelism"), 1), self._pod_counts
        if pod_counts.completions is None:
            return min(parallelism, len(pod_counts.active)) if pod_counts.succeeded else parallelism
        return max(min(parallelism, pod_counts.completions - pod_counts.succeeded - len(pod_counts.failed_indexes)), 0)

    @property
    def _waiting(self) -> Sequence[Pod]:
        """Terminating pods that are replaced only after they ended."""
        return self._pod_counts.going if self._job.spec.get("podReplacementPolicy") == "Failed" else ()

    def _plan_without_indexes(self, wanted: int) -> None:
        pod_counts = self._pod_counts
        surplus = len(pod_counts.active) - wanted
        if surplus > 0:
            self.surplus = deletion_order(pod_counts.active, {}, self._view.now)[: min(surplus, BURST)]
            return
        missing = wanted - len(pod_counts.active) - len(self._waiting)
        if missing > 0 and self._is_retry_due(pod_counts.pods):
            self.missing = [self._pod(None, pod_counts.pods) for _ in range(min(missing, BURST))]

    def _plan_with_indexes(self, wanted: int) -> None:
        pod_counts = self._pod_counts
        limit = pod_counts.completions or 0
        closed = pod_counts.completed | pod_counts.failed_indexes
        keep: dict[int, Pod] = {}
        for pod in deletion_order(pod_counts.active, {}, self._view.now)[::-1]:
            index = index_of(pod)
            if index is None or index >= limit or index in closed or index in keep:
                self.surplus.append(pod)
            else:
                keep[index] = pod
        for index in sorted(keep, reverse=True)[: max(len(keep) - wanted, 0)]:
            self.surplus.append(keep.pop(index))
        busy = {index_of(pod) for pod in self._waiting}
        room = wanted - len(keep) - len(busy)
        if room > 0 and (pod_counts.by_index or self._is_retry_due(pod_counts.pods)):
            taken = {*closed, *keep, *busy}
            self._create_indexes([index for index in range(limit) if index not in taken], min(room, BURST))

    def _create_indexes(self, indexes: Sequence[int], most: int) -> None:
        """Create the pods of at most so many of these indexes whose back-off is over."""
        earlier: dict[int | None, list[Pod]] = {}
        for pod in self._pod_counts.pods:
            earlier.setdefault(index_of(pod), []).append(pod)
        for index in indexes:
            if len(self.missing) >= most:
                return
            pods = earlier.get(index, [])
            if not self._pod_counts.by_index or self._is_retry_due(pods):
                self.missing.append(self._pod(index, pods))

    def _is_retry_due(self, pods: Sequence[Pod]) -> bool:
        """Return whether the back-off of these pods is over; else records when it will be."""
        moment = resumes_at(self._pod_counts, pods)
        if moment <= self._view.now:
            return True
        self.again = moment if self.again is None else min(self.again, moment)
        return False

    def _pod(self, index: int | None, earlier: Sequence[Pod]) -> Manifest:
        job = self._job
        template = job.spec.get("template") or {}
        base = job.metadata.name if index is None else f"{job.metadata.name}-{index}"
        name = generated(base, self._view.suffix())
        if index is None:
            return pod_of(template, BATCH_JOB, job, name, PodMetadata(finalizers=(FINALIZER,)))
        annotations = {INDEX: str(index), **self._failures(earlier)}
        pod = pod_of(template, BATCH_JOB, job, name, PodMetadata({INDEX: str(index)}, annotations, (FINALIZER,)))
        spec = dict(pod["spec"])
        spec["hostname"] = base[:63]
        for field in ("initContainers", "containers"):
            if spec.get(field):
                spec[field] = [_with_index(one) for one in spec[field]]
        pod["spec"] = spec
        return pod

    def _failures(self, earlier: Sequence[Pod]) -> dict[str, str]:
        """Return the failure counts of an index, for jobs that count by index."""
        if not self._pod_counts.by_index:
            return {}
        counted = ignored = 0
        for pod in earlier:
            if self._pod_counts.is_failed(pod):
                passes = match_failure_policy(self._job, pod).action == "Ignore"
                counted = max(counted, failures_before(pod) + (not passes))
                ignored = max(ignored, failures_before(pod, IGNORED) + passes)
        return {FAILURES: str(counted), **({IGNORED: str(ignored)} if ignored else {})}


def _with_index(container: Manifest) -> Manifest:
    """Return the container with its index in the environment."""
    env = container.get("env") or []
    if any(one.get("name") == _ENV for one in env):
        return container
    source = {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX}']"}}
    return {**container, "env": [*env, {"name": _ENV, "valueFrom": source}]}


_OURS = "kubernetes.io/job-controller"
"""The value of `spec.managedBy` for this controller; it leaves jobs with another value alone."""


class JobController(ClusterController):
    """Controller that runs batch Jobs to completion, and deletes finished ones after their TTL."""

    name = "job-controller"
    primary = BATCH_JOB
    reads = (POD, WORKLOAD, NATIVE_POD_GROUP)

    def keys(self, event: Observed, objects: Objects) -> Iterable[str]:
        """Return the job.

        For a pod its owner or possible owners, also a missing owner while it has our finalizer; for a PodGroup or
        Workload its owner.
        """
        if event.resource == BATCH_JOB.resource:
            return (event.obj.metadata.key,)
        meta = event.obj.metadata
        if event.resource in (WORKLOAD.resource, NATIVE_POD_GROUP.resource):
            owner = meta.controller
            return (f"{meta.namespace}/{owner.name}",) if owner is not None and owner.kind == BATCH_JOB.kind else ()
        jobs = objects.namespace(BATCH_JOB, meta.namespace, Workload)
        keys = affected_keys(BATCH_JOB, jobs, event.obj, event.previous) if jobs else []
        if not keys and FINALIZER in meta.finalizers and meta.controller is not None:
            keys = [f"{meta.namespace}/{meta.controller.name}"]
        return keys

    def all_keys(self, objects: Objects, now: float) -> Iterable[str]:
        """Return all jobs, and deleted jobs whose pods still have our finalizer."""
        del now
        left = (
            f"{pod.metadata.namespace}/{controller.name}"
            for pod in objects.all(POD, Pod)
            if FINALIZER in pod.metadata.finalizers and (controller := pod.metadata.controller) is not None
        )
        return sorted({*objects.by_key(BATCH_JOB), *left})

    def reconcile(self, key: str, view: ReconcileView) -> Plan:
        """Count the ended pods, decide, and create or delete pods."""
        job = view.objects.get(BATCH_JOB, key, Workload)
        if job is None:
            return self._released(key, view)
        if job.spec.get("managedBy") not in (None, _OURS):
            return NO_CHANGES
        pods, claims = claim(job, BATCH_JOB, Candidates.of(view.objects, job, POD, Pod))
        if claims and not view.is_backing_off:
            return Plan((tuple(claims),))
        if verdicts.final_condition(job) is not None:
            return self._finished(job, pods, view)
        return _Reconciliation(job, pods, view).plan()

    def _released(self, key: str, view: ReconcileView) -> Plan:
        """Remove our finalizer from the pods of a deleted job."""
        namespace, _, name = key.partition("/")
        writes = [
            release(pod)
            for pod in view.objects.namespace(POD, namespace, Pod)
            if FINALIZER in pod.metadata.finalizers
            and (controller := pod.metadata.controller) is not None
            and (controller.kind, controller.name) == (BATCH_JOB.kind, name)
        ]
        return Plan((tuple(writes),)) if writes else NO_CHANGES

    def _finished(self, job: Workload, pods: Sequence[Pod], view: ReconcileView) -> Plan:
        """Release the pods of a finished job, and delete it after its TTL."""
        writes = tuple(release(pod) for pod in pods if FINALIZER in pod.metadata.finalizers)
        stages: tuple[Stage, ...] = (writes,) if writes else ()
        seconds, meta = job.spec.get("ttlSecondsAfterFinished"), job.metadata
        if seconds is None or meta.deletion_timestamp is not None:
            return Plan(stages)
        known = condition_of(job.status.get("conditions") or (), verdicts.final_condition(job) or "")
        due = ((epoch(known.get("lastTransitionTime")) if known else None) or view.now) + int(seconds)
        if due > view.now:
            return Plan(stages, requeue_at=due)
        effect = Delete.of(BATCH_JOB.resource, job, propagation="Foreground")
        return Plan((*stages, (Write(effect),)))


def release(pod: Pod) -> Write:
    """Return the write that removes our finalizer from a pod."""
    left = [name for name in pod.metadata.finalizers if name != FINALIZER]
    return patching(POD, pod, {"metadata": {"finalizers": left or None}})


def _has_started(job: Workload, pod_counts: PodCounts) -> bool:
    """Return whether a job has or had pods, or was suspended: it is too late to put its pods into a PodGroup."""
    status = job.status
    if pod_counts.pods or status.get("startTime") or status.get("succeeded") or status.get("failed"):
        return True
    return condition_of(status.get("conditions") or (), "Suspended") is not None


class _Reconciliation:
    """One reconciliation of an unfinished job."""

    def __init__(self, job: Workload, pods: Sequence[Pod], view: ReconcileView) -> None:
        self.job, self.view = job, view
        known = verdicts.stored_verdict(job)
        given_up = known is not None and known.type == verdicts.FAILURE_TARGET
        self.pod_counts = PodCounts(job, pods, given_up=given_up)
        self.verdict: Verdict | None = verdicts.verdict(job, self.pod_counts, view.now)
        self.suspended = bool(job.spec.get("suspend"))
        self.events: list[Record] = []

    def plan(self) -> Plan:
        """Return the status write first, so that counted pods may lose their finalizer; then pods."""
        job, pod_counts, view = self.job, self.pod_counts, self.view
        group = JobGroup(job, view)
        if stage := group.missing(has_started=_has_started(job, pod_counts)):
            return NO_CHANGES if view.is_backing_off else Plan((stage,))
        status = self._status()
        stages = list(status_stages(BATCH_JOB, job, status))
        again = verdicts.deadline_of(job)
        if view.is_backing_off:
            return Plan(tuple(stages), tuple(self.events), again)
        if writes := tuple(release(pod) for pod in pod_counts.release):
            stages.append(writes)
        if self.verdict is not None:
            if pod_counts.active:
                stages.append(tuple(deleting(BATCH_JOB, self.job, pod) for pod in pod_counts.active))
        elif job.metadata.deletion_timestamp is None:
            making = PodChanges(job, pod_counts, view)
            if making.surplus:
                stages.append(tuple(release(pod) for pod in making.surplus if FINALIZER in pod.metadata.finalizers))
                stages.append(tuple(deleting(BATCH_JOB, self.job, pod) for pod in making.surplus))
            stages.append(group.resized())
            missing = (group.join(manifest) for manifest in making.missing)
            stages += in_slow_start(creating(BATCH_JOB, self.job, manifest) for manifest in missing)
            again = min((moment for moment in (again, making.again) if moment is not None), default=None)
        return Plan(tuple(stage for stage in stages if stage), tuple(self.events), again)

    def _status(self) -> Manifest:
        job, pod_counts, now = self.job, self.pod_counts, rfc3339(self.view.now)
        status: Manifest = {"ready": pod_counts.ready, "terminating": len(pod_counts.going)}
        if job.status.get("startTime"):
            status["startTime"] = job.status["startTime"]
        elif not self.suspended:
            status["startTime"] = now
        uncounted = {
            name: uids
            for name, uids in (("succeeded", pod_counts.uncounted_succeeded), ("failed", pod_counts.uncounted_failed))
            if uids
        }
        status["uncountedTerminatedPods"] = uncounted
        done = len(pod_counts.completed) if pod_counts.indexed else pod_counts.base_succeeded
        counts = {"active": len(pod_counts.active), "succeeded": done, "failed": pod_counts.base_failed}
        status.update({name: number for name, number in counts.items() if number})
        if pod_counts.completed:
            status["completedIndexes"] = format_indexes(pod_counts.completed)
        if pod_counts.by_index:
            status["failedIndexes"] = format_indexes(pod_counts.failed_indexes)
        conditions: list[Manifest] = job.status.get("conditions") or []
        conditions = self._decided(status, conditions) if self.verdict is not None else self._paused(status, conditions)
        if conditions:
            status["conditions"] = conditions
        return status

    def _decided(self, status: Manifest, conditions: list[Manifest]) -> list[Manifest]:
        """Return the interim condition at once; the final one when no pod runs and all are counted."""
        assert self.verdict is not None
        type_, reason, message = self.verdict
        now, pod_counts = self.view.now, self.pod_counts
        interim = ConditionUpdate(type_, True, reason, message)
        conditions = with_condition(conditions, interim, now)
        is_stored = verdicts.stored_verdict(self.job) is not None
        is_counted = not (pod_counts.release or status["uncountedTerminatedPods"])
        if not is_stored or not is_counted or pod_counts.active or pod_counts.going:
            return _probed(conditions, now)
        final = verdicts.FINAL[type_]
        conditions = with_condition(conditions, interim._replace(type=final), now)
        if final == verdicts.COMPLETE:
            status["completionTime"] = rfc3339(now)
            self._record("Normal", "Completed", "Job completed")
        else:
            self._record("Warning", reason, message)
        return _probed(conditions, now)

    def _paused(self, status: Manifest, conditions: list[Manifest]) -> list[Manifest]:
        """Set the condition of a job that was suspended or resumed.

        A resumed job restarts its clock.
        """
        known = condition_of(conditions, "Suspended")
        now = self.view.now
        if self.suspended and (known is None or known.get("status") != "True"):
            self._record("Normal", "Suspended", "Job suspended")
            status.pop("startTime", None)
            suspended = ConditionUpdate("Suspended", True, "JobSuspended", "Job suspended")
            return _probed(with_condition(conditions, suspended, now), now)
        if not self.suspended and known is not None and known.get("status") == "True":
            self._record("Normal", "Resumed", "Job resumed")
            status["startTime"] = rfc3339(now)
            resumed = ConditionUpdate("Suspended", False, "JobResumed", "Job resumed")
            return _probed(with_condition(conditions, resumed, now), now)
        return conditions

    def _record(self, type_: str, reason: str, message: str) -> None:
        if not self.view.is_backing_off:
            regarding = object_reference(BATCH_JOB, self.job)
            self.events.append(Record(regarding=regarding, type=type_, reason=reason, message=message))


def _probed(conditions: list[Manifest], now: float) -> list[Manifest]:
    """Return the conditions with their lastProbeTime."""
    return [one if one.get("lastProbeTime") else {**one, "lastProbeTime": rfc3339(now)} for one in conditions]
