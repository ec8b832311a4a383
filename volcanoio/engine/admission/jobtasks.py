"""Rules of a Job's tasks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from volcanoio.engine.admission.dnsnames import qualified_rule
from volcanoio.engine.admission.findings import Findings
from volcanoio.engine.admission.jobpolicies import check_policies
from volcanoio.engine.admission.podtemplate import validate_pod_template
from volcanoio.model import quantity
from volcanoio.model.base import Manifest
from volcanoio.model.batch import Job, NetworkTopology, TaskSpec

LONGEST_POD_NAME = 63
MISSPELT = {"priorityClass": "priorityClassName", "nodeselector": "nodeSelector", "restartpolicy": "restartPolicy"}
"""Fields of a pod spec that do not exist, and what was meant."""


def check_tasks(job: Job, findings: Findings) -> None:
    """Every task of a new Job."""
    seen: set[str] = set()
    for index, task in enumerate(job.spec.tasks):
        path = f"spec.tasks[{index}]"
        if task.name in seen:
            findings.refuse(f"{path}.name", f"duplicated task name {task.name}", "give every task its own name")
            continue
        seen.add(task.name)
        check_counts(task, path, findings)
        check_policies(task.policies, f"{path}.policies", findings)
        _check_pod_name(job, task, path, findings)
        _check_template(task, f"{path}.template", findings)
        if task.topology_policy not in ("", "none"):
            _check_whole_cpus(task, f"{path}.template.spec", findings)


def check_counts(task: TaskSpec, path: str, findings: Findings) -> None:
    """A task's numbers, on create and update."""
    if task.replicas < 0:
        findings.refuse(f"{path}.replicas", f"'replicas' < 0 in task: {task.name}", "give 0 or more")
    minimum = task.min_available
    if minimum is not None and minimum < 0:
        findings.refuse(f"{path}.minAvailable", f"'minAvailable' < 0 in task: {task.name}", "give 0 or more")
    elif minimum is not None and minimum > task.replicas:
        findings.refuse(
            f"{path}.minAvailable",
            f"'minAvailable' is greater than 'replicas' in task: {task.name} ({minimum} > {task.replicas})",
            "lower minAvailable or raise replicas",
        )
    _check_partitions(task, f"{path}.partitionPolicy", findings)


def check_topology(topology: NetworkTopology | None, path: str, findings: Findings) -> None:
    """The two ways to name the highest tier exclude each other."""
    if topology is not None and topology.highest_tier_allowed is not None and topology.highest_tier_name:
        findings.refuse(
            path,
            "must not specify 'highestTierAllowed' and 'highestTierName' in networkTopology simultaneously",
            "keep one of them",
        )


def _check_partitions(task: TaskSpec, path: str, findings: Findings) -> None:
    policy = task.partition_policy
    if policy is None:
        return
    check_topology(policy.network_topology, f"{path}.networkTopology", findings)
    for field, value in (("totalPartitions", policy.total_partitions), ("partitionSize", policy.partition_size)):
        if value <= 0:
            findings.refuse(
                f"{path}.{field}", f"'{field}' must be greater than 0 in task: {task.name}", "give 1 or more"
            )
            return
    total = policy.total_partitions * policy.partition_size
    if task.replicas != total:
        findings.refuse(
            path,
            f"'replicas' ({task.replicas}) is not 'totalPartitions' × 'partitionSize' ({total}) in task: {task.name}",
            f"set replicas to {total}",
        )
    wanted = policy.min_partitions * policy.partition_size
    if policy.min_partitions > 0 and task.min_available is not None and task.min_available != wanted:
        findings.refuse(
            path,
            f"'minAvailable' ({task.min_available}) is not 'minPartitions' × 'partitionSize' ({wanted}) in task: "
            f"{task.name}",
            f"set the task's minAvailable to {wanted} or leave it out",
        )


def _check_pod_name(job: Job, task: TaskSpec, path: str, findings: Findings) -> None:
    """The name of the task's last pod, which is the longest."""
    name = f"{job.metadata.name}-{task.name}-{max(task.replicas - 1, 0)}"
    if rule := qualified_rule(name):
        over = len(name) - LONGEST_POD_NAME
        advice = f"shorten the names of job and task by {over}" if over > 0 else "mend the name of job or task"
        findings.refuse(f"{path}.name", f"create pod with name {name} validate failed {rule}", advice)


def _check_template(task: TaskSpec, path: str, findings: Findings) -> None:
    for error in validate_pod_template(task.template, path):
        findings.pass_on(error, "mend the pod template (kubectl explain pod.spec)")
    spec = task.template.get("spec")
    for wrong, meant in MISSPELT.items():
        if isinstance(spec, dict) and wrong in spec:
            findings.tolerate(f"{path}.spec.{wrong}", "there is no such field, it has no effect", f'write "{meant}"')


def _check_whole_cpus(task: TaskSpec, path: str, findings: Findings) -> None:
    """A NUMA policy needs whole CPUs: requests, or limits where there are no requests."""
    for field, container in _containers(task.template):
        resources = container.get("resources") or {}
        wanted = (resources.get("requests") or resources.get("limits") or {}).get("cpu", 0)
        try:
            milli = quantity.milli(wanted)
        except quantity.QuantityError:
            continue  # the pod template's own rules name it
        if milli < 1000 or milli % 1000:
            findings.refuse(
                f"{path}.{field}.resources.requests.cpu",
                f"the cpu request isn't an integer in task: {task.name} (topologyPolicy {task.topology_policy})",
                "request whole CPUs or set topologyPolicy to none",
            )


def _containers(template: Manifest) -> Iterator[tuple[str, dict[str, Any]]]:
    spec = template.get("spec") or {}
    for field in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(field) or ()):
            if isinstance(container, dict):
                yield f"{field}[{index}]", container
