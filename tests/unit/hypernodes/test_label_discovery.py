"""HyperNodes from node labels: clusters in, HyperNodes out."""

from __future__ import annotations

import pytest

from tests.unit.hypernodes.topology import TWO_TIERS, Topology, exact
from volcanoio.model import kinds

PROFILES = """
networkTopologyDiscovery:
- source: label
  enabled: true
  config:
    networkTopologyTypes:
      flat:
        nodeSelector: {matchLabels: {example.com/net: flat}}
        levels:
        - {nodeLabel: example.com/rack, tierName: row}
        - {nodeLabel: kubernetes.io/hostname}
      deep:
        nodeSelector: {matchLabels: {example.com/net: deep}}
        levels:
        - {nodeLabel: example.com/spine, tierName: row}
        - {nodeLabel: example.com/rack, tierName: rack}
        - {nodeLabel: kubernetes.io/hostname}
      rest:
      - nodeLabel: example.com/rack
      - nodeLabel: kubernetes.io/hostname
"""


@pytest.fixture
def world() -> Topology:
    made = Topology()
    made.configure(TWO_TIERS)
    return made


def test_values_of_labels_become_hyper_nodes(world: Topology) -> None:
    world.node("n0", spine="s0", rack="r0")
    world.node("n1", spine="s0", rack="r0")
    world.node("n2", spine="s0", rack="r1")
    world.node("n3", spine="s1", rack="r2")
    world.node("plain")
    world.wait(1)
    assert world.tree == {
        "hypernode-gpu-tier1=r0": "1: n0 n1",
        "hypernode-gpu-tier1=r1": "1: n2",
        "hypernode-gpu-tier1=r2": "1: n3",
        "hypernode-gpu-tier2=s0": "2: hypernode-gpu-tier1=r0 hypernode-gpu-tier1=r1",
        "hypernode-gpu-tier2=s1": "2: hypernode-gpu-tier1=r2",
    }
    assert sorted(world.counts().values()) == [1, 1, 1, 2, 3]
    for name in world.names(kinds.HYPER_NODE):
        found = world.get(kinds.HYPER_NODE, name)
        assert found.metadata.labels["volcano.sh/network-topology-source"] == "label"
        assert found.spec.tier_name == {1: "example.com/rack", 2: "example.com/spine"}[found.spec.tier]
        assert len(name.rpartition("-")[2]) == 5


def test_levels_end_at_the_first_missing_label(world: Topology) -> None:
    world.node("n0", rack="r0")
    world.node("n1", spine="s0")
    world.wait(1)
    assert world.tree == {"hypernode-gpu-tier1=r0": "1: n0"}


def test_hyper_nodes_follow_nodes_and_keep_their_names(world: Topology) -> None:
    world.node("n0", spine="s0", rack="r0")
    world.node("n1", spine="s0", rack="r1")
    world.wait(1)
    names = set(world.names(kinds.HYPER_NODE))
    world.node("n1", rack="r0")
    world.wait(1)
    assert world.tree == {
        "hypernode-gpu-tier1=r0": "1: n0 n1",
        "hypernode-gpu-tier2=s0": "2: hypernode-gpu-tier1=r0",
    }
    assert set(world.names(kinds.HYPER_NODE)) < names
    world.remove(kinds.NODE, "n0")
    world.remove(kinds.NODE, "n1")
    world.wait(1)
    assert world.tree == {}


def test_a_deleted_hyper_node_comes_back_and_a_changed_one_is_restored(world: Topology) -> None:
    world.node("n0", rack="r0")
    world.wait(1)
    (name,) = world.names(kinds.HYPER_NODE)
    world.hyper_node(name, exact("other"), tier=3, source="label")
    world.wait(1)
    assert world.tree == {"hypernode-gpu-tier1=r0": "1: n0"}
    world.remove(kinds.HYPER_NODE, name)
    world.wait(1)
    assert world.tree == {"hypernode-gpu-tier1=r0": "1: n0"}


def test_other_labels_and_annotations_of_a_hyper_node_stay(world: Topology) -> None:
    world.node("n0", rack="r0")
    world.wait(1)
    (name,) = world.names(kinds.HYPER_NODE)
    world.put(kinds.HYPER_NODE, {"metadata": {"name": name, "labels": {"mine": "1"}, "annotations": {"a": "b"}}})
    world.node("n1", rack="r0")
    world.wait(1)
    found = world.get(kinds.HYPER_NODE, name).metadata
    assert (found.labels["mine"], found.annotations) == ("1", {"a": "b"})
    assert world.tree == {"hypernode-gpu-tier1=r0": "1: n0 n1"}


