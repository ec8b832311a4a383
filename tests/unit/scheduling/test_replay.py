"""Replaying a journal gives the same decisions: all plugins and actions, random clusters, and a reload."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.oracle.changes import CHANGES, change
from tests.oracle.confs import ARGUMENTS, text
from tests.oracle.contests import contested
from tests.oracle.partitions import partitioned
from tests.oracle.worlds import Mix
from tests.scenario.scheduling.harness import actions, labelled, plugins, pod, profile
from tests.unit.scheduling.invariants import check
from tests.unit.scheduling.journal_recorder import Recorder
from volcanoio.engine.scheduling.cluster.state import ClusterState, StateOptions
from volcanoio.engine.scheduling.offline.replay import replay
from volcanoio.framework.scheduling_events import FactsSaid
from volcanoio.model.base import Manifest

WITH_SERVER = {"extender"}
"""Plugins that need a server to answer them."""
RIVALS = ("proportion", "capacity")
FIRST = ("priority", "gang", "conformance", "sla", "cdp", "pdb", "tdm")


@st.composite
def confs(draw: Any) -> str:
    """Draw a configuration of all compatible plugins and all actions, in any order, with any arguments."""
    left_out = {*WITH_SERVER, draw(st.sampled_from(RIVALS))}
    first = [name for name in FIRST if draw(st.integers(0, 5))]
    rest = sorted(set(plugins()) - left_out - set(FIRST))
    tiers = [
        [{"name": name, "arguments": draw(ARGUMENTS.get(name, st.just({})))} for name in names]
        for names in (first, rest)
    ]
    return text(", ".join(draw(st.permutations(sorted(actions())))), tiers)


@examples(25)
@given(confs(), confs(), partitioned(contested(Mix(rules=True))), st.lists(CHANGES, min_size=2, max_size=5), st.data())
def test_a_replay_with_every_plugin_and_action_gives_the_same_decisions(
    conf: str, other: str, objects: list[Manifest], changes: list[Any], data: st.DataObject
) -> None:
    mix = Mix(rules=True)
    world = Recorder(*objects, conf=conf)
    world.sync()
    for number, each in enumerate(changes):
        if number == 2:
            world.reload(other)
            world.sync()
        figures = {"cpu": 40.0 + 10 * number, "memory": 50.0, "at": world.now, "every": 30.0}
        world.fold(FactsSaid(source="node-metrics", facts={"n0": figures}, whole=True))
        world.cycle(cut=data.draw(st.sampled_from([0, 0, 0, 2])))
        world.echo()
        change(world, each, data.draw, mix, 10 + number)
    cycles = list(replay(world.journal, ClusterState(), lambda event: profile(event.text)))
    assert len(cycles) == len(changes)
    assert [cycle.cycle for cycle in cycles if not cycle.is_same] == []


AGENTS = StateOptions(agent_schedulers=frozenset({"agent-scheduler"}))
ARRIVALS = st.dictionaries(st.integers(0, 4), st.lists(st.sampled_from(["1", "2", "50"]), min_size=1, max_size=2))
"""CPUs of latency-bound pods, by the gang boundary at which they arrive; no node has 50."""


def agent(name: str, cpu: str) -> Manifest:
    """A latency-bound pod that terms of the other pods select."""
    return labelled(pod(name, cpu=cpu, spec={"schedulerName": "agent-scheduler"}), app="a")


@examples(40)
@given(
    confs(),
    partitioned(contested(Mix(rules=True))),
    st.lists(st.tuples(CHANGES, ARRIVALS), min_size=2, max_size=4),
    st.data(),
)
def test_pods_that_join_open_cycles_break_no_total_and_a_replay_gives_the_same_decisions(
    conf: str, objects: list[Manifest], steps: list[tuple[Any, dict[int, list[str]]]], data: st.DataObject
) -> None:
    mix = Mix(rules=True)
    world = Recorder(*objects, conf=conf, state=ClusterState(AGENTS))
    world.sync()
    for number, (each, cpus) in enumerate(steps):
        arriving = {
            boundary: [agent(f"agent-{number}-{boundary}-{at}", cpu) for at, cpu in enumerate(here)]
            for boundary, here in cpus.items()
        }
        world.cycle(cut=data.draw(st.sampled_from([0, 0, 2])), arriving=arriving)
        check(world.state)
        columns = world.state.ledger.columns
        assert all((columns.used(name) <= columns.allocatable(name)).all() for name in columns.resources)
        world.echo()
        change(world, each, data.draw, mix, 10 + number)
    cycles = list(replay(world.journal, ClusterState(AGENTS), lambda event: profile(event.text)))
    assert len(cycles) == len(steps)
    assert [cycle.cycle for cycle in cycles if not cycle.is_same] == []
