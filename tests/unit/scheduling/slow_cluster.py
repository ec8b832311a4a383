"""A cluster whose kubelets and API server are slow, and checks of its nodes, queues and gangs by pods alone."""

from __future__ import annotations

from collections import Counter
from typing import Any

from tests.oracle.worlds import CLASSES
from tests.scenario.scheduling.harness import World, group, node, pod, queue
from volcanoio.framework.scheduling_effects import BindBatch
from volcanoio.model import kinds
from volcanoio.model.resources import amounts

PARENTS = {"top": "root", "a": "top", "b": "top", "c": "root"}
LEAVES = ("a", "b", "c")


class SlowCluster:
    """A cluster in which pods start and terminate late, and binds may be refused."""

    def __init__(self, conf: str, nodes: list[int], limits: dict[str, int | None], jobs: list[Any]) -> None:
        self.world = World(
            *CLASSES, *(node(f"n{at}", cpu=str(cpu), pods="5") for at, cpu in enumerate(nodes)), conf=conf
        )
        self.jobs = jobs
        self.limits = limits
        for name in ("root", *PARENTS):
            spec: dict[str, Any] = {"parent": PARENTS[name]} if name in PARENTS else {}
            if limits.get(name):
                spec["capability"] = {"cpu": str(limits[name])}
            if name in LEAVES:
                spec |= {"deserved": {"cpu": "2"}, "guarantee": {"resource": {"cpu": "1"}} if name == "c" else {}}
            self.world.put(queue(name, **spec))

    def arrive(self, turn: int) -> None:
        for at, job in enumerate(self.jobs):
            if job["at"] == turn:
                minimum = min(job["minimum"], job["size"])
                asked = {"cpu": job["cpu"]} if job["cpu"] else {}
                spec: dict[str, Any] = {"minResources": asked} if asked else {}
                self.world.put(group(f"g{at}", minimum, queue=job["queue"], priorityClassName=job["rank"], **spec))
                for member in range(job["size"]):
                    self.world.put(pod(f"g{at}-{member}", f"g{at}", **asked))

    def pods(self) -> list[Any]:
        return [obj for (resource, _), obj in self.world.objects.items() if resource == kinds.POD.resource]

    def react(self, what: str, choice: int) -> None:
        """Let kubelets and the API server react to the decisions, in the way that `what` names."""
        new = [bind.name for each in self.world.last if isinstance(each, BindBatch) for bind in each.binds]
        refuse = {new[choice % len(new)]: 409} if what == "refused" and new else None
        self.world.echo(refuse=refuse, phase="Pending")
        held = sorted((one for one in self.pods() if one.spec.node_name), key=lambda one: str(one.metadata.name))
        for one in held:
            name = one.metadata.name
            if what == "starts" and one.status.phase == "Pending" and not one.metadata.deletion_timestamp:
                self.world.set_pod(name, phase="Running")
            elif what == "removes" and one.metadata.deletion_timestamp:
                self.world.remove(kinds.POD, f"ns/{name}")
        running = [one for one in held if one.status.phase == "Running"]
        if what == "ends" and running:
            self.world.set_pod(running[choice % len(running)].metadata.name, phase="Succeeded")

    def check_nodes(self) -> None:
        """Assert that the pods on each node fit, where pods count until they have finished or are gone."""
        objects: dict[Any, Any] = self.world.objects
        for (resource, name), obj in objects.items():
            if resource != kinds.NODE.resource:
                continue
            taken: Counter[str] = Counter()
            for one in self.pods():
                if one.spec.node_name == name and one.status.phase not in ("Succeeded", "Failed"):
                    taken.update({"pods": 1, **requests_of(one)})
            room = amounts(obj.status.allocatable)
            assert all(amount <= room[what] for what, amount in taken.items()), (name, taken)

    def check_limits(self, *, tree: bool) -> None:
        """Assert that each queue and its descendants use no more than their limit; terminating pods do not count."""
        held: Counter[str] = Counter()
        for one in self.pods():
            if not one.spec.node_name or one.metadata.deletion_timestamp or one.status.phase in ("Succeeded", "Failed"):
                continue
            name = self.jobs[int(one.metadata.name[1:].split("-")[0])]["queue"]
            while name:
                held[name] += requests_of(one).get("cpu", 0)
                name = PARENTS.get(name, "") if tree else ""
        for name, limit in self.limits.items():
            assert limit is None or held[name] <= 1000 * limit, (name, held)

    def check_gangs(self, bound: Counter[str]) -> None:
        """Assert that the first batch of each gang has its minimum."""
        for each in self.world.last:
            if isinstance(each, BindBatch):
                job = self.jobs[int(each.group.split("/g")[1])]
                bound[each.group] += len(each.binds)
                assert bound[each.group] >= min(job["minimum"], job["size"])


def requests_of(one: Any) -> dict[str, int]:
    return amounts(one.spec.containers[0].resources.requests)
