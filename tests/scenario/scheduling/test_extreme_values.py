"""Amounts that any user may write: whatever they are, the scheduler schedules the others' pods."""

from __future__ import annotations

import pytest

from tests.scenario.scheduling.harness import Scenario, World, group, node, pod, queue, scenarios

MOST = "9223372036854775807"
"""The largest amount that an API server stores."""
OTHERS = {"nvidia.com/gpu": MOST, "ephemeral-storage": MOST}
SMALL = [group("small", 1, phase="Inqueue"), pod("small", "small", cpu="1")]


def huge(name: str, containers: int = 1) -> list[dict[str, object]]:
    """Return a gang of one pod that requests the most of everything in each container."""
    requests = {"cpu": MOST, "memory": MOST, **OTHERS}
    listed = [{"name": f"c{at}", "resources": {"requests": requests}} for at in range(containers)]
    return [group(name, 1, phase="Inqueue"), pod(name, name, spec={"containers": listed})]


@scenarios(
    Scenario(
        name="a pod that requests more than 64 bits hold waits, and no other pod does",
        cluster=[node("n1"), *huge("huge"), *SMALL],
        cycles=3,
        binds={"small": "n1"},
    ),
    Scenario(
        name="the sum of a pod's containers is limited as one container is",
        cluster=[node("n1"), *huge("huge", containers=20), *SMALL],
        cycles=3,
        binds={"small": "n1"},
    ),
    Scenario(
        name="nodes of the largest amounts are filled by one such pod each",
        cluster=[
            *(node(f"n{at}", cpu=MOST, memory=MOST, **OTHERS) for at in "12"),
            *huge("a"), *huge("b"), *huge("c"),
        ],
        cycles=3,
        bind_order=["a", "b"],
    ),
)  # fmt: skip
def test_extreme_requests(scenario: Scenario) -> None:
    scenario.check()


@pytest.mark.parametrize("amount", ["1e999999999", "1e1.5", "1" * 5000, MOST])
def test_an_amount_that_only_the_schema_of_a_custom_resource_admits_counts_as_the_largest(amount: str) -> None:
    amounts = {"cpu": amount}
    guaranteed = queue("odd", capability=amounts, deserved=amounts)
    waiting = [group("never", 1, minResources=amounts), pod("never", "never", cpu="1")]
    odd = [group("odd", 1, queue="odd", phase="Inqueue"), pod("odd", "odd", cpu="1")]
    world = World(node("n1"), guaranteed, *waiting, *odd, *SMALL).run(3)
    assert world.binds == {"small": "n1", "odd": "n1"}
    assert world.phase("never") == "Pending"
