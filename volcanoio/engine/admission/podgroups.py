"""Defaults and rules of a PodGroup (Volcano: pkg/webhooks/admission/podgroups)."""

from __future__ import annotations

from volcanoio.engine.admission.findings import Findings
from volcanoio.engine.admission.jobtasks import check_topology
from volcanoio.engine.admission.queueuse import check_open
from volcanoio.engine.admission.request import AdmissionLookup
from volcanoio.model import kinds, names
from volcanoio.model.base import Manifest
from volcanoio.model.scheduling import PodGroup


def default_pod_group(group: Manifest, namespace: str, lookup: AdmissionLookup) -> None:
    """A PodGroup of the default queue goes to the one its namespace names."""
    spec = group.get("spec")
    if not isinstance(spec, dict) or spec.get("queue") != names.DEFAULT_QUEUE:
        return
    home = lookup.get(kinds.NAMESPACE, namespace)
    if home is not None and (queue := home.metadata.annotations.get(names.QUEUE_NAME_ANNOTATION)):
        spec["queue"] = queue


def check_pod_group(group: PodGroup, lookup: AdmissionLookup, findings: Findings) -> None:
    """The queue is open; counts are not negative; topologies are sound."""
    if group.spec.queue:
        check_open(group.spec.queue, lookup, findings, what="podgroup")
    if group.spec.min_member < 0:
        findings.refuse("spec.minMember", "minMember must be >= 0", "give the pods that must start together")
    for task, minimum in sorted(group.spec.min_task_member.items()):
        if minimum < 0:
            findings.refuse(
                f"spec.minTaskMember.{task}", "must be >= 0", "give the task's pods that must start together"
            )
    check_topology(group.spec.network_topology, "spec.networkTopology", findings)
    for index, policy in enumerate(group.spec.sub_group_policy):
        check_topology(policy.network_topology, f"spec.subGroupPolicy[{index}].networkTopology", findings)
        if not policy.match_label_keys:
            rule = "a policy without matchLabelKeys takes no pod"
            findings.mention(f"spec.subGroupPolicy[{index}]", rule, "name the labels that tell its sub-groups apart")
