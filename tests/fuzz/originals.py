"""Valid objects with most of the fields that our components read: the fuzz tests damage copies of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from volcanoio.model import kinds
from volcanoio.model.base import Manifest
from volcanoio.model.kinds import Kind

AFFINITY: Manifest = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}]
        },
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 5, "preference": {"matchExpressions": [{"key": "zone", "operator": "Gt", "values": ["1"]}]}}
        ],
    },
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": {"app": "a"}}, "topologyKey": "kubernetes.io/hostname"}
        ]
    },
}
POD_SPEC: Manifest = {
    "schedulerName": "volcano",
    "containers": [
        {
            "name": "main", "image": "busybox", "command": ["sh"], "env": [{"name": "A", "value": "b"}],
            "ports": [{"containerPort": 80, "hostPort": 8080, "protocol": "TCP"}],
            "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2", "nvidia.com/gpu": 1}},
        }
    ],
    "initContainers": [{"name": "i", "image": "b", "restartPolicy": "Always", "resources": {"requests": {"cpu": 1}}}],
    "nodeSelector": {"disk": "ssd"},
    "tolerations": [{"key": "a", "operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 5}],
    "affinity": AFFINITY,
    "topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}
    ],
    "priority": 5, "preemptionPolicy": "Never", "restartPolicy": "Never", "overhead": {"cpu": "10m"},
    "terminationGracePeriodSeconds": 5, "activeDeadlineSeconds": 60, "schedulingGates": [],
    "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}],
}  # fmt: skip
TEMPLATE: Manifest = {"metadata": {"labels": {"app": "a"}, "annotations": {"x": "y"}}, "spec": POD_SPEC}
JOB_SPEC: Manifest = {
    "queue": "default", "minAvailable": 2, "minSuccess": 1, "maxRetry": 2, "schedulerName": "volcano",
    "priorityClassName": "high", "ttlSecondsAfterFinished": 60, "runningEstimate": "1h",
    "tasks": [
        {
            "name": "a", "replicas": 2, "minAvailable": 1, "maxRetry": 1, "template": TEMPLATE,
            "topologyPolicy": "none",
            "policies": [{"event": "PodFailed", "action": "RestartTask", "timeout": "1m"}],
            "partitionPolicy": {"totalPartitions": 2, "partitionSize": 1, "minPartitions": 1},
        },
        {"name": "b", "replicas": 1, "template": TEMPLATE, "dependsOn": {"name": ["a"], "iteration": "any"}},
    ],
    "policies": [{"events": ["PodEvicted"], "action": "RestartJob"}, {"exitCode": 3, "action": "AbortJob"}],
    "plugins": {"env": [], "svc": ["--publish-not-ready-addresses"]},
    "volumes": [
        {"mountPath": "/a", "volumeClaimName": "c"},
        {"mountPath": "/b", "volumeClaim": {"accessModes": ["x"], "resources": {"requests": {"storage": "1Gi"}}}},
    ],
    "networkTopology": {"mode": "soft", "highestTierAllowed": 1},
}  # fmt: skip


def made(api_version: str, kind: str, spec: Manifest, *, name: str = "a", **more: Any) -> Manifest:
    """Return an object of namespace ns."""
    meta = {"name": name, "namespace": "ns", "uid": f"uid-{kind}-{name}", "creationTimestamp": "2023-11-14T22:13:20Z"}
    meta |= more.pop("metadata", {})
    return {"apiVersion": api_version, "kind": kind, "metadata": meta, "spec": spec, **more}


JOB = made(
    "batch.volcano.sh/v1alpha1", "Job", JOB_SPEC,
    metadata={"labels": {"volcano.sh/queue": "q"}, "annotations": {"volcano.sh/preemptable": "true"}},
)  # fmt: skip
POD = made(
    "v1", "Pod", POD_SPEC,
    metadata={
        "labels": {"app": "a"},
        "annotations": {
            "scheduling.k8s.io/group-name": "a", "volcano.sh/task-spec": "main", "volcano.sh/task-priority": "5",
            "volcano.sh/preemptable": "true", "volcano.sh/revocable-zone": "*",
            "volcano.sh/task-topology-affinity": "a",
            "volcano.sh/scoring-strategy-type": "LeastAllocated",
            "volcano.sh/scoring-strategy-weights": '{"cpu": 1}',
            "volcano.sh/sla-waiting-time": "1h", "volcano.sh/job-min-available": "1", "cooldown-time": "60s",
            "volcano.sh/jdb-min-available": "50%", "volcano.sh/jdb-max-unavailable": "1",
        },
    },
    status={"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False"}]},
)  # fmt: skip
POD_GROUP = made(
    "scheduling.volcano.sh/v1beta1", "PodGroup",
    {
        "minMember": 1, "minTaskMember": {"main": 1}, "queue": "default", "priorityClassName": "high",
        "minResources": {"cpu": "1", "memory": "1Gi"}, "networkTopology": {"mode": "soft"},
        "subGroupPolicy": [
            {
                "name": "s", "subGroupSize": 1, "minSubGroups": 1, "matchLabelKeys": ["app"],
                "labelSelector": {"matchLabels": {"app": "a"}}, "networkTopology": {"mode": "soft"},
            }
        ],
    },
    metadata={"annotations": {"sla-waiting-time": "1h", "volcano.sh/task-topology-affinity": "main"}},
    status={"phase": "Inqueue", "conditions": [{"type": "Scheduled", "status": "True"}], "running": 0},
)  # fmt: skip
QUEUE = made(
    "scheduling.volcano.sh/v1beta1", "Queue",
    {
        "weight": 2, "parent": "root", "priority": 3, "reclaimable": True, "capability": {"cpu": "4"},
        "deserved": {"cpu": "2"}, "guarantee": {"resource": {"cpu": "1"}}, "dequeueStrategy": "traverse",
        "affinity": {"nodeGroupAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": ["g"]}},
    },
    name="default",
    metadata={
        "annotations": {
            "volcano.sh/hierarchy": "root/a", "volcano.sh/hierarchy-weights": "1/2",
            "volcano.sh/nodegroup-resource-limits": '{"g": {"cpu": "1"}}',
        },
    },
    status={"state": "Open", "allocated": {"cpu": "1", "pods": "1"}},
)  # fmt: skip
NODE = made(
    "v1", "Node", {"taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}], "unschedulable": False}, name="n",
    metadata={
        "labels": {"disk": "ssd", "zone": "2", "volcano.sh/oversubscription": "true", "kubernetes.io/hostname": "n"},
        "annotations": {"volcano.sh/oversubscription-cpu": "100", "volcano.sh/oversubscription-memory": "1e9"},
    },
    status={
        "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110", "nvidia.com/gpu": "2"},
        "capacity": {"cpu": "8"}, "conditions": [{"type": "Ready", "status": "True"}],
        "images": [{"names": ["busybox"], "sizeBytes": 5}],
    },
)  # fmt: skip
CRON_JOB = made(
    "batch.volcano.sh/v1alpha1", "CronJob",
    {
        "schedule": "*/5 9-17 * * mon-fri", "timeZone": "Europe/Berlin", "concurrencyPolicy": "Forbid",
        "startingDeadlineSeconds": 60, "suspend": False, "successfulJobsHistoryLimit": 1, "failedJobsHistoryLimit": 1,
        "jobTemplate": {"metadata": {"labels": {"a": "b"}}, "spec": JOB_SPEC},
    },
    status={"lastScheduleTime": "2023-11-14T22:00:00Z", "active": [{"name": "x", "uid": "y"}]},
)  # fmt: skip
JOB_FLOW = made(
    "flow.volcano.sh/v1alpha1", "JobFlow",
    {
        "flows": [
            {"name": "a", "patch": {"jobSpec": {"queue": "q", "tasks": [{"name": "a", "replicas": 2}]}}},
            {
                "name": "b",
                "dependsOn": {
                    "targets": ["a"],
                    "probe": {
                        "httpGetList": [{"taskName": "a", "port": 80, "httpHeader": {"name": "X-A", "value": "b"}}],
                        "tcpSocketList": [{"taskName": "a", "port": 22}],
                        "taskStatusList": [{"taskName": "a", "phase": "Running"}],
                    },
                },
            },
        ],
        "jobRetainPolicy": "delete",
    },
)  # fmt: skip
JOB_TEMPLATE = made("flow.volcano.sh/v1alpha1", "JobTemplate", JOB_SPEC)
HYPER_NODE = made(
    "topology.volcano.sh/v1alpha1", "HyperNode",
    {
        "tier": 1, "tierName": "rack",
        "members": [
            {"type": "Node", "selector": {"exactMatch": {"name": "n"}}},
            {"type": "Node", "selector": {"regexMatch": {"pattern": "^n[0-9]+$"}}},
            {"type": "Node", "selector": {"labelMatch": {"matchLabels": {"disk": "ssd"}}}},
        ],
    },
)  # fmt: skip


def waiting_tasks(count: int, waits_for: Callable[[int], list[str]]) -> Manifest:
    """Return a Job of tasks t0, t1 and so on; `waits_for` returns what a task depends on."""
    template = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
    tasks = [
        {"name": f"t{at}", "replicas": 1, "template": template, "dependsOn": {"name": waits_for(at)}}
        for at in range(count)
    ]
    return made("batch.volcano.sh/v1alpha1", "Job", {"queue": "default", "tasks": tasks})


def waiting_flows(count: int, waits_for: Callable[[int], list[str]]) -> Manifest:
    """Return a JobFlow of flows t0, t1 and so on."""
    flows = [{"name": f"t{at}", "dependsOn": {"targets": waits_for(at)}} for at in range(count)]
    return made("flow.volcano.sh/v1alpha1", "JobFlow", {"flows": flows})


GRAPHS: tuple[Callable[[int], list[str]], ...] = (
    lambda at: [f"t{at - 1}"] if at else [],
    lambda at: [f"t{at + 1}"],
    lambda at: [f"absent-{at}"],
    lambda at: [f"t{other}" for other in range(min(at, 30))],
    lambda at: ["t0"] * 30,
    lambda at: [f"t{at}"],
)
"""Dependencies by number: chains without and with a missing target, only missing ones, many, repeated, itself."""

REVIEWED: dict[str, tuple[Kind, Manifest]] = {
    "job": (kinds.JOB, JOB),
    "queue": (kinds.QUEUE, QUEUE),
    "pod group": (kinds.POD_GROUP, POD_GROUP),
    "cron job": (kinds.CRON_JOB, CRON_JOB),
    "job flow": (kinds.JOB_FLOW, JOB_FLOW),
    "job template": (kinds.JOB_TEMPLATE, JOB_TEMPLATE),
    "pod": (kinds.POD, POD),
    "hyper node": (kinds.HYPER_NODE, HYPER_NODE),
}
"""Each kind that admission reviews."""
REVIEW: Manifest = {
    "apiVersion": "admission.k8s.io/v1",
    "kind": "AdmissionReview",
    "request": {
        "uid": "u", "resource": {"group": "batch.volcano.sh", "resource": "jobs"}, "operation": "UPDATE", "name": "a",
        "namespace": "ns", "userInfo": {"username": "u", "groups": ["g"], "extra": {"a": ["b"]}},
        "object": JOB, "oldObject": JOB,
    },
}  # fmt: skip
"""Body of a request to a webhook."""
