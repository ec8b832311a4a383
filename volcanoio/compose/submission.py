"""Jobs as they would be submitted: with defaults, PodGroup and pods, for a state that is simulated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from volcanoio.compose.whatif import WhatIfError
from volcanoio.engine.admission.jobs import check_content, default_job
from volcanoio.engine.admission.request import AdmissionSettings, Findings
from volcanoio.engine.jobs.pods.manifests import build_pod, pod_group_manifest, pod_group_spec
from volcanoio.framework import entrypoints
from volcanoio.framework.jobpods import priority_class_of
from volcanoio.model import kinds
from volcanoio.model.base import ApiObject, Manifest
from volcanoio.model.batch import Job
from volcanoio.model.core import PriorityClass
from volcanoio.model.kinds import Kind
from volcanoio.model.manifests import ManifestError, load_manifests
from volcanoio.model.quantity import QuantityError
from volcanoio.runtime.loading.registry import Registry


def submit(objects: Sequence[ApiObject], text: str, source: str, registry: Registry, created: str) -> list[ApiObject]:
    """Return the objects, and the PodGroup and all pods of each Job in a YAML or JSON text, created at that time.

    The Jobs are checked as admission checks them, but for the rights to their queue. Raises WhatIfError.
    """
    settings = AdmissionSettings(job_plugins=registry.factories(entrypoints.JOB_PLUGINS))
    priorities = {obj.metadata.name: obj.value for obj in objects if isinstance(obj, PriorityClass)}
    result, known = list(objects), {(kinds.of(obj).resource, obj.metadata.key) for obj in objects}
    try:
        for manifest in load_manifests(text, source):
            for obj in _objects_of(_job(manifest, source, settings, created), priorities, created):
                if (key := (kinds.of(obj).resource, obj.metadata.key)) in known:
                    raise WhatIfError(f"--submit: {source}: {key[1]} exists in the state; submit another name")
                known.add(key)
                result.append(obj)
    except ManifestError as error:
        raise WhatIfError(f"--submit: {error}") from None
    return result


def _job(manifest: Manifest, source: str, settings: AdmissionSettings, created: str) -> Job:
    """Return a checked Job with its defaults."""
    if (manifest.get("apiVersion"), manifest.get("kind")) != (kinds.JOB.api_version, kinds.JOB.kind):
        raise WhatIfError(
            f"--submit: {source}: {manifest.get('kind')} of {manifest.get('apiVersion')} is not a Job of "
            f"{kinds.JOB.api_version}; submit only such Jobs"
        )
    default_job(manifest, settings)
    meta = manifest.setdefault("metadata", {})
    name = meta.get("name") or f"{meta.get('generateName', 'job-')}0"
    meta |= {"name": name, "namespace": meta.get("namespace") or "default", "uid": f"submitted-{name}"}
    meta["creationTimestamp"] = created
    findings = Findings()
    try:
        job = msgspec.convert(manifest, Job)
    except msgspec.ValidationError as error:
        raise WhatIfError(f"--submit: {source}: Job {name}: {error}; correct the manifest") from None
    check_content(job, settings, findings)
    if findings.messages:
        raise WhatIfError(f"--submit: {source}: Job {name}: {'; '.join(findings.messages)}")
    return job


def _objects_of(job: Job, priorities: Mapping[str, int], created: str) -> list[ApiObject]:
    """Return the PodGroup and the pods of a Job as its controller creates them."""
    classes = {job.spec.priority_class_name, *(priority_class_of(task) for task in job.spec.tasks)}
    values = {name: priorities.get(name, 0) for name in classes if name}
    try:
        made = [_created(kinds.POD_GROUP, pod_group_manifest(job, pod_group_spec(job, values)), created)]
        for task in job.spec.tasks:
            for index in range(task.replicas):
                pod = build_pod(job, task, index, (), ())
                pod["spec"].setdefault("priority", values.get(pod["spec"].get("priorityClassName", ""), 0))
                made.append(_created(kinds.POD, pod, created))
    except (QuantityError, msgspec.ValidationError) as error:
        raise WhatIfError(f"--submit: Job {job.metadata.name}: {error}; correct the pod template") from None
    return made


def _created(kind: Kind, manifest: Manifest, created: str) -> ApiObject:
    meta = manifest["metadata"]
    meta |= {"uid": f"{kind.resource}/{meta['namespace']}/{meta['name']}", "creationTimestamp": created}
    return msgspec.convert(manifest, kind.type)
