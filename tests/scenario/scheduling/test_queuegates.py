"""The scheduling gate of queue admission: opened when the queue has room, which it keeps until the pod is placed."""

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
    """A pod behind the queue's gate, and others."""
    names = gates or (GATE,)
    return pod(
        name,
        group,
        annotations={GATE: annotated},
        spec={"schedulingGates": [{"name": gate} for gate in names], **more.pop("spec", {})},
        **more,
    )


def world(*objects: Manifest, on: frozenset[FeatureGate] = ON, minimum: int = 1, cpu: str = "2") -> World:
    """Queue q may have so much cpu, the only node has more."""
    return World(
        node("n1", cpu="8"),
        queue("q", capability={"cpu": cpu}),
        group("pg", minimum, queue="q", phase="Inqueue"),
        *objects,
        conf=CONF,
        state=ClusterState(StateOptions(feature_gates=on)),
    )


def opened(of: World) -> list[str]:
    """The pods whose gates were opened, in order."""
    return [
        one.name for one in of.decisions if isinstance(one, Patch) and "schedulingGates" in one.patch.get("spec", {})
    ]


def test_the_gate_is_opened_first_and_the_pod_bound_in_the_next_cycle() -> None:
    of = world(gated("p", cpu="1")).run()
    assert (opened(of), of.binds) == (["p"], {})
    assert not of.pod("p").spec.scheduling_gates
    assert of.run().binds == {"p": "n1"}


def test_the_patch_is_for_the_pod_as_it_was_seen() -> None:
    of = world(gated("p", cpu="1"))
    of.cycle()
    patch = next(one for one in of.decisions if isinstance(one, Patch) and one.resource == "pods")
    assert (patch.uid, patch.resource_version) == ("ns-p", of.pod("p").metadata.resource_version)
    assert patch.patch == {"spec": {"schedulingGates": None}}


def test_without_the_feature_it_stays() -> None:
    of = world(gated("p", cpu="1"), on=frozenset()).run(3)
    assert (opened(of), of.binds) == ([], {})


def test_only_that_gate_of_an_annotated_pod_is_opened() -> None:
    of = world(
        gated("unasked", annotated="false", cpu="1"), gated("other", "pg", GATE, "else", cpu="1"), gated("p", cpu="1")
    ).run(2)
    assert (opened(of), of.binds) == (["p"], {"p": "n1"})


def test_gates_are_opened_as_far_as_the_queue_has_room() -> None:
    of = world(*(gated(f"p-{at}", cpu="1") for at in range(4))).run(4)
    assert opened(of) == ["p-0", "p-1"]
    assert of.binds == {"p-0": "n1", "p-1": "n1"}
    of.set_pod("p-0", phase="Succeeded")
    assert sorted(of.run(2).binds) == ["p-0", "p-1", "p-2"]


def test_no_other_job_takes_the_room_that_is_kept() -> None:
    first = gated("p", cpu="2", spec={"nodeSelector": {"not": "there"}})
    of = world(first).run()
    assert opened(of) == ["p"]
    of.put(group("other", 1, queue="q", phase="Inqueue"))
    of.put(pod("late", "other", cpu="1"))
    assert of.run(3).binds == {}
    of.put(node("n2", labels={"not": "there"}))
    assert of.run().binds == {"p": "n2"}


def test_a_gang_behind_gates_is_bound_whole() -> None:
    of = world(*(gated(f"p-{at}", cpu="1") for at in range(2)), minimum=2).run(2)
    assert of.binds == {"p-0": "n1", "p-1": "n1"}


def test_room_is_reserved_by_a_restarted_scheduler() -> None:
    before = pod("p", "pg", annotations={GATE: "true"}, cpu="2", spec={"nodeSelector": {"not": "there"}})
    late = (group("other", 1, queue="q", phase="Inqueue"), pod("late", "other", cpu="1"))
    assert world(before, *late).run(2).binds == {}
    assert world(before, *late, on=frozenset()).run(2).binds == {"late": "n1"}


def test_a_gate_is_not_opened_twice_but_again_when_that_failed() -> None:
    of = world(gated("p", cpu="1"))
    of.cycle()
    of.cycle()
    assert opened(of) == ["p"]
    of.fold(EffectFailed(controller="scheduler", key="pods/ns/p", effect_id=1, code=409))
    assert of.run(2).binds == {"p": "n1"}
    assert opened(of) == ["p", "p"]


def test_a_discarded_gang_leaves_the_room_kept() -> None:
    wide = gated("p-0", cpu="1"), gated("p-1", cpu="1", spec={"nodeSelector": {"not": "there"}})
    of = world(*wide, minimum=2).run(3)
    of.put(group("other", 1, queue="q", phase="Inqueue"))
    of.put(pod("late", "other", cpu="1"))
    assert of.run(3).binds == {}
