"""Nodes that lend what others have and do not use."""

from __future__ import annotations

import pytest

from tests.scenario.scheduling.harness import World, group, node, pod
from volcanoio.model.base import Manifest

LABEL, CPU, MEMORY = (
    "volcano.sh/oversubscription",
    "volcano.sh/oversubscription-cpu",
    "volcano.sh/oversubscription-memory",
)


def lending(label: str, **annotations: str) -> Manifest:
    """A node of one CPU and 1Gi that lends."""
    made = node("n1", cpu="1", memory="1Gi", labels={LABEL: label})
    said = {CPU: annotations.get("cpu", "2000"), MEMORY: annotations.get("memory", "1073741824")}
    made["metadata"]["annotations"] = said
    return made


@pytest.mark.parametrize(
    ("there", "cpu", "memory", "fits"),
    [
        (lending("true"), "3", "2Gi", True),
        (lending("true"), "3001m", "2Gi", False),
        (lending("true"), "3", "3Gi", False),
        (lending("false"), "2", "1Gi", False),
        (lending("true", cpu="much"), "2", "2Gi", False),
        (lending("true", cpu="-500"), "1", "2Gi", True),
    ],
)
def test_a_node_offers_what_it_lends_beside_its_own(there: Manifest, cpu: str, memory: str, fits: bool) -> None:
    world = World(there, group("a", 1), pod("a", "a", cpu=cpu, memory=memory))
    world.run()
    assert bool(world.binds) is fits


def test_what_it_lends_may_change() -> None:
    world = World(lending("true", cpu="0"), group("a", 1), pod("a", "a", cpu="2"))
    world.run()
    assert world.binds == {}
    world.put(lending("true", cpu="1000"))
    world.run()
    assert world.binds == {"a": "n1"}
