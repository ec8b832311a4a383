"""Single pods: pods of the default scheduler without a PodGroup, on the same nodes as gangs."""

from __future__ import annotations

import pytest

from tests.scenario.scheduling.harness import World, group, node, pod, pods
from volcanoio.engine.scheduling.cluster.state import ClusterState, StateOptions
from volcanoio.engine.scheduling.offline.replay import CutAt
from volcanoio.engine.scheduling.session.single_pods import MIN_TRIED_PODS, SINGLE_PODS
from volcanoio.framework.effects import Patch, Record
from volcanoio.framework.scheduling_effects import BindBatch
from volcanoio.model import kinds
from volcanoio.model.base import Manifest

OTHERS = {"schedulerName": "default-scheduler"}


def single_pod_world(*objects: Manifest) -> World:
    return World(*objects, state=ClusterState(StateOptions(single_pod_schedulers=frozenset({"default-scheduler"}))))


def single(name: str, priority: int = 0, **requests: str) -> Manifest:
    return pod(name, spec={**OTHERS, "priority": priority}, **requests)


def bound_in_last_cycle(of: World) -> dict[str, str]:
    """Return the node of each pod that was bound in the last cycle."""
    batches = [one for one in of.last if isinstance(one, BindBatch)]
    return {bind.name: bind.node for batch in batches for bind in batch.binds}


def test_single_pods_are_bound_as_far_as_they_fit() -> None:
    world = single_pod_world(node("n1", cpu="2"), single("a", cpu="1"), single("b", cpu="1"), single("c", cpu="1"))
    world.cycle()
    assert len(bound_in_last_cycle(world)) == 2
    world.echo()
    world.cycle()
    assert bound_in_last_cycle(world) == {}


def test_gangs_and_single_pods_do_not_use_the_same_room() -> None:
    gang = (group("pg", 2, phase="Inqueue"), *pods("p", 2, "pg", cpu="1"))
    world = single_pod_world(node("n1", cpu="3"), *gang, single("a", cpu="1"), single("b", cpu="1"))
    world.cycle()
    assert set(bound_in_last_cycle(world)) >= {"p-0", "p-1"}, "gangs are placed first"
    assert len(bound_in_last_cycle(world)) == 3
    world.echo()
    world.put(group("late", 1, phase="Inqueue"))
    world.put(pod("late-0", "late", cpu="1"))
    world.cycle()
    assert bound_in_last_cycle(world) == {}


def test_the_pod_of_higher_priority_is_bound_first() -> None:
    world = single_pod_world(node("n1", cpu="1"), single("a", cpu="1"), single("z", priority=100, cpu="1"))
    world.cycle()
    assert bound_in_last_cycle(world) == {"z": "n1"}


@pytest.mark.parametrize("uids", ["abc", "cba", "bca"])
def test_names_decide_between_pods_of_one_second_and_uids_do_not(uids: str) -> None:
    ones = [single(name, cpu="1") for name in ("first", "second", "third")]
    for one, uid in zip(ones, uids, strict=True):
        one["metadata"]["uid"] = uid
    world = single_pod_world(node("n1", cpu="2"), *reversed(ones))
    world.cycle()
    assert list(bound_in_last_cycle(world)) == ["first", "second"]


def test_a_pod_without_a_node_gets_the_reason_of_kube_scheduler_at_once() -> None:
    tainted = node("n2", cpu="8", taints=[{"key": "k", "value": "v", "effect": "NoSchedule"}])
    world = single_pod_world(node("n1", cpu="1"), tainted, single("a", cpu="2"))
    world.cycle()
    (condition,) = [one.patch["status"]["conditions"][0] for one in world.last if isinstance(one, Patch)]
    assert (condition["status"], condition["reason"]) == ("False", "Unschedulable")
    assert condition["message"].startswith("0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated")
    (event,) = [one for one in world.last if isinstance(one, Record)]
    assert (event.reason, event.component) == ("FailedScheduling", "default-scheduler")
    world.cycle()
    assert not world.last, "the reason is not written again"
    world.put(node("n3", cpu="2"))
    world.cycle()
    assert bound_in_last_cycle(world) == {"a": "n3"}


def test_without_nodes_the_reason_is_that_of_kube_scheduler() -> None:
    world = single_pod_world(single("a", cpu="2"))
    world.cycle()
    (event,) = [one for one in world.last if isinstance(one, Record)]
    assert event.message == "no nodes available to schedule pods"


def test_pods_of_other_schedulers_are_not_bound() -> None:
    world = single_pod_world(node("n1"), pod("a", spec={"schedulerName": "another-scheduler"}, cpu="1"))
    world.cycle()
    assert bound_in_last_cycle(world) == {}
    alone = World(node("n1"), single("a", cpu="1"))
    alone.cycle()
    assert bound_in_last_cycle(alone) == {}


def test_a_gated_pod_is_bound_once_its_gate_is_removed() -> None:
    world = single_pod_world(node("n1"), pod("a", spec={**OTHERS, "schedulingGates": [{"name": "g"}]}, cpu="1"))
    world.cycle()
    assert bound_in_last_cycle(world) == {}
    world.put(single("a", cpu="1"))
    world.cycle()
    assert bound_in_last_cycle(world) == {"a": "n1"}


def test_a_refused_bind_is_retried() -> None:
    world = single_pod_world(node("n1"), single("a", cpu="1"))
    world.cycle()
    world.echo(refuse={"a": 409})
    world.cycle()
    assert bound_in_last_cycle(world) == {"a": "n1"}


def test_a_deleted_pod_is_removed_from_the_state() -> None:
    world = single_pod_world(node("n1", cpu="1"), single("a", cpu="1"), single("b", cpu="1"))
    world.cycle()
    world.echo()
    ledger = world.state.ledger
    for key in ("ns/a", "ns/b"):
        world.remove(kinds.POD, key)
    assert not ledger.pending_single_pods
    assert not ledger.jobs
    assert not ledger.tasks


def test_after_a_cut_cycle_pods_that_were_not_reached_are_tried_before_failed_ones() -> None:
    """The failed pods have a higher priority, and a taken port, which must be tried in each cycle."""
    ports = [{"containerPort": 80, "hostPort": 80}]
    serving = {"containers": [{"name": "main", "ports": ports}], **OTHERS}
    world = single_pod_world(
        node("n1", cpu="8"),
        pod("server", on="n1", phase="Running", spec=serving),
        *[pod(f"more-{number}", spec={**serving, "priority": 9}) for number in range(MIN_TRIED_PODS)],
        single("small", cpu="1"),
    )
    world.cycle(budget=CutAt(1))
    assert bound_in_last_cycle(world) == {}
    world.cycle(budget=CutAt(1))
    assert bound_in_last_cycle(world) == {"small": "n1"}
    assert not world.state.failed_attempts[SINGLE_PODS]
