"""How many volumes of a driver a node takes: those that its pods use and those that are attached to it."""

from __future__ import annotations

from tests.scenario.scheduling.harness import World, group, node
from tests.scenario.scheduling.storage import attachment, claim, csi_node, storage_class, using, volume
from volcanoio.model import kinds
from volcanoio.model.base import Manifest

NODES = [node("n1"), node("n2"), node("n3")]
MADE = storage_class("made", "csi.example")
CSI = {"driver": "csi.example", "volumeHandle": "h"}


def why(world: World) -> str:
    """The message of the group's Unschedulable condition."""
    conditions = world.group("g").status.conditions
    return next((each.message for each in conditions if each.type == "Unschedulable"), "")


def bound_to(*volumes: str) -> list[Manifest]:
    """Volumes of the limited driver, each with a claim of its name that is bound to it."""
    return [
        each
        for name in volumes
        for each in (claim(name, volume=name), volume(name, phase="Bound", csi={**CSI, "volumeHandle": name}))
    ]


def test_a_node_takes_as_many_volumes_of_a_driver_as_it_says() -> None:
    claims = [claim(f"c-{i}", "made") for i in range(4)]
    users = [using(f"p-{i}", "g", f"c-{i}", cpu="100m") for i in range(4)]
    limits = [csi_node("n1", "csi.example", 1), csi_node("n2", "csi.example", 2), csi_node("n3", "other.example", 9)]
    world = World(*NODES[:2], MADE, *limits, *claims, group("g", 4), *users)
    world.run(3)
    assert world.binds == {}
    assert "exceed max volume count" in why(world)
    world.put(NODES[2])
    world.run(1)
    assert sorted(world.binds.values()).count("n1") <= 1
    assert sorted(world.binds.values()).count("n2") <= 2
    assert len(world.binds) == 4


def test_a_claim_that_is_used_on_the_node_is_not_counted_again() -> None:
    shared = claim("c", volume="v", modes=["ReadWriteMany"])
    bound = volume("v", phase="Bound", csi={"driver": "csi.example", "volumeHandle": "1"})
    world = World(node("n1"), csi_node("n1", "csi.example", 1), shared, bound, group("g", 3))
    for index in range(3):
        world.put(using(f"p-{index}", "g", "c"))
    world.run(2)
    assert len(world.binds) == 3


def test_a_volume_that_is_still_attached_counts_though_no_pod_uses_it() -> None:
    limits = [csi_node("n1", "csi.example", 1), csi_node("n2", "csi.example", 0)]
    left = attachment("left", "other", "n1")
    world = World(*NODES[:2], *limits, left, *bound_to("c"), group("g", 1), using("p", "g", "c"))
    world.run(3)
    assert world.binds == {}
    assert "exceed max volume count" in why(world)
    world.remove(kinds.VOLUME_ATTACHMENT, "left")
    world.run(1)
    assert world.binds == {"p": "n1"}


def test_an_attached_volume_that_a_pod_uses_counts_once() -> None:
    there = using("there", "", "old", on="n1", phase="Running")
    world = World(node("n1"), csi_node("n1", "csi.example", 2), *bound_to("old", "c"), there)
    world.put(attachment("a", "old", "n1"))
    for manifest in (group("g", 1), using("p", "g", "c")):
        world.put(manifest)
    world.run(1)
    assert world.binds == {"p": "n1"}


def test_a_volume_stays_counted_when_its_pod_is_gone_and_it_is_not_detached() -> None:
    there = using("there", "", "old", on="n1", phase="Running")
    world = World(node("n1"), csi_node("n1", "csi.example", 1), *bound_to("old", "c"), there)
    for manifest in (attachment("a", "old", "n1"), group("g", 1), using("p", "g", "c")):
        world.put(manifest)
    world.remove(kinds.POD, "ns/there")
    world.run(2)
    assert world.binds == {}
    world.remove(kinds.VOLUME_ATTACHMENT, "a")
    world.run(1)
    assert world.binds == {"p": "n1"}


def test_a_volume_is_not_one_more_where_it_is_attached() -> None:
    limits = [csi_node(name, "csi.example", 1) for name in ("n1", "n2")]
    busy = attachment("busy", "other", "n2")
    world = World(*NODES[:2], *limits, busy, attachment("own", "c", "n1"), *bound_to("c"), group("g", 1))
    world.put(using("p", "g", "c"))
    world.run(1)
    assert world.binds == {"p": "n1"}


def test_a_volume_that_is_made_after_its_pod_came_counts_once_when_it_is_attached() -> None:
    there = using("there", "", "c-old", on="n1", phase="Running")
    world = World(node("n1"), csi_node("n1", "csi.example", 2), MADE, claim("c-old", "made"), *bound_to("c"), there)
    world.put(volume("v", phase="Bound", csi=CSI))
    world.put(attachment("a", "v", "n1"))
    world.put(claim("c-old", "made", volume="v"))
    for manifest in (group("g", 1), using("p", "g", "c")):
        world.put(manifest)
    world.run(1)
    assert world.binds == {"p": "n1"}


def test_an_attachment_of_a_volume_in_use_starts_no_cycle() -> None:
    there = using("there", "", "old", on="n1", phase="Running")
    world = World(node("n1"), csi_node("n1", "csi.example", 1), *bound_to("old"), there)
    assert not world.put(attachment("a", "old", "n1"))
    assert not world.remove(kinds.VOLUME_ATTACHMENT, "a")
    assert world.put(attachment("b", "other", "n1"))


def test_the_volume_of_who_is_evicted_is_no_longer_in_the_way_of_others_who_evict() -> None:
    """The first to preempt ends the pod with the volume; the second, which wants one, ends two others."""
    conf = (
        'actions: "preempt"\ntiers:\n- plugins:\n  - name: priority\n  - name: gang\n- plugins:\n  - name: predicates\n'
    )
    high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high", "uid": "high"}}
    there = [using(f"old-{at}", "old", on="n1", phase="Running", cpu="500m") for at in range(5)]
    there.append(using("old-5", "old", "used", on="n1", phase="Running", cpu="500m"))
    world = World(
        {**high, "value": 9},
        node("n1", cpu="3"),
        csi_node("n1", "csi.example", 1),
        *bound_to("used", "wanted"),
        group("old", 1, phase="Running"),
        *there,
        group("a", 1, phase="Inqueue", priorityClassName="high"),
        using("a", "a", cpu="500m"),
        group("b", 1, phase="Inqueue", priorityClassName="high"),
        using("b", "b", "wanted", cpu="1"),
        conf=conf,
    )
    world.cycle()
    assert world.evictions == ["old-5", "old-4", "old-3"]
    assert world.snapshot is not None
    assert world.snapshot.pipelined == {"ns/a": "n1", "ns/b": "n1"}
    world.cycle()
    assert len(world.evictions) == 3