def test_hyper_nodes_of_users_and_of_other_sources_are_never_touched(world: Topology) -> None:
    world.hyper_node("mine", exact("n0"))
    world.hyper_node("hypernode-gpu-tier1-abcde", exact("n0"))
    world.hyper_node("leaf-hn-0", exact("n0"), source="ufm")
    world.node("n1", rack="r0")
    world.wait(1)
    world.node("n1", rack=None)
    world.wait(1)
    assert world.names(kinds.HYPER_NODE) == ["hypernode-gpu-tier1-abcde", "leaf-hn-0", "mine"]


def test_nothing_is_left_half_done_after_a_refused_write(world: Topology) -> None:
    world.refuse = [(0, ""), (500, "no"), (0, "")]
    world.node("n0", spine="s0", rack="r0")
    world.node("n1", spine="s0", rack="r1")
    world.wait(5)
    assert len(world.tree) == 3


def test_a_source_that_is_switched_off_leaves_its_hyper_nodes(world: Topology) -> None:
    world.node("n0", rack="r0")
    world.wait(1)
    world.configure("networkTopologyDiscovery: []")
    world.node("n0", rack="r1")
    world.wait(1)
    assert world.tree == {"hypernode-gpu-tier1=r0": "1: n0"}
    world.configure(TWO_TIERS)
    world.wait(1)
    assert world.tree == {"hypernode-gpu-tier1=r1": "1: n0"}


def test_a_new_process_creates_nothing_twice(world: Topology) -> None:
    world.node("n0", spine="s0", rack="r0")
    world.wait(1)
    names = world.names(kinds.HYPER_NODE)
    world.writes.clear()
    world.start()
    world.configure(TWO_TIERS)
    world.wait(1)
    assert (world.names(kinds.HYPER_NODE), world.writes) == (names, [])


def test_nodes_of_a_domain_that_disagree_leave_the_type_as_it_is(world: Topology) -> None:
    world.node("n0", spine="s0", rack="r0")
    world.wait(1)
    before = world.tree
    world.node("n1", spine="s1", rack="r0")
    world.wait(1)
    world.node("n2", spine="s0", rack="r1")
    world.wait(1)
    assert world.tree == before
    assert world.warnings == [("n1", "NetworkTopologyConflict")]
    (event,) = world.events
    assert event == (
        "Warning NetworkTopologyConflict: topology type gpu: example.com/rack=r0 has example.com/spine=s1 here and s0 "
        "on node n0; give the nodes of one domain the same value"
    )
    world.node("n1", spine="s0")
    world.wait(1)
    assert world.tree == {
        "hypernode-gpu-tier1=r0": "1: n0 n1",
        "hypernode-gpu-tier1=r1": "1: n2",
        "hypernode-gpu-tier2=s0": "2: hypernode-gpu-tier1=r0 hypernode-gpu-tier1=r1",
    }


def test_profiles_with_equal_labels_have_separate_trees() -> None:
    world = Topology()
    world.configure(PROFILES)
    world.node("n0", net="flat", rack="r0")
    world.node("n1", net="deep", rack="r0", spine="s0")
    world.node("n2", rack="r0")
    world.wait(1)
    assert world.tree == {
        "hypernode-deep-tier1=r0": "1: n1",
        "hypernode-deep-tier2=s0": "2: hypernode-deep-tier1=r0",
        "hypernode-flat-tier1=r0": "1: n0",
        "hypernode-rest-tier1=r0": "1: n2",
    }
    profiles = {
        name.split("-")[1]: world.get(kinds.HYPER_NODE, name).metadata.labels.get("volcano.sh/network-topology-profile")
        for name in world.names(kinds.HYPER_NODE)
    }
    assert profiles == {"deep": "deep", "flat": "flat", "rest": None}
    tiers = {(each.spec.tier, each.spec.tier_name) for each in map(world._named, world.names(kinds.HYPER_NODE))}
    assert tiers == {(1, "row"), (1, "rack"), (2, "row"), (1, "example.com/rack")}


def test_a_node_of_a_profile_without_one_of_its_labels_is_reported() -> None:
    world = Topology()
    world.configure(PROFILES)
    world.node("n0", net="deep", rack="r0")
    world.node("n1", net="deep", rack="r1", spine="s0")
    world.node("n2", net="flat", rack="r0")
    world.wait(1)
    assert world.tree == {"hypernode-flat-tier1=r0": "1: n2"}
    (event,) = world.events
    assert event.endswith("topology type deep selects it, but it has no label example.com/spine; add the label")


def test_a_node_that_two_profiles_select_leaves_both_as_they_are() -> None:
    world = Topology()
    world.configure(PROFILES.replace("{example.com/net: deep}", "{example.com/rack: r0}"))
    world.node("n0", net="flat", rack="r0", spine="s0")
    world.node("n1", rack="r1")
    world.wait(1)
    assert world.tree == {"hypernode-rest-tier1=r1": "1: n1"}
    assert world.warnings == [("n0", "NetworkTopologyConflict")]
