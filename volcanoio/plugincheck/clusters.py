"""Random clusters, and their changes between two cycles, reproducible by seed."""

from collections.abc import Iterator
from random import Random
from typing import Any, cast

import msgspec

from volcanoio.engine.scheduling.offline.offline import Offline
from volcanoio.model import kinds
from volcanoio.model.base import ApiObject, Manifest
from volcanoio.model.core import Node, Pod
from volcanoio.model.times import rfc3339

START = 1_767_225_600.0
"""The time of the first cycle: 2026-01-01T00:00:00Z."""
_ZONES, _DISKS, _QUEUES = ("a", "b", "c"), ("ssd", "hdd"), ("default", "batch", "science")
_NAMESPACES = ("ann", "bob")
_SPOT = {"key": "spot", "value": "yes", "effect": "NoSchedule"}
_OLD = {"key": "old", "value": "", "effect": "PreferNoSchedule"}


def decoded(manifest: Manifest) -> ApiObject:
    """Decode a manifest to its Struct; raises ValueError for a kind that the scheduler does not read."""
    if (kind := kinds.named(manifest["apiVersion"], manifest["kind"])) is None:
        raise ValueError(f"{manifest['kind']} of {manifest['apiVersion']} is not known here")
    meta = manifest["metadata"]
    key = f"{meta.get('namespace', '')}/{meta['name']}"
    full = {"uid": f"{kind.resource}/{key}", "creationTimestamp": rfc3339(START), **meta}
    return msgspec.convert({**manifest, "metadata": full}, kind.type)


def node(random: Random, name: str) -> Manifest:
    """Return a node of one of three sizes, perhaps with a GPU, labels, a taint, a cordon."""
    cpu, memory = random.choice((("4", "16Gi"), ("8", "32Gi"), ("16", "128Gi")))
    amounts = {"cpu": cpu, "memory": memory, "pods": "20"}
    if random.random() < 0.3:
        amounts["nvidia.com/gpu"] = "4"
    labels = {
        "kubernetes.io/hostname": name,
        "topology.kubernetes.io/zone": random.choice(_ZONES),
        "disk": random.choice(_DISKS),
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "taints": [taint for taint, odds in ((_SPOT, 0.2), (_OLD, 0.2)) if random.random() < odds],
            "unschedulable": random.random() < 0.1,
        },
        "status": {"allocatable": amounts, "capacity": amounts},
    }


def gang(random: Random, name: str, nodes: int, *, placed: bool = False) -> Iterator[Manifest]:
    """Yield a PodGroup and its pods; with `placed` they are Running, on random nodes."""
    size, namespace = random.randint(1, 5), random.choice(_NAMESPACES)
    spec: dict[str, Any] = {"minMember": random.randint(1, size), "queue": random.choice(_QUEUES)}
    if random.random() < 0.7:
        spec["minResources"] = {"cpu": str(random.randint(1, 8)), "memory": f"{random.randint(1, 16)}Gi"}
    if random.random() < 0.3:
        spec["priorityClassName"] = "high"
    phase = "Running" if placed else random.choice(("Pending", "Inqueue"))
    yield {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
        "status": {"phase": phase},
    }
    requests = random.choice(
        ({"cpu": "1"}, {"cpu": "500m", "memory": "1Gi"}, {"cpu": "2", "memory": "4Gi"}, {"nvidia.com/gpu": "1"}, {})
    )
    pod: dict[str, Any] = {
        "schedulerName": "volcano",
        "containers": [{"name": "main", "image": "busybox", "resources": {"requests": requests}}],
    }
    if random.random() < 0.3:
        pod["nodeSelector"] = {"disk": random.choice(_DISKS)}
    if random.random() < 0.4:
        pod["tolerations"] = [{"key": "spot", "operator": "Exists"}]
    for at in range(size):
        on = f"node-{random.randrange(nodes)}" if placed else ""
        meta = {"name": f"{name}-{at}", "namespace": namespace, "labels": {"app": name}}
        meta["annotations"] = {"scheduling.k8s.io/group-name": name, "volcano.sh/task-spec": "worker"}
        status = {"phase": "Running" if on else "Pending"}
        yield {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": meta,
            "spec": {**pod, "nodeName": on, **({"priority": 1000} if "priorityClassName" in spec else {})},
            "status": status,
        }


def cluster(random: Random, nodes: int, gangs: int) -> Iterator[ApiObject]:
    """Yield queues, nodes, and some gangs that are Running and more that are pending."""
    yield decoded(
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": "high"},
            "value": 1000,
            "globalDefault": False,
        }
    )
    for name in _QUEUES:
        spec: dict[str, Any] = {"weight": random.randint(1, 4), "reclaimable": True}
        if name != "default" and random.random() < 0.5:
            spec["capability"] = {"cpu": str(random.randint(8, 40))}
        yield decoded(
            {
                "apiVersion": "scheduling.volcano.sh/v1beta1",
                "kind": "Queue",
                "metadata": {"name": name},
                "spec": spec,
                "status": {"state": "Open"},
            }
        )
    for at in range(nodes):
        yield decoded(node(random, f"node-{at}"))
    for at in range(gangs):
        yield from map(decoded, gang(random, f"gang-{at}", nodes, placed=random.random() < 0.3))


def change_cluster(random: Random, offline: Offline, step: int) -> None:
    """Change a cluster between two cycles: pods end, a node changes, a gang is added."""
    pods = [obj for obj in offline.objects.values() if isinstance(obj, Pod) and obj.spec.node_name]
    for pod in random.sample(pods, min(len(pods), 2)):
        status = msgspec.structs.replace(pod.status, phase=random.choice(("Running", "Succeeded")))
        offline.put(msgspec.structs.replace(pod, status=status))
    nodes = [obj for obj in offline.objects.values() if isinstance(obj, Node)]
    changed = cast("Node", decoded(node(random, random.choice(nodes).metadata.name)))
    if step % 2:
        offline.put(changed)
    for obj in gang(random, f"late-{step}", len(nodes)):
        offline.put(decoded(obj))
