"""What the tests of `why` share: a cluster as a literal, its diagnosis, and what helps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import msgspec

from tests.scenario.scheduling.harness import (
    World,
    decoded,
    group,
    node,
    pods,
    priority_class,
    profile,
    queue,
    running,
)
from volcanoio.engine.scheduling.cluster.state import ClusterState
from volcanoio.engine.scheduling.diagnosis.diagnosis import Diagnosis
from volcanoio.engine.scheduling.offline.offline import Offline
from volcanoio.engine.scheduling.offline.remedies import Remedy, RemedyKind, RemedySearch
from volcanoio.model.base import ApiObject, Manifest
from volcanoio.model.resources import amount_of

ALLOCATE = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: predicates}, {name: nodeorder}]
"""
"""A configuration without limits of queues."""

RECLAIM = """
actions: "enqueue, allocate, reclaim"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: predicates}, {name: capacity}]
"""


@dataclass(frozen=True, kw_only=True)
class Case:
    """A situation: `job` is a PodGroup of namespace ns.

    `remedies` are all that are found, as texts. `shows` are parts of message, nodes and nearest node that must occur.
    """

    name: str
    cluster: Sequence[Manifest]
    code: str
    remedies: Sequence[str]
    shows: Sequence[str] = ()
    job: str = "g"
    conf: str | None = ALLOCATE

    @property
    def key(self) -> str:
        """The key of the job."""
        return f"ns/{self.job}"

    def objects(self) -> list[ApiObject]:
        """The objects of the cluster and the default queue."""
        named = {each["metadata"]["name"] for each in self.cluster if each["kind"] == "Queue"}
        return [decoded(each) for each in (*([] if "default" in named else [queue("default")]), *self.cluster)]

    def build(self, objects: Sequence[ApiObject]) -> Offline:
        """Return a scheduler that has read the objects."""
        offline = Offline(ClusterState(), profile(self.conf), now=1000.0, seed=7)
        offline.load(objects)
        offline.age()
        return offline

    def diagnosis(self) -> Diagnosis:
        """Return the diagnosis of the job when a cycle has placed what can be placed."""
        found = self.build(self.objects()).diagnose()
        assert self.key in found, f"{self.key} does not wait; these do: {sorted(found)}"
        return found[self.key]

    def search(self, diagnosis: Diagnosis) -> list[Remedy]:
        """Return the remedies."""
        return RemedySearch(self.objects(), self.build, self.key, diagnosis).search()


def evidence(found: Diagnosis) -> str:
    """Return all that a diagnosis shows, as one text."""
    nodes = [f"{each.nodes} {each.reason}" for each in found.nodes]
    nearest = [f"{each.node} is short of {each.resource} {each.missing}" for each in found.nearest]
    return "; ".join([found.message, *nodes, *nearest, *(f"after {key}" for key in found.ahead)])


def gang(minimum: int, count: int = -1, *, name: str = "g", **more: Any) -> list[Manifest]:
    """Return an admitted gang of pending pods; `more` are fields of its PodGroup's spec or requests of its pods."""
    spec = {key: more.pop(key) for key in ("queue", "priorityClassName", "minResources", "phase") if key in more}
    made = group(name, minimum, **{"phase": "Inqueue", **spec})
    return [made, *pods(name, minimum if count < 0 else count, name, **{"cpu": "1", **more})]


def busy(name: str, count: int, on: str, **more: Any) -> list[Manifest]:
    """Return a job whose pods run on a node."""
    spec = {key: more.pop(key) for key in ("queue", "minResources", "priorityClassName") if key in more}
    return [group(name, count, phase="Running", **spec), *running(name, count, on=on, **more)]


def tainted(name: str, key: str = "dedicated", value: str = "ml", effect: str = "NoSchedule", **more: Any) -> Manifest:
    """Return a node with a taint."""
    return node(name, taints=[{"key": key, "value": value, "effect": effect}], **more)


def placed(case: Case, cluster: Sequence[Manifest]) -> bool:
    """Return whether more pods of the case's job come to run than in the case, or it is admitted without pods.

    The cluster has kubelets: pods that are bound run, and pods that are evicted end.
    """
    world, before = World(*cluster, conf=case.conf), case.diagnosis().ready
    known = world.state.ledger.jobs.get(case.key)
    waits_for_admission = known is not None and known.phase == "Pending"
    for _ in range(6):
        world.run()
        world.remove_terminating_pods()
    job = world.state.ledger.jobs.get(case.key)
    if job is None or not job.schedulable:
        return False
    if len(job.members) < max(job.min_available, 1):
        return waits_for_admission and job.phase != "Pending"
    return job.ready_count >= max(job.min_available, before + 1)


