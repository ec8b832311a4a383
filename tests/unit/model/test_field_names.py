"""The names of all fields of our CRDs are Volcano's, spelled out here: automatic camel case does not know acronyms."""

from __future__ import annotations

from typing import Any

import pytest

from volcanoio.model.crds.definitions import DEFINITIONS

KUBERNETES_TYPES = frozenset({"template", "volumeClaim", "labelSelector", "labelMatch", "selector"})
"""Fields that hold types of Kubernetes, whose names come from its models: their own fields are not listed here."""
TOPOLOGY = "highestTierAllowed highestTierName mode"
POLICY = "action event events exitCode timeout"
AFFINITY = "preferredDuringSchedulingIgnoredDuringExecution requiredDuringSchedulingIgnoredDuringExecution"
CONDITION = "lastTransitionTime message observedGeneration reason status type"
TOP = "apiVersion kind metadata spec status"
JOB_SPEC = {
    "": (
        "maxRetry minAvailable minSuccess networkTopology plugins policies priorityClassName queue runningEstimate "
        "schedulerName tasks ttlSecondsAfterFinished volumes"
    ),
    "networkTopology": TOPOLOGY,
    "policies": POLICY,
    "tasks": ("dependsOn maxRetry minAvailable name partitionPolicy policies replicas template topologyPolicy"),
    "tasks.dependsOn": "iteration name",
    "tasks.partitionPolicy": "minPartitions networkTopology partitionSize totalPartitions",
    "tasks.partitionPolicy.networkTopology": TOPOLOGY,
    "tasks.policies": POLICY,
    "volumes": "mountPath volumeClaim volumeClaimName",
}


def job_spec(path: str) -> dict[str, str]:
    """The fields of a Job's spec that stands at a path."""
    return {f"{path}.{part}".rstrip("."): names for part, names in JOB_SPEC.items()}


FIELDS: dict[str, dict[str, str]] = {
    "Job": {
        "": TOP,
        **job_spec("spec"),
        "status": (
            "conditions controlledResources failed minAvailable pending retryCount running runningDuration state "
            "succeeded taskStatusCount terminating unknown version"
        ),
        "status.conditions": "lastTransitionTime status",
        "status.state": "lastTransitionTime message phase reason",
        "status.taskStatusCount": "phase",
    },
    "CronJob": {
        "": TOP,
        "spec": (
            "concurrencyPolicy failedJobsHistoryLimit jobTemplate schedule startingDeadlineSeconds "
            "successfulJobsHistoryLimit suspend timeZone"
        ),
        "spec.jobTemplate": "metadata spec",
        "spec.jobTemplate.metadata": "annotations finalizers labels name namespace",
        **job_spec("spec.jobTemplate.spec"),
        "status": "active lastScheduleTime lastSuccessfulTime",
        "status.active": "apiVersion fieldPath kind name namespace resourceVersion uid",
    },
    "JobFlow": {
        "": TOP,
        "spec": "flows jobRetainPolicy",
        "spec.flows": "dependsOn name patch",
        "spec.flows.dependsOn": "probe targets",
        "spec.flows.dependsOn.probe": "httpGetList taskStatusList tcpSocketList",
        "spec.flows.dependsOn.probe.httpGetList": "httpHeader path port taskName",
        "spec.flows.dependsOn.probe.httpGetList.httpHeader": "name value",
        "spec.flows.dependsOn.probe.taskStatusList": "phase taskName",
        "spec.flows.dependsOn.probe.tcpSocketList": "port taskName",
        "spec.flows.patch": "jobSpec",
        **job_spec("spec.flows.patch.jobSpec"),
        "status": (
            "completedJobs conditions failedJobs jobStatusList pendingJobs runningJobs state terminatedJobs unKnowJobs"
        ),
        "status.conditions": "createTime phase runningDuration taskStatusCount",
        "status.conditions.taskStatusCount": "phase",
        "status.jobStatusList": "endTimestamp name restartCount runningHistories startTimestamp state",
        "status.jobStatusList.runningHistories": "endTimestamp startTimestamp state",
        "status.state": "phase",
    },
    "JobTemplate": {"": TOP, **job_spec("spec"), "status": "jobDependsOnList"},
    "Command": {
        "": "action apiVersion kind message metadata reason target",
        "target": "apiVersion blockOwnerDeletion controller kind name uid",
    },
    "PodGroup": {
        "": TOP,
        "spec": "minMember minResources minTaskMember networkTopology priorityClassName queue subGroupPolicy",
        "spec.networkTopology": TOPOLOGY,
        "spec.subGroupPolicy": "labelSelector matchLabelKeys minSubGroups name networkTopology subGroupSize",
        "spec.subGroupPolicy.networkTopology": TOPOLOGY,
        "status": "conditions failed phase running succeeded",
        "status.conditions": "lastTransitionTime message reason status transitionID type",
    },
    "Queue": {
        "": TOP,
        "spec": (
            "affinity capability dequeueStrategy deserved extendClusters guarantee parent priority reclaimable type "
            "weight"
        ),
        "spec.affinity": "nodeGroupAffinity nodeGroupAntiAffinity",
        "spec.affinity.nodeGroupAffinity": AFFINITY,
        "spec.affinity.nodeGroupAntiAffinity": AFFINITY,
        "spec.extendClusters": "capacity name weight",
        "spec.guarantee": "resource",
        "status": "allocated completed inqueue pending reservation running state unknown",
        "status.reservation": "nodes resource",
    },
    "HyperNode": {
        "": TOP,
        "spec": "members tier tierName",
        "spec.members": "selector type",
        "spec.members.selector": "exactMatch labelMatch regexMatch",
        "spec.members.selector.exactMatch": "name",
        "spec.members.selector.regexMatch": "pattern",
        "status": "conditions nodeCount",
        "status.conditions": CONDITION,
    },
    "Numatopology": {
        "": "apiVersion kind metadata spec",
        "spec": "cpuDetail numares podAllocations policies resReserved",
        "spec.cpuDetail": "core numa socket",
        "spec.numares": "allocatable capacity",
        "spec.podAllocations": "containerAllocations name namespace uid",
        "spec.podAllocations.containerAllocations": "allocations name",
    },
    "NodeShard": {
        "": TOP,
        "spec": "nodesDesired",
        "status": "lastUpdateTime nodesInUse nodesToAdd nodesToRemove",
    },
    "ColocationConfiguration": {
        "": TOP,
        "spec": "memoryQos selector",
        "spec.memoryQos": "highRatio lowRatio minRatio",
        "status": "conditions",
        "status.conditions": CONDITION,
    },
}


def fields_of(schema: dict[str, Any], path: str = "") -> dict[str, str]:
    """Path → names of the fields there; lists and maps stand for their items."""
    while (inner := schema.get("items") or schema.get("additionalProperties")) is not None:
        schema = inner
    if "properties" not in schema:
        return {}
    found = {path: " ".join(sorted(schema["properties"]))}
    for name, child in schema["properties"].items():
        if name not in KUBERNETES_TYPES or "exactMatch" in child.get("properties", {}):
            found |= fields_of(child, f"{path}.{name}".lstrip("."))
    return found


@pytest.mark.parametrize("definition", DEFINITIONS, ids=[definition.kind.kind for definition in DEFINITIONS])
def test_the_fields_of_each_kind_are_named_as_volcanos(definition: Any) -> None:
    (version,) = definition.manifest()["spec"]["versions"]
    assert fields_of(version["schema"]["openAPIV3Schema"]) == FIELDS[definition.kind.kind]
