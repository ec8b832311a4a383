"""Fields that are accepted but have no effect yet: whoever sets one is told, instead of being left to wonder.

A row goes when its feature lands.
"""

from __future__ import annotations

from collections.abc import Mapping

from volcanoio.engine.admission.findings import Findings
from volcanoio.model.batch import Job
from volcanoio.model.scheduling import PodGroup


def mention_job(job: Job, findings: Findings) -> None:
    """Warn of a Job's fields without effect."""
    spec = job.spec
    given = {
        "spec.networkTopology": spec.network_topology is not None,
    }
    for index, task in enumerate(spec.tasks):
        given[f"spec.tasks[{index}].partitionPolicy.networkTopology"] = (
            task.partition_policy is not None and task.partition_policy.network_topology is not None
        )
    _mention(given, findings)


def mention_pod_group(group: PodGroup, findings: Findings) -> None:
    """Warn of a PodGroup's fields without effect."""
    given = {"spec.networkTopology": group.spec.network_topology is not None}
    for index, policy in enumerate(group.spec.sub_group_policy):
        given[f"spec.subGroupPolicy[{index}].networkTopology"] = policy.network_topology is not None
    _mention(given, findings)


def _mention(given: Mapping[str, bool], findings: Findings) -> None:
    for field, is_given in given.items():
        if is_given:
            findings.mention(field, "accepted, but not considered yet", "the pods are placed and kept as without it")
