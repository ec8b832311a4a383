"""Schedulers that divide a cluster by NodeShards: which nodes each one uses, and when a node changes hands."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.scenario.scheduling import preemption_clusters
from tests.scenario.scheduling.harness import (
    Scenario,
    World,
    group,
    node,
    pod,
    pods,
    priority_class,
    queue,
    waiting,
)
from tests.scenario.scheduling.sharded import HARD, SOFT, ShardedCluster, shard
from tests.scenario.scheduling.zones import keep_moving
from volcanoio.engine.scheduling.cluster.state import ClusterState
from volcanoio.engine.scheduling.sharding.node_shards import DELETION_SECONDS, RELEASE_SECONDS
from volcanoio.framework.effects import Patch
from volcanoio.framework.events import EffectFailed
from volcanoio.model import kinds
from volcanoio.model.base import Manifest

EVICTING = preemption_clusters.CONF.replace("enqueue, allocate, backfill, preempt", "{actions}")
TWO_FULL_NODES = (
    node("n1", cpu="1"),
    node("n2", cpu="1"),
    priority_class("high", 100),
    group("low", 1, phase="Running"),
    pod("low-0", "low", cpu="1", on="n1", phase="Running"),
    pod("low-1", "low", cpu="1", on="n2", phase="Running"),
    group("high", 1, phase="Inqueue", priorityClassName="high"),
    *waiting("high", 1),
)

SCENARIOS = (
    Scenario(
        name="hard: only nodes of the shard are used, even if others are better",
        options=HARD,
        cluster=(node("n1", cpu="2"), node("n2", cpu="8"), shard("volcano", "n1"), group("g", 2), *waiting("g", 2)),
        binds={"g-0": "n1", "g-1": "n1"},
    ),
    Scenario(
        name="hard: nodes outside have Volcano's reason, whether they have room or not",
        options=HARD,
        cluster=(
            *(node("n1", cpu="1"), node("n2", cpu="8"), node("n3", cpu="1")),
            shard("volcano", "n1"),
            group("g", 1, phase="Inqueue"),
            *waiting("g", 1, cpu="2"),
        ),
        fit_errors={"g": "0/3 nodes are unavailable: 1 Insufficient cpu, 2 node isn't in scheduler node shard."},
    ),
    Scenario(
        name="hard: best-effort pods stay inside, too",
        options=HARD,
        cluster=(node("n1"), node("n2"), shard("volcano", "n2"), group("g", 3), *pods("g", 3, "g")),
        binds={"g-0": "n2", "g-1": "n2", "g-2": "n2"},
    ),
    Scenario(
        name="hard: no pod outside the shard is evicted by preempt",
        options=HARD,
        conf=EVICTING.format(actions="preempt"),
        cluster=(*TWO_FULL_NODES, shard("volcano", "n2")),
        evicts=["low-1"],
    ),
    Scenario(
        name="hard: without a NodeShard no node is used",
        options=HARD,
        cluster=(node("n1"), shard("other"), group("g", 1, phase="Inqueue"), *waiting("g", 1)),
        fit_errors={"g": "0/1 nodes are unavailable: 1 node isn't in scheduler node shard."},
    ),
    Scenario(
        name="a desired node that another shard has in use is not used yet",
        options=HARD,
        cluster=(
            *(node("n1"), node("n2")),
            shard("volcano", "n1", "n2"),
            shard("other", in_use=["n1"]),
            group("g", 1),
            *waiting("g", 1),
        ),
        binds={"g-0": "n2"},
    ),
    Scenario(
        name="soft: idle room inside goes before idle room outside",
        options=SOFT,
        cluster=(node("n1", cpu="2"), node("n2", cpu="64"), shard("volcano", "n1"), group("g", 3), *waiting("g", 3)),
        binds={"g-0": "n1", "g-1": "n1", "g-2": "n2"},
    ),
    Scenario(
        name="soft: idle room outside goes before room inside that is being released",
        options=SOFT,
        cluster=(
            *(node("n1", cpu="1"), node("n2", cpu="1")),
            shard("volcano", "n1"),
            group("old", 1, phase="Running"),
            pod("old-0", "old", cpu="1", on="n1", phase="Running"),
            group("g", 1),
            *waiting("g", 1),
        ),
        binds={"g-0": "n2"},
    ),
    *(
        Scenario(
            name=f"soft: preempt takes victims inside: {inside}",
            options=SOFT,
            conf=EVICTING.format(actions="preempt"),
            cluster=(*TWO_FULL_NODES, shard("volcano", inside)),
            evicts=[victim],
        )
        for inside, victim in (("n1", "low-0"), ("n2", "low-1"))
    ),
)


HARD_AGENT = replace(HARD, agent_schedulers=frozenset({"agent"}))
SOFT_AGENT = replace(SOFT, agent_schedulers=frozenset({"agent"}))


def single(name: str) -> Manifest:
    """Return a latency-bound pod of one core."""
    return pod(name, cpu="1", spec={"schedulerName": "agent"})


RECLAIMING = (
    *(node("n1", cpu="2"), node("n2", cpu="2"), queue("qa"), queue("qb"), group("a", 1, queue="qa", phase="Running")),
    *(pod(f"a-{at}", "a", cpu="2", on=f"n{at + 1}", phase="Running") for at in (0, 1)),
    *(group("b", 1, queue="qb", phase="Inqueue"), *waiting("b", 1)),
)
SMALL_AND_LARGE = (node("n1", cpu="1"), node("n2", cpu="8"), shard("volcano", "n1"))
SCENARIOS += (
    *(
        Scenario(
            name=f"hard: {action} evicts no pod outside the shard: {inside}",
            options=HARD,
            conf=EVICTING.format(actions=action),
            cluster=(*cluster, shard("volcano", inside)),
            evicts=[f"{prefix}-{inside[1:] == '2':d}"],
        )
        for action, cluster, prefix in (
            ("gangpreempt", TWO_FULL_NODES, "low"), ("reclaim", RECLAIMING, "a"), ("gangreclaim", RECLAIMING, "a")
        )
        for inside in ("n1", "n2")
    ),
    Scenario(
        name="hard: a latency-bound pod stays inside",
        options=HARD_AGENT,
        cluster=(*SMALL_AND_LARGE, single("x-0"), single("x-1")),
        bind_counts={"x": 1},
    ),
    Scenario(
        name="soft: a latency-bound pod goes inside first",
        options=SOFT_AGENT,
        cluster=(*SMALL_AND_LARGE, single("x-0")),
        binds={"x-0": "n1"},
    ),
    Scenario(
        name="soft: a latency-bound pod that does not fit inside goes outside",
        options=SOFT_AGENT,
        cluster=(*SMALL_AND_LARGE, single("x-0"), single("x-1")),
        bind_counts={"x": 2},
    ),
    Scenario(
        name="soft: best-effort pods go inside first",
        options=SOFT,
        cluster=(node("n1"), node("n2"), shard("volcano", "n2"), group("g", 3), *pods("g", 3, "g")),
        binds={"g-0": "n2", "g-1": "n2", "g-2": "n2"},
    ),
)  # fmt: skip


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_shard(scenario: Scenario) -> None:
    scenario.check()


@pytest.mark.parametrize(("inside", "victim"), [("n1", "a-0"), ("n2", "a-1")])
def test_soft_reclaim_takes_victims_inside(inside: str, victim: str) -> None:
    Scenario(
        name="",
        options=SOFT,
        conf=EVICTING.format(actions="reclaim"),
        cluster=(
            *(node("n1", cpu="2"), node("n2", cpu="2"), queue("qa"), queue("qb")),
            shard("volcano", inside),
            group("a", 1, queue="qa", phase="Running"),
            *(pod(f"a-{at}", "a", cpu="2", on=f"n{at + 1}", phase="Running") for at in (0, 1)),
            group("b", 1, queue="qb", phase="Inqueue"),
            *waiting("b", 1),
        ),
        evicts=[victim],
    ).check()


def test_soft_without_a_shard_decides_as_without_sharding() -> None:
    cluster = (*(node(f"n{at}", cpu=str(at + 1)) for at in range(6)), group("g", 1), *waiting("g", 12))
    sharded = World(*cluster, state=ClusterState(SOFT)).run(2)
    assert len(sharded.binds) == 12
    assert sharded.binds == World(*cluster).run(2).binds


def status(world: World) -> dict[str, tuple[str, ...]]:
    """Return the lists of the shard's status, as the API server has it."""
    stored = world.objects[kinds.NODE_SHARD.resource, "volcano"].status  # type: ignore[attr-defined]
    return {"in use": stored.nodes_in_use, "to add": stored.nodes_to_add, "to remove": stored.nodes_to_remove}


