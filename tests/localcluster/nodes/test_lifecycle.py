"""The life of a simulated pod, as tables of what is seen when."""

from __future__ import annotations

from typing import Any

import pytest

from tests.localcluster.nodes.pod_phases import watched
from tests.localcluster.nodes.pods import T0, pod, run_of
from volcanoio.localcluster.nodes.pod_events import pod_events
from volcanoio.localcluster.nodes.pods import lifecycle
from volcanoio.localcluster.nodes.pods.lifecycle import advance
from volcanoio.localcluster.nodes.pods.status import status_of
from volcanoio.model import names

CASES: dict[str, tuple[dict[str, Any], dict[float, str]]] = {
    "runs and succeeds": (
        {},
        {
            0: "Pending waiting:ContainerCreating",
            0.2: "Running running",
            4.1: "Running running",
            4.2: "Succeeded terminated:0",
            99: "Succeeded terminated:0",
        },
    ),
    "fails when it may not restart": (
        {"annotations": {names.EXIT_CODE: "3"}},
        {1: "Running running", 5: "Failed terminated:3"},
    ),
    "OnFailure restarts in place: at once, then after ten seconds, then twenty": (
        {"restartPolicy": "OnFailure", "annotations": {names.FAIL_ATTEMPTS: "3"}},
        {
            1: "Running running",
            5: "Running running#1",
            9: "Running waiting:CrashLoopBackOff#1",
            18.3: "Running running#2",
            22.3: "Running waiting:CrashLoopBackOff#2",
            42.1: "Running waiting:CrashLoopBackOff#2",
            42.3: "Running running#3",
            46.3: "Succeeded terminated:0#3",
        },
    ),
    "Always restarts after success too": (
        {"restartPolicy": "Always"},
        {5: "Running running#1", 9: "Running waiting:CrashLoopBackOff#1"},
    ),
    "is killed for memory": (
        {
            "annotations": {names.PEAK_MEMORY: "2Gi"},
            "container": {"resources": {"limits": {"memory": "1Gi"}}},
        },
        {2.1: "Running running", 2.3: "Failed terminated:137"},
    ),
    "a slow image is waited for": (
        {"annotations": {names.IMAGE_PULL: "slow(20s)"}},
        {19: "Pending waiting:ContainerCreating", 21: "Running running"},
    ),
    "an image that is not there": (
        {"annotations": {names.IMAGE_PULL: "error"}},
        {1: "Pending waiting:ErrImagePull", 9: "Pending waiting:ImagePullBackOff"},
    ),
    "the deadline ends it": (
        {"activeDeadlineSeconds": 2},
        {1: "Running running", 2: "Running running DeadlineExceeded", 2.1: "Failed terminated:143 DeadlineExceeded"},
    ),
    "init containers go one after the other": (
        {
            "initContainers": [
                {"name": "one", "image": "i", "command": ["sleep", "1"]},
                {"name": "two", "image": "i", "command": ["sleep", "2"]},
            ]
        },
        {
            0.5: "Pending running waiting:PodInitializing waiting:PodInitializing",
            1.5: "Pending terminated:0 running waiting:PodInitializing",
            3.5: "Running terminated:0 terminated:0 running",
            7.5: "Succeeded terminated:0 terminated:0 terminated:0",
        },
    ),
    "a sidecar ends with the pod": (
        {"initContainers": [{"name": "proxy", "image": "i", "restartPolicy": "Always"}]},
        {
            1: "Running running running",
            4.25: "Running running terminated:0",
            5: "Succeeded terminated:143 terminated:0",
        },
    ),
    "two containers end at their own times": (
        {
            "annotations": {names.RUN_DURATION: "uniform(1s,9s)"},
            "containers": [{"name": "a", "image": "i"}, {"name": "b", "image": "i"}],
        },
        {0.5: "Running running running", 10: "Succeeded terminated:0 terminated:0"},
    ),
}


@pytest.mark.parametrize(("changes", "expected"), CASES.values(), ids=CASES)
def test_life(changes: dict[str, Any], expected: dict[float, str]) -> None:
    assert watched(run_of(pod(**changes)), *expected) == list(expected.values())


