"""Pods without gang: those of the default scheduler, on the same nodes as gangs."""

from __future__ import annotations

import pytest

from tests.scenario.scheduling.harness import World, group, node, pod, pods
from volcanoio.engine.scheduling.cluster.state import ClusterState, StateOptions
from volcanoio.engine.scheduling.offline.replay import CutAt
from volcanoio.engine.scheduling.session.single_pods import ALWAYS, NAME
from volcanoio.framework.effects import Patch, Record
from volcanoio.framework.scheduling_effects import BindBatch
from volcanoio.model import kinds
from volcanoio.model.base import Manifest

OTHERS = {"schedulerName": "default-scheduler"}


def world(*objects: Manifest) -> World:
    return World(*objects, state=ClusterState(StateOptions(single_pod_schedulers=frozenset({"default-scheduler"}))))


def single(name: str, priority: int = 0, **requests: str) -> Manifest:
    return pod(name, spec={**OTHERS, "priority": priority}, **requests)


def bound(of: World) -> dict[str, str]:
    """Where pods were bound to in the last cycle."""
    batches = [one for one in of.last if isinstance(one, BindBatch)]
    return {bind.name: bind.node for batch in batches for bind in batch.binds}


def test_a_pod_without_gang_is_bound_and_fills_its_node() -> None:
    there = world(node("n1", cpu="2"), single("a", cpu="1"), single("b", cpu="1"), single("c", cpu="1"))
    there.cycle()
    assert len(bound(there)) == 2
    there.echo()
    there.cycle()
    assert bound(there) == {}


def test_gangs_and_single_pods_never_share_the_same_room() -> None:
    gang = (group("pg", 2, phase="Inqueue"), *pods("p", 2, "pg", cpu="1"))
    there = world(node("n1", cpu="3"), *gang, single("a", cpu="1"), single("b", cpu="1"))
    there.cycle()
    assert set(bound(there)) >= {"p-0", "p-1"}, "gangs come first"
    assert len(bound(there)) == 3
    there.echo()
    there.put(group("late", 1, phase="Inqueue"))
    there.put(pod("late-0", "late", cpu="1"))
    there.cycle()
    assert bound(there) == {}


def test_the_more_important_goes_first() -> None:
    there = world(node("n1", cpu="1"), single("a", cpu="1"), single("z", priority=100, cpu="1"))
    there.cycle()
    assert bound(there) == {"z": "n1"}


@pytest.mark.parametrize("uids", ["abc", "cba", "bca"])
def test_pods_of_one_second_are_bound_in_the_order_of_their_names(uids: str) -> None:
    ones = [single(name, cpu="1") for name in ("first", "second", "third")]
    for one, uid in zip(ones, uids, strict=True):
        one["metadata"]["uid"] = uid
    there = world(node("n1", cpu="2"), *reversed(ones))
    there.cycle()
    assert list(bound(there)) == ["first", "second"]


def test_a_pod_without_a_node_gets_the_reason_at_once_in_kubernetes_words() -> None:
    tainted = node("n2", cpu="8", taints=[{"key": "k", "value": "v", "effect": "NoSchedule"}])
    there = world(node("n1", cpu="1"), tainted, single("a", cpu="2"))
    there.cycle()
    (condition,) = [one.patch["status"]["conditions"][0] for one in there.last if isinstance(one, Patch)]
    assert (condition["status"], condition["reason"]) == ("False", "Unschedulable")
    assert condition["message"].startswith("0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated")
    (event,) = [one for one in there.last if isinstance(one, Record)]
    assert (event.reason, event.component) == ("FailedScheduling", "default-scheduler")
    there.cycle()
    assert not there.last, "once is enough"
    there.put(node("n3", cpu="2"))
    there.cycle()
    assert bound(there) == {"a": "n3"}


def test_without_nodes_the_reason_is_reported() -> None:
    there = world(single("a", cpu="2"))
    there.cycle()
    (event,) = [one for one in there.last if isinstance(one, Record)]
    assert event.message == "no nodes available to schedule pods"


def test_pods_of_other_schedulers_are_left_alone() -> None:
    there = world(node("n1"), pod("a", spec={"schedulerName": "somebody-else"}, cpu="1"))
    there.cycle()
    assert bound(there) == {}
    alone = World(node("n1"), single("a", cpu="1"))
    alone.cycle()
    assert bound(alone) == {}


def test_a_gated_pod_waits() -> None:
    there = world(node("n1"), pod("a", spec={**OTHERS, "schedulingGates": [{"name": "g"}]}, cpu="1"))
    there.cycle()
    assert bound(there) == {}
    there.put(single("a", cpu="1"))
    there.cycle()
    assert bound(there) == {"a": "n1"}


def test_a_refused_bind_is_retried_and_reported() -> None:
    there = world(node("n1"), single("a", cpu="1"))
    there.cycle()
    there.echo(refuse={"a": 409})
    there.cycle()
    assert bound(there) == {"a": "n1"}


def test_nothing_is_left_of_a_pod_that_is_gone() -> None:
    there = world(node("n1", cpu="1"), single("a", cpu="1"), single("b", cpu="1"))
    there.cycle()
    there.echo()
    ledger = there.state.ledger
    for key in ("ns/a", "ns/b"):
        there.remove(kinds.POD, key)
    assert not ledger.pending_single_pods
    assert not ledger.jobs
    assert not ledger.tasks


def test_a_job_that_failed_gives_way_to_jobs_that_a_cut_cycle_did_not_reach() -> None:
    """Others of the same port are more important and find no node: whether one appears must be tried each time."""
    ports = [{"containerPort": 80, "hostPort": 80}]
    serving = {"containers": [{"name": "main", "ports": ports}], **OTHERS}
    there = world(
        node("n1", cpu="8"),
        pod("server", on="n1", phase="Running", spec=serving),
        *[pod(f"more-{number}", spec={**serving, "priority": 9}) for number in range(ALWAYS)],
        single("small", cpu="1"),
    )
    there.cycle(budget=CutAt(1))
    assert bound(there) == {}
    there.cycle(budget=CutAt(1))
    assert bound(there) == {"small": "n1"}
    assert not there.state.failed_attempts[NAME]
