"""The scheduling gate of queue admission: the scheduler removes it once the queue has room, and reserves that room."""

from __future__ import annotations

from typing import Any

from tests.scenario.scheduling.harness import Scenario, World, group, node, pod, queue, scenarios
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


CLUSTER = (node("n1", cpu="8"), queue("q", capability={"cpu": "2"}))
"""Queue q is limited to 2 cores, and the only node has more."""
ONE_MEMBER = group("pg", 1, queue="q", phase="Inqueue")
TWO_MEMBERS = group("pg", 2, queue="q", phase="Inqueue")
ENABLED = StateOptions(feature_gates=frozenset({FeatureGate.QUEUE_ADMISSION}))
AFTER_A_RESTART = (
    *(*CLUSTER, ONE_MEMBER, group("other", 1, queue="q", phase="Inqueue")),
    pod("p", "pg", annotations={GATE: "true"}, cpu="2", spec={"nodeSelector": {"not": "there"}}),
    pod("late", "other", cpu="1"),
)
"""The gate of pod p was removed, and no node matches its selector."""


def gate_world(*objects: Manifest, job: Manifest = ONE_MEMBER) -> World:
    return World(*CLUSTER, job, *objects, conf=CONF, state=ClusterState(ENABLED))


@scenarios(
    Scenario(
        name="the gate is removed in the first cycle, which binds nothing",
        options=ENABLED,
        cluster=[*CLUSTER, ONE_MEMBER, gated("p", cpu="1")],
        ungated=["p"],
    ),
    Scenario(
        name="the pod is bound in the second cycle",
        options=ENABLED,
        cluster=[*CLUSTER, ONE_MEMBER, gated("p", cpu="1")],
        cycles=2,
        ungated=["p"],
        binds={"p": "n1"},
    ),
    Scenario(
        name="without the feature gate the scheduling gate stays",
        cluster=[*CLUSTER, ONE_MEMBER, gated("p", cpu="1")],
        cycles=3,
        ungated=[],
    ),
    Scenario(
        name="a gate is removed only if the pod is annotated and has no other gate",
        options=ENABLED,
        cluster=[
            *(*CLUSTER, ONE_MEMBER),
            gated("unasked", annotated="false", cpu="1"),
            gated("other", "pg", GATE, "else", cpu="1"),
            gated("p", cpu="1"),
        ],
        cycles=2,
        ungated=["p"],
        binds={"p": "n1"},
    ),
    Scenario(
        name="a gated gang is bound whole",
        options=ENABLED,
        cluster=[*CLUSTER, TWO_MEMBERS, gated("p-0", cpu="1"), gated("p-1", cpu="1")],
        cycles=2,
        binds={"p-0": "n1", "p-1": "n1"},
    ),
    Scenario(
        name="a restarted scheduler reserves the room of pods without gate",
        options=ENABLED,
        cluster=AFTER_A_RESTART,
        cycles=2,
    ),
    Scenario(
        name="without the feature gate a restarted scheduler reserves no room",
        cluster=AFTER_A_RESTART,
        cycles=2,
        binds={"late": "n1"},
    ),
    conf=CONF,
)
def test_queue_scheduling_gates(scenario: Scenario) -> None:
    scenario.check()


def test_the_gate_is_removed_in_one_cycle_and_the_pod_bound_in_the_next() -> None:
    world = gate_world(gated("p", cpu="1")).run()
    assert (world.ungated, world.binds) == (["p"], {})
    assert not world.pod("p").spec.scheduling_gates
    assert world.run().binds == {"p": "n1"}


def test_the_patch_has_the_uid_and_resource_version_of_the_pod() -> None:
    world = gate_world(gated("p", cpu="1"))
    world.cycle()
    patch = next(one for one in world.decisions if isinstance(one, Patch) and one.resource == "pods")
    assert (patch.uid, patch.resource_version) == ("ns-p", world.pod("p").metadata.resource_version)
    assert patch.patch == {"spec": {"schedulingGates": None}}


def test_gates_are_removed_as_far_as_the_queue_has_room() -> None:
    world = gate_world(*(gated(f"p-{at}", cpu="1") for at in range(4))).run(4)
    assert world.ungated == ["p-0", "p-1"]
    assert world.binds == {"p-0": "n1", "p-1": "n1"}
    world.set_pod("p-0", phase="Succeeded")
    assert sorted(world.run(2).binds) == ["p-0", "p-1", "p-2"]


def test_no_other_job_gets_the_reserved_room() -> None:
    first = gated("p", cpu="2", spec={"nodeSelector": {"not": "there"}})
    world = gate_world(first).run()
    assert world.ungated == ["p"]
    world.put(group("other", 1, queue="q", phase="Inqueue"))
    world.put(pod("late", "other", cpu="1"))
    assert world.run(3).binds == {}
    world.put(node("n2", labels={"not": "there"}))
    assert world.run().binds == {"p": "n2"}


def test_the_patch_is_sent_again_only_if_it_failed() -> None:
    world = gate_world(gated("p", cpu="1"))
    world.cycle()
    world.cycle()
    assert world.ungated == ["p"]
    world.fold(EffectFailed(controller="scheduler", key="pods/ns/p", effect_id=1, code=409))
    assert world.run(2).binds == {"p": "n1"}
    assert world.ungated == ["p", "p"]


def test_the_room_of_a_gang_that_was_not_placed_stays_reserved() -> None:
    wide = gated("p-0", cpu="1"), gated("p-1", cpu="1", spec={"nodeSelector": {"not": "there"}})
    world = gate_world(*wide, job=TWO_MEMBERS).run(3)
    world.put(group("other", 1, queue="q", phase="Inqueue"))
    world.put(pod("late", "other", cpu="1"))
    assert world.run(3).binds == {}
