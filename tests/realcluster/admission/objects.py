"""Objects that admission refuses, and a part of the reason; webhooks and policies refuse the same."""

from __future__ import annotations

from typing import Any

Obj = dict[str, Any]
TEMPLATE: Obj = {"spec": {"containers": [{"name": "c", "image": "busybox"}]}}


def task(replicas: int = 1, **more: Any) -> Obj:
    return {"replicas": replicas, "template": TEMPLATE, **more}


def job(*tasks: Obj, name: str = "refused", **spec: Any) -> Obj:
    metadata = {"name": name, "namespace": "default"}
    given = {"tasks": list(tasks) or [task()], **spec}
    return {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": metadata, "spec": given}


def queue(name: str, **spec: Any) -> Obj:
    return {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def of_flow(kind: str, name: str, **spec: Any) -> Obj:
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "flow.volcano.sh/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}


def pod(name: str, namespace: str = "default", annotations: dict[str, str] | None = None, **spec: Any) -> Obj:
    metadata = {"name": name, "namespace": namespace, "annotations": annotations or {}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {**TEMPLATE["spec"], **spec}}


def policy(**fields: Any) -> Obj:
    return {"action": "AbortJob", **fields}


BUDGET = "volcano.sh/jdb-min-available"
TOPOLOGY = {"highestTierAllowed": 1, "highestTierName": "rack"}
CRON = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "CronJob", "metadata": {"name": "c", "namespace": "default"}}
NIGHTLY: Obj = {"schedule": "@daily", "jobTemplate": {"spec": {"tasks": [task()]}}}
REFUSED: dict[str, tuple[Obj, str]] = {
    "no task": ({**job(), "spec": {}}, "No task specified in job spec"),
    "minAvailable": (job(task(), minAvailable=2), "should not be greater than total replicas"),
    "minAvailable of a task": (
        job(task(minAvailable=2), task(3), minAvailable=1),
        "'minAvailable' is greater than 'replicas' in task",
    ),
    "task names": (job(task(name="a"), task(name="a")), "duplicated task name"),
    "event and code": (job(policies=[policy(event="PodFailed", exitCode=1)]), "must not specify event and exitCode"),
    "neither": (job(policies=[policy()]), "either event and exitCode should be specified"),
    "code 0": (job(task(policies=[policy(exitCode=0)])), "0 is not a valid error code"),
    "action": (job(policies=[policy(event="PodFailed", action="Abort")]), "invalid policy action"),
    "any event": (
        job(policies=[policy(event="*"), policy(event="PodFailed")]),
        "if there's * here, no other policy should be here",
    ),
    "mount paths": (
        job(volumes=[{"mountPath": "/a", "volumeClaimName": "a"}, {"mountPath": "/a", "volumeClaimName": "b"}]),
        "duplicated mountPath",
    ),
    "topology": (job(networkTopology=TOPOLOGY), "must not specify 'highestTierAllowed' and 'highestTierName'"),
    "partitions": (
        job(task(partitionPolicy={"totalPartitions": 2, "partitionSize": 2})),
        "'Replicas' are not equal to TotalPartitions*PartitionSize",
    ),
    "root queue": (job(queue="root"), "can not submit job to root queue"),
    "negative amount": (queue("refused", capability={"cpu": "-1"}), "spec"),
    "guarantee": (queue("refused", guarantee={"resource": {"cpu": "1"}}), "guarantee"),
    "deserved": (queue("refused", deserved={"cpu": "2"}, capability={"cpu": "1"}), "capability"),
    "own parent": (queue("refused", parent="refused"), "itself as parent"),
    "flow": (
        of_flow("JobFlow", "refused", flows=[{"name": "a", "dependsOn": {"targets": ["b"]}}]),
        "jobflow Flow is not DAG",
    ),
    "schedule": ({**CRON, "spec": {"schedule": "TZ=UTC * * * * *", "jobTemplate": {"spec": {}}}}, "spec.schedule"),
    "cron name": (
        {**CRON, "metadata": {"name": "c" * 53, "namespace": "default"}, "spec": NIGHTLY},
        "cronJob name must be no more than 52 characters",
    ),
    "budget": (pod("refused", annotations={BUDGET: "100%"}, schedulerName="volcano"), "from 1% to 99%"),
}  # fmt: skip
