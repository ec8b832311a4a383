"""An operator for RayClusters (the main fields of ray.io/v1): a head and groups of workers, as one gang."""

from __future__ import annotations

from collections.abc import Iterator

from volcanoio.framework.controller import View
from volcanoio.framework.effects import Effect
from volcanoio.framework.operators import Operator, Parts, delete, patch_status, set_condition
from volcanoio.framework.podusage import Usage, format_usage, pod_usage
from volcanoio.model import kinds, names
from volcanoio.model.base import Manifest
from volcanoio.model.core import Pod
from volcanoio.model.custom import CustomObject, custom_kind
from volcanoio.model.resources import add

RAY_CLUSTER = custom_kind("ray.io", "v1", "RayCluster")
HEAD = "ray start --head --block --dashboard-host=0.0.0.0 --port=6379"
WORKER = "ray start --block --address={head}:6379"
PORTS = {"gcs": 6379, "dashboard": 8265, "client": 10001}


class RayClusters(Operator[CustomObject]):
    """Creates a PodGroup, a Service for the head, and the pods; replaces pods that ended, and follows replicas."""

    name = "raycluster-controller"
    kind = RAY_CLUSTER
    owns = (kinds.POD_GROUP, kinds.SERVICE, kinds.POD)

    def plan(self, parts: Parts[CustomObject], view: View) -> Iterator[list[Effect | None]]:
        """Write what differs; pods are created after their group."""
        cluster = parts.subject
        wanted = {pod["metadata"]["name"]: pod for pod in pods_of(cluster)}
        there = {pod.metadata.name: pod for pod in parts.all(kinds.POD) if isinstance(pod, Pod)}
        ended = [
            pod for name, pod in there.items() if name not in wanted or pod.status.phase in ("Succeeded", "Failed")
        ]
        yield [
            self.apply(parts, kinds.POD_GROUP, group_of(cluster, list(wanted.values()))),
            self.apply(parts, kinds.SERVICE, service_of(cluster)),
            patch_status(
                RAY_CLUSTER, cluster, status_of(cluster, list(there.values()), len(wanted), parts.problem, view.now)
            ),
            *(delete(kinds.POD, pod) for pod in ended),
        ]
        yield [self.apply(parts, kinds.POD, pod) for name, pod in wanted.items() if name not in there]


def pods_of(cluster: CustomObject) -> Iterator[Manifest]:
    """Yield the head, and the workers of each group."""
    spec, name = cluster.spec, cluster.metadata.name
    yield pod_of(cluster, spec["headGroupSpec"]["template"], f"{name}-head", "head", HEAD)
    for group in spec.get("workerGroupSpecs", ()):
        for index in range(group.get("replicas", 1)):
            command = WORKER.format(head=f"{name}-head-svc")
            yield pod_of(cluster, group["template"], f"{name}-{group['groupName']}-{index}", "worker", command)


def pod_of(cluster: CustomObject, template: Manifest, name: str, node_type: str, command: str) -> Manifest:
    """Return a pod of the template, in the cluster's group; its first container starts Ray unless it has a command."""
    first, *rest = template["spec"]["containers"]
    own = template.get("metadata", {})
    labels = own.get("labels", {}) | {"ray.io/cluster": cluster.metadata.name, "ray.io/node-type": node_type}
    annotations = own.get("annotations", {}) | {names.GROUP_NAME: f"ray-{cluster.metadata.name}-pg"}
    containers = [{"command": ["sh", "-c", command], **first}, *rest]
    return {
        "metadata": {"name": name, "labels": labels, "annotations": annotations},
        "spec": template["spec"] | {"schedulerName": names.SCHEDULER_NAME, "containers": containers},
    }


def group_of(cluster: CustomObject, pods: list[Manifest]) -> Manifest:
    """Return the gang of all pods, in the queue that the cluster names."""
    usage: Usage = {}
    for pod in pods:
        add(usage, pod_usage(pod))
    queue = cluster.metadata.labels.get(names.QUEUE_NAME, names.DEFAULT_QUEUE)
    spec = {"minMember": len(pods), "minResources": format_usage(usage), "queue": queue}
    return {"metadata": {"name": f"ray-{cluster.metadata.name}-pg"}, "spec": spec}


def service_of(cluster: CustomObject) -> Manifest:
    """Return the Service under which workers and clients find the head."""
    ports = [{"name": name, "port": port, "protocol": "TCP", "targetPort": port} for name, port in PORTS.items()]
    selector = {"ray.io/cluster": cluster.metadata.name, "ray.io/node-type": "head"}
    return {"metadata": {"name": f"{cluster.metadata.name}-head-svc"}, "spec": {"selector": selector, "ports": ports}}


def status_of(cluster: CustomObject, pods: list[Pod], wanted: int, problem: str, now: float) -> Manifest:
    """Return the status: `ready` when all pods run; else the message of a refused write is the reason."""
    running = [pod for pod in pods if pod.status.phase == "Running" and pod.metadata.deletion_timestamp is None]
    workers = sum(pod.metadata.labels.get("ray.io/node-type") == "worker" for pod in running)
    ready = len(running) == wanted
    reason = "" if ready else problem or f"{len(running)} of {wanted} pods run"
    state, conditions = "ready" if ready else "pending", cluster.status.get("conditions", [])
    return {
        "state": state, "reason": reason or None,
        "desiredWorkerReplicas": wanted - 1, "availableWorkerReplicas": workers,
        "conditions": set_condition(conditions, "Ready", ready, state.capitalize(), reason, now=now),
    }  # fmt: skip
