"""A cluster read from manifests: plain objects without columns, shapes or caches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from volcanoio.model.base import Manifest
from volcanoio.model.resources import amounts

Amounts = dict[str, int]

ALLOCATED = ("allocated", "bound", "running")
"""States of tasks that count as allocated."""
READY = (*ALLOCATED, "succeeded")
_PHASES = {"Running": "running", "Succeeded": "succeeded", "Failed": "failed", "Unknown": "unknown"}
_LEAST = {"cpu": 100, "memory": 200 << 20}
"""Amounts that scorers count for a container without requests."""


class Node:
    """A node; `tasks` are on it in whatever state. `held` is room kept for preemptors of earlier sessions."""

    def __init__(self, manifest: Manifest) -> None:
        self.name: str = manifest["metadata"]["name"]
        self.labels: dict[str, str] = manifest["metadata"].get("labels", {})
        self.taints: list[dict[str, str]] = manifest["spec"].get("taints", [])
        self.unschedulable: bool = manifest["spec"].get("unschedulable", False)
        self.allocatable = amounts(manifest["status"]["allocatable"])
        self.images = {
            name: each["sizeBytes"] for each in manifest["status"].get("images", []) for name in each["names"]
        }
        self.tasks: list[Task] = []

    def sum(self, name: str, *states: str) -> int:
        return sum(task.requests.get(name, 0) for task in self.tasks if task.state in states)

    def used(self, name: str) -> int:
        return sum(task.requests.get(name, 0) for task in self.tasks if task.state != "pipelined")

    def idle(self, name: str) -> int:
        return self.allocatable.get(name, 0) - self.used(name)

    def future(self, name: str) -> int:
        return self.idle(name) + self.sum(name, "releasing") - self.sum(name, "pipelined")

    def counted(self, name: str) -> int:
        """Return what scorers count as used; containers without a request count with a default amount."""
        return sum(task.counted[name] for task in self.tasks)


class Task:
    """A pod; `requests` hold `pods`: 1. `evicted` says that it was in this session.

    `found_no_node` is one that requests nothing and found no node: it does not count as placed.
    """

    def __init__(self, manifest: Manifest) -> None:
        meta, spec, status = manifest["metadata"], manifest["spec"], manifest.get("status", {})
        self.pod = manifest
        self.name: str = meta["name"]
        self.uid: str = meta["uid"]
        self.namespace: str = meta["namespace"]
        self.labels: dict[str, str] = meta.get("labels", {})
        self.annotations: dict[str, str] = meta.get("annotations", {})
        self.spec: dict[str, Any] = spec
        self.status: dict[str, Any] = status
        self.group = self.annotations.get("scheduling.k8s.io/group-name", "")
        self.job: Job | None = None
        containers, first = (
            [amounts(each.get("resources", {}).get("requests", {})) for each in spec.get(part, [])]
            for part in ("containers", "initContainers")
        )
        self.requests = most([total(containers), *first])
        self.requests = {name: amount for name, amount in self.requests.items() if amount}
        self.counted = {
            name: max(
                [sum(each.get(name) or least for each in containers), *[each.get(name) or least for each in first]]
            )
            for name, least in _LEAST.items()
        }
        self.best_effort = not self.requests
        self.requests["pods"] = 1
        self.role = self.annotations.get("volcano.sh/task-spec", "")
        self.priority = 1 if spec.get("priority") is None else spec["priority"]
        said = self.annotations.get("volcano.sh/preemptable") or self.labels.get("volcano.sh/preemptable", "true")
        self.preemptable = said != "false"
        self.never_preempts = spec.get("preemptionPolicy") == "Never"
        self.gated = bool(spec.get("schedulingGates"))
        self.nominated: str = status.get("nominatedNodeName", "")
        self.node: str = spec.get("nodeName", "")
        self.state = _state(manifest)
        self.evicted = False
        self.found_no_node = False

    @property
    def is_free(self) -> bool:
        """Whether the task is pending and best-effort, which counts as placed."""
        return self.state == "pending" and self.best_effort and not self.found_no_node

    @property
    def order(self) -> tuple[float, str, str]:
        """Order key: index in the name, creation time, uid (Volcano: CompareTask)."""
        parts = self.name.split("-")
        index = float(parts[-1]) if len(parts) > 2 and parts[-1].isdigit() else float("inf")
        return index, self.pod["metadata"].get("creationTimestamp", ""), self.uid


def _state(pod: Manifest) -> str:
    phase = pod.get("status", {}).get("phase") or "Pending"
    if phase in ("Succeeded", "Failed"):
        return _PHASES[phase]
    if pod["metadata"].get("deletionTimestamp"):
        return "releasing"
    if phase == "Pending":
        return "bound" if pod["spec"].get("nodeName") else "pending"
    return _PHASES[phase]


class Job:
    """A PodGroup with its pods. `preemptable`: gangs may take its places, which a PodGroup can forbid."""

    def __init__(self, manifest: Manifest, priorities: Mapping[str, int]) -> None:
        meta, spec = manifest["metadata"], manifest["spec"]
        self.name: str = meta["name"]
        self.namespace: str = meta["namespace"]
        self.uid = f"{self.namespace}/{self.name}"
        """Volcano's JobInfo.UID; the PodGroup's uid decides nothing."""
        self.created: str = meta.get("creationTimestamp", "")
        self.annotations: dict[str, str] = meta.get("annotations", {})
        self.labels: dict[str, str] = meta.get("labels", {})
        self.queue: str = spec.get("queue") or "default"
        self.minimum: int = spec.get("minMember", 0)
        self.role_minimums: dict[str, int] = spec.get("minTaskMember", {})
        self.given = spec.get("minResources")
        self.minimum_resources = None if self.given is None else amounts(self.given)
        self.priority = priorities.get(spec.get("priorityClassName", ""), 0)
        self.phase: str = manifest.get("status", {}).get("phase") or "Pending"
        self.policies: list[dict[str, Any]] = spec.get("subGroupPolicy", [])
        said = self.annotations.get("volcano.sh/preemptable") or self.labels.get("volcano.sh/preemptable", "true")
        self.preemptable = said != "false"
        self.tasks: list[Task] = []
        self.failed_roles: set[str] = set()
        self.needed_parts: set[str] = set()

    def count(self, *states: str) -> int:
        return sum(task.state in states for task in self.tasks)

    def sum(self, *states: str) -> Amounts:
        return total(task.requests for task in self.tasks if task.state in states)

    @property
    def ready_number(self) -> int:
        return self.count(*READY)

    @property
    def free_number(self) -> int:
        """Return how many tasks count as placed."""
        return sum(task.is_free for task in self.tasks)

    def is_ready(self) -> bool:
        return self.ready_number + self.free_number >= self.minimum

    def is_pipelined(self) -> bool:
        return self.ready_number + self.count("pipelined") + self.free_number >= self.minimum

    def is_starving(self) -> bool:
        return self.ready_number + self.count("pipelined") < self.minimum

    def role(self, role: str, *states: str) -> int:
        return sum(task.role == role and task.state in states for task in self.tasks)

    def roles(self, *states: str, free: bool) -> bool:
        """Whether each role has its minimum in these states; with `free`, pending best-effort tasks count."""
        if self.minimum < sum(self.role_minimums.values()):
            return True
        return all(
            self.role(role, *states) + sum(free and t.role == role and t.is_free for t in self.tasks) >= minimum
            for role, minimum in self.role_minimums.items()
        )


class Queue:
    """A queue."""

    def __init__(self, manifest: Manifest) -> None:
        meta, spec = manifest["metadata"], manifest["spec"]
        self.name: str = meta["name"]
        self.created: str = meta.get("creationTimestamp", "")
        self.annotations: dict[str, str] = meta.get("annotations", {})
        self.spec: dict[str, Any] = spec
        self.weight: int = spec.get("weight", 1)
        self.priority: int = spec.get("priority", 0)
        self.capability = amounts(spec.get("capability"))
        self.deserved = amounts(spec.get("deserved"))
        self.guarantee = amounts(spec.get("guarantee", {}).get("resource"))
        self.reclaimable: bool = spec.get("reclaimable") is not False
        self.open = manifest.get("status", {}).get("state", "Open") in ("", "Open")
        self.parent = "" if self.name == "root" else spec.get("parent") or "root"
        self.jobs: list[Job] = []

    def sum(self, *states: str) -> Amounts:
        return total(job.sum(*states) for job in self.jobs)


class Cluster:
    """The whole cluster. Jobs of queues that do not exist are left out, as from Volcano's snapshot."""

    def __init__(self, manifests: Iterable[Manifest]) -> None:
        by_kind: dict[str, list[Manifest]] = {}
        for each in manifests:
            by_kind.setdefault(each["kind"], []).append(each)
        self.others = by_kind
        self.nodes = [Node(each) for each in by_kind.get("Node", [])]
        self.queues = {queue.name: queue for queue in map(Queue, by_kind.get("Queue", []))}
        ranks = {each["metadata"]["name"]: each["value"] for each in by_kind.get("PriorityClass", [])}
        self.jobs = [
            job for job in (Job(each, ranks) for each in by_kind.get("PodGroup", [])) if job.queue in self.queues
        ]
        for job in self.jobs:
            self.queues[job.queue].jobs.append(job)
        by_name = {(job.namespace, job.name): job for job in self.jobs}
        on = {node.name: node for node in self.nodes}
        self.tasks = [Task(each) for each in by_kind.get("Pod", [])]
        for task in self.tasks:
            task.job = by_name.get((task.namespace, task.group)) if task.group else None
            if task.job is not None:
                task.job.tasks.append(task)
            if task.node in on and task.state not in ("succeeded", "failed"):
                on[task.node].tasks.append(task)
        self.namespaces = {
            each["metadata"]["name"]: each["metadata"].get("labels", {}) for each in by_kind.get("Namespace", [])
        }

    def node(self, name: str) -> Node:
        return next(node for node in self.nodes if node.name == name)

    def total(self) -> Amounts:
        return total(node.allocatable for node in self.nodes)


def total(parts: Iterable[Mapping[str, int]]) -> Amounts:
    """Return the sum of amounts."""
    result: Amounts = {}
    for part in parts:
        for name, amount in part.items():
            result[name] = result.get(name, 0) + amount
    return result


def most(parts: Iterable[Mapping[str, int]]) -> Amounts:
    """Return the largest value of each resource."""
    result: Amounts = {}
    for part in parts:
        for name, amount in part.items():
            result[name] = max(result.get(name, 0), amount)
    return result
