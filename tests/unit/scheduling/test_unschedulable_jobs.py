"""Skipping unschedulable jobs changes no decision: retrying all of them gives the same result in every cycle."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.scenario.scheduling.harness import World, group, node, pods, queue
from volcanoio.framework.scheduling_effects import BindBatch, Evict
from volcanoio.model import kinds

CONF = """
actions: "{actions}"
tiers:
- plugins: [{{name: priority}}, {{name: gang}}]
- plugins: [{{name: drf}}, {{name: predicates}}, {{name: nodeorder}}{more}]
"""
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["job", "end", "gone", "terminate", "cordon", "grow", "refuse", "cycle", "cycle"]),
        st.integers(0, 7),
    ),
    max_size=40,
)
CLASSES = [
    {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name, "uid": name},
        "value": at,
    }
    for name, at in (("low", 1), ("high", 9))
]


class Life:
    """A cluster with random changes; if `forgetful`, every job is tried in every cycle."""

    def __init__(self, conf: str, *, forgetful: bool) -> None:
        self.forgetful = forgetful
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
        if self.forgetful:
            world.state.unschedulable.cluster_generation += 1
            for job in world.state.ledger.jobs.values():
                job.attempts.unschedulable_until = job.attempts.queue_shortage = None
        world.cycle()
        world.now -= 0.75 * world.period  # several cycles a period
        bound = [bind for batch in world.last if isinstance(batch, BindBatch) for bind in batch.binds]
        evicted = sorted(one.name for one in world.last if isinstance(one, Evict))
        world.echo(refuse={bound[0].name: 409} if refuse and bound else None)
        return sorted((bind.name, bind.node) for bind in bound), evicted


@pytest.mark.parametrize("more", ["", ", {name: overcommit}, {name: proportion}"], ids=["free", "limited"])
@pytest.mark.parametrize("actions", ["enqueue, allocate, backfill", "enqueue, allocate, preempt, reclaim"])
def test_trying_every_job_in_every_cycle_gives_the_same_decisions(actions: str, more: str) -> None:
    @examples(40)
    @given(jobs=st.lists(st.integers(0, 7), min_size=5, max_size=9), steps=STEPS)
    def compare(jobs: list[int], steps: list[tuple[str, int]]) -> None:
        lives = [Life(CONF.format(actions=actions, more=more), forgetful=forgetful) for forgetful in (False, True)]
        first = [("job", number) for number in jobs]
        for what, number in [*first, ("cycle", 0), *steps, ("cycle", 0), ("cycle", 0)]:
            kept, forgotten = (life.step(what, number) for life in lives)
            assert kept == forgotten

    compare()
