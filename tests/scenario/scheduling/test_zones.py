"""Several schedulers share a cluster by node zones: none uses another's nodes, harms the others, or books twice."""

from __future__ import annotations

from typing import Any

import pytest

from tests.scenario.scheduling.harness import World, group, node, pod, pods, queue
from tests.scenario.scheduling.zones import ZONE, SharedCluster, ZoneScheduler, keep_moving
from volcanoio.engine.scheduling.cluster.scope import HANDOVER_SECONDS
from volcanoio.framework.effects import Patch
from volcanoio.model import kinds
from volcanoio.model.base import Manifest
from volcanoio.model.names import GROUP_SCHEDULER
from volcanoio.runtime.scheduler.scheduler import shared_nodes

FOREIGN = "default-scheduler"


def test_ten_thousand_placements_stay_in_their_zones() -> None:
    shared = SharedCluster({"a": 12, "b": 10, "c": 8}, slots=340)
    for number in range(100):
        for zone in ("a", "b", "c"):
            shared.submit(f"{zone}-{number}", zone, pods={"a": 40, "b": 34, "c": 26}[zone])
        shared.submit(f"foreign-{number}", FOREIGN, pods=1)
        shared.step()
    shared.step()
    assert len(shared.bound) == 10_000
    outside = {name: at for name, at in shared.bound.items() if shared.zone_of[at] != name.partition("-")[0]}
    assert outside == {}
    assert not any(name.startswith("foreign") for name in shared.bound), "only pods of our own name are bound"
    assert shared.overbooked == []


def moved(seed: int, handover: float) -> SharedCluster:
    """Return a busy cluster in which nodes move between zones while binds are in flight."""
    delays = {"a": 3.0, "b": 1.0, "c": 2.0}
    shared = SharedCluster(dict.fromkeys(delays, 4), delays=delays, handover=handover, seed=seed)
    keep_moving(shared, rounds=60, most_pods=3, move_every=4, end_share=0.1)
    return shared


@pytest.mark.parametrize("seed", range(3))
def test_a_node_that_moves_between_zones_is_not_booked_twice(seed: int) -> None:
    shared = moved(seed, HANDOVER_SECONDS)
    assert shared.overbooked == []
    assert len({node for scheduler in shared.schedulers.values() for _, node in scheduler.decided}) == 12


def test_without_the_delay_a_moved_node_would_be_booked_twice() -> None:
    assert any(moved(seed, 0.0).overbooked for seed in range(3))


def test_pods_of_both_schedulers_count_on_a_moved_node() -> None:
    shared = SharedCluster({"a": 1, "b": 1}, slots=4)
    shared.submit("a-old", "a", pods=3)
    shared.step()
    shared.place_node("a0", "b")
    shared.submit("b-new", "b", pods=6, minimum=1)
    for _ in range(int(HANDOVER_SECONDS)):
        shared.step()
    assert {at for name, at in shared.bound.items() if name.startswith("b-new")} == {"b0"}, "not before the delay"
    shared.step()
    assert sorted(at for name, at in shared.bound.items() if name.startswith("b-new")) == ["a0", *["b0"] * 4]
    shared.submit("a-more", "a", pods=1)
    shared.place_node("a0", "a")
    for _ in range(int(HANDOVER_SECONDS) + 2):
        shared.step()
    assert "a-more-0" not in shared.bound, "the node is full with pods of both"
    shared.finish(min(name for name in shared.on_node["a0"] if name.startswith("b-new")))
    shared.step()
    shared.step()
    assert shared.bound["a-more-0"] == "a0"


def test_a_move_that_is_taken_back_begins_a_new_delay() -> None:
    shared = SharedCluster({"a": 1, "b": 0}, slots=4)
    shared.step()
    shared.place_node("a0", "b")
    for _ in range(6):
        shared.step()
    shared.place_node("a0", "a")
    shared.submit("a-job", "a", pods=1)
    for _ in range(int(HANDOVER_SECONDS)):
        shared.step()
        assert shared.bound == {}
    shared.step()
    assert shared.bound == {"a-job-0": "a0"}


def decisions_of_b(*, flood: bool = False, killed_at: int | None = None) -> list[tuple[str, str]]:
    """Return what scheduler b decides; its neighbour a may be flooded with pods or end."""
    shared = SharedCluster({"a": 4, "b": 4}, slots=30)
    if flood:
        for number in range(50):
            shared.submit(f"a-flood-{number}", "a", pods=20)
    for number in range(20):
        shared.submit(f"a-{number}", "a", pods=2)
        shared.submit(f"b-{number}", "b", pods=5)
        is_killed = killed_at is not None and number >= killed_at
        shared.step(("b",) if is_killed else ("a", "b"))
    decided = shared.schedulers["b"].decided
    assert len(decided) == 100
    return decided


def test_a_flooded_or_killed_scheduler_changes_no_decision_of_another() -> None:
    alone = decisions_of_b()
    assert decisions_of_b(flood=True) == alone
    assert decisions_of_b(killed_at=7) == alone


CONF = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
- plugins:
  - name: predicates
  - name: {plugin}
  - name: nodeorder
