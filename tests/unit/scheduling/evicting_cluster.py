"""A cluster over many cycles whose jobs arrive one after another and whose evicted pods are created again."""

from __future__ import annotations

from collections import Counter
from typing import Any

from tests.scenario.scheduling.harness import World, group, node, pod, priority_class, queue
from tests.unit.scheduling.invariants import check
from volcanoio.framework.scheduling_effects import Evict
from volcanoio.model import kinds

Queues = list[tuple[int, str | None, bool]]


CLASSES = [priority_class(name, value) for name, value in (("low", 1), ("mid", 5), ("high", 9))]


class EvictingCluster:
    """A cluster over many cycles: jobs arrive one after another, and evicted pods are created again."""

    def __init__(self, conf: str, nodes: list[int], queues: Queues, jobs: list[Any]) -> None:
        self.world = World(*CLASSES, *(node(f"n{at}", cpu=str(cpu)) for at, cpu in enumerate(nodes)), conf=conf)
        self.jobs = jobs
        self.made: Counter[int] = Counter()
        self.evicted: list[Evict] = []
        for name, (weight, guarantee, reclaimable) in zip("abc", queues, strict=True):
            spec: dict[str, Any] = {"weight": weight, "deserved": {"cpu": str(weight)}, "reclaimable": reclaimable}
            if guarantee:
                spec["guarantee"] = {"resource": {"cpu": guarantee}}
            self.world.put(queue(name, **spec))

    def arrive(self, turn: int) -> None:
        for at, one in enumerate(self.jobs):
            if one["late"] == turn:
                minimum = min(one["minimum"], one["size"])
                made = group(f"g{at}", minimum, queue=one["queue"], phase="Inqueue", priorityClassName=one["rank"])
                if one["parts"] is not None:
                    policy = {"name": "p", "matchLabelKeys": ["part"], "subGroupSize": 2, "minSubGroups": one["parts"]}
                    made["spec"]["subGroupPolicy"] = [policy]
                self.world.put(made)
                for _ in range(one["size"]):
                    self.replace(at)

    def replace(self, at: int, part: str = "") -> None:
        """Add a pod to a job, in partitions of two or in the partition of the pod that it replaces."""
        made = pod(f"g{at}-{self.made[at] + 1}", f"g{at}", cpu=self.jobs[at]["cpu"])
        made["metadata"]["labels"] = {"part": part or str(self.made[at] // 2)}
        self.made[at] += 1
        self.world.put(made)

    def cycle(self) -> list[Evict]:
        self.world.cycle()
        check(self.world.state)
        evicted = [one for one in self.world.last if isinstance(one, Evict)]
        self.evicted += evicted
        self.world.echo()
        return evicted

    def remove_terminating_pods(self) -> None:
        for (resource, key), obj in list(self.world.objects.items()):
            if resource == kinds.POD.resource and obj.metadata.deletion_timestamp:
                self.world.remove(kinds.POD, key)
                self.replace(int(key.split("/g")[1].split("-")[0]), obj.metadata.labels["part"])
