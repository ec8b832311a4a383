"""The Job of one flow: its name, its marks, and its spec from the JobTemplate and the patch."""

from __future__ import annotations

from collections.abc import Iterable

from volcanoio.engine.flows.patching import patched
from volcanoio.model import kinds, names
from volcanoio.model.base import ApiObject, Manifest
from volcanoio.model.flow import Flow, JobFlow, JobTemplate
from volcanoio.model.references import owner_reference

_LABEL = 63
"""Bytes of a label's value."""


def job_name(flow: JobFlow, name: str) -> str:
    """`<jobflow>-<flow>`."""
    return f"{flow.metadata.name}-{name}"


def build_job(flow: JobFlow, part: Flow, template: JobTemplate) -> Manifest:
    """The Job. What made it stands in annotations, and in labels where their values are not too long for that."""
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
            "labels": {key: value for key, value in marks.items() if len(value) <= _LABEL},
            "ownerReferences": [owner_reference(kinds.JOB_FLOW, flow)],
        },
        "spec": patched(template.spec, part.patch.job_spec) if part.patch is not None else template.spec,
    }


def flow_keys(job: ApiObject) -> Iterable[str]:
    """The key of the JobFlow that controls a Job."""
    owner = job.metadata.controller
    if owner is None or (owner.kind, owner.api_version) != (kinds.JOB_FLOW.kind, kinds.JOB_FLOW.api_version):
        return ()
    return (f"{job.metadata.namespace}/{owner.name}",)


def template_keys(job: ApiObject) -> Iterable[str]:
    """The key of the JobTemplate that a Job was made from: `<namespace>.<name>`, of which only the name holds dots."""
    meta = job.metadata
    mark = meta.annotations.get(names.CREATED_BY_TEMPLATE) or meta.labels.get(names.CREATED_BY_TEMPLATE, "")
    namespace, _, name = mark.partition(".")
    return (f"{namespace}/{name}",) if name and namespace == meta.namespace else ()