def changed(case: Case, remedy: Remedy) -> list[Manifest]:
    """Return the cluster of the case with a remedy, written as a user would."""
    cluster: list[Manifest] = deepcopy(list(case.cluster))
    target, name = remedy.target, remedy.target.rpartition("/")[2]
    named = [each for each in cluster if each["metadata"]["name"] == name]
    match remedy.kind:
        case RemedyKind.CREATE_QUEUE:
            cluster.append(queue(name))
        case RemedyKind.OPEN_QUEUE:
            _of_kind(named, "Queue")["status"]["state"] = "Open"
        case RemedyKind.CAPABILITY:
            for field, value in remedy.change.items():
                _of_kind(named, "Queue")["spec"]["capability"][field.removeprefix("spec.capability.")] = value
        case RemedyKind.DESERVED:
            for field, value in remedy.change.items():
                _of_kind(named, "Queue")["spec"]["deserved"][field.removeprefix("spec.deserved.")] = value
        case RemedyKind.WEIGHT:
            _of_kind(named, "Queue")["spec"]["weight"] = int(remedy.change["spec.weight"])
        case RemedyKind.QUOTA:
            quota = _of_kind(named, "ResourceQuota")
            for field, value in remedy.change.items():
                quota["spec"]["hard"][field.removeprefix("spec.hard.")] = value
            quota["status"]["hard"] = quota["spec"]["hard"]
        case RemedyKind.NODES:
            like = _of_kind(named, "Node")
            cluster += [_renamed(like, f"new-{at}") for at in range(int(remedy.change["nodes"]))]
        case RemedyKind.RESOURCE:
            like = _renamed(_of_kind(named, "Node"), "new")
            like["status"] = {"allocatable": dict(remedy.change), "capacity": dict(remedy.change)}
            cluster.append(like)
        case RemedyKind.MIN_AVAILABLE:
            spec = _of_kind(named, "PodGroup")["spec"]
            for field, value in remedy.change.items():
                if field == "spec.minMember":
                    spec["minMember"] = int(value)
                else:
                    spec["minResources"][field.removeprefix("spec.minResources.")] = value
        case RemedyKind.TIER:
            topology = _of_kind(named, "PodGroup")["spec"]["networkTopology"]
            topology["highestTierAllowed"] = int(remedy.change["spec.networkTopology.highestTierAllowed"])
        case RemedyKind.END:
            ended = remedy.change["jobs"].split(", ") if "jobs" in remedy.change else [target.removeprefix("podgroup/")]
            names = {each.partition("/")[2] for each in ended}
            cluster = [each for each in cluster if _group_of(each) not in names]
        case RemedyKind.UNCORDON:
            for each in cluster:
                if each["kind"] == "Node" and name in ("", each["metadata"]["name"]):
                    each["spec"] = {"unschedulable": False}  # the node controller removes its taint
        case RemedyKind.TOLERATE:
            key, _, effect = remedy.change["spec.tolerations"].partition(":")
            for each in _pods_of(cluster, case.job):
                each["spec"].setdefault("tolerations", []).append({"key": key, "operator": "Exists", "effect": effect})
        case RemedyKind.UNGATE:
            for each in _pods_of(cluster, case.job):
                del each["spec"]["schedulingGates"]
        case RemedyKind.WAIT:
            pass
    return cluster


def _of_kind(some: Sequence[Manifest], kind: str) -> Manifest:
    (found,) = [each for each in some if each["kind"] == kind]
    return found


def _renamed(like: Manifest, name: str) -> Manifest:
    meta = like["metadata"]
    labels = {**meta["labels"], "kubernetes.io/hostname": name}
    return {**deepcopy(like), "metadata": {**meta, "name": name, "uid": name, "labels": labels}}


def _group_of(manifest: Manifest) -> str:
    """Return the PodGroup that a pod is in, or that the manifest is; "" for others."""
    meta = manifest["metadata"]
    if manifest["kind"] == "PodGroup":
        return str(meta["name"])
    return str(meta.get("annotations", {}).get("scheduling.k8s.io/group-name", "")) if manifest["kind"] == "Pod" else ""


def _pods_of(cluster: Sequence[Manifest], group: str) -> list[Manifest]:
    return [each for each in cluster if each["kind"] == "Pod" and _group_of(each) == group]


def _a_node_less(remedy: Remedy) -> Remedy:
    return msgspec.structs.replace(remedy, change={"nodes": str(int(remedy.change["nodes"]) - 1)})


def _one_less(remedy: Remedy) -> Remedy:
    return msgspec.structs.replace(remedy, change={"spec.weight": str(int(remedy.change["spec.weight"]) - 1)})


def _a_pod_more(remedy: Remedy) -> Remedy:
    """Return the remedy with a minimum of one pod more, and what that pod requests."""
    minimum, change = int(remedy.change["spec.minMember"]), dict(remedy.change)
    for field, value in remedy.change.items():
        unit = value.lstrip("0123456789")
        change[field] = f"{int(value.removesuffix(unit)) * (minimum + 1) // minimum}{unit}"
    return msgspec.structs.replace(remedy, change=change)


def _a_millicore_less(remedy: Remedy) -> Remedy:
    """Return the remedy with a thousandth less of its first resource, or a pod less."""
    field, value = next(iter(remedy.change.items()))
    amount = amount_of("cpu", value) if value.isdigit() else amount_of("memory", value) * 1000
    return msgspec.structs.replace(remedy, change={**remedy.change, field: f"{amount - 1}m"})


SMALLER: Mapping[RemedyKind, Callable[[Remedy], Remedy]] = {
    RemedyKind.NODES: _a_node_less,
    RemedyKind.MIN_AVAILABLE: _a_pod_more,
    RemedyKind.CAPABILITY: _a_millicore_less,
    RemedyKind.DESERVED: _a_millicore_less,
    RemedyKind.WEIGHT: _one_less,
    RemedyKind.QUOTA: _a_millicore_less,
    RemedyKind.RESOURCE: _a_millicore_less,
}
"""By kind of remedy, one that is a little smaller."""


PREEMPT = ALLOCATE.replace("allocate, backfill", "allocate, preempt")
FULL = [
    node("n1", cpu="4"),
    queue("default"),
    priority_class("high", 100),
    group("old", 1, phase="Running"),
    *running("old", 4, on="n1"),
    *gang(2, name="urgent", priorityClassName="high", spec={"priorityClassName": "high", "priority": 100}),
]
"""A node full of pods that an urgent gang may preempt."""
