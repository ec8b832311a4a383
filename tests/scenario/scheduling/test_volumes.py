"""Volume claims: feasible nodes, chosen volumes, and the patches that are written before the bind."""

from __future__ import annotations

from typing import Any

import pytest

from tests.scenario.scheduling.harness import Scenario, World, group, node, pod, pods, scenarios
from tests.scenario.scheduling.storage import (
    HOST,
    THREE,
    ZONE,
    ClaimScenario,
    capacity,
    claim,
    csi_driver,
    csi_node,
    on,
    storage_class,
    using,
    volume,
    why,
)
from volcanoio.engine.scheduling.cluster.state import ClusterState, StateOptions
from volcanoio.framework.scheduling_effects import PreBindStep
from volcanoio.model import kinds
from volcanoio.model.base import Manifest
from volcanoio.model.storage import SELECTED_NODE

DYNAMIC = storage_class("made", "csi.example")


def steps(world: World, name: str) -> tuple[PreBindStep, ...]:
    """Return the patches that must succeed before a pod is bound."""
    return next(bind.prebind for bind in world.requests if bind.name == name)


def alone(*objects: Manifest, claims: tuple[str, ...] = ("c",)) -> World:
    """Run three cycles with a pod that uses claims and three nodes."""
    world = World(*THREE, *objects, group("g", 1), using("p", "g", *claims))
    world.run(3)
    return world


BOUND = claim("c", volume="v")


@scenarios(
    ClaimScenario(
        name="a pod with a bound claim uses nodes that match the affinity of its volume",
        cluster=[BOUND, volume("v", phase="Bound", reach=on(HOST, "n2"))],
        nodes={"n2"},
    ),
    ClaimScenario(
        name="a volume without affinity can be used on all nodes",
        cluster=[BOUND, volume("v", phase="Bound")],
        nodes={"n1", "n2", "n3"},
    ),
    ClaimScenario(
        name="no node matches the affinity of a bound volume",
        cluster=[BOUND, volume("v", phase="Bound", reach=on(HOST, "n9"))],
        message="3 node(s) had volume node affinity conflict",
    ),
    ClaimScenario(
        name="a volume with a zone label is used in its zone",
        cluster=[BOUND, volume("v", phase="Bound", labels={ZONE: "z3"})],
        nodes={"n3"},
    ),
    ClaimScenario(
        name="a volume with two zones is used in both",
        cluster=[BOUND, volume("v", phase="Bound", labels={ZONE: "z3__z1"})],
        nodes={"n1", "n3"},
    ),
    ClaimScenario(
        name="the deprecated zone label is equivalent to the new one",
        cluster=[BOUND, volume("v", phase="Bound", labels={"failure-domain.beta.kubernetes.io/zone": "z1"})],
        nodes={"n1"},
    ),
    ClaimScenario(
        name="there is no node in the zone of the volume",
        cluster=[BOUND, volume("v", phase="Bound", labels={ZONE: "z9"})],
        message="3 node(s) had no available volume zone",
    ),
    ClaimScenario(
        name="a claim does not exist",
        cluster=[],
        message='persistentvolumeclaim "c" not found',
    ),
    ClaimScenario(
        name="a claim is being deleted",
        cluster=[claim("c", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})],
        message='persistentvolumeclaim "c" is being deleted',
    ),
    ClaimScenario(
        name="a claim lost its volume",
        cluster=[claim("c", volume="v", completed=False, phase="Lost")],
        message='persistentvolumeclaim "c" bound to non-existent persistentvolume "v"',
    ),
    ClaimScenario(
        name="the volume of a bound claim does not exist",
        cluster=[BOUND],
        message="node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
    ),
    ClaimScenario(
        name="an unbound claim has a class with immediate binding",
        cluster=[claim("c"), storage_class(volumeBindingMode="Immediate")],
        message="pod has unbound immediate PersistentVolumeClaims",
    ),
    ClaimScenario(
        name="the class of a claim does not exist",
        cluster=[claim("c")],
        message="pod has unbound immediate PersistentVolumeClaims",
    ),
    ClaimScenario(
        name="a claim names a volume and is not bound yet",
        cluster=[claim("c", volume="v", completed=False), storage_class(), volume("v")],
        message="pod has unbound immediate PersistentVolumeClaims",
    ),
    ClaimScenario(
        name="an available volume is used on nodes that match its affinity",
        cluster=[claim("c"), storage_class(), volume("v", reach=on(HOST, "n3"))],
        nodes={"n3"},
    ),
    ClaimScenario(
        name="a volume that references the claim is preferred",
        cluster=[
            claim("c"),
            storage_class(),
            volume("a", reach=on(HOST, "n1")),
            volume("v", reach=on(HOST, "n2"), claimRef={"namespace": "ns", "name": "c"}),
        ],
        nodes={"n2"},
    ),
    ClaimScenario(
        name="a class with a provisioner allows all nodes",
        cluster=[claim("c", "made"), DYNAMIC],
        nodes={"n1", "n2", "n3"},
    ),
    ClaimScenario(
        name="a class with allowed topologies allows their nodes only",
        cluster=[
            claim("c", "made"),
            {**DYNAMIC, "allowedTopologies": [{"matchLabelExpressions": [{"key": ZONE, "values": ["z2", "z3"]}]}]},
        ],
        nodes={"n2", "n3"},
    ),
    ClaimScenario(
        name="the claim has a selected node already",
        cluster=[claim("c", "made", annotations={SELECTED_NODE: "n2"}), DYNAMIC],
        nodes={"n2"},
    ),
    ClaimScenario(
        name="nodes with enough storage capacity are used",
        cluster=[
            *(claim("c", "made"), DYNAMIC, csi_driver("csi.example", storage_capacity=True)),
            *(capacity("a", "made", "500Mi", **{HOST: "n1"}), capacity("b", "made", "1Gi", **{HOST: "n3"})),
        ],
        nodes={"n3"},
    ),
    ClaimScenario(
        name="no node has enough storage capacity",
        cluster=[
            *(claim("c", "made"), DYNAMIC, csi_driver("csi.example", storage_capacity=True)),
            capacity("a", "other", "5Gi", **{HOST: "n1"}),
        ],
        message="3 node(s) did not have enough free storage",
    ),
)
def test_feasible_nodes_of_a_pod_with_a_claim(scenario: ClaimScenario) -> None:
    scenario.check()


