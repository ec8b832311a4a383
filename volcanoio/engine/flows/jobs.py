"""Job of one flow: its name, labels and annotations, and its spec from the JobTemplate and the patch.

`flows[].patch.jobSpec` is merged field by field; a list whose entries have a key (tasks by name, containers by name,
…) entry by entry, new entries after existing ones; any other list, and any other value, replaces the old one. This is
what `kubectl patch` does to pods (strategic merge), for the lists of a Job.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from volcanoio.framework.operators import owner_key
from volcanoio.model import kinds, names
from volcanoio.model.base import ApiObject, Manifest
from volcanoio.model.flow import Flow, JobFlow, JobTemplate
from volcanoio.model.kinds import owner_reference

MERGE_KEYS: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "tasks": (("name",),),
    "volumes": (("name",), ("mountPath",)),  # of a pod, of a Job
    "containers": (("name",),),
    "initContainers": (("name",),),
    "env": (("name",),),
    "ports": (("containerPort", "protocol"), ("containerPort",)),
    "volumeMounts": (("mountPath",),),
    "volumeDevices": (("devicePath",),),
    "imagePullSecrets": (("name",),),
    "hostAliases": (("ip",),),
    "topologySpreadConstraints": (("topologyKey", "whenUnsatisfiable"),),
}
"""Keys that identify the entries of a list field; the first that all entries have. (Kubernetes: `patchMergeKey`.)"""


def apply_patch(spec: Manifest, patch: Manifest) -> Manifest:
    """Return the spec with the patch applied; neither is changed."""
    result = dict(spec)
    for field, value in patch.items():
        if value is None:
            result.pop(field, None)
        else:
            result[field] = _merge_field(field, result.get(field), value)
    return result


def _merge_field(field: str, old: Any, new: Any) -> Any:
    if isinstance(old, dict) and isinstance(new, dict):
        return apply_patch(old, new)
    if isinstance(old, list) and isinstance(new, list):
        for keys in MERGE_KEYS.get(field, ()):
            if all(isinstance(entry, dict) and entry.keys() >= {*keys} for entry in (*old, *new)):
                return _merge_by_key(old, new, keys)
    return new


def _merge_by_key(old: list[Manifest], new: list[Manifest], keys: tuple[str, ...]) -> list[Manifest]:
    entries = {tuple(entry[key] for key in keys): entry for entry in old}
    for entry in new:
        key = tuple(entry[each] for each in keys)
        entries[key] = apply_patch(entries[key], entry) if key in entries else entry
    return list(entries.values())


_MAX_LABEL_VALUE = 63
"""Maximum length of a label's value, in bytes."""


def job_name(flow: JobFlow, name: str) -> str:
    """Return `<jobflow>-<flow>`."""
    return f"{flow.metadata.name}-{name}"


def build_job(flow: JobFlow, part: Flow, template: JobTemplate) -> Manifest:
    """Return the Job. Its origin is in annotations, and in labels where the values are short enough."""
    namespace = flow.metadata.namespace
    marks = {
        names.CREATED_BY_TEMPLATE: f"{namespace}.{part.name}",
        names.CREATED_BY_FLOW: f"{namespace}.{flow.metadata.name}",
    }
    return {
        "apiVersion": kinds.JOB.api_version,
        "kind": kinds.JOB.kind,
        "metadata": {
            "name": job_name(flow, part.name),
            "namespace": namespace,
            "annotations": marks,
            "labels": {key: value for key, value in marks.items() if len(value) <= _MAX_LABEL_VALUE},
            "ownerReferences": [owner_reference(kinds.JOB_FLOW, flow)],
        },
        "spec": apply_patch(template.spec, part.patch.job_spec) if part.patch is not None else template.spec,
    }


def flow_keys(job: ApiObject) -> Iterable[str]:
    """Return the key of the JobFlow that controls a Job."""
    key = owner_key(kinds.JOB_FLOW, job)
    return (key,) if key else ()


def template_keys(job: ApiObject) -> Iterable[str]:
    """Return the key of a Job's JobTemplate, from `<namespace>.<name>`, of which only the name contains dots."""
    meta = job.metadata
    mark = meta.annotations.get(names.CREATED_BY_TEMPLATE) or meta.labels.get(names.CREATED_BY_TEMPLATE, "")
    namespace, _, name = mark.partition(".")
    return (f"{namespace}/{name}",) if name and namespace == meta.namespace else ()
