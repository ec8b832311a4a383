"""Gangs of different pods with a hard network topology: a solver that tries everything agrees on which are placed."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.scenario.scheduling.harness import World, group, node, pod, queue
from tests.scenario.scheduling.podrules import terminating
from tests.unit.scheduling.gang_placements import CONF, Case, Member, Solver
from volcanoio.engine.scheduling.cluster.attempts import FailedSearch
from volcanoio.engine.scheduling.topology import domains
from volcanoio.engine.scheduling.topology.gang_search import MAX_TOTAL_STEPS, GangSearch
from volcanoio.engine.scheduling.topology.search import AssignmentSearch
from volcanoio.framework.scheduling.session import Assignment
from volcanoio.model import kinds

NODES = st.tuples(st.integers(1, 6), st.booleans())
FEW_NODES = 8


@st.composite
def cases(draw: st.DrawFn, *, repel: bool) -> Case:
    """Draw a network of two tiers with at most eight nodes, and a gang of two to six pods, perhaps in sub-groups."""
    racks = st.lists(NODES, min_size=1, max_size=4)
    spine = st.lists(racks, min_size=1, max_size=3)
    network = draw(
        st.lists(spine, min_size=1, max_size=2).filter(
            lambda spines: sum(len(rack) for some in spines for rack in some) <= FEW_NODES
        )
    )
    has_parts = draw(st.booleans())
    member = st.builds(
        Member,
        cpu=st.integers(1, 4),
        part=st.integers(0, 2) if has_parts else st.just(0),
        fast=st.integers(0, 3).map(lambda one: one == 0),
        apart=st.booleans() if repel else st.just(False),
    )
    members = draw(st.lists(member, min_size=2, max_size=6))
    return Case(
        network,
        members,
        draw(st.one_of(st.just(len(members)), st.integers(1, len(members)))),
        tier=draw(st.sampled_from([0, 2])) if has_parts else draw(st.integers(1, 2)),
        part_tier=1 if has_parts else 0,
        part_size=draw(st.integers(1, 2)) if has_parts else 1,
    )


def check(case: Case) -> None:
    """Check that the gang is placed exactly if the solver finds a place, and that nothing was left untried."""
    world, solver = case.world().run(), Solver(case)
    assert (len(world.binds) >= case.minimum) == solver.has_place()
    assert solver.keeps_rules(list(world.binds.values()))
    assert not world.state.ledger.jobs["ns/a"].attempts.is_search_incomplete


@examples(150)
@given(case=cases(repel=False))
def test_a_gang_of_different_pods_is_placed_exactly_if_it_has_a_place(case: Case) -> None:
    check(case)


@examples(100)
@given(case=cases(repel=True))
def test_a_gang_of_pods_that_repel_each_other_is_placed_exactly_if_it_has_a_place(case: Case) -> None:
    check(case)


NOW = 1767225600.0 + 7200.0
"""Two hours after the pods of the harness were created."""
SIZES = [34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44]
"""Cores of eleven pods of which a node with 100 cores holds two."""


def packed(nodes: int) -> Case:
    """Return that gang in one rack of such nodes: each pod fits, and so does their sum, but six nodes are needed."""
    return Case([[[(100, True)] * nodes]], [Member(cpu) for cpu in SIZES], len(SIZES))


def failed_search(world: World) -> FailedSearch | None:
    return world.state.ledger.jobs["ns/a"].attempts.failed_search


def test_a_search_that_reaches_its_limit_is_reported_and_not_repeated_until_room_is_freed() -> None:
    world = packed(5).world()
    world.put(group("b", 1, phase="Running"))
    world.put(pod("b", "b", cpu="1", on="s0-0-0", phase="Running"))
    world.run(2)
    first = failed_search(world)
    assert first is not None
    assert first.is_incomplete
    reason, message = world.condition("a")[1:]
    assert reason == "NotEnoughResources"
    assert "NetworkTopologySearchIncomplete: no HyperNode" in message
    assert "not searched exhaustively" in message
    world.run(3)
    assert failed_search(world) is first
    world.remove(kinds.POD, "ns/b")
    world.run()
    assert failed_search(world) not in (None, first)


def test_all_dry_runs_for_a_gang_share_one_allowance_of_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    searches: list[AssignmentSearch] = []
    run = AssignmentSearch.run

    def recorded(search: AssignmentSearch) -> Generator[None, None, bool]:
        searches.append(search)
        return run(search)

    monkeypatch.setattr(AssignmentSearch, "run", recorded)
    case = Case([[[(100, True)] * 5] * 3], [Member(cpu) for cpu in SIZES], len(SIZES))
    conf = CONF.replace("allocate", "allocate, defragment")
    world = World(*case.cluster(), node("elsewhere", "9"), *case.gang(), conf=conf, now=NOW)
    for rack in range(3):
        for at in range(3):
            world.put(group(f"b{rack}-{at}", 1, phase="Running"))
            world.put(pod(f"b{rack}-{at}", f"b{rack}-{at}", cpu="1", on=f"s0-{rack}-{at}", phase="Running"))
    world.run()
    assert MAX_TOTAL_STEPS < sum(search.steps for search in searches) <= 2 * MAX_TOTAL_STEPS


def test_a_proven_move_is_carried_out_when_no_steps_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(domains, "MAX_TOTAL_STEPS", 1)
    case = Case([[[(7, True), (9, True), (11, True), (9, True)]]], [Member(cpu) for cpu in (4, 5, 3, 5, 6, 3, 6)], 7)
    conf = CONF.replace("allocate", "allocate, defragment")
    world = World(*case.cluster(), node("elsewhere", "9"), *case.gang(), conf=conf, now=NOW)
    for at, cpu in enumerate([3, 1, 1, 1]):
        world.put(group(f"b{at}", 1, phase="Running"))
        world.put(pod(f"b{at}", f"b{at}", cpu=str(cpu), on=f"s0-0-{at}", phase="Running"))
    world.run()
    assert len(world.pipelines) == 7


def test_a_gang_that_was_not_found_a_place_is_placed_when_a_node_joins() -> None:
    world = packed(5).world().run(2)
    assert world.binds == {}
    bigger = World(*packed(6).cluster(), conf=CONF)
    for (resource, key), manifest in bigger.objects.items():
        if (resource, key) not in world.objects or resource == kinds.HYPER_NODE.resource:
            world.put(manifest)
    assert len(world.run(2).binds) == len(SIZES)


def test_a_search_is_repeated_soon_where_room_was_kept_for_another_job() -> None:
    case = Case([[[(3, True), (5, True)]]], [Member(1), Member(2), Member(4)], 3)
    world = case.world()
    world.put(terminating(pod("old", "", cpu="4", on="s0-0-1", phase="Running")))
    world.put(group("0", 1, phase="Inqueue"))
    world.put(pod("0", "0", cpu="4"))
    world.run()
    assert world.pipelines == {"0": "s0-0-1"}
    first = failed_search(world)
    assert first is not None
    world.remove(kinds.POD, "ns/0")
    world.run(3)
    assert failed_search(world) is first
    world.run(9)
    assert world.pipelines == {"a-2": "s0-0-1"}


def test_pods_that_are_alike_are_not_searched() -> None:
    case = Case([[[(2, True), (2, True)]]], [Member(1)] * 5, 5)
    world = case.world().run()
    assert (world.binds, failed_search(world)) == ({}, None)


def test_a_search_is_repeated_when_the_gang_changes() -> None:
    case = Case([[[(3, True), (3, True)]]], [Member(2), Member(2), Member(1), Member(2)], 4)
    world = case.world().run()
    first = failed_search(world)
    assert first is not None
    assert not first.is_incomplete
    world.put(pod("a-3", "a", cpu="1"))
    assert len(world.run(2).binds) == len(case.members)


def test_a_search_is_repeated_when_the_roles_need_fewer_pods() -> None:
    case = Case([[[(3, True), (5, True)]]], [], 3)
    world = case.world()
    hard = {"mode": "hard", "highestTierAllowed": 1}

    def gang(**minimums: int) -> None:
        world.put(group("a", 3, phase="Inqueue", networkTopology=hard, minTaskMember=minimums))

    gang(x=1, y=2)
    world.put(pod("a-0", "a", role="x", cpu="6"))
    for cpu in (1, 2, 4):
        world.put(pod(f"a-{cpu}", "a", role="y", cpu=str(cpu)))
    world.run()
    assert failed_search(world) is not None
    gang(y=3)
    assert set(world.run(2).binds) == {"a-1", "a-2", "a-4"}


def test_pods_that_were_placed_after_a_search_have_no_fit_errors() -> None:
    world = Case([[[(3, True), (5, True)]]], [Member(1), Member(2), Member(4)], 3).world().run()
    assert len(world.binds) == 3
    assert world.state.ledger.jobs["ns/a"].attempts.fit_errors == {}


@pytest.mark.parametrize("limit", [6, 7])
def test_a_gang_that_its_quota_keeps_out_waits_for_its_queue(limit: int) -> None:
    """With 7 cores of quota one pod after the other fails at the nodes, and what a search finds is above the quota."""
    case = Case([[[(3, True), (5, True)]]], [Member(1), Member(2), Member(4), Member(1)], 4)
    conf = CONF.replace("{name: gang}", "{name: gang}, {name: proportion}")
    world = World(*case.cluster(), *case.gang(), queue("default", capability={"cpu": str(limit)}), conf=conf).run(2)
    assert world.binds == {}
    assert "QueueQuota" in world.condition("a")[2]
    world.put(queue("default", capability={"cpu": "8"}))
    assert len(world.run(2).binds) == 4


def test_pods_whose_nodes_were_taken_after_the_search_are_not_placed_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    run = GangSearch.run

    def outdated(*given: Any) -> Generator[None, None, Assignment | None]:
        found = yield from run(*given)
        return None if found is None else found._replace(nodes=[(task, "s0-0-0") for task, _ in found.nodes])

    monkeypatch.setattr(GangSearch, "run", outdated)
    world = Case([[[(3, True), (5, True)]]], [Member(1), Member(2), Member(4)], 3).world()
    world.put(node("outside", "9"))
    world.run(2)
    assert world.binds == {}
    assert "NetworkTopologySearchIncomplete" in world.condition("a")[2]
