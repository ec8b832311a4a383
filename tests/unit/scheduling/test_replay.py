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
from tests.scenario.scheduling.harness import actions, plugins, profile
from tests.unit.scheduling.journal_recorder import Recorder
from volcanoio.engine.scheduling.cluster.state import ClusterState
from volcanoio.engine.scheduling.offline.replay import CutAt, replay
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
        world.cycle(budget=CutAt(data.draw(st.sampled_from([0, 0, 0, 2]))))
        world.echo()
        change(world, each, data.draw, mix, 10 + number)
    cycles = list(replay(world.journal, ClusterState(), lambda event: profile(event.text)))
    assert len(cycles) == len(changes)
    assert [cycle.cycle for cycle in cycles if not cycle.is_same] == []
