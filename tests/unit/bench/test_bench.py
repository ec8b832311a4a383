"""The benchmarks run and print JSON; their figures are not tested."""

from __future__ import annotations

import json

import pytest

from bench import engine, local, startup
from bench.statistics import percentile
from bench.writes import resource_of


def test_local_prints_figures_of_each_mode_and_phase(capfd: pytest.CaptureFixture[str]) -> None:
    arguments = "--nodes 2 --jobs 2 --pods-per-job 3 --samples 1 --phases throughput"
    assert local.main(arguments.split()) == 0
    figures = json.loads(capfd.readouterr().out)
    for mode in ("http", "in_process"):
        throughput = figures[mode]["throughput"]
        assert throughput["pods"] == 6
        assert throughput["pods_refused_by_nodes"] == 0
        writes = throughput["writes_per_pod"]
        assert writes["create pods"] == 1
        assert writes["create pods/binding"] == 1
    assert figures["machine"]["cores"]


def test_local_refuses_what_does_not_fit(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        local.main(["--nodes", "1", "--jobs", "2", "--pods-per-job", "9"])
    assert "--nodes must be at least 2" in capsys.readouterr().err


def test_startup_prints_figures(capsys: pytest.CaptureFixture[str]) -> None:
    assert startup.main(["--runs", "1", "--nodes", "1"]) == 0
    assert set(json.loads(capsys.readouterr().out)["seconds"]) == {"interpreter", "imports", "up", "up_again"}


def test_engine_prints_figures(capsys: pytest.CaptureFixture[str]) -> None:
    assert engine.main(["--nodes", "10", "--pods", "32", "--gang", "8"]) == 0
    assert json.loads(capsys.readouterr().out)["placed"] == 32


@pytest.mark.parametrize(
    ("path", "resource"),
    [
        ("/api/v1/nodes", "nodes"),
        ("/api/v1/nodes/a/status", "nodes/status"),
        ("/api/v1/namespaces/x", "namespaces"),
        ("/api/v1/namespaces/x/pods", "pods"),
        ("/api/v1/namespaces/x/pods/a/binding", "pods/binding"),
        ("/apis/batch.volcano.sh/v1alpha1/namespaces/x/jobs/a/status", "jobs/status"),
        ("/apis/scheduling.volcano.sh/v1beta1/queues/q", "queues"),
    ],
)
def test_writes_are_counted_by_resource(path: str, resource: str) -> None:
    assert resource_of(path) == resource


def test_percentiles_are_values_that_were_measured() -> None:
    values = [5.0, 1.0, 3.0, 2.0, 4.0]
    assert [percentile(values, part) for part in (0.0, 0.5, 0.99, 1.0)] == [1.0, 3.0, 5.0, 5.0]