"""


@pytest.mark.parametrize("plugin", ["capacity", "proportion"])
def test_a_zone_that_a_guarantee_keeps_empty_takes_an_emergency_job_at_once(plugin: str) -> None:
    """An elastic job and many small ones want the whole zone."""
    kept = {"guarantee": {"resource": {"cpu": "8", "memory": "32Gi"}}}
    world = World(
        node("n1", cpu="8", memory="32Gi"),
        node("n2", cpu="8", memory="32Gi"),
        queue("emergency", **kept),
        queue("batch"),
        group("elastic", 2, queue="batch", minResources={"cpu": "2", "memory": "2Gi"}),
        *pods("e", 16, "elastic", cpu="1", memory="1Gi"),
        *(
            manifest
            for number in range(8)
            for manifest in (
                group(f"small{number}", 1, queue="batch", minResources={"cpu": "1", "memory": "1Gi"}),
                *pods(f"s{number}-", 1, f"small{number}", cpu="1", memory="1Gi"),
            )
        ),
        conf=CONF.format(plugin=plugin),
    )
    world.run(5)
    assert len(world.binds) == 8, "batch gets what the guarantee leaves"
    world.put(group("urgent", 8, queue="emergency", minResources={"cpu": "8", "memory": "8Gi"}))
    for manifest in pods("u", 8, "urgent", cpu="1", memory="1Gi"):
        world.put(manifest)
    world.run(1)
    assert sum(name.startswith("u") for name in world.binds) == 8
    assert world.evictions == []


def test_pods_of_another_scheduler_outside_our_zone_request_no_cycle() -> None:
    world = ZoneScheduler("a", delay=0.0, handover=HANDOVER_SECONDS)
    world.put(node("a0", labels={ZONE: "a"}))
    world.put(node("b0", labels={ZONE: "b"}))
    theirs = {"schedulerName": "b", "containers": [{"name": "c", "image": "i"}]}
    claim = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}
    requests: dict[str, list[bool]] = {}
    for name, on, spec in (("far", "b0", theirs), ("near", "a0", theirs), ("claims", "b0", theirs | claim)):
        requests[name] = [
            world.put(pod(name, spec=spec)),
            world.set_pod(name, node=on),
            world.set_pod(name, phase="Running"),
            world.set_pod(name, deleting=True),
            world.remove(kinds.POD, f"ns/{name}"),
        ]
    assert requests == {
        "far": [False, False, False, False, False],
        "near": [False, True, True, True, True],
        "claims": [False, True, True, True, True],
    }


def test_overlapping_zones_show_as_pods_of_gangs_of_another_scheduler() -> None:
    world = World(
        *(node(name) for name in ("n1", "n2", "n3")),
        *foreign_pods(2, "theirs", on="n1", phase="Running"),
        pod("daemon", on="n2", phase="Running", spec={"schedulerName": "default-scheduler"}),
        pod("own", "ours", on="n3", phase="Running"),
    )
    assert shared_nodes(world.state.ledger) == {"other": ["n1"]}


def writes_to(world: World, name: str) -> list[object]:
    return [each for each in world.decisions if isinstance(each, Patch) and each.name == name]


def foreign_pods(number: int, group: str, **more: Any) -> list[Manifest]:
    return [pod(f"f{each}", group, cpu="1", spec={"schedulerName": "other"}, **more) for each in range(number)]


def test_a_podgroup_with_pods_of_another_scheduler_is_left_alone() -> None:
    world = World(node("n1"), group("theirs", 2, phase="Running"), *foreign_pods(2, "theirs", on="n1", phase="Running"))
    world.run(3)
    assert writes_to(world, "theirs") == []
    for name in ("f0", "f1"):
        world.remove(kinds.POD, f"ns/{name}")
    world.run(3)
    assert writes_to(world, "theirs") == [], "its next pods are theirs again"
    assert world.state.ledger.jobs == {}


def test_the_order_of_podgroup_and_pods_does_not_matter() -> None:
    world = World(node("n1"), *foreign_pods(1, "theirs"))
    world.put(group("theirs", 1))
    world.run(2)
    assert world.decisions == []


def test_a_podgroup_with_pods_of_ours_is_ours() -> None:
    world = World(node("n1"), group("mixed", 1), *foreign_pods(1, "mixed"))
    world.put(pod("own", "mixed", cpu="1"))
    world.run(3)
    assert world.binds == {"own": "n1"}
    assert world.phase("mixed") == "Running"
    world.remove(kinds.POD_GROUP, "ns/mixed")
    assert "ns/mixed" not in world.state.foreign_groups


def test_the_annotation_of_a_podgroup_names_its_scheduler_before_it_has_pods() -> None:
    theirs, named = group("theirs", 1), group("named", 1)
    theirs["metadata"]["annotations"] = {GROUP_SCHEDULER: "other"}
    named["metadata"]["annotations"] = {GROUP_SCHEDULER: "volcano"}
    world = World(node("n1"), theirs, named, group("unnamed", 1))
    world.run(2)
    assert [world.phase(name) for name in ("named", "unnamed")] == ["Inqueue", "Inqueue"]
    assert writes_to(world, "theirs") == []
    world.put(pod("own", "theirs", cpu="1"))
    world.run(2)
    assert world.binds == {"own": "n1"}, "a pod of ours shows that it is ours"