FAST = {"tier": "fast"}
WANTS_FAST_VOLUME = (
    *THREE,
    storage_class(),
    claim("c", size="1500Mi", spec={"selector": {"matchLabels": FAST}}),
    group("g", 1),
    using("p", "g", "c"),
)
NO_VOLUME = {"g": "0/3 nodes are unavailable: 3 node(s) didn't find available persistent volumes to bind."}


@scenarios(
    Scenario(
        name="a volume that matches in every respect is used",
        cluster=[*WANTS_FAST_VOLUME, volume("v", reach=on(HOST, "n2"), labels=FAST)],
        cycles=3,
        binds={"p": "n2"},
    ),
    Scenario(
        name="a volume that is too small is not used",
        cluster=[*WANTS_FAST_VOLUME, volume("v", size="1Gi", labels=FAST)],
        cycles=3,
        fit_errors=NO_VOLUME,
    ),
    Scenario(
        name="a volume of another class is not used",
        cluster=[*WANTS_FAST_VOLUME, volume("v", "other", labels=FAST)],
        cycles=3,
        fit_errors=NO_VOLUME,
    ),
    Scenario(
        name="a volume with another access mode is not used",
        cluster=[*WANTS_FAST_VOLUME, volume("v", modes=["ReadOnlyMany"], labels=FAST)],
        cycles=3,
        fit_errors=NO_VOLUME,
    ),
    Scenario(
        name="a volume with another volume mode is not used",
        cluster=[*WANTS_FAST_VOLUME, volume("v", volumeMode="Block", labels=FAST)],
        cycles=3,
        fit_errors=NO_VOLUME,
    ),
    Scenario(
        name="a volume that the selector does not match is not used",
        cluster=[*WANTS_FAST_VOLUME, volume("v", labels={"tier": "slow"})],
        cycles=3,
        fit_errors=NO_VOLUME,
    ),
    Scenario(
        name="a volume that references another claim is not used",
        cluster=[*WANTS_FAST_VOLUME, volume("v", claimRef={"namespace": "ns", "name": "other"}, labels=FAST)],
        cycles=3,
        fit_errors=NO_VOLUME,
    ),
    Scenario(
        name="a volume that references an earlier claim of the same name is not used",
        cluster=[
            *WANTS_FAST_VOLUME,
            volume("v", claimRef={"namespace": "ns", "name": "c", "uid": "earlier"}, labels=FAST),
        ],
        cycles=3,
        fit_errors=NO_VOLUME,
    ),
    Scenario(
        name="a released volume is not used",
        cluster=[*WANTS_FAST_VOLUME, volume("v", phase="Released", labels=FAST)],
        cycles=3,
        fit_errors=NO_VOLUME,
    ),
    Scenario(
        name="a volume whose affinity matches no node is not used",
        cluster=[*WANTS_FAST_VOLUME, volume("v", reach=on(HOST, "n9"), labels=FAST)],
        cycles=3,
        fit_errors=NO_VOLUME,
    ),
)
def test_matching_volumes(scenario: Scenario) -> None:
    scenario.check()