@pytest.mark.parametrize(("changes", "expected"), CASES.values(), ids=CASES)
def test_a_late_look_sees_the_same_as_many_early_ones(changes: dict[str, Any], expected: dict[float, str]) -> None:
    for moment in expected:
        late = advance(run_of(pod(**changes)), T0 + moment)
        often = run_of(pod(**changes))
        for tenth in range(int(moment * 10) + 1):
            often = advance(often, T0 + tenth / 10)
        assert status_of(advance(often, T0 + moment)) == status_of(late)


@pytest.mark.parametrize(
    ("changes", "deleted_at", "grace", "expected"),
    [
        ({}, 1.0, 30.0, {1.0: "Running running", 1.2: "Failed terminated:143"}),
        (
            {"annotations": {names.STOP_DURATION: "2s"}},
            1.0, 30.0,
            {2.9: "Running running", 3.1: "Failed terminated:143"},
        ),
        ({"annotations": {names.STOP_DURATION: "1h"}}, 1.0, 2.0, {3.1: "Failed terminated:137"}),
        ({"annotations": {names.STOP_DURATION: "1h"}}, 4.1, 30.0, {4.3: "Succeeded terminated:0"}),
        ({}, 0.1, 30.0, {0.1: "Failed waiting:ContainerCreating"}),
        ({"restartPolicy": "OnFailure"}, 1.0, 30.0, {99: "Failed terminated:143"}),
    ],
    ids=[
        "SIGTERM ends it soon",
        "as slowly as annotated",
        "SIGKILL after the grace period",
        "it may finish by itself meanwhile",
        "what never started is over at once",
        "no restart while being deleted",
    ],
)  # fmt: skip
def test_deletion(changes: dict[str, Any], deleted_at: float, grace: float, expected: dict[float, str]) -> None:
    run = advance(run_of(pod(**changes)), T0 + deleted_at)
    assert watched(lifecycle.terminate(run, T0 + deleted_at, grace), *expected) == list(expected.values())


def test_volumes_hold_the_start() -> None:
    run = run_of(pod(), has_volumes=True)
    assert watched(run, 60) == ["Pending waiting:ContainerCreating"]
    assert watched(lifecycle.mount(run, T0 + 60), 60.1, 60.3) == [
        "Pending waiting:ContainerCreating",
        "Running running",
    ]


def test_status_has_the_fields_that_clients_read() -> None:
    run = advance(run_of(pod(), host_ip="172.18.0.2", pod_ip="10.244.0.7"), T0 + 1)
    status = status_of(run)
    conditions = {c["type"]: c["status"] for c in status["conditions"]}
    assert conditions == {
        "PodReadyToStartContainers": "True",
        "Initialized": "True",
        "Ready": "True",
        "ContainersReady": "True",
    }
    assert status["podIP"] == "10.244.0.7"
    assert status["hostIP"] == "172.18.0.2"
    assert status["startTime"] == "2027-01-15T08:00:00Z"
    ended = status_of(advance(run, T0 + 10))
    ready = next(c for c in ended["conditions"] if c["type"] == "Ready")
    assert (ready["status"], ready["reason"]) == ("False", "PodCompleted")
    terminated = ended["containerStatuses"][0]["state"]["terminated"]
    assert (terminated["startedAt"], terminated["finishedAt"]) == ("2027-01-15T08:00:00Z", "2027-01-15T08:00:04Z")


def test_a_kubelet_records_events_for_starts_failures_and_ends() -> None:
    before = run_of(pod(restartPolicy="OnFailure", annotations={names.FAIL_ATTEMPTS: "9"}))
    started = advance(before, T0 + 1)
    looping = advance(started, T0 + 9)
    killed = lifecycle.terminate(started, T0 + 1, 30)
    assert [h.reason for h in pod_events(before, started)] == ["Pulled", "Created", "Started"]
    assert [h.reason for h in pod_events(started, looping)] == ["Pulled", "Created", "Started", "BackOff"]
    assert [h.reason for h in pod_events(started, killed)] == ["Killing"]
    assert pod_events(started, started) == []
