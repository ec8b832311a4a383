"""Latency-bound pods, each placed alone and before all other work (Volcano: the agent scheduler)."""

from __future__ import annotations

from typing import Any, cast

import pytest

from tests.scenario.scheduling.harness import World, decoded, group, labelled, node, pod, running, waiting
from volcanoio.engine.scheduling.cluster.state import ClusterState, StateOptions
from volcanoio.engine.scheduling.offline.replay import CutAt
from volcanoio.engine.scheduling.session.cycle import run_cycle
from volcanoio.framework.events import Change, Observed
from volcanoio.framework.scheduling_effects import BindBatch
from volcanoio.framework.scheduling_events import CycleOpened
from volcanoio.model import kinds
from volcanoio.model.base import Manifest
from volcanoio.model.core import Pod

AGENT = "agent-scheduler"
OPTIONS = StateOptions(agent_schedulers=frozenset({AGENT}))


def agent(name: str, cpu: str = "1", **more: Any) -> Manifest:
    return pod(name, cpu=cpu, spec={"schedulerName": AGENT, **more})


def world(*objects: Manifest) -> World:
    return World(*objects, state=ClusterState(OPTIONS))


def test_they_go_before_all_gangs_by_priority() -> None:
    gang = (group("g", 1, phase="Inqueue"), *waiting("g", 2))
    cluster = world(node("n1", cpu="3"), *gang, agent("low"), agent("high", priority=10)).run()
    assert cluster.bind_order == ["high", "low", "g-0"]


def test_their_binds_leave_before_the_first_action() -> None:
    cluster = world(node("n1"), group("g", 1, phase="Inqueue"), *waiting("g", 1), agent("a"))
    cluster.cycle()
    batches = [each for each in cluster.last if isinstance(each, BindBatch)]
    assert [[bind.name for bind in batch.binds] for batch in batches] == [["a"], ["g-0"]]


def test_a_cycle_that_is_cut_at_its_first_boundary_has_bound_them() -> None:
    gangs = [each for number in range(5) for each in (group(f"g{number}", 1), *waiting(f"g{number}", 1))]
    cluster = world(node("n1"), *gangs, agent("a"))
    cluster.cycle(budget=CutAt(1))
    assert cluster.bind_order[:1] == ["a"]


def arriving(cluster: World, *manifests: Manifest, cut: int = 0) -> CutAt:
    """A budget that ends at a gang boundary; pods are published at the second one."""

    def arrivals(boundary: int) -> list[Observed]:
        pods = [cast("Pod", decoded(manifest)) for manifest in manifests] if boundary == 2 else []
        assert all(cluster.state.pods.can_join_cycle(each) for each in pods)
        return [Observed(resource=kinds.POD.resource, change=Change.APPEARED, object=each) for each in pods]

    return CutAt(cut, arrivals)


def three_gangs() -> list[Manifest]:
    return [each for at in range(3) for each in (group(f"g{at}", 1, phase="Inqueue"), *waiting(f"g{at}", 1))]


def test_one_that_arrives_during_a_cycle_is_bound_between_two_gangs_and_sent_at_the_next_step() -> None:
    cluster = world(node("n1"), *three_gangs())
    opening = CycleOpened(cycle=1, upto=0, seed=1, at=cluster.now)
    cycle = run_cycle(cluster.state, cluster.profile, opening, budget=arriving(cluster, agent("a")))
    sent = [
        [bind.name for each in point.decisions if isinstance(each, BindBatch) for bind in each.binds] for point in cycle
    ]
    assert [names for names in sent if names] == [["g0-0", "a"], ["g1-0", "g2-0"]]


def test_one_that_arrives_during_a_cycle_and_fits_nowhere_is_no_failure_of_the_action() -> None:
    cluster = world(node("n1"), *three_gangs(), agent("like-a", cpu="99"))
    cluster.cycle(budget=arriving(cluster, agent("a", cpu="99"), cut=3))
    assert (sorted(cluster.binds), cluster.state.failed_attempts["allocate"]) == (["g0-0", "g1-0"], set())


