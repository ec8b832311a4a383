"""Scheduling scenarios: a cluster goes in as a literal, the decisions come out as a literal.

`Scenario` states the cluster and every decision that is expected. `World` runs it: it stands in for the API server and
the kubelets, so that binds become pods with a nodeName, and patches of PodGroups and Queues return as watch events.
Time moves by one period in each cycle. Tests of several cycles with events in between use `World` directly.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from hashlib import blake2b
from importlib.metadata import entry_points
from typing import Any, cast

import msgspec
import pytest

from volcanoio.engine.scheduling.cluster.state import ClusterState, StateOptions
from volcanoio.engine.scheduling.config.configuration import Configuration, default_configuration, parse
from volcanoio.engine.scheduling.config.profile import Profile
from volcanoio.engine.scheduling.offline.offline import Offline
from volcanoio.framework.effects import Patch, Record
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
    """Return all registered scheduler plugins."""
    return {entry.name: entry.load() for entry in entry_points(group="volcanoio.scheduler_plugins")}


@cache
def actions() -> dict[str, ActionFactory]:
    """Return all registered actions."""
    return {entry.name: entry.load() for entry in entry_points(group="volcanoio.actions")}


def configured(text: str | None = None) -> Configuration:
    """Parse a configuration; without text, return the default one."""
    if text is None:
        return default_configuration(actions=actions(), plugins=plugins())
    return parse(text, actions=actions(), plugins=plugins())


def profile(text: str | None = None) -> Profile:
    """Build the profile of a configuration; without text, of the default one."""
    return Profile.build(configured(text), plugins(), actions())


def random_uid(kind: str, name: str) -> str:
    """Return a uid whose order is unrelated to the name, as with API servers; a name always has the same uid."""
    return blake2b(f"{kind}/{name}".encode(), digest_size=16).hexdigest()


def node(name: str, cpu: str = "8", memory: str = "32Gi", pods: str = "110", **more: Any) -> Manifest:
    """Return a node; `more` are `labels`, `taints`, `unschedulable` and further resources by name."""
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
    """Return a queue."""
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": name, "uid": random_uid("queue", name), "creationTimestamp": CREATED},
        "spec": {"weight": 1, **spec},
        "status": {"state": "Open"},
    }


def group(name: str, minimum: int, *, queue: str = "default", phase: str = "Pending", **spec: Any) -> Manifest:
    """Return a PodGroup."""
    meta = {"name": name, "namespace": "ns", "uid": random_uid("group", name), "creationTimestamp": CREATED}
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": meta,
        "spec": {"minMember": minimum, "queue": queue, **spec},
        "status": {"phase": phase},
    }


def pod(name: str, group: str = "", *, role: str = "", on: str = "", phase: str = "Pending", **more: Any) -> Manifest:
    """Return a pod; `more` are requests by resource name (`cpu="1"`), and `spec` and `status` for other fields."""
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
    """Return `count` equal pods of a group, named prefix-0 and so on."""
    return [pod(f"{prefix}-{index}", group, **more) for index in range(count)]


def running(name: str, count: int, *, on: str = "n1", cpu: str = "1", **more: Any) -> list[Manifest]:
    """Return running pods of the group of that name."""
    return pods(name, count, name, cpu=cpu, on=on, phase="Running", **more)


def waiting(name: str, count: int, *, cpu: str = "1", **more: Any) -> list[Manifest]:
    """Return pending pods of the group of that name."""
    return pods(name, count, name, cpu=cpu, **more)


def priority_class(name: str, value: int) -> Manifest:
    """Return a PriorityClass."""
    meta = {"name": name, "uid": name}
    return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": meta, "value": value}


def labelled(manifest: Manifest, **labels: str) -> Manifest:
    """Set the labels of a manifest, and return it."""
    manifest["metadata"]["labels"] = labels
    return manifest


def with_uids(objects: Sequence[Manifest], names: Sequence[str], uids: str) -> list[Manifest]:
    """Return copies of the objects; those with one of the names have the letter at its index in `uids` as their uid."""
    uid_of = dict(zip(names, uids, strict=True))

    def renamed(manifest: Manifest) -> Manifest:
        meta = manifest["metadata"]
        return {**manifest, "metadata": {**meta, "uid": uid_of.get(meta["name"], meta["uid"])}}

    return [renamed(each) for each in objects]


def decoded(manifest: Manifest) -> ApiObject:
    """Convert a manifest to its Struct."""
    kind = kinds.named(manifest["apiVersion"], manifest["kind"])
    assert kind is not None
    return msgspec.convert(manifest, kind.type)


class World(Offline):
    """A cluster under the scheduler, whose pods run as soon as they are bound."""

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
        """Fold one event, and record it in `events`."""
        self.events.append(event)
        return super().fold(event)

    def put(self, obj: Manifest | ApiObject) -> bool:
        """Create or replace an object."""
        return super().put(decoded(obj) if isinstance(obj, dict) else obj)

    def pod(self, name: str) -> Pod:
        """Return a pod by name, or by namespace/name; the default namespace is ns."""
        return cast("Pod", self.objects[kinds.POD.resource, name if "/" in name else f"ns/{name}"])

    def group(self, name: str) -> PodGroup:
        """Return a PodGroup of namespace ns."""
        return cast("PodGroup", self.objects[kinds.POD_GROUP.resource, f"ns/{name}"])

    def queue(self, name: str) -> Queue:
        """Return a queue."""
        return cast("Queue", self.objects[kinds.QUEUE.resource, name])

    def set_pod(self, name: str, *, phase: str | None = None, node: str | None = None, deleting: bool = False) -> bool:
        """Change a pod as a kubelet or the API server would."""
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
        """Carry out the last decisions; binds of pods in `refuse` (code by pod name) are refused, other pods run."""
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
        """Run cycles, and carry out the decisions after each."""
        for _ in range(cycles):
            self.cycle()
            self.echo(phase=phase)
        return self

    def remove_terminating_pods(self) -> None:
        """Remove the pods that have a deletion timestamp, as kubelets do once the containers have ended."""
        for (resource, key), obj in list(self.objects.items()):
            if resource == kinds.POD.resource and obj.metadata.deletion_timestamp:
                self.remove(kinds.POD, key)

    # Decisions so far.

    @property
    def binds(self) -> dict[str, str]:
        """The node of each pod that was bound."""
        return {bind.name: bind.node for bind in self.requests}

    @property
    def bind_order(self) -> list[str]:
        """Names of the bound pods, in the order of the decisions."""
        return [bind.name for bind in self.requests]

    @property
    def pipelines(self) -> dict[str, str]:
        """The node of each pod of namespace ns that the last cycle pipelined."""
        assert self.snapshot is not None
        return {key.removeprefix("ns/"): node for key, node in self.snapshot.pipelined.items()}

    @property
    def batches(self) -> list[list[str]]:
        """The sorted pod names of each bind batch."""
        return [
            sorted(bind.name for bind in decision.binds)
            for decision in self.decisions
            if isinstance(decision, BindBatch)
        ]

    @property
    def evictions(self) -> list[str]:
        """Names of the evicted pods, in the order of the decisions."""
        return [decision.name for decision in self.decisions if isinstance(decision, Evict)]

    @property
    def ungated(self) -> list[str]:
        """Names of the pods whose scheduling gates were removed, in the order of the decisions."""
        return [
            decision.name
            for decision in self.decisions
            if isinstance(decision, Patch) and "schedulingGates" in decision.patch.get("spec", {})
        ]

    @property
    def recorded(self) -> list[tuple[str, str, str]]:
        """The Kubernetes Events recorded: name of the object, reason, message."""
        return [
            (decision.regarding.name, decision.reason, decision.message)
            for decision in self.decisions
            if isinstance(decision, Record)
        ]

    def phase(self, name: str) -> str:
        """Return the phase of a PodGroup in the scheduler's state."""
        return self.state.ledger.jobs[f"ns/{name}"].phase

    def statuses(self, name: str) -> dict[str, int]:
        """Return the number of tasks of a group in each status."""
        counts = self.state.ledger.jobs[f"ns/{name}"].counts
        return {TaskStatus(at).name: count for at, count in enumerate(counts) if count}

    def fit_error(self, name: str) -> str:
        """Return why a task of a PodGroup found no node; "" if every task found one."""
        errors = self.state.ledger.jobs[f"ns/{name}"].attempts.fit_errors
        return next(iter(errors.values())).text if errors else ""

    def reason(self, name: str) -> str:
        """Return why a PodGroup waits."""
        return self.state.ledger.jobs[f"ns/{name}"].attempts.reason.text

    def condition(self, name: str) -> tuple[str, str, str]:
        """Return type, reason and message of the last condition of a PodGroup."""
        last = self.group(name).status.conditions[-1]
        return last.type, last.reason, last.message


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A cluster, and the decisions that the scheduler must make about it.

    Binds and evictions are complete: a pod that is not listed must be neither bound nor evicted. The other decisions
    are compared only if they are given.
    """

    name: str
    """A sentence that states the rule; it is the name of the test case."""
    cluster: Sequence[Manifest]
    conf: str | None = None
    profile: Profile | None = None
    """Plugins and actions, used instead of a configuration."""
    cycles: int = 1
    """Number of cycles; the decisions of each are carried out before the next."""
    now: float = 1000.0
    """Time of the first cycle, as a Unix timestamp; a cycle takes one second."""
    options: StateOptions | None = None
    binds: Mapping[str, str] = field(default_factory=dict)
    """The node of each pod that is bound."""
    bind_order: Sequence[str] | None = None
    """Names of the bound pods in the order of the decisions; if given without `binds`, nodes are not compared."""
    batches: Sequence[Sequence[str]] | None = None
    """The sorted pod names of each bind batch."""
    bind_counts: Mapping[str, int] | None = None
    """Number of bound pods of each prefix ("a" of "a-0"); if given without `binds`, pods and nodes are not compared."""
    evicts: Collection[str] = ()
    """Names of the evicted pods, in any order."""
    evict_order: Sequence[str] | None = None
    """Names of the evicted pods in the order of the decisions."""
    pipelines: Mapping[str, str] | None = None
    """The node of each pod that the last cycle pipelined."""
    phases: Mapping[str, str] | None = None
    """Phases of PodGroups."""
    conditions: Mapping[str, tuple[str, str, str]] | None = None
    """Type, reason and message of the last condition of PodGroups."""
    fit_errors: Mapping[str, str] | None = None
    """Why a task of each PodGroup found no node."""
    reasons: Mapping[str, str] | None = None
    """Why each PodGroup waits."""
    written_phases: Mapping[str, str] | None = None
    """Phases in the statuses of PodGroups, as the API server has them."""
    statuses: Mapping[str, Mapping[str, int]] | None = None
    """Number of tasks of PodGroups in each status."""
    ungated: Sequence[str] | None = None
    """Names of the pods whose scheduling gates were removed, in the order of the decisions."""

    def run(self) -> World:
        """Run the cycles, and return the world after them."""
        world = World(*self.cluster, conf=self.conf, state=ClusterState(self.options), now=self.now)
        if self.profile is not None:
            world.profile = self.profile
        return world.run(self.cycles)

    def check(self) -> None:
        """Run the cycles, and compare the decisions."""
        world = self.run()
        decided: dict[str, object] = {"evicts": sorted(world.evictions)}
        expected: dict[str, object] = {"evicts": sorted(self.evicts)}
        if self.binds or (self.bind_order is None and self.bind_counts is None):
            decided["binds"], expected["binds"] = world.binds, self.binds
        for what, observe in OBSERVED.items():
            wanted = getattr(self, what)
            if wanted is not None:
                decided[what], expected[what] = observe(world, wanted), wanted
        wrong = "; ".join(
            f"{what}: {decided[what]}, not {expected[what]}" for what in decided if decided[what] != expected[what]
        )
        assert not wrong, wrong


OBSERVED: dict[str, Callable[[World, Any], object]] = {
    "bind_order": lambda world, _: world.bind_order,
    "batches": lambda world, _: world.batches,
    "evict_order": lambda world, _: world.evictions,
    "bind_counts": lambda world, _: Counter(name.rpartition("-")[0] for name in world.binds),
    "pipelines": lambda world, _: world.pipelines,
    "phases": lambda world, names: {name: world.phase(name) for name in names},
    "written_phases": lambda world, names: {name: world.group(name).status.phase for name in names},
    "statuses": lambda world, names: {name: world.statuses(name) for name in names},
    "conditions": lambda world, names: {name: world.condition(name) for name in names},
    "fit_errors": lambda world, names: {name: world.fit_error(name) for name in names},
    "reasons": lambda world, names: {
        name: world.state.ledger.jobs[f"ns/{name}"].attempts.reason.text for name in names
    },
    "ungated": lambda world, _: world.ungated,
}
"""How each decision that a scenario may leave out is observed, given what is expected."""


def scenarios(*cases: Scenario, conf: str | None = None, common: Sequence[Manifest] = ()) -> pytest.MarkDecorator:
    """Parametrize a test by scenarios.

    `conf` is the configuration of those that have none of their own; every cluster also has the objects in `common`.
    """
    names = [case.name for case in cases]
    assert len(set(names)) == len(names), "two scenarios have the same name"
    complete = [replace(each, conf=each.conf or conf, cluster=[*common, *each.cluster]) for each in cases]
    return pytest.mark.parametrize("scenario", complete, ids=names)


def on_node(node: str, *pods: str) -> dict[str, str]:
    """Return binds or pipelines of several pods to one node."""
    return dict.fromkeys(pods, node)
