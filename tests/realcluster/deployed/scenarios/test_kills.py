"""Components that die, stop, and are replaced by another version, with jobs in flight."""

from __future__ import annotations

import random
import signal
import time

import pytest

from tests.realcluster.deployed.api import Obj
from tests.realcluster.deployed.scenario import Scenario
from tests.realcluster.deployed.world import COMPONENTS

SEED = 12
KILLS = 12


def _batch(scenario: Scenario, count: int = 12, seconds: int = 3) -> list[Obj]:
    return [scenario.job(f"job-{index}", replicas=6, seconds=seconds) for index in range(count)]


def test_scheduler_and_controllers_are_killed_at_random_moments(scenario: Scenario) -> None:
    chance = random.Random(SEED)
    jobs: list[Obj] = []
    for number in range(KILLS):
        batch = [scenario.job(f"job-{number}-{index}", replicas=6, seconds=2) for index in range(4)]
        scenario.submit(*batch)
        jobs += batch
        time.sleep(chance.uniform(0.05, 1.5))
        victims = scenario.world.pods(chance.choice(COMPONENTS[:2]))
        scenario.world.kill(chance.choice(victims))
    scenario.all_in("Completed", len(jobs), 240)
    scenario.completed_once(*jobs)


@pytest.mark.parametrize("component", COMPONENTS[:2])
def test_the_leader_is_killed(scenario: Scenario, component: str) -> None:
    """The standby takes over within the lease; both replicas of the dead one's pod were there all along."""
    jobs = _batch(scenario)
    leader = scenario.world.leader(component)
    scenario.submit(*jobs)
    time.sleep(0.3)
    scenario.world.freeze(leader)
    begun = time.monotonic()
    scenario.world.until(lambda: scenario.world.leader(component) is not leader, f"another leader of {component}")
    scenario.measure(f"seconds until {component} had another leader", time.monotonic() - begun)
    scenario.all_in("Completed", len(jobs), 180)
    scenario.world.kill(leader, signal.SIGCONT)
    time.sleep(3)
    scenario.world.rolled_out()
    scenario.completed_once(*jobs)


@pytest.mark.timeout(900)
def test_the_version_changes_and_changes_back_with_jobs_in_flight(scenario: Scenario) -> None:
    world = scenario.world
    if "earlier" not in world.rendered:
        pytest.skip("there is no earlier version with the components' commands")
    jobs: list[Obj] = []
    try:
        for number, form in enumerate(("earlier", "deploy", "earlier", "deploy")):
            batch = [scenario.job(f"job-{number}-{index}", replicas=6, seconds=4) for index in range(6)]
            scenario.submit(*batch)
            jobs += batch
            world.install(form)
    finally:
        world.install()
    scenario.all_in("Completed", len(jobs), 240)
    scenario.completed_once(*jobs)
