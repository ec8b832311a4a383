"""Resource claims: their pods wait, because without their devices they would use room and never start."""

from __future__ import annotations

from tests.scenario.scheduling.harness import Scenario, group, node, pod, scenarios


@scenarios(
    Scenario(
        name="a pod with a resource claim waits with a reason and does not block other pods",
        cluster=[
            node("n1"),
            group("g", 1),
            pod("p-0", "g", cpu="1", spec={"resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}]}),
            group("h", 1),
            pod("q-0", "h", cpu="1"),
        ],
        binds={"q-0": "n1"},
        reasons={
            "g": "0/1 nodes are unavailable: "
            "1 node(s) cannot be given resource claims: dynamic resource allocation is not available yet."
        },
    ),
)
def test_resource_claims(scenario: Scenario) -> None:
    scenario.check()
