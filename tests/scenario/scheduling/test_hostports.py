"""Ports of nodes: each is taken by one pod."""

from __future__ import annotations

from typing import Any

import pytest

from tests.scenario.scheduling.harness import World, group, node
from tests.scenario.scheduling.podrules import asking, gang, why


def test_a_gang_that_wants_one_port_takes_a_node_each() -> None:
    nodes = [node(f"n{at}") for at in range(3)]
    world = World(*nodes, group("pg", 3, phase="Inqueue"), *gang("p", 3, "pg", port={"hostPort": 8080})).run()
    assert len(set(world.binds.values())) == 3


@pytest.mark.parametrize(
    ("one", "other", "free"),
    [
        ({}, {}, False),
        ({}, {"hostPort": 81}, True),
        ({}, {"protocol": "UDP"}, True),
        ({"hostIP": "10.0.0.1"}, {"hostIP": "10.0.0.2"}, True),
        ({"hostIP": "10.0.0.1"}, {"hostIP": "10.0.0.1"}, False),
        ({"hostIP": "10.0.0.1"}, {}, False),
        ({}, {"hostIP": "10.0.0.1"}, False),
    ],
)
def test_ports_conflict_by_number_protocol_and_address(one: dict[str, Any], other: dict[str, Any], free: bool) -> None:
    there = asking("old", on="n1", phase="Running", port={"hostPort": 80, **one})
    world = World(
        node("n1"), there, group("pg", 1, phase="Inqueue"), asking("p", "pg", port={"hostPort": 80, **other})
    ).run()
    assert (world.binds == {"p": "n1"}) is free
    if not free:
        text = "0/1 nodes are unavailable: 1 node(s) didn't have free ports for the requested pod ports."
        assert why(world, "pg") == text


def test_a_port_is_free_again_when_its_pod_has_ended() -> None:
    there = asking("old", on="n1", phase="Running", port={"hostPort": 80})
    world = World(node("n1"), there, group("pg", 1, phase="Inqueue"), asking("p", "pg", port={"hostPort": 80})).run()
    assert world.binds == {}
    world.set_pod("old", phase="Failed")
    assert world.run().binds == {"p": "n1"}
