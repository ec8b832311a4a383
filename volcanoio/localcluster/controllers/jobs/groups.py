"""The Workload and the native PodGroup of a batch Job with `spec.scheduling`.

Kubernetes: pkg/controller/job/job_scheduling_manager.go of 1.37 (KEP-5547), with three differences: a Job without
`spec.scheduling` gets neither; a PodGroup is not made for a Job that another controller made; and pods do not have the
PodGroup as a second owner, because they would outlive a deleted Job: the PodGroup stays until they have ended. Both
objects are made before the first pod; a Job that has started without them goes on without.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

from volcanoio.framework.effects import Create, Patch
from volcanoio.framework.reconciler import ReconcileView, Stage, Write, WriteEvents
from volcanoio.localcluster.controllers.objects import BATCH_JOB, Workload, count
from volcanoio.model import workloads
from volcanoio.model.base import ApiObject, Manifest
from volcanoio.model.kinds import NATIVE_POD_GROUP, WORKLOAD, Kind, object_reference, owner_reference
from volcanoio.model.workloads import NativePodGroup

MANAGED_BY = "batch.kubernetes.io/workload-managed-by"
"""Annotation of the objects that this controller makes."""
_MANAGER = "job-controller"
_LONGEST_PREFIX = 253 - 10 - 1
_FIELDS = ("schedulingConstraints", "disruptionMode", "resourceClaims")


class JobGroup:
    """What a batch Job needs before its pods are made. `name` is that of its PodGroup, "" for a Job without."""

    def __init__(self, job: Workload, view: ReconcileView) -> None:
        self._job, self._view = job, view
        self.group: NativePodGroup | None = None
        self.is_wanted = _wants_group(job)
        if self.is_wanted:
            name = group_name(job)
            self._workload = view.objects.get(WORKLOAD, f"{job.metadata.namespace}/{name}", workloads.Workload)
            found = view.objects.get(NATIVE_POD_GROUP, f"{job.metadata.namespace}/{name}", NativePodGroup)
            self.group = found if found is not None and _is_owned(found, job) else None

    def missing(self, *, has_started: bool) -> Stage:
        """Return the write that makes the next missing object; () if there is none, or the Job has started."""
        if not self.is_wanted or has_started or self.group is not None:
            return ()
        job = self._job
        if self._workload is None:
            return (_creating(WORKLOAD, job, _workload_manifest(job), "WorkloadCreated"),)
        if not _is_owned(self._workload, job):
            return ()
        return (_creating(NATIVE_POD_GROUP, job, _group_manifest(job, self._workload), "PodGroupCreated"),)

    def resized(self) -> Stage:
        """Return the writes that follow a changed minimum of the gang."""
        if self.group is None:
            return ()
        gang, wanted = self.group.spec.scheduling_policy.gang, _policy(self._job).get("gang")
        if gang is None or wanted is None or gang.min_count == wanted["minCount"]:
            return ()
        policy = {"spec": {"schedulingPolicy": {"gang": {"minCount": wanted["minCount"]}}}}
        writes = [Write(Patch.of(NATIVE_POD_GROUP.resource, self.group, policy))]
        if self._workload is not None:
            templates = {"spec": {"podGroupTemplates": [_template(self._job)]}}
            writes.append(Write(Patch.of(WORKLOAD.resource, self._workload, templates)))
        return tuple(writes)

    def join(self, pod: Manifest) -> Manifest:
        """Return a new pod as a member of the PodGroup."""
        if (group := self.group) is None:
            return pod
        return {**pod, "spec": {**pod["spec"], "schedulingGroup": {"podGroupName": group.metadata.name}}}


def group_name(job: Workload) -> str:
    """Return the name of a Job's Workload and PodGroup."""
    digest = blake2b(job.metadata.uid.encode(), digest_size=5).hexdigest()
    return f"{job.metadata.name[:_LONGEST_PREFIX]}-{digest}"


def _wants_group(job: Workload) -> bool:
    """Return whether a Job asks for a PodGroup: its pods must name none, and no controller may have made it."""
    template: Any = job.spec.get("template") or {}
    names_group = (template.get("spec") or {}).get("schedulingGroup") is not None
    return isinstance(job.spec.get("scheduling"), dict) and not names_group and job.metadata.controller is None


def _is_owned(obj: ApiObject, job: Workload) -> bool:
    controller = obj.metadata.controller
    return controller is not None and controller.uid == job.metadata.uid


def _creating(kind: Kind, job: Workload, manifest: Manifest, reason: str) -> Write:
    name = manifest["metadata"]["name"]
    events = WriteEvents(
        object_reference(BATCH_JOB, job),
        on_success=(reason, f"Created {kind.kind} {name} for Job {job.metadata.name}"),
        on_failure=("FailedWorkloadCreate", f"Failed to create {kind.kind} for Job {job.metadata.name}: "),
    )
    return Write(Create(resource=kind.resource, manifest=manifest), events)


def _policy(job: Workload) -> Manifest:
    """Return the scheduling policy: basic by default; a gang without minCount needs `parallelism` pods."""
    policy = job.spec["scheduling"].get("schedulingPolicy") or {}
    if policy.get("gang") is None:
        return {"basic": {}}
    return {"gang": {"minCount": policy["gang"].get("minCount") or count(job.spec.get("parallelism"), 1)}}


def _template(job: Workload) -> Manifest:
    given = job.spec["scheduling"]
    fields = {name: given[name] for name in _FIELDS if given.get(name) is not None}
    return {"name": f"{job.metadata.name[:55]}-pgt-0", "schedulingPolicy": _policy(job), **fields}


def _metadata(job: Workload, *owners: Manifest) -> Manifest:
    return {
        "name": group_name(job),
        "namespace": job.metadata.namespace,
        "annotations": {MANAGED_BY: _MANAGER},
        "ownerReferences": [owner_reference(BATCH_JOB, job), *owners],
    }


def _workload_manifest(job: Workload) -> Manifest:
    controller = {"apiGroup": BATCH_JOB.group, "kind": BATCH_JOB.kind, "name": job.metadata.name}
    return {
        "apiVersion": WORKLOAD.api_version,
        "kind": WORKLOAD.kind,
        "metadata": _metadata(job),
        "spec": {"controllerRef": controller, "podGroupTemplates": [_template(job)]},
    }


def _group_manifest(job: Workload, workload: ApiObject) -> Manifest:
    meta = workload.metadata
    owner = {"apiVersion": WORKLOAD.api_version, "kind": WORKLOAD.kind, "name": meta.name, "uid": meta.uid}
    template = _template(job)
    reference = {"workloadName": meta.name, "templateName": template.pop("name")}
    return {
        "apiVersion": NATIVE_POD_GROUP.api_version,
        "kind": NATIVE_POD_GROUP.kind,
        "metadata": _metadata(job, owner),
        "spec": {"workloadRef": reference, **template},
    }
