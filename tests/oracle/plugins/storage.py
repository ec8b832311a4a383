"""Volume filters as in Kubernetes: VolumeBinding, VolumeZone, NodeVolumeLimits and ReadWriteOncePod."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tests.oracle.cluster import Cluster, Node, Task
from tests.oracle.labels import selects, term_matches
from volcanoio.model.quantity import value

COMPLETED, SELECTED = "pv.kubernetes.io/bind-completed", "volume.kubernetes.io/selected-node"
ZONES = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")
NO_PROVISIONER = "kubernetes.io/no-provisioner"


class Storage:
    """Storage objects by kind and name, and the volume or node that this session chose for each claim."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.claims, self.volumes, self.classes, self.limits, self.drivers = (
            {each["metadata"]["name"]: each for each in cluster.others.get(kind, [])}
            for kind in ("PersistentVolumeClaim", "PersistentVolume", "StorageClass", "CSINode", "CSIDriver")
        )
        self.chosen: dict[str, str] = {}
        self.made: dict[str, str] = {}

    # Filters.

    def usable(self, task: Task) -> bool:
        """Return whether the claims of a pod allow any node at all."""
        return all(self._sound(name) for name in names(task))

    def _sound(self, name: str) -> bool:
        claim = self.claims.get(name)
        if claim is None or claim["metadata"].get("deletionTimestamp") or claim["status"]["phase"] == "Lost":
            return False
        if self._bound(claim):
            return claim["spec"].get("volumeName") in self.volumes
        kind = self.classes.get(claim["spec"].get("storageClassName", ""))
        waits = kind is not None and kind.get("volumeBindingMode") == "WaitForFirstConsumer"
        return waits and not claim["spec"].get("volumeName")

    def chooses(self, task: Task) -> bool:
        """Return whether a claim may use one of the free volumes, so that other pods' choices matter."""
        waiting = [
            self.claims[name] for name in names(task) if self._sound(name) and not self._bound(self.claims[name])
        ]
        return any(_suits(volume, claim) for claim in waiting for volume in self.volumes.values())

    def reachable(self, task: Task, node: Node) -> bool:
        """Check that each claim is bound, has a free volume or can be provisioned here; the smallest chooses first."""
        taken: dict[str, str] = dict(self.chosen)
        for name in sorted(names(task), key=lambda name: (_size(self.claims[name]), name)):
            claim = self.claims[name]
            if self._bound(claim):
                if not _reaches(self.volumes[claim["spec"].get("volumeName")], node):
                    return False
            elif name in self.chosen:
                if not _reaches(self.volumes[self.chosen[name]], node):
                    return False
            elif name in self.made or claim["metadata"].get("annotations", {}).get(SELECTED):
                at = self.made.get(name) or claim["metadata"].get("annotations", {})[SELECTED]
                if node.name != at or not self._makes(claim, node):
                    return False
            elif volume := self._free(name, node, taken.values()):
                taken[name] = volume
            elif not self._makes(claim, node):
                return False
        return True

    def in_zone(self, task: Task, node: Node) -> bool:
        """Check that the node is in the zones of bound volumes; nodes without zone labels pass."""
        if not any(key in node.labels for key in ZONES):
            return True
        bound = (claim for name in names(task) if (claim := self.claims.get(name)) and self._bound(claim))
        for claim in bound:
            labels = self.volumes.get(claim["spec"]["volumeName"], {"metadata": {}})["metadata"].get("labels", {})
            if any(key in labels and node.labels.get(key) not in labels[key].split("__") for key in ZONES):
                return False
        return True

    def within_limits(self, task: Task, node: Node) -> bool:
        """Check the limits of the CSINode per driver; a volume that is on the node already counts once."""
        there = {name for other in node.tasks if not other.evicted for name in names(other)}
        new = [name for name in dict.fromkeys(names(task)) if name not in there]
        for driver in self.limits.get(node.name, {"spec": {"drivers": []}})["spec"]["drivers"]:
            most = driver.get("allocatable", {}).get("count")
            more = sum(self._driver(name) == driver["name"] for name in new)
            if most is not None and more and more + sum(self._driver(name) == driver["name"] for name in there) > most:
                return False
        return True

    def alone(self, task: Task) -> bool:
        """Check that no other pod on a node uses a ReadWriteOncePod claim of the task."""
        mine = {name for name in names(task) if "ReadWriteOncePod" in self.claims[name]["spec"]["accessModes"]}
        users = (other for node in self.cluster.nodes for other in node.tasks if not other.evicted)
        return not any(mine & set(names(other)) for other in users)

    # Choices.

    def placed(self, task: Task, node: Node) -> None:
        for name in sorted(names(task), key=lambda name: (_size(self.claims[name]), name)):
            claim = self.claims[name]
            if self._bound(claim) or claim["metadata"].get("annotations", {}).get(SELECTED):
                continue
            if name not in self.chosen and name not in self.made:
                if volume := self._free(name, node, self.chosen.values()):
                    self.chosen[name] = volume
                else:
                    self.made[name] = node.name

    def removed(self, task: Task) -> None:
        for name in names(task):
            self.chosen.pop(name, None)
            self.made.pop(name, None)

    # Claims and volumes.

    @staticmethod
    def _bound(claim: dict[str, Any]) -> bool:
        return bool(claim["spec"].get("volumeName")) and COMPLETED in claim["metadata"].get("annotations", {})

    def _free(self, name: str, node: Node, taken: Iterable[str]) -> str:
        """Return the volume that references the claim, or else the smallest that matches, by name; "" if none."""
        claim, gone = self.claims[name], set(taken)
        fitting = [
            volume
            for volume in self.volumes.values()
            if _suits(volume, claim) and volume["metadata"]["name"] not in gone and _reaches(volume, node)
        ]
        fitting.sort(key=lambda volume: (value(volume["spec"]["capacity"]["storage"]), volume["metadata"]["name"]))
        return str(fitting[0]["metadata"]["name"]) if fitting else ""

    def _makes(self, claim: dict[str, Any], node: Node) -> bool:
        """Return whether the class can provision a volume on the node."""
        kind = self.classes[claim["spec"].get("storageClassName", "")]
        terms = kind.get("allowedTopologies", [])
        if kind["provisioner"] == NO_PROVISIONER:
            return False
        return not terms or any(
            all(node.labels.get(one["key"]) in one["values"] for one in term["matchLabelExpressions"]) for term in terms
        )

    def _driver(self, name: str) -> str:
        claim = self.claims.get(name)
        if claim is None:
            return ""
        if claim["spec"].get("volumeName"):
            volume = self.volumes.get(claim["spec"].get("volumeName"))
            return str(volume["spec"].get("csi", {}).get("driver", "")) if volume else ""
        kind = self.classes.get(claim["spec"].get("storageClassName", ""))
        return str(kind["provisioner"]) if kind else ""


def names(task: Task) -> list[str]:
    """Return the claims that a pod uses."""
    return [
        each["persistentVolumeClaim"]["claimName"]
        for each in task.spec.get("volumes", [])
        if "persistentVolumeClaim" in each
    ]


def _size(claim: dict[str, Any]) -> int:
    return value(claim["spec"]["resources"]["requests"]["storage"])


def _suits(volume: dict[str, Any], claim: dict[str, Any]) -> bool:
    spec, wanted = volume["spec"], claim["spec"]
    return bool(
        "claimRef" not in spec
        and volume["status"]["phase"] == "Available"
        and spec["storageClassName"] == wanted["storageClassName"]
        and set(wanted["accessModes"]) <= set(spec["accessModes"])
        and value(spec["capacity"]["storage"]) >= _size(claim)
        and ("selector" not in wanted or selects(wanted["selector"], volume["metadata"].get("labels", {})))
    )


def _reaches(volume: dict[str, Any], node: Node) -> bool:
    affinity = volume["spec"].get("nodeAffinity")
    if affinity is None:
        return True
    return any(term_matches(term, node.name, node.labels) for term in affinity["required"]["nodeSelectorTerms"])
