"""The components as the rendered Deployments run them: with their service accounts, volumes, probes and leases."""

from __future__ import annotations

from tests.realcluster.deployed.scenario import Scenario
from tests.realcluster.deployed.world import COMPONENTS, NAMESPACE


def test_a_gang_runs(scenario: Scenario) -> None:
    job = scenario.job("first", replicas=8)
    scenario.submit(job)
    scenario.all_in("Completed", 1)
    scenario.completed_once(job)


def test_every_replica_is_ready_and_none_was_restarted(scenario: Scenario) -> None:
    for name in COMPONENTS:
        status = scenario.world.get("deployment", name, NAMESPACE)["status"]
        assert status["readyReplicas"] == status["replicas"] == 2
    assert set(scenario.world.restarts().values()) == {0}, scenario.world.components()
