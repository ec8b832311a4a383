"""Defaults and rules of pods: resource groups, the scheduling gate, and annotations for the PodGroup.

Source: Volcano, pkg/webhooks/admission/pods. Pods of a Volcano Job follow the Job's own rules.
"""

from collections.abc import Mapping

from volcanoio.engine.admission.request import AdmissionSettings, Findings
from volcanoio.engine.admission.resource_groups import apply_resource_group
from volcanoio.engine.admission.topology import TOPOLOGY_ANNOTATIONS, check_pod_topology
from volcanoio.model import names
from volcanoio.model.base import Manifest
from volcanoio.model.core import Pod
from volcanoio.model.names import QUEUE_ALLOCATION_GATE

BUDGETS = (names.JDB_MIN_AVAILABLE, names.JDB_MAX_UNAVAILABLE)
"""Annotations with a disruption budget."""
REVIEWED_ANNOTATIONS = TOPOLOGY_ANNOTATIONS | {QUEUE_ALLOCATION_GATE, *BUDGETS}
"""Annotations that a review of a pod reads, except those of resource groups and queues."""


def budget_error(text: str) -> str:
    """Return the rule that a disruption budget breaks, "" for none."""
    digits = text.removesuffix("%")
    number = int(digits) if digits.isascii() and digits.isdigit() else 0
    if number > 0 and (digits == text or number < 100):
        return ""
    return f'"{text}" is neither a number of pods from 1 on nor a part of them from 1% to 99%'


def default_pod(pod: Manifest, namespace: str, settings: AdmissionSettings) -> None:
    """Apply the resource group; add the gate if the annotation of that name is "true" and the scheduler removes gates.

    Volcano adds the gate whatever the scheduler, so that pods of others would wait for ever.
    """
    if not isinstance(spec := pod.get("spec"), dict):
        return
    apply_resource_group(pod, namespace, settings.resource_groups)
    if spec.get("schedulerName") not in settings.gated_schedulers:
        return
    annotations = (pod.get("metadata") or {}).get("annotations") or {}
    gates = spec.get("schedulingGates") or []
    if annotations.get(QUEUE_ALLOCATION_GATE) == "true" and {"name": QUEUE_ALLOCATION_GATE} not in gates:
        spec["schedulingGates"] = [*gates, {"name": QUEUE_ALLOCATION_GATE}]


def check_pod(pod: Pod, old: Pod | None, settings: AdmissionSettings, findings: Findings) -> None:
    """Check a pod's annotations for its PodGroup; on an update only those that changed."""
    annotations = pod.metadata.annotations
    if names.JOB_NAME in annotations or not settings.schedules(pod.spec.scheduler_name):
        return
    before = {} if old is None else old.metadata.annotations
    group = annotations.get(names.GROUP_NAME, names.PODGROUP_PREFIX)
    if group.startswith(names.PODGROUP_PREFIX):
        check_pod_topology(annotations, None if old is None else before, findings)
    if any(annotations.get(name) != before.get(name) for name in BUDGETS):
        _check_budgets(annotations, findings)


def _check_budgets(annotations: Mapping[str, str], findings: Findings) -> None:
    for name in BUDGETS:
        if name in annotations and (broken := budget_error(annotations[name])):
            findings.refuse(f"metadata.annotations[{name}]", broken, "write such as 2 or 25%")
    if all(name in annotations for name in BUDGETS):
        rule = f"not allowed together with {names.JDB_MIN_AVAILABLE}"
        findings.refuse(f"metadata.annotations[{names.JDB_MAX_UNAVAILABLE}]", rule, "keep one of them")
