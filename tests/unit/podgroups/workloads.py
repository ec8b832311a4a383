"""A world with workloads and their pods."""

from __future__ import annotations

from typing import Any

from tests.unit.world import World
from volcanoio.engine.podgroups.controller import PodGroupController
from volcanoio.model import kinds, names
from volcanoio.model.base import Manifest
from volcanoio.model.kinds import Kind
from volcanoio.model.scheduling import PodGroup


class Workloads(World):
    """The PodGroup controller's world; everything is in namespace `ns`, and a uid is the name with `-uid`."""

    def __init__(self) -> None:
        super().__init__([PodGroupController])

    def workload(self, kind: Kind, name: str, replicas: int = 3, **annotations: str) -> None:
        meta = {"name": name, "namespace": "ns", "uid": f"{name}-uid", "annotations": annotations}
        self.put(kind, {"metadata": meta, "spec": {"replicas": replicas}})

    def pod(self, name: str, kind: Kind | None = None, owner: str = "", **more: Any) -> None:
        meta: Manifest = {"name": name, "namespace": "ns", "uid": f"{name}-uid", **more.pop("metadata", {})}
        if kind is not None:
            reference = {"apiVersion": kind.api_version, "kind": kind.kind, "name": owner, "uid": f"{owner}-uid"}
            meta["ownerReferences"] = [{**reference, "controller": True}]
        container = {"name": "c", "resources": {"requests": {"cpu": "1"}}}
        spec = {"schedulerName": "volcano", "containers": [container]}
        self.put(kinds.POD, {"metadata": meta, "spec": spec, "status": {"phase": "Pending"}, **more})

    def groups(self) -> dict[str, PodGroup]:
        found = {name: self.get(kinds.POD_GROUP, f"ns/{name}") for name in self.names(kinds.POD_GROUP)}
        return {name: group for name, group in found.items() if isinstance(group, PodGroup)}

    def marks(self) -> dict[str, str]:
        """The group that each pod is marked with, "" for none."""
        pods = [self.get(kinds.POD, f"ns/{name}") for name in self.names(kinds.POD)]
        return {pod.metadata.name: pod.metadata.annotations.get(names.GROUP_NAME, "") for pod in pods}
