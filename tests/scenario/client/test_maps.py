"""Shards that run as processes: what each of them gets, and what functions return."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator
from datetime import date
from typing import Any

import pytest

from volcanoio.client import Client, ClientError, JobFailed, LocalOptions
from volcanoio.localcluster.processes.launch.order import NONE
from volcanoio.localcluster.processes.launcher import find_namespaces

FACTOR = 3


def scaled(number: float) -> float:
    return FACTOR * number


def crunch(row: dict[str, Any]) -> dict[str, float]:
    return {row["name"]: scaled(math.sqrt(row["area"]))}


def weekday(day: date) -> int:
    return day.isoweekday()


def fails_at_two(index: int) -> int:
    if index == 2:
        raise ValueError("shard two is broken")
    return index


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """Provide a cluster that runs commands as processes of this machine."""
    if asyncio.run(find_namespaces(tmp_path_factory.mktemp("root"))) == NONE:
        pytest.skip("THIS MACHINE GIVES NO NAMESPACES: running shards as processes is NOT tested here")
    with Client(local=LocalOptions(run=True)) as one:
        yield one


def test_a_command_gets_the_variables_of_its_row(client: Client) -> None:
    rows = [{"RATE": 0.1, "NAME": 'it\'s a "b"'}, {"RATE": 1, "NAME": "$HOME"}]
    job = client.map('echo "$VC_TASK_INDEX of $VC_SHARDS: $RATE $NAME"', rows=rows, image="busybox", name="rows")
    assert job.result().succeeded == 2
    assert [line.text for line in job.logs()] == ['0 of 2: 0.1 it\'s a "b"', "1 of 2: 1 $HOME"]


def test_a_command_gets_its_day(client: Client) -> None:
    job = client.map(["sh", "-c", "echo $VC_SHARD"], days=("2024-02-28", date(2024, 3, 1)), image="busybox")
    job.wait()
    assert [line.text for line in job.logs()] == ["2024-02-28", "2024-02-29", "2024-03-01"]


def test_a_function_returns_its_results_in_order(client: Client) -> None:
    rows = [{"name": "a", "area": 4}, {"name": "b", "area": 9}]
    assert client.map(crunch, rows=rows, image="python").result().values == ({"a": 6.0}, {"b": 9.0})
    assert client.map(weekday, days=("2024-02-29", "2024-03-01"), image="python").result().values == (4, 5)


def test_a_failed_shard_fails_the_job_after_the_others_have_run(client: Client) -> None:
    job = client.map(fails_at_two, shards=4, image="python", name="broken")
    with pytest.raises(JobFailed, match="shard two is broken") as failed:
        job.result()
    assert failed.value.pod == "broken-default0-2"
    status = job.status
    assert (status.succeeded, status.failed) == (3, 1)


def test_a_missing_program_is_named(client: Client) -> None:
    with pytest.raises(JobFailed, match=r"exit code 128 .*no-such-program"):
        client.run(image="busybox", command=["no-such-program"])


def test_simulated_pods_return_nothing_and_say_so(cluster: Client) -> None:
    job = cluster.map(weekday, days=("2024-02-29", "2024-03-01"), image="python")
    with pytest.raises(ClientError, match=r"succeeded without a result; .* use LocalOptions\(run=True\)"):
        job.result()


def test_ten_thousand_shards_are_admitted(cluster: Client) -> None:
    """No node is large enough, so that no pods follow."""
    job = cluster.map("true", rows=range(10_000), image="busybox", resources={"cpu": 100})
    assert (job.status.phase, job.status.replicas) == ("Pending", 10_000)
    job.cancel()