def test_two_claims_of_a_gang_get_different_volumes() -> None:
    objects = [claim("a"), claim("b"), storage_class(), group("g", 2), using("p-0", "g", "a"), using("p-1", "g", "b")]
    world = World(*THREE, *objects, volume("v"))
    world.run(3)
    assert world.binds == {}
    world.put(volume("w", reach=on(HOST, "n2")))
    world.run(1)
    assert sorted(world.binds) == ["p-0", "p-1"]
    taken = [step.name for bind in world.requests for step in bind.prebind if step.resource == "persistentvolumes"]
    assert sorted(taken) == ["v", "w"]


def test_the_smallest_matching_volume_is_used() -> None:
    world = alone(
        claim("c"), storage_class(), volume("b", size="5Gi"), volume("c", size="2Gi"), volume("a", size="3Gi")
    )
    assert steps(world, "p")[0].name == "c"


def test_two_claims_of_a_pod_get_two_volumes_on_one_node() -> None:
    objects = [claim("c"), claim("d", size="2Gi"), storage_class()]
    scattered = [volume("v", reach=on(HOST, "n1")), volume("w", reach=on(HOST, "n2"))]
    world = alone(*objects, *scattered, claims=("c", "d"))
    assert world.binds == {}
    world.put(volume("x", size="1Gi", reach=on(HOST, "n2")))
    world.run(1)
    assert world.binds == {"p": "n2"}
    taken = {step.patch["spec"]["claimRef"]["name"]: step.name for step in steps(world, "p") if "claimRef" in str(step)}
    assert taken == {"c": "x", "d": "w"}


def test_a_volume_of_a_bind_in_flight_is_not_used_for_another_claim() -> None:
    world = World(*THREE, claim("a"), storage_class(), volume("v"), group("g", 1), using("p", "g", "a"))
    world.cycle()
    world.cycle()
    world.put(claim("b"))
    for each in (group("h", 1), using("q", "h", "b")):
        world.put(each)
    world.cycle()
    world.cycle()
    assert list(world.binds) == ["p"]


def test_the_selected_node_is_written_to_a_claim_with_a_provisioner() -> None:
    world = alone(claim("c", "made"), DYNAMIC)
    (step,) = steps(world, "p")
    assert (step.resource, step.namespace, step.name, step.uid) == ("persistentvolumeclaims", "ns", "c", "uid-ns-c")
    assert step.patch == {"metadata": {"annotations": {SELECTED_NODE: world.binds["p"]}}}
    assert step.timeout == 600.0


