"""Faults between the components and the API server, and of the API server itself, with jobs in flight."""

from __future__ import annotations

import random
import time

import pytest

from tests.realcluster.deployed.api import Obj
from tests.realcluster.deployed.faultproxy import BINDING, Fault, WatchFault
from tests.realcluster.deployed.scenario import Scenario
from tests.realcluster.deployed.world import TOKEN_SECONDS

RECOVERY_SECONDS = 240.0
"""For the return of a server, a lease that ran out, new lists and two waves of jobs, on a busy machine."""


def _batch(scenario: Scenario, count: int = 12, replicas: int = 6, seconds: int = 2) -> list[Obj]:
    return [scenario.job(f"job-{index}", replicas=replicas, seconds=seconds) for index in range(count)]


def _run(scenario: Scenario, jobs: list[Obj], *, restarted: bool = False, seconds: float = 180) -> None:
    """Submit, wait for all to complete, and check that none of their pods was lost or doubled."""
    scenario.submit(*jobs)
    scenario.all_in("Completed", len(jobs), seconds)
    scenario.completed_once(*jobs, restarted=[job["metadata"]["name"] for job in jobs] if restarted else ())


@pytest.mark.parametrize(
    ("action", "code", "every"),
    [("status", 409, 3), ("status", 429, 4), ("status-after", 500, 3), ("reset-after", 0, 3), ("reset", 0, 4)],
    ids=["409", "429", "500-after-commit", "reset-after-commit", "reset"],
)
def test_every_kth_bind_has_a_fault(scenario: Scenario, action: str, code: int, every: int) -> None:
    fault = Fault("POST", BINDING, action, every=every, code=code or 500)  # type: ignore[arg-type]
    with scenario.world.faulty(fault):
        _run(scenario, _batch(scenario))
    assert len(fault.struck) >= 12
    scenario.measure(f"binds {action} {code}".strip(), len(fault.struck))


def test_pods_are_deleted_while_their_bind_is_in_flight(scenario: Scenario) -> None:
    api = scenario.world.api

    async def delete(path: str) -> None:
        await api.persist("DELETE", path.removesuffix("/binding"), {"gracePeriodSeconds": 0})

    fault = Fault("POST", BINDING, "first", every=7, times=6, work=delete)
    jobs = _batch(scenario, count=8)
    for job in jobs:  # what Volcano does by default is to sync: the pod is made again and the gang is completed
        job["spec"]["maxRetry"] = 10
    with scenario.world.faulty(fault):
        _run(scenario, jobs, restarted=True)
    assert len(fault.struck) == 6


def test_writes_meet_conflicts_and_throttling(scenario: Scenario) -> None:
    """Of all other writes every fifth is answered 429, and every seventh status write 409."""
    faults = [
        Fault("PATCH", r"/(podgroups|jobs|queues)/[^/]+(/status)?$", "status", every=7, code=409),
        Fault("PATCH", ".", "status", every=5, code=429, times=40),
        Fault("POST", r"/pods$", "status", every=5, code=429, times=20),
        Fault("POST", r"/podgroups$", "status", every=3, code=500, times=3),
    ]
    with scenario.world.faulty(*faults):
        _run(scenario, _batch(scenario))
    assert all(fault.struck for fault in faults), [len(fault.struck) for fault in faults]


def test_watches_expire_and_break(scenario: Scenario) -> None:
    """Watches of pods end with 410, those of PodGroups and jobs are cut off, again and again."""
    watches = [
        WatchFault(r"/pods$", lines=25, expired=True),
        WatchFault(r"/(podgroups|jobs|queues|nodes)$", lines=11),
    ]
    with scenario.world.faulty(watches=watches):
        _run(scenario, _batch(scenario))
    assert all(watch.struck > 2 for watch in watches), [watch.struck for watch in watches]


