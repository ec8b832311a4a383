"""Fields that are accepted but have no effect yet: whoever sets one is told, instead of being left to wonder.

A row goes when its feature lands.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from volcanoio.engine.admission.findings import Findings
from volcanoio.model.base import Manifest
from volcanoio.model.batch import Job
from volcanoio.model.scheduling import PodGroup

_POD_FIELDS: Mapping[str, tuple[str, ...]] = {
    "affinity.podAffinity": ("affinity", "podAffinity"),
    "affinity.podAntiAffinity": ("affinity", "podAntiAffinity"),
    "topologySpreadConstraints": ("topologySpreadConstraints",),
}
"""Fields of a pod's spec that no filter reads yet."""


def mention_job(job: Job, findings: Findings) -> None:
    """Warn of a Job's fields without effect."""
    spec = job.spec
    given = {
        "spec.networkTopology": spec.network_topology is not None,
        "spec.ttlSecondsAfterFinished": spec.ttl_seconds_after_finished is not None,
    }
    for index, task in enumerate(spec.tasks):
        given[f"spec.tasks[{index}].partitionPolicy.networkTopology"] = (
            task.partition_policy is not None and task.partition_policy.network_topology is not None
        )
        for field in _of_pod(task.template.get("spec") or {}):
            given[f"spec.tasks[{index}].template.spec.{field}"] = True
    _mention(given, findings)


def mention_pod_group(group: PodGroup, findings: Findings) -> None:
    """Warn of a PodGroup's fields without effect."""
    _mention(
        {
            "spec.networkTopology": group.spec.network_topology is not None,
            "spec.subGroupPolicy": bool(group.spec.sub_group_policy),
        },
        findings,
    )


def _of_pod(spec: Manifest) -> Iterator[str]:
    for name, path in _POD_FIELDS.items():
        value: Any = spec
        for part in path:
            value = value.get(part) if isinstance(value, dict) else None
        if value:
            yield name
    for number, container in enumerate(spec.get("containers") or ()):
        if any(port.get("hostPort") for port in container.get("ports") or ()):
            yield f"containers[{number}].ports[].hostPort"


def _mention(given: Mapping[str, bool], findings: Findings) -> None:
    for field, is_given in given.items():
        if is_given:
            findings.mention(field, "accepted, but not considered yet", "the pods are placed and kept as without it")
