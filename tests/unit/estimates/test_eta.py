"""When a waiting job starts follows from a state and a history, as the command and the client ask for it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.unit.accounting.histories import START, finished
from volcanoio.cli.offline.eta import eta_text
from volcanoio.compose.eta import Eta, estimate
from volcanoio.compose.simulate import SimulateOptions, Simulator
from volcanoio.compose.state_files import read_state
from volcanoio.engine.accounting.finished_jobs import FinishedJob, Place
from volcanoio.engine.scheduling.diagnosis.answers import UnknownTargetError
from volcanoio.model import kinds
from volcanoio.model.times import rfc3339

NOW = START + 10_000.0


def job(name: str, created: float, *, started: float | None = None, estimate: str = "") -> list[dict[str, Any]]:
    """Return Job, PodGroup and two pods of 4 cores; those of a started job run on n0."""
    owner = {"apiVersion": kinds.JOB.api_version, "kind": "Job", "name": name, "uid": name, "controller": True}
    meta = {"namespace": "ml", "creationTimestamp": rfc3339(created)}
    annotations = {"volcanoio.dev/creator": "ann"}
    state = {"phase": "Running", "startTime": rfc3339(started)} if started else {"phase": "Pending"}
    pods = [
        {
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {**meta, "name": f"{name}-{at}", "annotations": {"scheduling.k8s.io/group-name": f"{name}-pg"}},
            "spec": {
                "schedulerName": "volcano", "nodeName": "n0" if started else "",
                "containers": [{"name": "c", "resources": {"requests": {"cpu": "4"}}}],
            },
            "status": state,
        }
        for at in range(2)
    ]  # fmt: skip
    group = {
        "apiVersion": kinds.POD_GROUP.api_version, "kind": "PodGroup",
        "metadata": {**meta, "name": f"{name}-pg", "ownerReferences": [owner], "annotations": annotations},
        "spec": {"minMember": 2, "queue": "default"},
        "status": {"phase": "Running" if started else "Inqueue"},
    }  # fmt: skip
    spec = {"queue": "default", "minAvailable": 2} | ({"runningEstimate": estimate} if estimate else {})
    made = {"apiVersion": kinds.JOB.api_version, "kind": "Job", "spec": spec,
            "metadata": {**meta, "name": name, "annotations": annotations}}  # fmt: skip
    return [made, group, *pods]


def eta(target: str, *jobs: list[dict[str, Any]], history: list[FinishedJob]) -> Eta:
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n0"},
        "status": {"allocatable": {"cpu": "8", "pods": "99"}},
    }
    content = msgspec.json.encode(
        {"apiVersion": "v1", "kind": "List", "items": [node, *(obj for each in jobs for obj in each)]}
    )
    simulator = Simulator(SimulateOptions(files=(), now=NOW))
    return estimate(simulator, read_state([("state", content)], simulator.reads), history, target, "ml")


def past(number: int, seconds: float) -> list[FinishedJob]:
    """Return jobs of one pattern that ran one after the other, each created when the one before it started."""
    return [
        finished(
            str(at), name=f"train-{at}", queue="default", pods=2, min_available=2,
            created=START + at * seconds, started=START + (at + 1) * seconds, finished=START + (at + 2) * seconds,
            requested={"cpu": 8 * seconds}, pod_seconds=2 * seconds,
            places=(Place("n0", START + (at + 1) * seconds, START + (at + 2) * seconds),) * 2,
        )
        for at in range(number)
    ]  # fmt: skip


RUNS = job("train-90", NOW - 200, started=NOW - 100)
"""It has the whole node."""


def test_a_job_starts_after_the_one_that_has_its_room() -> None:
    found = eta("train-91", RUNS, job("train-91", NOW - 50), job("train-92", NOW - 20), history=past(30, 300.0))
    assert (found.waits, found.queue, found.position) == (True, "default", 1)
    assert (found.run_time, found.run_time_source, found.run_time_jobs) == (300, "jobs of this owner and name", 30)
    assert found.p10 is not None
    assert found.p90 is not None
    assert found.p10 <= 200 <= found.p90
    assert found.past_answers >= 20
    behind = eta("train-92", RUNS, job("train-91", NOW - 50), job("train-92", NOW - 20), history=past(30, 300.0))
    assert behind.position == 2
    assert behind.p10 is not None
    assert behind.p10 <= 500 <= (behind.p90 or 0)


def test_the_running_estimate_goes_before_the_history() -> None:
    long = job("train-90", NOW - 200, started=NOW - 100, estimate="1h")
    found = eta("train-91", long, job("train-91", NOW - 50), history=past(30, 300.0))
    assert found.p50 is not None
    assert 1000 < found.p50 < 7000


def test_without_history_the_answer_says_so() -> None:
    found = eta("train-91", RUNS, job("train-91", NOW - 50), history=[])
    assert (found.run_time_source, found.past_answers) == ("a guess, as no finished job is known", 0)


@pytest.mark.parametrize("target", ["train-90", "job/train-90", "train-90-pg"])
def test_a_job_that_runs_does_not_wait(target: str) -> None:
    assert eta(target, RUNS, history=[]) == Eta(target="ml/train-90-pg", at=NOW, waits=False)


def gated(name: str, created: float) -> list[dict[str, Any]]:
    """Return a job whose pods wait until another program removes their scheduling gate."""
    made = job(name, created)
    for pod in made[2:]:
        pod["spec"]["schedulingGates"] = [{"name": "example.com/licence"}]
    return made


def test_a_job_whose_queue_does_not_exist_cannot_start() -> None:
    lost = job("lost", NOW - 50)
    lost[1]["spec"]["queue"] = "reserch"
    found = eta("lost", RUNS, lost, history=past(30, 300.0))
    assert (found.waits, found.p10, found.p50, found.p90) == (True, None, None, None)
    assert found.obstacle == 'queue "reserch" does not exist; create it, or name another in spec.queue'
    assert eta_text(found) == (f"ml/lost-pg cannot start: {found.obstacle}; see volcanoio why podgroup/lost-pg -n ml")


def test_a_job_whose_pods_are_gated_cannot_start() -> None:
    found = eta("gated", gated("gated", NOW - 50), history=past(30, 300.0))
    assert (found.waits, found.p50) == (True, None)
    assert found.obstacle == "its pods have the scheduling gates example.com/licence"


def test_a_gated_job_takes_no_room_from_those_behind_it() -> None:
    found = eta("train-91", RUNS, gated("gated", NOW - 150), job("train-91", NOW - 50), history=past(30, 300.0))
    assert found.position == 1
    assert found.p50 is not None
    assert found.p50 < 300


CLOSED: list[dict[str, Any]] = [
    {
        "apiVersion": kinds.QUEUE.api_version, "kind": "Queue",
        "metadata": {"name": "night"}, "spec": {"weight": 1}, "status": {"state": "Closed"},
    }
]  # fmt: skip


def test_a_job_of_a_closed_queue_cannot_start_and_takes_no_room() -> None:
    night = job("night", NOW - 150)
    night[1]["spec"]["queue"] = "night"
    found = eta("night", RUNS, CLOSED, night, history=past(30, 300.0))
    assert (found.waits, found.p50) == (True, None)
    assert found.obstacle == 'queue "night" is closed; open it, or name another in spec.queue'
    other = eta("train-91", RUNS, CLOSED, night, job("train-91", NOW - 50), history=past(30, 300.0))
    assert other.p50 is not None
    assert other.p50 < 300


def test_a_job_that_fits_no_node_starts_later_than_is_known() -> None:
    huge = job("huge", NOW - 50)
    for pod in huge[2:]:
        pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "99"
    found = eta("huge", huge, history=past(30, 300.0))
    assert (found.waits, found.p10, found.p50, found.p90) == (True, None, None, None)


@pytest.mark.parametrize(
    ("times", "lines"),
    [
        (
            (60.0, 120.0, 600.0),
            [
                "starts   in 2m0s; in 8 of 10 cases between 1m0s and 10m0s from now",
                "that is  2023-11-14T22:15:20Z, between 2023-11-14T22:14:20Z and 2023-11-14T22:23:20Z",
            ],
        ),
        (
            (60.0, 120.0, None),
            [
                "starts   in 2m0s; in 8 of 10 cases between 1m0s and later than was simulated",
                "that is  2023-11-14T22:15:20Z, between 2023-11-14T22:14:20Z and an unknown time",
            ],
        ),
        (
            (60.0, None, None),
            ["starts   in 9 of 10 cases 1m0s from now or later", "that is  2023-11-14T22:14:20Z or later"],
        ),
        ((None, None, None), ["starts   later than was simulated"]),
    ],
)
def test_the_text_says_as_much_as_the_simulations_show(
    times: tuple[float | None, float | None, float | None], lines: list[str]
) -> None:
    p10, p50, p90 = times
    answer = Eta(
        target="ml/a-pg", at=1_700_000_000.0, waits=True, queue="default", position=1, p10=p10, p50=p50, p90=p90
    )
    text = [line.strip() for line in eta_text(answer).splitlines()]
    assert text[2 : 2 + len(lines)] == lines
    assert text[2 + len(lines)].startswith("its pods ")


@pytest.mark.parametrize(
    ("target", "message"),
    [("train-9", 'no job, podgroup, pod or queue "train-9" is known'), ("queue/default", "queue/default is not a job")],
)
def test_an_unknown_job_is_named(target: str, message: str) -> None:
    with pytest.raises(UnknownTargetError, match=message):
        eta(target, RUNS, history=[])
