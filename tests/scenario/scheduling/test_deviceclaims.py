"""Pods with resource claims wait: bound without their devices they would hold room and never start."""

from __future__ import annotations

from tests.scenario.scheduling.harness import World, group, node, pod


def test_a_pod_with_resource_claims_waits_with_the_reason() -> None:
    claims = {"resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}]}
    world = World(
        node("n1"),
        group("g", 1),
        pod("p-0", "g", cpu="1", spec=claims),
        group("h", 1),
        pod("q-0", "h", cpu="1"),
    ).run()
    assert world.binds == {"q-0": "n1"}
    assert world.state.ledger.jobs["ns/g"].attempts.reason.text == (
        "0/1 nodes are unavailable: "
        "1 node(s) cannot be given resource claims: dynamic resource allocation is not available yet."
    )