def test_watches_are_late_and_out_of_order(scenario: Scenario) -> None:
    """Each kind has a random delay of its own, so that pods are seen before their PodGroups and binds late."""
    chance = random.Random(7)
    watches = [
        WatchFault(r"/podgroups$", delay=lambda: chance.uniform(0.5, 1.5)),
        WatchFault(r"/pods$", delay=lambda: chance.uniform(0, 0.6)),
        WatchFault(r"/jobs$", delay=lambda: chance.uniform(0, 0.3)),
    ]
    with scenario.world.faulty(watches=watches):
        _run(scenario, _batch(scenario))


def test_a_gang_is_not_bound_on_a_stale_pod_group(scenario: Scenario) -> None:
    """volcano-sh/volcano#6010: minMember is raised, then pods come, and the watch of PodGroups is four seconds late.

    There is room for some of the new pods of each group, and not for all that it now needs.
    """
    world, namespace = scenario.world, scenario.namespace
    groups = [f"group-{number}" for number in range(4)]
    path = f"/apis/scheduling.volcano.sh/v1beta1/namespaces/{namespace}/podgroups"
    for name in groups:
        scenario.group(name, minimum=2)
        scenario.pods(name, range(2), cpu="1")
    world.until(
        lambda: scenario.bound(groups) == dict.fromkeys(groups, 2), lambda: f"two of each: {scenario.bound(groups)}"
    )
    with world.faulty(watches=[WatchFault(r"/podgroups$", delay=lambda: 4.0)]):
        time.sleep(1)  # its watches go through the proxy from now on
        for name in groups:
            world.cluster.patch(f"{path}/{name}", {"spec": {"minMember": 12}}).ok()
            scenario.pods(name, range(2, 6), cpu="1")
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            assert scenario.bound(groups) == dict.fromkeys(groups, 2), "pods were bound by the old minMember"
            time.sleep(0.2)
        for name in groups[:2]:
            scenario.pods(name, range(6, 12), cpu="1")
        wanted = dict.fromkeys(groups[:2], 12) | dict.fromkeys(groups[2:], 2)
        world.until(lambda: scenario.bound(groups) == wanted, lambda: f"whole gangs only: {scenario.bound(groups)}", 90)


def test_the_api_server_restarts(scenario: Scenario) -> None:
    jobs = _batch(scenario, seconds=4)
    scenario.submit(*jobs)
    time.sleep(0.5)
    scenario.world.restart("kube-apiserver", kill=True)
    scenario.all_in("Completed", len(jobs), RECOVERY_SECONDS)
    scenario.completed_once(*jobs)


def test_the_api_server_is_gone_for_a_minute(scenario: Scenario) -> None:
    """Leases run out meanwhile: no replica may act on them when the server is back."""
    jobs = _batch(scenario, seconds=4)
    scenario.submit(*jobs)
    time.sleep(0.5)
    scenario.world.restart("kube-apiserver", kill=True, away=60)
    begun = time.monotonic()
    scenario.all_in("Completed", len(jobs), RECOVERY_SECONDS)
    scenario.measure("seconds from the API server's return to all jobs completed", time.monotonic() - begun)
    scenario.completed_once(*jobs)


def test_etcd_is_compacted_and_every_watch_expires(scenario: Scenario) -> None:
    """After a compaction and a restart the API server has no history: watches from old versions get 410."""
    jobs = _batch(scenario, seconds=4)
    scenario.submit(*jobs)
    scenario.world.compact_etcd()
    scenario.world.cut_connections()
    scenario.world.restart("kube-apiserver")
    scenario.all_in("Completed", len(jobs), RECOVERY_SECONDS)
    scenario.completed_once(*jobs)


def test_etcd_is_killed(scenario: Scenario) -> None:
    jobs = _batch(scenario, seconds=4)
    scenario.submit(*jobs)
    scenario.world.restart("etcd", kill=True)
    scenario.all_in("Completed", len(jobs), RECOVERY_SECONDS)
    scenario.completed_once(*jobs)


def test_tokens_expire_while_the_components_run(scenario: Scenario) -> None:
    """Runs among the last: by now the tokens of the start have expired, and what is mounted has been exchanged."""
    pod = scenario.world.leader("volcano-scheduler")
    assert scenario.world.token_age(pod) < TOKEN_SECONDS
    _run(scenario, _batch(scenario, count=3))
