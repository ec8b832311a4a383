"""A cluster in one literal, run through fold and cycle: what goes in are objects, what comes out are decisions.

`World` stands in for the API server and its echoes: binds become pods with nodeName, patches of PodGroups and Queues
come back as watch events. Time moves by one period a cycle.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from hashlib import blake2b
from importlib.metadata import entry_points
from typing import Any, cast

import msgspec

from volcanoio.engine.scheduling.cluster.state import ClusterState
from volcanoio.engine.scheduling.config.configuration import Configuration, default_configuration, parse
from volcanoio.engine.scheduling.config.profile import Profile
from volcanoio.engine.scheduling.offline.offline import Offline
from volcanoio.framework.effects import Record
from volcanoio.framework.scheduling.points import PluginFactory
from volcanoio.framework.scheduling.session import ActionFactory
from volcanoio.framework.scheduling.views import TaskStatus
from volcanoio.framework.scheduling_effects import BindBatch, Evict
from volcanoio.framework.scheduling_events import BindRefused, SchedulerEvent
from volcanoio.model import kinds
from volcanoio.model.base import ApiObject, Manifest
from volcanoio.model.core import Pod
from volcanoio.model.scheduling import PodGroup, Queue

CREATED = "2026-01-01T00:00:00Z"


@cache
def plugins() -> dict[str, PluginFactory]:
    """All registered scheduler plugins."""
    return {entry.name: entry.load() for entry in entry_points(group="volcanoio.scheduler_plugins")}


@cache
def actions() -> dict[str, ActionFactory]:
    """All registered actions."""
    return {entry.name: entry.load() for entry in entry_points(group="volcanoio.actions")}


def configured(text: str | None = None) -> Configuration:
    """A configuration of that text, or the default."""
    if text is None:
        return default_configuration(actions=actions(), plugins=plugins())
    return parse(text, actions=actions(), plugins=plugins())


def profile(text: str | None = None) -> Profile:
    """A profile of that configuration text, or of the default."""
    return Profile.build(configured(text), plugins(), actions())


def random_uid(kind: str, name: str) -> str:
    """A uid whose order is unrelated to names, as those of API servers; always the same one for a name."""
    return blake2b(f"{kind}/{name}".encode(), digest_size=16).hexdigest()


def node(name: str, cpu: str = "8", memory: str = "32Gi", pods: str = "110", **more: Any) -> Manifest:
    """A node; `labels`, `taints`, `unschedulable` and further resources by name."""
    labels, taints = more.pop("labels", {}), more.pop("taints", [])
    spec = {"taints": taints, "unschedulable": more.pop("unschedulable", False)}
    resources = {"cpu": cpu, "memory": memory, "pods": pods, **more}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": f"node-{name}", "labels": labels},
        "spec": spec,
        "status": {"allocatable": resources, "capacity": resources},
    }


def queue(name: str, **spec: Any) -> Manifest:
    """A queue."""
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": name, "uid": random_uid("queue", name), "creationTimestamp": CREATED},
        "spec": {"weight": 1, **spec},
        "status": {"state": "Open"},
    }


def group(name: str, minimum: int, *, queue: str = "default", phase: str = "Pending", **spec: Any) -> Manifest:
    """A PodGroup."""
    meta = {"name": name, "namespace": "ns", "uid": random_uid("group", name), "creationTimestamp": CREATED}
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": meta,
        "spec": {"minMember": minimum, "queue": queue, **spec},
        "status": {"phase": phase},
    }


def pod(name: str, group: str = "", *, role: str = "", on: str = "", phase: str = "Pending", **more: Any) -> Manifest:
    """A pod; requests by resource name (`cpu="1"`), `spec` and `status` for anything else."""
    spec, status = more.pop("spec", {}), more.pop("status", {})
    annotations = {"scheduling.k8s.io/group-name": group} if group else {}
    if role:
        annotations["volcano.sh/task-spec"] = role
    annotations.update(more.pop("annotations", {}))
    meta = {"name": name, "namespace": "ns", "uid": f"ns-{name}", "creationTimestamp": CREATED}
    container = {"name": "main", "resources": {"requests": more}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**meta, "annotations": annotations},
        "spec": {"schedulerName": "volcano", "nodeName": on, "containers": [container], **spec},
        "status": {"phase": phase, **status},
    }


def pods(prefix: str, count: int, group: str, **more: Any) -> list[Manifest]:
    """`count` alike pods of a group, named prefix-0 and so on."""
    return [pod(f"{prefix}-{index}", group, **more) for index in range(count)]


def decoded(manifest: Manifest) -> ApiObject:
    """A manifest as its Struct."""
    kind = kinds.named(manifest["apiVersion"], manifest["kind"])
    assert kind is not None
    return msgspec.convert(manifest, kind.type)


class World(Offline):
    """A cluster under the scheduler, whose pods run as soon as they are bound; nodes may refuse them."""

    def __init__(
        self,
        *objects: Manifest,
        conf: str | None = None,
        state: ClusterState | None = None,
        synced: bool = True,
        period: float = 1.0,
        now: float = 1000.0,
    ) -> None:
        super().__init__(state or ClusterState(), profile(conf), now=now, period=period, seed=7)
        self.events: list[SchedulerEvent] = []
        for manifest in (queue("default"), *objects):
            self.put(manifest)
        if synced:
            self.sync()

    def fold(self, event: SchedulerEvent) -> bool:
        """Fold one event, and remember it."""
        self.events.append(event)
        return super().fold(event)

    def put(self, obj: Manifest | ApiObject) -> bool:
        """Create or replace an object."""
        return super().put(decoded(obj) if isinstance(obj, dict) else obj)

    def pod(self, name: str) -> Pod:
        """A pod, of namespace ns unless that is said."""
        return cast("Pod", self.objects[kinds.POD.resource, name if "/" in name else f"ns/{name}"])

    def group(self, name: str) -> PodGroup:
        """A PodGroup of namespace ns."""
        return cast("PodGroup", self.objects[kinds.POD_GROUP.resource, f"ns/{name}"])

    def queue(self, name: str) -> Queue:
        """A queue."""
        return cast("Queue", self.objects[kinds.QUEUE.resource, name])

    def set_pod(self, name: str, *, phase: str | None = None, node: str | None = None, deleting: bool = False) -> bool:
        """Change a pod as kubelet or API server would."""
        pod = self.pod(name)
        if node is not None:
            pod = msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=node))
        if phase is not None:
            pod = msgspec.structs.replace(pod, status=msgspec.structs.replace(pod.status, phase=phase))
        if deleting:
            meta = msgspec.structs.replace(pod.metadata, deletion_timestamp=CREATED)
            pod = msgspec.structs.replace(pod, metadata=meta)
        return self.put(pod)

    def echo(self, *, refuse: Mapping[str, int] | None = None, phase: str = "Running") -> None:
        """Carry out the last decisions: pods in `refuse` (by name, with the code) are refused, the others run."""
        for decision in self.last:
            if isinstance(decision, BindBatch):
                for bind in decision.binds:
                    if refuse and bind.name in refuse:
                        self.fold(
                            BindRefused(
                                at=self.now,
                                group=decision.group,
                                uid=bind.uid,
                                namespace=bind.namespace,
                                name=bind.name,
                                node=bind.node,
                                code=refuse[bind.name],
                                message="refused",
                            )
                        )
                    else:
                        self.bind(decision.group, bind)
                        self.set_pod(f"{bind.namespace}/{bind.name}", phase=phase)
            else:
                self.carry_out(decision)

    def run(self, cycles: int = 1, *, phase: str = "Running") -> World:  # type: ignore[override]  # for chains
        """Cycles with everything carried out in between."""
        for _ in range(cycles):
            self.cycle()
            self.echo(phase=phase)
        return self

    # What came of it.

    @property
    def binds(self) -> dict[str, str]:
        """All binds decided so far: pod name to node."""
        return {bind.name: bind.node for bind in self.requests}

    @property
    def batches(self) -> list[list[str]]:
        """The batches of binds, as sorted pod names."""
        return [
            sorted(bind.name for bind in decision.binds)
            for decision in self.decisions
            if isinstance(decision, BindBatch)
        ]

    @property
    def evictions(self) -> list[str]:
        """The pods evicted."""
        return [decision.name for decision in self.decisions if isinstance(decision, Evict)]

    @property
    def told(self) -> list[tuple[str, str, str]]:
        """The Events: name of the object, reason, message."""
        return [
            (decision.regarding.name, decision.reason, decision.message)
            for decision in self.decisions
            if isinstance(decision, Record)
        ]

    def phase(self, name: str) -> str:
        """The phase of a PodGroup as the scheduler has it."""
        return self.state.ledger.jobs[f"ns/{name}"].phase

    def statuses(self, name: str) -> dict[str, int]:
        """How many tasks of a group are in which status."""
        counts = self.state.ledger.jobs[f"ns/{name}"].counts
        return {TaskStatus(at).name: count for at, count in enumerate(counts) if count}
