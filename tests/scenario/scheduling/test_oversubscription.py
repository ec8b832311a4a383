"""Nodes that offer reserved but unused resources of other pods in addition to their own."""

from __future__ import annotations

from tests.scenario.scheduling.harness import Scenario, World, group, node, pod, scenarios
from volcanoio.model.base import Manifest

LABEL, CPU, MEMORY = (
    "volcano.sh/oversubscription",
    "volcano.sh/oversubscription-cpu",
    "volcano.sh/oversubscription-memory",
)


def oversubscribed(label: str = "true", *, cpu: str = "2000", memory: str = "1073741824") -> Manifest:
    """Return a node of one CPU and 1Gi that offers millicores and bytes in addition."""
    made = node("n1", cpu="1", memory="1Gi", labels={LABEL: label})
    made["metadata"]["annotations"] = {CPU: cpu, MEMORY: memory}
    return made


@scenarios(
    Scenario(
        name="a pod fits into the own and the oversubscribed resources together",
        cluster=[oversubscribed(), group("a", 1), pod("a", "a", cpu="3", memory="2Gi")],
        binds={"a": "n1"},
    ),
    Scenario(
        name="a pod that requests more cpu than both does not fit",
        cluster=[oversubscribed(), group("a", 1), pod("a", "a", cpu="3001m", memory="2Gi")],
    ),
    Scenario(
        name="a pod that requests more memory than both does not fit",
        cluster=[oversubscribed(), group("a", 1), pod("a", "a", cpu="3", memory="3Gi")],
    ),
    Scenario(
        name="a node whose label is false offers only its own resources",
        cluster=[oversubscribed("false"), group("a", 1), pod("a", "a", cpu="2", memory="1Gi")],
    ),
    Scenario(
        name="an amount that cannot be parsed is ignored",
        cluster=[oversubscribed(cpu="much"), group("a", 1), pod("a", "a", cpu="2", memory="2Gi")],
    ),
    Scenario(
        name="a negative amount is ignored",
        cluster=[oversubscribed(cpu="-500"), group("a", 1), pod("a", "a", cpu="1", memory="2Gi")],
        binds={"a": "n1"},
    ),
)
def test_oversubscription(scenario: Scenario) -> None:
    scenario.check()


def test_a_changed_amount_takes_effect_in_the_next_cycle() -> None:
    world = World(oversubscribed(cpu="0"), group("a", 1), pod("a", "a", cpu="2"))
    world.run()
    assert world.binds == {}
    world.put(oversubscribed(cpu="1000"))
    world.run()
    assert world.binds == {"a": "n1"}
