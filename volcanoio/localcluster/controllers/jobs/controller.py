"""The controller of batch Jobs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from volcanoio.framework.effects import Delete, Record
from volcanoio.framework.events import Observed
from volcanoio.localcluster.controllers.conditions import find, with_condition
from volcanoio.localcluster.controllers.frame.contract import (
    NOTHING,
    Defaults,
    Plan,
    Stage,
    View,
    Write,
    in_slow_start,
)
from volcanoio.localcluster.controllers.frame.tables import Tables
from volcanoio.localcluster.controllers.jobs import verdict as verdicts
from volcanoio.localcluster.controllers.jobs.indexes import shown
from volcanoio.localcluster.controllers.jobs.making import Making
from volcanoio.localcluster.controllers.jobs.tally import FINALIZER, Tally
from volcanoio.localcluster.controllers.jobs.verdict import Verdict
from volcanoio.localcluster.controllers.kinds import BATCH_JOB, Workload
from volcanoio.localcluster.controllers.owners import claim, concerned, selector_of, status_stages
from volcanoio.localcluster.controllers.writes import creating, deleting, patching
from volcanoio.model.base import Manifest
from volcanoio.model.core import Pod
from volcanoio.model.kinds import POD
from volcanoio.model.references import object_reference
from volcanoio.model.times import epoch, rfc3339

_OURS = "kubernetes.io/job-controller"
"""The value of `spec.managedBy` that means us; others' jobs are theirs."""


class JobController(Defaults):
    """Runs batch Jobs to their end, and removes those whose time is over."""

    name = "job-controller"
    primary = BATCH_JOB
    reads = (POD,)

    def keys(self, event: Observed, tables: Tables) -> Iterable[str]:
        """Itself; of a pod those it belongs to or may; a pod that holds our finalizer for no job is a key, too."""
        if event.resource == BATCH_JOB.resource:
            return (event.obj.metadata.key,)
        meta = event.obj.metadata
        jobs = tables.namespace(BATCH_JOB, meta.namespace, Workload)
        keys = concerned(BATCH_JOB, jobs, event.obj, event.previous) if jobs else []
        if not keys and FINALIZER in meta.finalizers and meta.controller is not None:
            keys = [f"{meta.namespace}/{meta.controller.name}"]
        return keys

    def all_keys(self, tables: Tables, now: float) -> Iterable[str]:
        """All jobs, and those that are gone and have left pods."""
        del now
        left = (
            f"{pod.metadata.namespace}/{controller.name}"
            for pod in tables.all(POD, Pod)
            if FINALIZER in pod.metadata.finalizers and (controller := pod.metadata.controller) is not None
        )
        return sorted({*tables.table(BATCH_JOB).objects, *left})

    def reconcile(self, key: str, view: View) -> Plan:
        """Count what has ended, decide, and make or end pods."""
        job = view.tables.get(BATCH_JOB, key, Workload)
        if job is None:
            return self._released(key, view)
        if job.spec.get("managedBy") not in (None, _OURS):
            return NOTHING
        meta = job.metadata
        owned = view.tables.controlled(POD, meta.uid, Pod)
        loose = view.tables.loose(POD, meta.namespace, Pod)
        pods, claims = claim(job, BATCH_JOB, selector_of(job), POD, owned, loose)
        if claims and not view.held:
            return Plan((tuple(claims),))
        if verdicts.final_condition(job) is not None:
            return self._over(job, pods, view)
        return _Look(job, pods, view).plan()

    def _released(self, key: str, view: View) -> Plan:
        """Pods of a job that is gone are not counted any more."""
        namespace, _, name = key.partition("/")
        writes = [
            release(pod)
            for pod in view.tables.namespace(POD, namespace, Pod)
            if FINALIZER in pod.metadata.finalizers
            and (controller := pod.metadata.controller) is not None
            and (controller.kind, controller.name) == (BATCH_JOB.kind, name)
        ]
        return Plan((tuple(writes),)) if writes else NOTHING

    def _over(self, job: Workload, pods: Sequence[Pod], view: View) -> Plan:
        """A finished job: nothing holds its pods, and after its time it goes."""
        writes = tuple(release(pod) for pod in pods if FINALIZER in pod.metadata.finalizers)
        stages: tuple[Stage, ...] = (writes,) if writes else ()
        seconds, meta = job.spec.get("ttlSecondsAfterFinished"), job.metadata
        if seconds is None or meta.deletion_timestamp is not None:
            return Plan(stages)
        known = find(job.status.get("conditions") or (), verdicts.final_condition(job) or "")
        due = ((epoch(known.get("lastTransitionTime")) if known else None) or view.now) + int(seconds)
        if due > view.now:
            return Plan(stages, again=due)
        effect = Delete(
            resource=BATCH_JOB.resource, namespace=meta.namespace, name=meta.name, uid=meta.uid,
            propagation="Foreground",
        )  # fmt: skip
        return Plan((*stages, (Write(effect),)))


def release(pod: Pod) -> Write:
    """The write that takes our finalizer off a pod."""
    left = [name for name in pod.metadata.finalizers if name != FINALIZER]
    return patching(POD, pod, {"metadata": {"finalizers": left or None}})