def test_one_that_arrives_during_a_cycle_keeps_away_from_pods_that_repel_it() -> None:
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "a"}}}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    alone = pod("alone", "old", on="n2", phase="Running", cpu="1", spec={"affinity": affinity})
    nodes = [labelled(node(name, cpu=cpu), zone=name) for name, cpu in (("n1", "64"), ("n2", "8"))]
    for labels, where in (({}, "n2"), ({"app": "a"}, "n1")):
        cluster = world(*nodes, group("old", 1, phase="Running"), alone, *three_gangs())
        cluster.cycle(budget=arriving(cluster, labelled(agent("a"), **labels)))
        assert cluster.binds["a"] == where


@pytest.mark.parametrize(
    ("what", "can_join"),
    [
        ({"cpu": "1"}, True),
        ({"cpu": "3"}, False),
        ({"cpu": "1", "spec": {"schedulerName": AGENT, "schedulingGates": [{"name": "wait"}]}}, False),
        ({"cpu": "1", "spec": {"schedulerName": AGENT, "resourceClaims": [{"name": "gpu"}]}}, False),
        ({"cpu": "1", "spec": {"schedulerName": "other"}}, False),
        ({"cpu": "1", "on": "n1", "phase": "Running"}, False),
    ],
)
def test_only_one_that_changes_nothing_a_cycle_has_read_may_join_it(what: dict[str, Any], can_join: bool) -> None:
    cluster = world(node("n1"), agent("like-a"))
    arrival = cast("Pod", decoded(pod("a", **{"spec": {"schedulerName": AGENT}, **what})))
    assert cluster.state.pods.can_join_cycle(arrival) is can_join


def test_one_without_room_waits_with_a_reason_and_is_bound_when_room_is_freed() -> None:
    full = (node("n1", cpu="1"), group("old", 1, phase="Running"), *running("old", 1))
    cluster = world(*full, agent("a")).run(2)
    assert cluster.binds == {}
    condition = cluster.pod("a").status.conditions[0]
    assert (condition.reason, condition.message) == ("Unschedulable", "0/1 nodes are available: 1 Insufficient cpu.")
    cluster.remove(kinds.POD, "ns/old-0")
    assert cluster.run().binds == {"a": "n1"}


def test_one_whose_bind_was_refused_goes_first_again() -> None:
    cluster = world(node("n1", cpu="1"), agent("a"))
    cluster.cycle()
    cluster.echo(refuse={"a": 500})
    for manifest in (group("g", 1, phase="Inqueue"), *waiting("g", 1)):
        cluster.put(manifest)
    assert cluster.run().bind_order == ["a", "a"]


def test_one_whose_gate_is_removed_goes_first() -> None:
    cluster = world(node("n1", cpu="1"), agent("a", schedulingGates=[{"name": "wait"}])).run(2)
    assert cluster.binds == {}
    for manifest in (group("g", 1, phase="Inqueue"), *waiting("g", 1), agent("a")):
        cluster.put(manifest)
    assert cluster.run().bind_order == ["a"]


def test_one_whose_bind_was_refused_twice_goes_first_after_its_back_off() -> None:
    cluster = world(node("n1", cpu="1"), agent("a"))
    for _ in range(2):
        cluster.cycle()
        cluster.echo(refuse={"a": 500})
    cluster.now -= 0.5  # the back-off is not over
    cluster.cycle()
    assert cluster.bind_order == ["a", "a"]
    for manifest in (group("g", 1, phase="Inqueue"), *waiting("g", 1)):
        cluster.put(manifest)
    assert cluster.run().bind_order == ["a", "a", "a"]


def test_a_standby_forgets_those_that_another_process_has_bound_or_that_are_deleted() -> None:
    cluster = world(node("n1"), agent("a"), agent("b"))
    cluster.put(pod("a", cpu="1", on="n1", phase="Running", spec={"schedulerName": AGENT}))
    cluster.remove(kinds.POD, "ns/b")
    assert cluster.state.pods.arrived_agent_pods == set()


def test_pods_of_other_schedulers_are_left_alone() -> None:
    assert world(node("n1"), pod("a", cpu="1", spec={"schedulerName": "other"})).run().binds == {}
