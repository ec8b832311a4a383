"""Host ports: no two pods on a node use the same port, protocol and address."""

from __future__ import annotations

from typing import Any

from tests.scenario.scheduling.harness import Scenario, World, group, node, scenarios
from tests.scenario.scheduling.podrules import asking, gang, running
from volcanoio.model.base import Manifest

PG = group("pg", 1, phase="Inqueue")
TAKEN = {"pg": "0/1 nodes are unavailable: 1 node(s) didn't have free ports for the requested pod ports."}


def with_port(**port: Any) -> list[Manifest]:
    """Return a node where port 80 of a running pod is used, `port` being the rest of its host port."""
    return [node("n1"), PG, running("old", "n1", port={"hostPort": 80, **port})]


def pending(**port: Any) -> Manifest:
    """Return a pending pod with host port 80, unless another number is given."""
    return asking("p", "pg", port={"hostPort": 80, **port})


@scenarios(
    Scenario(name="equal ports conflict", cluster=[*with_port(), pending()], fit_errors=TAKEN),
    Scenario(
        name="ports of different numbers do not conflict",
        cluster=[*with_port(), pending(hostPort=81)],
        binds={"p": "n1"},
    ),
    Scenario(
        name="ports of different protocols do not conflict",
        cluster=[*with_port(), pending(protocol="UDP")],
        binds={"p": "n1"},
    ),
    Scenario(
        name="ports of different addresses do not conflict",
        cluster=[*with_port(hostIP="10.0.0.1"), pending(hostIP="10.0.0.2")],
        binds={"p": "n1"},
    ),
    Scenario(
        name="equal ports of one address conflict",
        cluster=[*with_port(hostIP="10.0.0.1"), pending(hostIP="10.0.0.1")],
        fit_errors=TAKEN,
    ),
    Scenario(
        name="a port of all addresses conflicts with a used port of one address",
        cluster=[*with_port(hostIP="10.0.0.1"), pending()],
        fit_errors=TAKEN,
    ),
    Scenario(
        name="a port of one address conflicts with a used port of all addresses",
        cluster=[*with_port(), pending(hostIP="10.0.0.1")],
        fit_errors=TAKEN,
    ),
)
def test_host_ports(scenario: Scenario) -> None:
    scenario.check()


def test_each_pod_of_a_gang_with_one_host_port_gets_a_node_of_its_own() -> None:
    nodes = [node(f"n{at}") for at in range(3)]
    world = World(*nodes, group("pg", 3, phase="Inqueue"), *gang("p", 3, "pg", port={"hostPort": 8080})).run()
    assert len(set(world.binds.values())) == 3


def test_a_port_is_free_again_when_its_pod_has_finished() -> None:
    world = World(*with_port(), pending()).run()
    assert world.binds == {}
    world.set_pod("old", phase="Failed")
    assert world.run().binds == {"p": "n1"}
