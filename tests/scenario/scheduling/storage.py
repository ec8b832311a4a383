"""Storage objects for scenarios: claims, volumes, classes and drivers."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from tests.scenario.scheduling.harness import CREATED, Scenario, World, group, node, pod
from volcanoio.model.base import Manifest

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
THREE = [node(name, labels={HOST: name, ZONE: f"z{name[1]}"}) for name in ("n1", "n2", "n3")]
COMPLETED = {"pv.kubernetes.io/bind-completed": "yes"}


def _meta(name: str, namespace: str = "", **more: Any) -> Manifest:
    meta = {"name": name, "uid": f"uid-{namespace}-{name}", "creationTimestamp": CREATED, **more}
    return {**meta, "namespace": namespace} if namespace else meta


def claim(name: str, storage_class: str = "sc", size: str = "1Gi", *, volume: str = "", **more: Any) -> Manifest:
    """Return a claim of namespace ns; it is bound if it names a volume, unless `completed` is false."""
    bound = bool(volume) and more.pop("completed", True)
    annotations = {**(COMPLETED if bound else {}), **more.pop("annotations", {})}
    spec = {
        "storageClassName": storage_class,
        "resources": {"requests": {"storage": size}},
        "accessModes": more.pop("modes", ["ReadWriteOnce"]),
        "volumeName": volume,
        **more.pop("spec", {}),
    }
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": _meta(name, "ns", annotations=annotations, **more.pop("metadata", {})),
        "spec": spec,
        "status": {"phase": "Bound" if bound else "Pending", **more},
    }


def on(key: str, *values: str) -> Manifest:
    """Return the node affinity of a volume."""
    terms = [{"matchExpressions": [{"key": key, "operator": "In", "values": list(values)}]}]
    return {"required": {"nodeSelectorTerms": terms}}


def volume(name: str, storage_class: str = "sc", size: str = "2Gi", **more: Any) -> Manifest:
    """Return a volume; `reach` is its node affinity, `more` are `labels`, `phase`, `modes` and further spec fields."""
    labels, phase = more.pop("labels", {}), more.pop("phase", "Available")
    affinity = more.pop("reach", None)
    spec = {
        "storageClassName": storage_class,
        "capacity": {"storage": size},
        "accessModes": more.pop("modes", ["ReadWriteOnce"]),
        **({"nodeAffinity": affinity} if affinity else {}),
        **more,
    }
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": _meta(name, labels=labels),
        "spec": spec,
        "status": {"phase": phase},
    }


def storage_class(name: str = "sc", provisioner: str = "kubernetes.io/no-provisioner", **more: Any) -> Manifest:
    """Return a class; by default its claims are bound when a pod needs them."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": _meta(name, annotations=more.pop("annotations", {})),
        "provisioner": provisioner,
        "volumeBindingMode": "WaitForFirstConsumer",
        **more,
    }


def csi_node(name: str, driver: str, count: int | None = None, *, keys: list[str] | None = None) -> Manifest:
    """Return the CSINode of a node, with the volume limit of a driver if `count` is given."""
    known: Manifest = {"name": driver, "nodeID": name, "topologyKeys": keys or []}
    if count is not None:
        known["allocatable"] = {"count": count}
    return {"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": _meta(name), "spec": {"drivers": [known]}}


def attachment(name: str, volume: str, node: str, driver: str = "csi.example") -> Manifest:
    """Return the attachment of a volume to a node."""
    spec = {"attacher": driver, "nodeName": node, "source": {"persistentVolumeName": volume}}
    return {"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": _meta(name), "spec": spec}


def csi_driver(name: str, *, storage_capacity: bool = False) -> Manifest:
    """Return a driver."""
    spec = {"storageCapacity": storage_capacity}
    return {"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": _meta(name), "spec": spec}


def capacity(name: str, storage_class: str, amount: str, **labels: str) -> Manifest:
    """Return the storage capacity of a class on nodes with these labels."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIStorageCapacity",
        "metadata": _meta(name, "kube-system"),
        "storageClassName": storage_class,
        "capacity": amount,
        "nodeTopology": {"matchLabels": labels},
    }


def using(name: str, group: str, *claims: str, **more: Any) -> Manifest:
    """Return a pod that uses claims."""
    volumes = [{"name": each, "persistentVolumeClaim": {"claimName": each}} for each in claims]
    return pod(name, group, spec={"volumes": volumes}, **{"cpu": "1", **more})


def why(world: World, name: str = "g") -> str:
    """Return the message of the group's Unschedulable condition."""
    conditions = world.group(name).status.conditions
    return next((each.message for each in conditions if each.type == "Unschedulable"), "")


@dataclass(frozen=True, kw_only=True)
class ClaimScenario(Scenario):
    """Storage objects, and the nodes that a pod with claim c may use; there are nodes n1, n2 and n3."""

    nodes: Collection[str] = ()
    """The feasible nodes; the pod is bound to one of them, and to each if it is the only schedulable one."""
    message: str = ""
    """Part of the PodGroup's condition if no node is feasible."""

    def check(self) -> None:
        """Compare the binds with all nodes, and with each feasible node as the only schedulable one."""
        assert bool(self.nodes) is not bool(self.message)
        world = World(*THREE, *self.cluster, group("g", 1), using("p", "g", "c")).run(3)
        assert set(world.binds) == ({"p"} if self.nodes else set())
        assert set(world.binds.values()) <= set(self.nodes)
        if self.message:
            assert self.message in why(world)
        for name in self.nodes:
            others = [{**each, "spec": {"unschedulable": True}} for each in THREE if each["metadata"]["name"] != name]
            lone = World(*THREE, *others, *self.cluster, group("g", 1), using("p", "g", "c")).run(2)
            assert lone.binds == {"p": name}
