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


def queue(name: str, annotations: dict[str, str] | None = None, **spec: Any) -> Obj:
    metadata = {"name": name, "annotations": annotations or {}}
    return {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": metadata, "spec": spec}


def hierarchical(path: str, weights: str) -> Obj:
    return queue("refused", {"volcano.sh/hierarchy": path, "volcano.sh/hierarchy-weights": weights})


def pod_group(name: str, namespace: str = "default", **spec: Any) -> Obj:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": metadata, "spec": spec}


def command(kind: str, name: str, action: str) -> Obj:
    api_version = "scheduling.volcano.sh/v1beta1" if kind == "Queue" else "batch.volcano.sh/v1alpha1"
    return {
        "apiVersion": "bus.volcano.sh/v1alpha1",
        "kind": "Command",
        "metadata": {"name": "refused", "namespace": "default"},
        "action": action,
        "target": {"apiVersion": api_version, "kind": kind, "name": name, "uid": "unknown"},
    }


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
    "job name": (job(name="j" * 64), "create job with name"),
    "pod name": (job(task(name="t" * 60)), "create pod with name"),
    "pods": (job(task(30_000), task(30_000)), "a job has at most 50000 pods"),
    "negative replicas": (job(task(-1)), "replicas"),
    "negative minAvailable": (job(minAvailable=-1), "minAvailable"),
    "negative maxRetry": (job(maxRetry=-1), "maxRetry"),
    "minSuccess": (job(minSuccess=0), "minSuccess"),
    "same event twice": (
        job(policies=[policy(event="PodFailed"), policy(events=["PodFailed", "PodEvicted"])]),
        "duplicate event",
    ),
    "same code twice": (job(task(policies=[policy(exitCode=3), policy(exitCode=3)])), "duplicate exitCode"),
    "no mount path": (job(volumes=[{"mountPath": "", "volumeClaimName": "a"}]), "mountPath"),
    "topology": (job(networkTopology=TOPOLOGY), "must not specify 'highestTierAllowed' and 'highestTierName'"),
    "partitions": (
        job(task(partitionPolicy={"totalPartitions": 2, "partitionSize": 2})),
        "'Replicas' are not equal to TotalPartitions*PartitionSize",
    ),
    "root queue": (job(queue="root"), "can not submit job to root queue"),
    "negative amount": (queue("refused", capability={"cpu": "-1"}), "spec"),
    "guarantee": (queue("refused", guarantee={"resource": {"cpu": "1"}}), "guarantee"),
    "deserved": (queue("refused", deserved={"cpu": "2"}, capability={"cpu": "1"}), "capability"),
    "weight": (queue("refused", weight=-1), "weight"),
    "length of the hierarchy": (hierarchical("root/a", "1"), "must have the same length with"),
    "weights of the hierarchy": (hierarchical("root/a", "1/x"), "hierarchy-weights"),
    "no weight in the hierarchy": (hierarchical("root/a", "1/0"), "must be larger than 0"),
    "minMember": (pod_group("refused", minMember=-1), "minMember"),
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

STORED = job(
    task(2, name="a", policies=[policy(event="PodFailed")]),
    task(2, name="b", dependsOn={"name": ["a"]}),
    name="stored", plugins={"mpi": ["--master=a"]}, maxRetry=5, minAvailable=1,
    volumes=[{"mountPath": "/a", "volumeClaimName": "a"}], policies=[policy(event="PodEvicted"), policy(exitCode=3)],
)  # fmt: skip
"""A Job whose updates are reviewed."""
UPDATE_RULE = "job updates may not change fields other than"
CHANGES: dict[str, list[Obj]] = {
    "queue": [{"op": "replace", "path": "/spec/queue", "value": "other"}],
    "scheduler": [{"op": "replace", "path": "/spec/schedulerName", "value": "other"}],
    "maxRetry": [{"op": "replace", "path": "/spec/maxRetry", "value": 7}],
    "minSuccess": [{"op": "add", "path": "/spec/minSuccess", "value": 1}],
    "ttl": [{"op": "add", "path": "/spec/ttlSecondsAfterFinished", "value": 1}],
    "policy": [{"op": "replace", "path": "/spec/policies/0/action", "value": "RestartJob"}],
    "plugin": [{"op": "add", "path": "/spec/plugins/env", "value": []}],
    "removed plugin": [{"op": "remove", "path": "/spec/plugins/mpi"}],
    "arguments": [{"op": "replace", "path": "/spec/plugins/mpi", "value": ["--master=b"]}],
    "mount path": [{"op": "replace", "path": "/spec/volumes/0/mountPath", "value": "/b"}],
    "task name": [{"op": "replace", "path": "/spec/tasks/0/name", "value": "c"}],
    "image": [{"op": "replace", "path": "/spec/tasks/0/template/spec/containers/0/image", "value": "other"}],
    "command": [{"op": "add", "path": "/spec/tasks/0/template/spec/containers/0/command", "value": ["sh"]}],
    "policy of a task": [{"op": "replace", "path": "/spec/tasks/0/policies/0/event", "value": "PodEvicted"}],
    "dependency": [{"op": "remove", "path": "/spec/tasks/1/dependsOn"}],
}
"""Updates of `STORED` that are refused; webhooks and policies refuse the same."""
SCALED: list[Obj] = [
    {"op": "replace", "path": "/spec/tasks/0/replicas", "value": 3},
    {"op": "replace", "path": "/spec/tasks/0/minAvailable", "value": 1},
    {"op": "replace", "path": "/spec/minAvailable", "value": 2},
    {"op": "add", "path": "/spec/priorityClassName", "value": "high"},
    {"op": "add", "path": "/metadata/labels", "value": {"a": "b"}},
]
WITHOUT_DEFAULTS: list[Obj] = [
    {"op": "remove", "path": path}
    for path in (
        "/spec/queue",
        "/spec/schedulerName",
        "/spec/tasks/0/maxRetry",
        "/spec/plugins/svc",
        "/spec/plugins/ssh",
    )
]
"""Updates of `STORED` that are allowed: of what may change, and by a client that writes its own file again."""