def test_pods_of_a_shared_claim_use_one_node_unless_its_volumes_can_be_used_everywhere() -> None:
    shared = [
        claim("c", "made", modes=["ReadWriteMany"]),
        group("g", 3),
        *(using(f"p-{i}", "g", "c") for i in range(3)),
    ]
    small = [node(f"n{i}", cpu="1") for i in range(3)]
    strict = World(*small, DYNAMIC, *shared)
    strict.run(3)
    assert strict.binds == {}
    free = World(*small, {**DYNAMIC, "metadata": {**DYNAMIC["metadata"]}}, csi_driver("csi.example"), *shared)
    free.run(3)
    assert sorted(free.binds.values()) == ["n0", "n1", "n2"]
    noted = storage_class("made", "dir.example", annotations={"storage.volcanoio.dev/volumes-reachable": "everywhere"})
    here = World(*small, noted, *shared)
    here.run(3)
    assert len(here.binds) == 3
    asked = [step for bind in here.requests for step in bind.prebind]
    assert len(asked) == 3
    assert sum(bool(step.patch) for step in asked) == 1, "one node is selected, and all three pods wait for it"


def test_an_ephemeral_volume_waits_for_its_own_claim() -> None:
    ephemeral = {"volumes": [{"name": "data", "ephemeral": {"volumeClaimTemplate": {}}}]}
    world = World(*THREE, DYNAMIC, group("g", 1), pod("p", "g", cpu="1", spec=ephemeral))
    world.run(3)
    assert 'waiting for ephemeral volume controller to create the persistentvolumeclaim "p-data"' in why(world)
    world.put(claim("p-data", "made"))
    world.run(2)
    assert world.binds == {}
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "ns-p", "controller": True}
    world.put(claim("p-data", "made", metadata={"ownerReferences": [owner]}))
    world.run(1)
    assert list(world.binds) == ["p"]


def test_a_claim_with_read_write_once_pod_is_used_by_one_pod_only() -> None:
    single = claim("c", volume="v", modes=["ReadWriteOncePod"])
    there = using("there", "", "c", on="n1", phase="Running")
    world = World(*THREE, single, volume("v", phase="Bound"), there, group("g", 1), using("p", "g", "c"))
    world.run(3)
    assert "ReadWriteOncePod access mode" in why(world)
    world.remove(kinds.POD, "ns/there")
    world.run(1)
    assert list(world.binds) == ["p"]


def test_a_pod_is_bound_once_its_claim_and_volume_are_created() -> None:
    world = alone()
    assert world.binds == {}
    world.put(claim("c", volume="v"))
    world.run(1)
    assert "non-existent pv" in why(world) or world.binds == {}
    world.put(volume("v", phase="Bound", reach=on(HOST, "n2")))
    world.run(1)
    assert world.binds == {"p": "n2"}


SWITCHED: list[tuple[str, list[Manifest]]] = [
    ("VolumeBindingEnable", []),
    ("VolumeZoneEnable", [BOUND, volume("v", phase="Bound", labels={ZONE: "z9"})]),
    (
        "NodeVolumeLimitsEnable",
        [claim("c", "made"), DYNAMIC, *(csi_node(f"n{i}", "csi.example", 0) for i in (1, 2, 3))],
    ),
]


@pytest.mark.parametrize(("switch", "objects"), SWITCHED)
def test_each_filter_can_be_disabled(switch: str, objects: list[Manifest]) -> None:
    conf = """
actions: "enqueue, allocate"
tiers:
- plugins:
  - name: gang
  - name: predicates
    arguments:
      predicate.%s: %s
"""
    for value, placed in (("true", False), ("false", True)):
        world = World(*THREE, *objects, group("g", 1), using("p", "g", "c"), conf=conf % (switch, value))
        world.run(2)
        assert bool(world.binds) is placed


