"""Invariants of evictions over random clusters and many cycles, whatever plugins are on.

The world goes on as a real one: the evicted are gone after a while, their jobs make them anew, and what was bound runs.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.scenario.scheduling.harness import World, group, node, pod, queue
from tests.unit.scheduling.test_invariants import check
from volcanoio.framework.scheduling.views import TaskStatus
from volcanoio.framework.scheduling_effects import BindBatch, Evict
from volcanoio.model import kinds

CONFS = [
    f"""
actions: "{actions}"
tiers:
- plugins: [{first}]
- plugins: [{second}]
configurations:
- name: preempt
  arguments: {{enableTopologyAwarePreemption: {dry}}}
"""
    for actions, dry in (
        ("enqueue, allocate, backfill, reclaim, preempt", "false"),
        ("allocate, preempt, reclaim", "true"),
        ("reclaim, preempt, allocate", "false"),
    )
    for first, second in (
        ("{name: priority}, {name: gang}, {name: conformance}", "{name: predicates}, {name: proportion}"),
        ("{name: priority}, {name: gang}, {name: drf}", "{name: predicates}, {name: nodeorder}"),
        ("{name: gang, enableJobStarving: false}, {name: priority, enablePreemptable: false}", "{name: proportion}"),
        ("{name: priority, enablePreemptable: false}", "{name: gang, enablePreemptable: false}"),
    )
]
Queues = list[tuple[int, str | None, bool]]
CLASSES = [
    {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name, "uid": name},
        "value": at,
    }
    for name, at in (("low", 1), ("mid", 5), ("high", 9))
]
JOB = st.fixed_dictionaries(
    {
        "size": st.integers(1, 4),
        "minimum": st.integers(0, 4),
        "cpu": st.sampled_from(["1", "2", "3"]),
        "queue": st.sampled_from(["a", "b", "c"]),
        "rank": st.sampled_from(["low", "mid", "high"]),
        "late": st.integers(0, 3),
    }
)
QUEUES = st.tuples(st.integers(1, 3), st.sampled_from([None, "1", "2"]), st.booleans())


LAST_ARRIVAL, TURNS, CALM = 3, 30, 6


class Life:
    """A cluster that goes on: jobs come in their turn, and pods that were evicted are replaced."""

    def __init__(self, conf: str, nodes: list[int], queues: Queues, jobs: list[Any]) -> None:
        self.world = World(*CLASSES, *(node(f"n{at}", cpu=str(cpu)) for at, cpu in enumerate(nodes)), conf=conf)
        self.jobs = jobs
        self.made: Counter[int] = Counter()
        self.evicted: list[Evict] = []
        for name, (weight, guarantee, reclaimable) in zip("abc", queues, strict=True):
            spec: dict[str, Any] = {"weight": weight, "reclaimable": reclaimable}
            if guarantee:
                spec["guarantee"] = {"resource": {"cpu": guarantee}}
            self.world.put(queue(name, **spec))

    def arrive(self, turn: int) -> None:
        for at, one in enumerate(self.jobs):
            if one["late"] == turn:
                minimum = min(one["minimum"], one["size"])
                self.world.put(
                    group(f"g{at}", minimum, queue=one["queue"], phase="Inqueue", priorityClassName=one["rank"])
                )
                for _ in range(one["size"]):
                    self.replace(at)

    def replace(self, at: int) -> None:
        self.made[at] += 1
        self.world.put(pod(f"g{at}-{self.made[at]}", f"g{at}", cpu=self.jobs[at]["cpu"]))

    def cycle(self) -> list[Evict]:
        self.world.cycle()
        check(self.world.state)
        evicted = [one for one in self.world.last if isinstance(one, Evict)]
        self.evicted += evicted
        self.world.echo()
        return evicted

    def bury(self) -> None:
        for (resource, key), obj in list(self.world.objects.items()):
            if resource == kinds.POD.resource and obj.metadata.deletion_timestamp:
                self.world.remove(kinds.POD, key)
                self.replace(int(key.split("/g")[1].split("-")[0]))


def guarantees(world: World) -> dict[str, int]:
    """What each queue holds of cpu up to its guarantee."""
    found = {}
    for name, one in world.state.ledger.known_queues.items():
        if one.guarantee:
            found[name] = min(one.held.get("cpu", 0), one.guarantee["cpu"])
    return found


@settings(max_examples=120, deadline=None)
@given(
    conf=st.sampled_from(CONFS),
    nodes=st.lists(st.integers(2, 6), min_size=1, max_size=3),
    queues=st.lists(QUEUES, min_size=3, max_size=3),
    jobs=st.lists(JOB, min_size=1, max_size=6),
    linger=st.integers(0, 2),
)
def test_evictions_pay_for_placements(
    conf: str, nodes: list[int], queues: Queues, jobs: list[Any], linger: int
) -> None:
    life = Life(conf, nodes, queues, jobs)
    world = life.world
    owed: set[str] = set()
    taken: set[tuple[str, str]] = set()
    for turn in range(TURNS):
        life.arrive(turn)
        before, claims = guarantees(world), set(world.state.claims.by_task)
        evicted = life.cycle()
        assert turn < TURNS - CALM or not evicted, "it never comes to rest"
        reasons = {one.reason for one in evicted}
        assert reasons != {"reclaim"} or all(guarantees(world)[name] >= held for name, held in before.items())
        new = [claim for uid, claim in world.state.claims.by_task.items() if uid not in claims]
        assert {one.node for one in evicted} <= {claim.node for claim in new}, "an eviction without a placement"
        if turn > LAST_ARRIVAL:  # newcomers change what queues may have
            owed |= {claim.task.uid for claim in new}
            edges = {(claim.task.job, one.group) for claim in new for one in evicted if claim.node == one.node}
            taken |= {(taker, victim) for taker, victim in edges if taker != victim}
            assert not any((victim, taker) in taken for taker, victim in taken), "A evicts B evicts A"
        columns = world.state.ledger.columns
        for name in columns.resources:
            assert (columns.used(name) <= columns.allocatable(name)).all()
        _no_gang_in_part(world, jobs)
        if turn % (linger + 1) == linger:
            life.bury()
    for uid in owed:
        task = world.state.ledger.tasks.get(uid)
        assert task is None or task.node, "what was paid for was not had"


def _no_gang_in_part(world: World, jobs: list[Any]) -> None:
    bound = {one.group for one in world.last if isinstance(one, BindBatch)}
    for key in bound:
        at = int(key.split("/g")[1])
        counts = world.state.ledger.jobs[key].counts
        held = counts[TaskStatus.BINDING] + counts[TaskStatus.BOUND] + counts[TaskStatus.RUNNING]
        assert held >= min(jobs[at]["minimum"], jobs[at]["size"])
