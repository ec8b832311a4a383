"""A cluster with random changes, whose scheduler may try every job in every cycle."""

from __future__ import annotations

from typing import Any

from tests.scenario.scheduling.harness import World, group, node, pods, priority_class, queue
from volcanoio.framework.scheduling_effects import BindBatch, Evict
from volcanoio.model import kinds

CLASSES = [priority_class(name, value) for name, value in (("low", 1), ("high", 9))]


class RetryingCluster:
    """A cluster with random changes; if `retries_all`, every job is tried in every cycle."""

    def __init__(self, conf: str, *, retries_all: bool) -> None:
        self.retries_all = retries_all
        self.world = World(*CLASSES, queue("q"), *(node(f"n{at}", cpu="4") for at in range(3)), conf=conf)
        self.made = 0

    def step(self, what: str, number: int) -> object:
        world = self.world
        members = sorted(key for kind, key in world.objects if kind == kinds.POD.resource)
        chosen = members[number * 7 % len(members)].partition("/")[2] if members else ""
        match what:
            case "job":
                self.made += 1
                name, size = f"j{self.made}", 1 + number % 4
                rank = ("low", "high")[number % 2]
                spec: dict[str, Any] = {"queue": ("default", "q")[number % 2], "priorityClassName": rank}
                world.put(group(name, (size, 1)[number // 4], **spec))
                for member in pods(name, size, name, cpu=("1", "2", "3")[number % 3]):
                    world.put(member)
            case "end" if chosen:
                world.set_pod(chosen, phase="Succeeded")
            case "gone" if chosen:
                world.remove(kinds.POD, f"ns/{chosen}")
            case "terminate" if chosen:
                world.set_pod(chosen, deleting=True)
            case "cordon":
                world.put(node(f"n{number % 3}", cpu="4", unschedulable=number > 3))
            case "grow":
                world.put(node(f"n{number % 4}", cpu=str(3 + number % 4)))
            case "cycle" | "refuse":
                return self.cycle(refuse=what == "refuse")
        return None

    def cycle(self, *, refuse: bool) -> object:
        world = self.world
        if self.retries_all:
            world.state.unschedulable.cluster_generation += 1
            for job in world.state.ledger.jobs.values():
                job.attempts.unschedulable_until = job.attempts.queue_shortage = None
        world.cycle()
        world.now -= 0.75 * world.period  # several cycles a period
        bound = [bind for batch in world.last if isinstance(batch, BindBatch) for bind in batch.binds]
        evicted = sorted(one.name for one in world.last if isinstance(one, Evict))
        world.echo(refuse={bound[0].name: 409} if refuse and bound else None)
        return sorted((bind.name, bind.node) for bind in bound), evicted