def test_pods_of_other_schedulers_count_as_users_of_a_claim() -> None:
    other: dict[str, Any] = {"schedulerName": "other"}
    running = using("there", "", "c", on="n1", phase="Running")
    running["spec"].update(other)
    single = claim("c", volume="v", modes=["ReadWriteOncePod"])
    world = World(*THREE, single, volume("v", phase="Bound"), running, group("g", 1), using("p", "g", "c"))
    world.run(2)
    assert world.binds == {}


def test_pods_without_claims_share_a_shape_despite_other_volumes() -> None:
    world = World(*THREE, group("g", 2), *pods("p", 2, "g", cpu="1", spec={"volumes": [{"name": "x", "emptyDir": {}}]}))
    world.run(1)
    assert len({task.shape.id for task in world.state.ledger.tasks.values()}) == 1


def test_pods_of_a_shared_claim_use_one_node_if_the_driver_has_topology_keys() -> None:
    small = [node(f"n{i}", cpu="1") for i in range(2)]
    driver = [csi_driver("csi.example"), csi_node("n0", "csi.example", keys=["zone"])]
    users = [using(f"p-{i}", "g", "c") for i in range(2)]
    world = World(*small, DYNAMIC, *driver, claim("c", "made", modes=["ReadWriteMany"]), group("g", 2), *users)
    world.run(3)
    assert world.binds == {}
    world.put(node("big"))
    world.run(1)
    assert set(world.binds.values()) == {"big"}


def test_a_pod_that_arrives_while_its_claim_is_being_bound_uses_the_selected_node() -> None:
    world = World(*THREE, DYNAMIC, claim("c", "made", modes=["ReadWriteMany"]), group("g", 1), using("p", "g", "c"))
    world.cycle()
    world.cycle()
    chosen = world.binds["p"]
    for each in (group("h", 1), using("q", "h", "c")):
        world.put(each)
    world.cycle()
    world.cycle()
    assert world.binds == {"p": chosen, "q": chosen}
    assert [bool(step.patch) for step in steps(world, "q")] == [False], "the node is written already; q only waits"


def test_after_a_refused_bind_the_volume_can_be_used_for_another_claim() -> None:
    world = World(*THREE, storage_class(), volume("v"), claim("a"), group("g", 1), using("p", "g", "a"))
    world.cycle()
    world.cycle()
    assert list(world.binds) == ["p"]
    world.echo(refuse={"p": 409})
    world.remove(kinds.POD, "ns/p")
    for each in (claim("b"), group("h", 1), using("q", "h", "b")):
        world.put(each)
    world.run(2)
    assert [step.name for step in steps(world, "q") if step.resource == kinds.PV.resource] == ["v"]


def test_single_pods_wait_for_their_claims_too() -> None:
    other = using("p", "", "c")
    other["spec"]["schedulerName"] = "default-scheduler"
    world = World(
        *THREE, DYNAMIC, other, state=ClusterState(StateOptions(single_pod_schedulers=frozenset({"default-scheduler"})))
    )
    world.run(2)
    assert world.binds == {}
    world.put(claim("c", "made"))
    world.run(1)
    assert list(world.binds) == ["p"]
    assert steps(world, "p")[0].name == "c"


def test_changes_while_no_pod_had_claims_count_for_the_next_pod_with_a_claim() -> None:
    """Limits, available volumes and topologies are read only when a pod with claims needs them."""
    local = {name: volume(f"v-{name}", reach=on(HOST, name)) for name in ("n1", "n2", "n3")}
    world = World(*THREE, claim("c"), storage_class(), local["n1"], group("g", 1), using("p", "g", "c"))
    world.run(2)
    assert world.binds == {"p": "n1"}
    for each in (local["n2"], group("plain", 1), pod("plain-0", "plain")):
        world.put(each)
    world.run(2)
    world.put(volume("v-n2", reach=on(HOST, "n2"), claimRef={"namespace": "ns", "name": "another"}))
    world.put(local["n3"])
    world.run(2)
    for each in (claim("d"), group("h", 1), using("q", "h", "d")):
        world.put(each)
    world.run(2)
    assert world.binds["q"] == "n3"
