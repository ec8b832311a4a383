"""The scheduling gate of queue admission: the scheduler removes it once the queue has room, and reserves that room."""

from __future__ import annotations

from typing import Any

from tests.scenario.scheduling.harness import World, group, node, pod, queue
from volcanoio.engine.scheduling.cluster.state import ClusterState, StateOptions
from volcanoio.framework.effects import Patch
from volcanoio.framework.events import EffectFailed
from volcanoio.framework.scheduling.settings import FeatureGate
from volcanoio.model.base import Manifest

GATE = "scheduling.volcano.sh/queue-allocation-gate"
CONF = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: gang
- plugins:
  - name: predicates
  - name: capacity
"""
ON = frozenset({FeatureGate.QUEUE_ADMISSION})


def gated(name: str, group: str = "pg", *gates: str, annotated: str = "true", **more: Any) -> Manifest:
    """Return a pod with the gate of its queue, or with other gates."""
    names = gates or (GATE,)
    return pod(
        name,
        group,
        annotations={GATE: annotated},
        spec={"schedulingGates": [{"name": gate} for gate in names], **more.pop("spec", {})},
        **more,
    )


def gate_world(*objects: Manifest, on: frozenset[FeatureGate] = ON, minimum: int = 1, cpu: str = "2") -> World:
    """Return a world where queue q is limited to `cpu`, and the only node has more."""
    return World(
        node("n1", cpu="8"),
        queue("q", capability={"cpu": cpu}),
        group("pg", minimum, queue="q", phase="Inqueue"),
        *objects,
        conf=CONF,
        state=ClusterState(StateOptions(feature_gates=on)),
    )


def ungated(world: World) -> list[str]:
    """Return the pods whose gates were removed, in order."""
    return [
        one.name for one in world.decisions if isinstance(one, Patch) and "schedulingGates" in one.patch.get("spec", {})
    ]


def test_the_gate_is_removed_in_one_cycle_and_the_pod_bound_in_the_next() -> None:
    world = gate_world(gated("p", cpu="1")).run()
    assert (ungated(world), world.binds) == (["p"], {})
    assert not world.pod("p").spec.scheduling_gates
    assert world.run().binds == {"p": "n1"}


def test_the_patch_has_the_uid_and_resource_version_of_the_pod() -> None:
    world = gate_world(gated("p", cpu="1"))
    world.cycle()
    patch = next(one for one in world.decisions if isinstance(one, Patch) and one.resource == "pods")
    assert (patch.uid, patch.resource_version) == ("ns-p", world.pod("p").metadata.resource_version)
    assert patch.patch == {"spec": {"schedulingGates": None}}


def test_without_the_feature_gate_the_scheduling_gate_stays() -> None:
    world = gate_world(gated("p", cpu="1"), on=frozenset()).run(3)
    assert (ungated(world), world.binds) == ([], {})


def test_a_gate_is_removed_only_if_the_pod_is_annotated_and_has_no_other_gate() -> None:
    world = gate_world(
        gated("unasked", annotated="false", cpu="1"), gated("other", "pg", GATE, "else", cpu="1"), gated("p", cpu="1")
    ).run(2)
    assert (ungated(world), world.binds) == (["p"], {"p": "n1"})


def test_gates_are_removed_as_far_as_the_queue_has_room() -> None:
    world = gate_world(*(gated(f"p-{at}", cpu="1") for at in range(4))).run(4)
    assert ungated(world) == ["p-0", "p-1"]
    assert world.binds == {"p-0": "n1", "p-1": "n1"}
    world.set_pod("p-0", phase="Succeeded")
    assert sorted(world.run(2).binds) == ["p-0", "p-1", "p-2"]


def test_no_other_job_gets_the_reserved_room() -> None:
    first = gated("p", cpu="2", spec={"nodeSelector": {"not": "there"}})
    world = gate_world(first).run()
    assert ungated(world) == ["p"]
    world.put(group("other", 1, queue="q", phase="Inqueue"))
    world.put(pod("late", "other", cpu="1"))
    assert world.run(3).binds == {}
    world.put(node("n2", labels={"not": "there"}))
    assert world.run().binds == {"p": "n2"}


def test_a_gated_gang_is_bound_whole() -> None:
    world = gate_world(*(gated(f"p-{at}", cpu="1") for at in range(2)), minimum=2).run(2)
    assert world.binds == {"p-0": "n1", "p-1": "n1"}


def test_a_restarted_scheduler_reserves_the_room_of_pods_without_gate() -> None:
    before = pod("p", "pg", annotations={GATE: "true"}, cpu="2", spec={"nodeSelector": {"not": "there"}})
    late = (group("other", 1, queue="q", phase="Inqueue"), pod("late", "other", cpu="1"))
    assert gate_world(before, *late).run(2).binds == {}
    assert gate_world(before, *late, on=frozenset()).run(2).binds == {"late": "n1"}


def test_the_patch_is_sent_again_only_if_it_failed() -> None:
    world = gate_world(gated("p", cpu="1"))
    world.cycle()
    world.cycle()
    assert ungated(world) == ["p"]
    world.fold(EffectFailed(controller="scheduler", key="pods/ns/p", effect_id=1, code=409))
    assert world.run(2).binds == {"p": "n1"}
    assert ungated(world) == ["p", "p"]


def test_the_room_of_a_gang_that_was_not_placed_stays_reserved() -> None:
    wide = gated("p-0", cpu="1"), gated("p-1", cpu="1", spec={"nodeSelector": {"not": "there"}})
    world = gate_world(*wide, minimum=2).run(3)
    world.put(group("other", 1, queue="q", phase="Inqueue"))
    world.put(pod("late", "other", cpu="1"))
    assert world.run(3).binds == {}