class _Look:
    """One look at a job that goes on."""

    def __init__(self, job: Workload, pods: Sequence[Pod], view: View) -> None:
        self.job, self.view = job, view
        known = verdicts.stored_verdict(job)
        given_up = known is not None and known.type == verdicts.FAILURE_TARGET
        self.tally = Tally(job, pods, given_up=given_up)
        self.verdict: Verdict | None = verdicts.verdict(job, self.tally, view.now)
        self.suspended = bool(job.spec.get("suspend"))
        self.events: list[Record] = []

    def plan(self) -> Plan:
        """The status first, as what it counts may then lose its finalizer; then pods."""
        job, tally, view = self.job, self.tally, self.view
        status = self._status()
        stages = list(status_stages(BATCH_JOB, job, status))
        again = verdicts.deadline_of(job)
        if view.held:
            return Plan(tuple(stages), tuple(self.events), again)
        if writes := tuple(release(pod) for pod in tally.release):
            stages.append(writes)
        if self.verdict is not None:
            if tally.active:
                stages.append(tuple(deleting(BATCH_JOB, self.job, pod) for pod in tally.active))
        elif job.metadata.deletion_timestamp is None:
            making = Making(job, tally, view)
            if making.surplus:
                stages.append(tuple(release(pod) for pod in making.surplus if FINALIZER in pod.metadata.finalizers))
                stages.append(tuple(deleting(BATCH_JOB, self.job, pod) for pod in making.surplus))
            stages += in_slow_start(creating(BATCH_JOB, self.job, manifest) for manifest in making.make)
            again = min((moment for moment in (again, making.again) if moment is not None), default=None)
        return Plan(tuple(stage for stage in stages if stage), tuple(self.events), again)

    def _status(self) -> Manifest:
        job, tally, now = self.job, self.tally, rfc3339(self.view.now)
        status: Manifest = {"ready": tally.ready, "terminating": len(tally.going)}
        if job.status.get("startTime"):
            status["startTime"] = job.status["startTime"]
        elif not self.suspended:
            status["startTime"] = now
        uncounted = {
            name: uids
            for name, uids in (("succeeded", tally.uncounted_succeeded), ("failed", tally.uncounted_failed))
            if uids
        }
        status["uncountedTerminatedPods"] = uncounted
        done = len(tally.completed) if tally.indexed else tally.base_succeeded
        counts = {"active": len(tally.active), "succeeded": done, "failed": tally.base_failed}
        status.update({name: number for name, number in counts.items() if number})
        if tally.completed:
            status["completedIndexes"] = shown(tally.completed)
        if tally.by_index:
            status["failedIndexes"] = shown(tally.failed_indexes)
        conditions: list[Manifest] = job.status.get("conditions") or []
        conditions = self._decided(status, conditions) if self.verdict is not None else self._paused(status, conditions)
        if conditions:
            status["conditions"] = conditions
        return status

    def _decided(self, status: Manifest, conditions: list[Manifest]) -> list[Manifest]:
        """The interim condition at once; the final one when no pod runs and all are counted."""
        assert self.verdict is not None
        type_, reason, message = self.verdict
        now, tally = self.view.now, self.tally
        conditions = with_condition(conditions, type_, True, reason, message, now, update=False)
        told = verdicts.stored_verdict(self.job) is not None
        if not told or tally.active or tally.going or tally.release or status["uncountedTerminatedPods"]:
            return _probed(conditions, now)
        final = verdicts.FINAL[type_]
        conditions = with_condition(conditions, final, True, reason, message, now, update=False)
        if final == verdicts.COMPLETE:
            status["completionTime"] = rfc3339(now)
            self._say("Normal", "Completed", "Job completed")
        else:
            self._say("Warning", reason, message)
        return _probed(conditions, now)

    def _paused(self, status: Manifest, conditions: list[Manifest]) -> list[Manifest]:
        """Suspended and resumed; a job that is resumed starts anew."""
        known = find(conditions, "Suspended")
        now = self.view.now
        if self.suspended and (known is None or known.get("status") != "True"):
            self._say("Normal", "Suspended", "Job suspended")
            status.pop("startTime", None)
            return _probed(
                with_condition(conditions, "Suspended", True, "JobSuspended", "Job suspended", now, update=False), now
            )
        if not self.suspended and known is not None and known.get("status") == "True":
            self._say("Normal", "Resumed", "Job resumed")
            status["startTime"] = rfc3339(now)
            return _probed(
                with_condition(conditions, "Suspended", False, "JobResumed", "Job resumed", now, update=False), now
            )
        return conditions

    def _say(self, type_: str, reason: str, message: str) -> None:
        if not self.view.held:
            regarding = object_reference(BATCH_JOB, self.job)
            self.events.append(Record(regarding=regarding, type=type_, reason=reason, message=message))


def _probed(conditions: list[Manifest], now: float) -> list[Manifest]:
    """A job's conditions say when they were looked at."""
    return [one if one.get("lastProbeTime") else {**one, "lastProbeTime": rfc3339(now)} for one in conditions]
