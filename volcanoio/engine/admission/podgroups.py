"""Defaults and rules of PodGroups.

Source: Volcano, pkg/webhooks/admission/podgroups.
"""

from volcanoio.engine.admission.jobtasks import check_topology
from volcanoio.engine.admission.queue_rights import default_queue_of
from volcanoio.engine.admission.queues import check_open
from volcanoio.engine.admission.request import AdmissionLookup, Findings
from volcanoio.model import names
from volcanoio.model.base import Manifest
from volcanoio.model.scheduling import PodGroup


def default_pod_group(group: Manifest, namespace: str, lookup: AdmissionLookup) -> None:
    """Replace the default queue by the one that the namespace's annotation names."""
    if not isinstance(spec := group.get("spec"), dict) or spec.get("queue") != names.DEFAULT_QUEUE:
        return
    spec["queue"] = default_queue_of(namespace, lookup)


def check_pod_group(group: PodGroup, lookup: AdmissionLookup, findings: Findings) -> None:
    """Check that the queue is open, counts are not negative, and topologies are valid."""
    if group.spec.queue:
        check_open(group.spec.queue, lookup, findings, what="PodGroup")
    if group.spec.min_member < 0:
        findings.refuse("spec.minMember", "minMember must be >= 0", "give the pods that must start together")
    for task, minimum in sorted(group.spec.min_task_member.items()):
        if minimum < 0:
            findings.refuse(
                f"spec.minTaskMember.{task}", "must be >= 0", "give the task's pods that must start together"
            )
    check_topology(group.spec.network_topology, "spec.networkTopology", findings)
    for index, policy in enumerate(group.spec.sub_group_policy):
        path, prefix = f"spec.subGroupPolicy[{index}].networkTopology", f"in subGroupPolicy '{policy.name}': "
        check_topology(policy.network_topology, path, findings, prefix=prefix)
        if not policy.match_label_keys:
            rule = "a policy without matchLabelKeys takes no pod"
            findings.warn(f"spec.subGroupPolicy[{index}]", rule, "name the labels that distinguish its sub-groups")
