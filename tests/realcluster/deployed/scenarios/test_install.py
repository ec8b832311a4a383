"""The components as the rendered Deployments run them: with their service accounts, volumes, probes and leases."""

from __future__ import annotations

import pytest

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


def test_the_chart_as_helm_renders_it_runs_a_gang_and_refuses_a_wrong_one(scenario: Scenario) -> None:
    """The scenarios after this one run on these Deployments; the first ones ran on those of config/deploy."""
    world = scenario.world
    if "helm" not in world.rendered:
        pytest.skip("HELM WAS NOT TESTED: `make go-clients` builds it")
    world.kubectl("delete", "deployments", *COMPONENTS, "-n", NAMESPACE, "--timeout=120s")
    world.until(lambda: not world.pods(), "the pods of config/deploy have ended")
    scenario.measure("seconds from kubectl apply of the chart to all replicas ready", world.install("helm"))
    job, wrong = scenario.job("second", replicas=8), scenario.job("wrong", replicas=1)
    wrong["spec"]["minAvailable"] = 2
    refused = world.kubectl("create", "-f", "-", stdin=scenario.json(wrong), check=False)
    assert "admission webhook" in refused, refused
    scenario.submit(job)
    scenario.all_in("Completed", 1)
    scenario.completed_once(job)