def shard_writes(world: World) -> int:
    return sum(isinstance(each, Patch) and each.resource == kinds.NODE_SHARD.resource for each in world.decisions)


def test_the_status_lists_what_is_used_and_is_written_only_when_it_changes() -> None:
    world = World(
        *(node("n1"), node("n2"), shard("volcano", "n2", "n1"), shard("other", in_use=["n2"])), state=ClusterState(HARD)
    )
    world.run(3)
    assert status(world) == {"in use": ("n1",), "to add": ("n2",), "to remove": ()}
    assert shard_writes(world) == 1
    world.put(shard("volcano", "n2", in_use=["n1"], nodesToAdd=["n2"]))
    world.run(2)
    assert status(world) == {"in use": (), "to add": ("n2",), "to remove": ()}
    assert shard_writes(world) == 2


def test_a_write_of_the_status_that_failed_is_repeated() -> None:
    world = World(node("n1"), shard("volcano", "n1"), state=ClusterState(HARD))
    world.cycle()
    world.cycle()
    assert shard_writes(world) == 1, "the first one is on its way"
    world.fold(EffectFailed(controller="", key=f"{kinds.NODE_SHARD.resource}/volcano", effect_id=1, code=500))
    world.run(1)
    assert status(world)["in use"] == ("n1",)


