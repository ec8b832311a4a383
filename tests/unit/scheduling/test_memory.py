"""What only a running scheduler remembers: saved and restored, the next cycle decides as the scheduler itself would."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from tests.scenario.scheduling.harness import World, group, node, pods, priority_class, profile, running
from volcanoio.engine.scheduling.cluster.memory import SchedulerMemory, as_decided, remember, restore
from volcanoio.engine.scheduling.cluster.state import ClusterState
from volcanoio.engine.scheduling.diagnosis.answers import EvictionAnswer, UnknownTargetError, about_evictions
from volcanoio.engine.scheduling.offline.offline import Offline
from volcanoio.framework.scheduling_effects import BindBatch, Evict
from volcanoio.framework.scheduling_events import EvictRefused, FactsSaid

CONF = """
actions: "enqueue, allocate, backfill, preempt"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: predicates}, {name: nodeorder}]
"""
OLD = (node("n1", cpu="4"), group("old", 1, phase="Running"), *running("old", 4, on="n1", cpu="1"))
NEW = (
    priority_class("high", 100),
    group("new", 1, phase="Inqueue", priorityClassName="high"),
    *pods("new", 1, "new", cpu="2"),
)


def refused() -> World:
    """A gang of which one bind was refused: its room is kept, it goes first, and its pod backs off."""
    rival = (group("rival", 1, phase="Inqueue"), *pods("rival", 1, "rival", cpu="1"))
    world = World(node("n1", cpu="2"), group("g", 2, phase="Inqueue"), *pods("g", 2, "g", cpu="1"), conf=CONF)
    for _ in range(3):
        world.cycle()
        world.echo(refuse={"g-1": 409})
        world.now = max(task.retry_at for task in world.state.ledger.tasks.values()) + 0.01
    world.now -= 0.02
    for manifest in rival:
        world.put(manifest)
    return world


def waiting_for_victims() -> World:
    """A preemptor whose victims terminate."""
    world = World(*OLD, *NEW, conf=CONF)
    world.cycle()
    world.echo()
    return world


def in_flight() -> World:
    """A bind and evictions that were sent, and whose outcomes are not known yet."""
    world = World(*OLD, node("n2", cpu="1"), *NEW, group("g", 1, phase="Inqueue"), *pods("g", 1, "g"), conf=CONF)
    world.cycle()
    return world


def usage() -> World:
    """The usage of a node."""
    world = World(node("n1", cpu="4"), group("g", 1, phase="Inqueue"), *pods("g", 1, "g", cpu="1"), conf=CONF)
    world.fold(FactsSaid(at=world.now, source="node-metrics", facts={"n1": {"cpu": 5.0}}, whole=True))
    return world


def successor(world: World, *, knows: bool = True) -> Offline:
    """Return a scheduler that has read the objects of a world, and unless it `knows` nothing, its memory as JSON."""
    memory = remember(world.state, now=world.now, configuration=CONF)
    memory = msgspec.json.decode(msgspec.json.encode(memory), type=SchedulerMemory)
    offline = Offline(ClusterState(), profile(CONF), now=world.now, seed=7)
    offline.cycles = world.cycles
    offline.load(as_decided(world.objects.values(), memory) if knows else list(world.objects.values()))
    if knows:
        restore(offline.state, memory)
    return offline


def decided(offline: Offline) -> list[tuple[str, ...]]:
    """Return binds and evictions of the next cycle."""
    offline.cycle()
    found: list[tuple[str, ...]] = []
    for each in offline.last:
        if isinstance(each, BindBatch):
            found += [("bind", bind.name, bind.node) for bind in each.binds]
        elif isinstance(each, Evict):
            found.append(("evict", each.name))
    return found


@pytest.mark.parametrize(
    ("build", "expected", "without"),
    [
        (refused, [], [("bind", "g-1", "n1")]),
        (waiting_for_victims, [], []),
        (in_flight, [], [("bind", "g-0", "n2"), ("evict", "old-3"), ("evict", "old-2")]),
        (usage, [("bind", "g-0", "n1")], [("bind", "g-0", "n1")]),
    ],
)
def test_the_next_cycle_decides_as_the_running_scheduler(
    build: Callable[[], World], expected: list[tuple[str, ...]], without: list[tuple[str, ...]]
) -> None:
    world = build()
    knowing, ignorant = successor(world), successor(world, knows=False)
    memory = remember(world.state, now=world.now)
    again = remember(knowing.state, now=world.now)
    assert (again.back_off, again.urgent, again.nominated, again.facts) == (
        memory.back_off,
        memory.urgent,
        memory.nominated,
        memory.facts,
    )
    assert decided(knowing) == decided(world) == expected
    assert decided(ignorant) == without


def evictions(world: World, name: str) -> tuple[EvictionAnswer, ...]:
    return about_evictions(world.state, "", name, "ns")


def test_an_eviction_is_followed_to_the_job_that_profits_and_to_its_refusal() -> None:
    world = waiting_for_victims()
    (one, two) = evictions(world, "old")
    assert {one.pod, two.pod} == {"ns/old-2", "ns/old-3"}
    assert (one.action, one.node, one.cycle, one.together) == ("preempt", "n1", 1, 2)
    assert one.by is not None
    assert (one.by.job, one.by.priority, one.by.ready, one.by.pending) == ("ns/new", 100, 0, 1)
    assert one.nodes == ("n1",)
    world.remove_terminating_pods()
    world.run(2)
    by = evictions(world, "old-3")[0].by
    assert by is not None
    assert (by.phase, by.ready) == ("Running", 1)
    assert evictions(world, "new") == ()
    with pytest.raises(UnknownTargetError, match="name a job or a pod"):
        about_evictions(world.state, "queue", "default", "ns")


def test_a_refused_eviction_is_shown_as_such() -> None:
    world = in_flight()
    victim = next(each for each in world.last if isinstance(each, Evict))
    outcome = {name: getattr(victim, name) for name in ("group", "uid", "namespace", "name", "node")}
    world.fold(EvictRefused(at=world.now, code=403, message="no right", **outcome))
    (found,) = evictions(world, victim.name)
    assert found.refusal == "no right"
