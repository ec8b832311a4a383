"""status.nodeCount: which nodes a HyperNode has, as nodes and HyperNodes come, change and go."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.hypernodes.topology import Topology, child, exact, labelled, pattern
from volcanoio.engine.hypernodes.nodes_by_hyper_node import NodesByHyperNode
from volcanoio.model import kinds
from volcanoio.model.base import Manifest
from volcanoio.model.core import LabelSelector
from volcanoio.model.nodes import ExactMatch, HyperNodeSpec, Member, MemberSelector, RegexMatch


@pytest.mark.parametrize(
    ("member", "count"),
    [
        (exact("node-1"), 1),
        (exact("missing"), 0),
        (pattern("node-"), 3),
        (pattern("^de-1$"), 0),
        (pattern("e-[12]"), 2),
        (pattern("("), 0),
        (labelled(rack="a"), 2),
        (labelled(rack="c"), 0),
        ({"type": "Node", "selector": {"labelMatch": {}}}, 0),
        ({"type": "Node", "selector": {"labelMatch": {"matchExpressions": [
            {"key": "example.com/rack", "operator": "NotIn", "values": ["a"]}]}}}, 2),
    ],
)  # fmt: skip
def test_each_selector_selects_existing_nodes(member: Manifest, count: int) -> None:
    world = Topology()
    world.node("node-1", rack="a")
    world.node("node-2", rack="a")
    world.node("node-3", rack="b")
    world.node("other")
    world.hyper_node("h", member)
    world.wait(1)
    assert world.counts() == {"h": count}


def test_a_hyper_node_counts_each_node_below_it_once() -> None:
    world = Topology()
    for number in range(4):
        world.node(f"n{number}", rack="a")
    world.hyper_node("low", pattern("n[01]"))
    world.hyper_node("side", exact("n1"), exact("n2"))
    world.hyper_node("top", child("low"), child("side"), child("missing"), labelled(rack="b"), tier=2)
    world.wait(1)
    assert world.counts() == {"low": 2, "side": 2, "top": 3}


def test_counts_follow_nodes_and_members() -> None:
    world = Topology()
    world.hyper_node("low", labelled(rack="a"))
    world.hyper_node("top", child("low"), tier=2)
    world.node("n1", rack="a")
    world.node("n2", rack="b")
    world.wait(1)
    assert world.counts() == {"low": 1, "top": 1}
    world.node("n2", rack="a")
    world.wait(1)
    assert world.counts() == {"low": 2, "top": 2}
    world.remove(kinds.NODE, "n1")
    world.wait(1)
    assert world.counts() == {"low": 1, "top": 1}
    world.hyper_node("low", exact("n1"))
    world.wait(1)
    assert world.counts() == {"low": 0, "top": 0}
    world.remove(kinds.HYPER_NODE, "low")
    world.hyper_node("top", exact("n2"), tier=2)
    world.wait(1)
    assert world.counts() == {"top": 1}


def test_changes_within_a_moment_are_written_once() -> None:
    world = Topology()
    world.hyper_node("h", labelled(rack="a"))
    for number in range(20):
        world.node(f"n{number}", rack="a")
    world.wait(1)
    assert world.counts() == {"h": 20}
    assert world.writes == ["patch h"]


def test_a_heartbeat_of_a_node_causes_no_write() -> None:
    world = Topology()
    world.hyper_node("h", labelled(rack="a"))
    world.node("n", rack="a")
    world.wait(1)
    world.put(kinds.NODE, {"metadata": {"name": "n"}, "status": {"phase": "x"}})
    world.wait(1)
    assert world.writes == ["patch h"]


def test_a_refused_status_is_written_again() -> None:
    world = Topology()
    world.hyper_node("h", exact("n"))
    world.refuse = [(409, "the object has been modified")]
    world.node("n")
    world.wait(5)
    assert world.counts() == {"h": 1}


def test_a_new_process_corrects_what_changed_meanwhile() -> None:
    world = Topology()
    world.hyper_node("h", labelled(rack="a"))
    world.node("n", rack="a")
    world.start()
    world.wait(1)
    assert world.counts() == {"h": 1}


def test_a_second_parent_and_a_cycle_are_reported_once() -> None:
    world = Topology()
    world.hyper_node("leaf", exact("n"))
    world.hyper_node("one", child("leaf"), tier=2)
    world.hyper_node("two", child("leaf"), tier=2)
    world.wait(1)
    world.node("n")
    world.wait(1)
    assert world.warnings == [("leaf", "InvalidTopology")]
    assert "member of 2 HyperNodes (one, two); name it in spec.members of one of them" in world.events[0]
    world.hyper_node("one", child("two"), tier=2)
    world.hyper_node("two", child("one"), tier=2)
    world.wait(1)
    assert set(world.warnings[1:]) == {("one", "InvalidTopology"), ("two", "InvalidTopology")}


_NAMES = st.sampled_from(["a1", "a2", "b1", "b2"])
_HYPER_NAMES = st.sampled_from(["h1", "h2", "h3"])
_SELECTORS = st.one_of(
    _NAMES.map(lambda name: MemberSelector(exact_match=ExactMatch(name=name))),
    st.sampled_from(["^a", "1$", "b", "x"]).map(lambda text: MemberSelector(regex_match=RegexMatch(pattern=text))),
    st.sampled_from(["r1", "r2"]).map(
        lambda value: MemberSelector(label_match=LabelSelector(match_labels={"rack": value}))
    ),
)
_MEMBERS = st.one_of(
    _SELECTORS.map(lambda selector: Member(type="Node", selector=selector)),
    _HYPER_NAMES.map(lambda name: Member(type="HyperNode", selector=MemberSelector(exact_match=ExactMatch(name=name)))),
)
_SPECS = st.lists(_MEMBERS, min_size=1, max_size=3).map(lambda members: HyperNodeSpec(members=tuple(members)))
_LABELS = st.sampled_from([{}, {"rack": "r1"}, {"rack": "r2"}])
_CHANGES = st.one_of(
    st.tuples(st.just("node"), _NAMES, st.none() | _LABELS),
    st.tuples(st.just("hyper node"), _HYPER_NAMES, st.none() | _SPECS),
)


@given(st.lists(st.tuples(_CHANGES, st.booleans()), max_size=20))
def test_the_nodes_are_the_same_after_any_order_of_changes(changes: list[tuple[tuple[str, str, Any], bool]]) -> None:
    """After each change, all HyperNodes whose nodes changed are among those returned."""
    members = NodesByHyperNode()
    last: dict[tuple[str, str], Any] = {}
    nodes_of: dict[str, set[str]] = {}
    for (kind, name, value), is_resolved in changes:
        if is_resolved:  # before the change, else after it
            nodes_of = {hyper_node: members.nodes(hyper_node) for hyper_node in ("h1", "h2", "h3")}
        change = members.set_node if kind == "node" else members.set_hyper_node
        changed = change(name, value)
        last[kind, name] = value
        now = {hyper_node: members.nodes(hyper_node) for hyper_node in nodes_of}
        assert {each for each in now if now[each] != nodes_of[each]} <= changed
        nodes_of = now
    fresh = NodesByHyperNode()
    for (kind, name), value in sorted(last.items(), key=lambda each: each[0]):
        if value is not None:
            (fresh.set_node if kind == "node" else fresh.set_hyper_node)(name, value)
    for each in ("h1", "h2", "h3"):
        assert members.nodes(each) == fresh.nodes(each)
        assert bool(members.problem(each)) == bool(fresh.problem(each))