def test_a_node_with_a_bind_in_flight_stays_in_use_until_the_bind_has_ended() -> None:
    world = World(
        *(node("n1"), node("n2"), shard("volcano", "n1"), group("g", 1), *waiting("g", 1)), state=ClusterState(HARD)
    )
    world.cycle()
    in_flight = world.last
    world.put(shard("volcano", "n2", in_use=["n1"]))
    world.run(2)
    assert status(world) == {"in use": ("n1", "n2"), "to add": (), "to remove": ("n1",)}
    world.last = in_flight
    world.echo()
    world.run(1)
    assert status(world) == {"in use": ("n2",), "to add": (), "to remove": ()}


@pytest.mark.parametrize(
    ("is_deleted", "delay"),
    [(False, RELEASE_SECONDS), (True, DELETION_SECONDS)],
    ids=["released", "its shard is deleted"],
)
def test_a_node_of_another_shard_is_used_after_a_delay(is_deleted: bool, delay: float) -> None:
    world = World(
        *(node("n1"), shard("volcano", "n1"), shard("other", "n1", in_use=["n1"]), group("g", 1), *waiting("g", 1)),
        state=ClusterState(HARD),
    )
    world.run(1)
    if is_deleted:
        world.remove(kinds.NODE_SHARD, "other")
    else:
        world.put(shard("other"))
    world.run(int(delay))
    assert world.binds == {}
    world.run(1)
    assert world.binds == {"g-0": "n1"}


def test_a_node_that_joins_the_shard_wakes_a_job_that_fitted_nowhere() -> None:
    world = World(*(node("n1"), shard("volcano"), group("g", 1), *waiting("g", 1)), state=ClusterState(HARD)).run(3)
    assert world.binds == {}
    assert world.put(shard("volcano", "n1")), "a cycle is requested"
    assert world.run(1).binds == {"g-0": "n1"}


def test_nodes_keep_their_shard_when_others_are_removed_and_added() -> None:
    """Rows of nodes move when another node is removed."""
    world = World(*(node(f"n{at}", cpu="1") for at in range(4)), shard("volcano", "n1", "n3"), state=ClusterState(HARD))
    world.run(1)
    world.remove(kinds.NODE, "n0")
    world.put(node("n4", cpu="1"))
    for manifest in (group("g", 1), *waiting("g", 4)):
        world.put(manifest)
    assert sorted(world.run(2).binds.values()) == ["n1", "n3"]


def moved(seed: int, release: float) -> ShardedCluster:
    """Return a busy cluster in which nodes move between shards while binds are in flight."""
    delays = {"a": 0.0, "b": 2.0}
    shared = ShardedCluster(dict.fromkeys(delays, 3), release=release, delays=delays, slots=2, seed=seed)
    keep_moving(shared, rounds=40, most_pods=2, move_every=3, end_share=0.2)
    return shared


@pytest.mark.parametrize("seed", range(2))
def test_a_node_that_moves_between_shards_is_not_booked_twice(seed: int) -> None:
    shared = moved(seed, RELEASE_SECONDS)
    assert shared.overbooked == []
    assert len({node for scheduler in shared.schedulers.values() for _, node in scheduler.decided}) == 6


def test_without_the_delay_a_node_would_be_booked_twice() -> None:
    assert any(moved(seed, 0.0).overbooked for seed in range(2))
