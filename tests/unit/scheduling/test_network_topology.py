"""Gangs with a hard network topology: placed whenever one HyperNode has room for them, and never across several.

The expectation is exact: for pods that are alike, a HyperNode holds a gang if and only if the sum of what its nodes can
hold is large enough, and equal sub-jobs if its racks hold enough of them.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.scenario.scheduling.harness import World, group, node, pod
from tests.scenario.scheduling.networks import hyper_node
from volcanoio.engine.scheduling.session.cycle import open_session
from volcanoio.engine.scheduling.session.session import CycleSession
from volcanoio.framework.scheduling_events import CycleOpened
from volcanoio.model.base import Manifest

CONF = """
actions: "allocate"
tiers:
- plugins: [{name: gang}, {name: predicates}, {name: nodeorder}, {name: network-topology-aware}]
"""
PART = "part"


@st.composite
def networks(draw: st.DrawFn) -> dict[str, list[list[int]]]:
    """Draw spines with racks of nodes, each node as its number of cores: a dictionary by the spine's name."""
    racks = st.lists(st.integers(0, 3), min_size=1, max_size=3)
    spines = draw(st.lists(st.lists(racks, min_size=1, max_size=3), min_size=1, max_size=3))
    return {f"s{at}": spine for at, spine in enumerate(spines)}


def cluster(network: dict[str, list[list[int]]]) -> list[Manifest]:
    """Return nodes and HyperNodes; node SPINE-RACK-INDEX is in rack SPINE-RACK."""
    made: list[Manifest] = []
    for spine, racks in network.items():
        for at, cores in enumerate(racks):
            names = [f"{spine}-{at}-{index}" for index in range(len(cores))]
            made += [node(name, str(number)) for name, number in zip(names, cores, strict=True)]
            made.append(hyper_node(f"{spine}-{at}", 1, *names))
        made.append(hyper_node(spine, 2, *[f"{spine}-{at}" for at in range(len(racks))]))
    return made


@given(network=networks(), size=st.integers(1, 8), tier=st.integers(1, 2))
def test_a_gang_is_placed_exactly_if_one_hyper_node_holds_it(
    network: dict[str, list[list[int]]], size: int, tier: int
) -> None:
    members = [pod(f"a-{at}", "a", cpu="1") for at in range(size)]
    topology = {"mode": "hard", "highestTierAllowed": tier}
    world = World(*cluster(network), group("a", size, phase="Inqueue", networkTopology=topology), *members, conf=CONF)
    world.run()
    racks = [sum(cores) for spine in network.values() for cores in spine]
    spines = [sum(map(sum, spine)) for spine in network.values()]
    largest = max(racks if tier == 1 else spines)
    assert len(world.binds) == (size if largest >= size else 0)
    if world.binds:
        inside = {bound.rsplit("-", 1)[0] if tier == 1 else bound.split("-", 1)[0] for bound in world.binds.values()}
        assert len(inside) == 1


@given(network=networks(), parts=st.integers(1, 3), size=st.integers(1, 3))
def test_equal_sub_jobs_are_placed_exactly_if_the_racks_of_one_spine_hold_them(
    network: dict[str, list[list[int]]], parts: int, size: int
) -> None:
    members = [pod(f"a-{at}", "a", cpu="1") for at in range(parts * size)]
    for at, member in enumerate(members):
        member["metadata"]["labels"] = {PART: str(at // size)}
    policy = {
        "name": PART,
        "matchLabelKeys": [PART],
        "subGroupSize": size,
        "minSubGroups": parts,
        "networkTopology": {"mode": "hard", "highestTierAllowed": 1},
    }
    job = group(
        "a",
        parts * size,
        phase="Inqueue",
        networkTopology={"mode": "hard", "highestTierAllowed": 2},
        subGroupPolicy=[policy],
    )
    world = World(*cluster(network), job, *members, conf=CONF)
    world.run()
    held = [sum(sum(cores) // size for cores in spine) for spine in network.values()]
    assert len(world.binds) == (parts * size if max(held) >= parts else 0)
    for part in range(parts if world.binds else 0):
        racks = {world.binds[f"a-{part * size + at}"].rsplit("-", 1)[0] for at in range(size)}
        assert len(racks) == 1
    assert len({bound.split("-", 1)[0] for bound in world.binds.values()}) <= 1


def test_room_made_outside_a_hyper_node_is_no_place_inside_it() -> None:
    """A sub-job with nominated nodes in one rack is not placed there while its job is tried in another one."""
    policy = {"name": PART, "matchLabelKeys": [PART], "networkTopology": {"mode": "hard", "highestTierAllowed": 1}}
    member = pod("a-0", "a", cpu="1")
    member["metadata"]["labels"] = {PART: "0"}
    topology = {"mode": "hard", "highestTierAllowed": 1}
    job = group("a", 1, phase="Inqueue", networkTopology=topology, subGroupPolicy=[policy])
    world = World(*cluster({"s0": [[2], [2]]}), job, member, conf=CONF)
    info = world.state.ledger.jobs["ns/a"]
    (sub_job,) = info.sub_jobs
    world.state.nominations.nominate(info.members["ns-a-0"], "s0-0-0", set())
    session = CycleSession(world.state, world.profile, CycleOpened(cycle=1, upto=0, seed=1, at=world.now))
    for _ in open_session(session):
        pass
    assert session.domains.levels(sub_job, "s0-0", evicting=False)[0] == ["s0-0"]
    assert session.domains.levels(sub_job, "s0-1", evicting=False) == [["s0-1"]]
