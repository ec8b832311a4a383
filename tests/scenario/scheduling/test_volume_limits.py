"""Volume limits of nodes: volumes of a driver that pods use and volumes that are attached count."""

from __future__ import annotations

from tests.scenario.scheduling.harness import Scenario, World, group, node, priority_class, scenarios
from tests.scenario.scheduling.storage import attachment, claim, csi_node, storage_class, using, volume, why
from volcanoio.model import kinds
from volcanoio.model.base import Manifest

NODES = [node("n1"), node("n2"), node("n3")]
DYNAMIC = storage_class("made", "csi.example")
CSI = {"driver": "csi.example", "volumeHandle": "h"}


def bound_to(*volumes: str) -> list[Manifest]:
    """Return volumes of the limited driver, each with a bound claim of the same name."""
    return [
        each
        for name in volumes
        for each in (claim(name, volume=name), volume(name, phase="Bound", csi={**CSI, "volumeHandle": name}))
    ]


@scenarios(
    Scenario(
        name="a claim of several pods on a node counts once",
        cluster=[
            *(node("n1"), csi_node("n1", "csi.example", 1)),
            claim("c", volume="v", modes=["ReadWriteMany"]),
            volume("v", phase="Bound", csi={"driver": "csi.example", "volumeHandle": "1"}),
            *(group("g", 3), *(using(f"p-{index}", "g", "c") for index in range(3))),
        ],
        cycles=2,
        binds={"p-0": "n1", "p-1": "n1", "p-2": "n1"},
    ),
    Scenario(
        name="an attached volume that a pod uses counts once",
        cluster=[
            *(node("n1"), csi_node("n1", "csi.example", 2), *bound_to("old", "c")),
            using("there", "", "old", on="n1", phase="Running"),
            attachment("a", "old", "n1"),
            *(group("g", 1), using("p", "g", "c")),
        ],
        binds={"p": "n1"},
    ),
    Scenario(
        name="a volume that is attached to the node already does not count again",
        cluster=[
            *(*NODES[:2], *(csi_node(name, "csi.example", 1) for name in ("n1", "n2"))),
            *(attachment("busy", "other", "n2"), attachment("own", "c", "n1"), *bound_to("c")),
            *(group("g", 1), using("p", "g", "c")),
        ],
        binds={"p": "n1"},
    ),
)
def test_volumes_count_once(scenario: Scenario) -> None:
    scenario.check()


def test_a_node_gets_no_more_volumes_of_a_driver_than_its_limit() -> None:
    claims = [claim(f"c-{i}", "made") for i in range(4)]
    users = [using(f"p-{i}", "g", f"c-{i}", cpu="100m") for i in range(4)]
    limits = [csi_node("n1", "csi.example", 1), csi_node("n2", "csi.example", 2), csi_node("n3", "other.example", 9)]
    world = World(*NODES[:2], DYNAMIC, *limits, *claims, group("g", 4), *users)
    world.run(3)
    assert world.binds == {}
    assert "exceed max volume count" in why(world)
    world.put(NODES[2])
    world.run(1)
    assert sorted(world.binds.values()).count("n1") <= 1
    assert sorted(world.binds.values()).count("n2") <= 2
    assert len(world.binds) == 4


def test_an_attached_volume_counts_although_no_pod_uses_it() -> None:
    limits = [csi_node("n1", "csi.example", 1), csi_node("n2", "csi.example", 0)]
    left = attachment("left", "other", "n1")
    world = World(*NODES[:2], *limits, left, *bound_to("c"), group("g", 1), using("p", "g", "c"))
    world.run(3)
    assert world.binds == {}
    assert "exceed max volume count" in why(world)
    world.remove(kinds.VOLUME_ATTACHMENT, "left")
    world.run(1)
    assert world.binds == {"p": "n1"}


def test_the_volume_of_a_deleted_pod_counts_until_it_is_detached() -> None:
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


def test_a_volume_provisioned_after_its_pod_was_placed_counts_once() -> None:
    there = using("there", "", "c-old", on="n1", phase="Running")
    world = World(node("n1"), csi_node("n1", "csi.example", 2), DYNAMIC, claim("c-old", "made"), *bound_to("c"), there)
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


def test_the_volume_of_an_evicted_pod_does_not_count_for_later_preemptors_of_the_cycle() -> None:
    """Pod a evicts the pod with the volume; pod b, which needs a volume, then evicts two others."""
    conf = (
        'actions: "preempt"\ntiers:\n- plugins:\n  - name: priority\n  - name: gang\n- plugins:\n  - name: predicates\n'
    )
    there = [using(f"old-{at}", "old", on="n1", phase="Running", cpu="500m") for at in range(5)]
    there.append(using("old-5", "old", "used", on="n1", phase="Running", cpu="500m"))
    world = World(
        priority_class("high", 9),
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
    assert world.pipelines == {"a": "n1", "b": "n1"}
    world.cycle()
    assert len(world.evictions) == 3
