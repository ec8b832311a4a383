"""The boards' queries select series of the metrics page of a cluster that has run Jobs."""

from __future__ import annotations

import re
from typing import Any

import anyio
import promql_parser as promql

from tests.scenario.cluster.harness import PATIENCE, Cluster, cluster, job_manifest
from tests.unit.monitoring.exporters import EXPORTERS, SCRAPED
from tests.unit.monitoring.queries import known_labels, matchers, panel_queries, selectors
from volcanoio.model import kinds
from volcanoio.model.batch import Job
from volcanoio.runtime.metric_catalogue import CATALOGUE, TASK_STAGES

ELSEWHERE = {"volcanoio_leader"}
"""A local cluster elects no leader."""
Series = dict[str, list[dict[str, str]]]


SAMPLE = re.compile(r"(?P<name>\w+)(?:\{(?P<labels>.*)\})? \S+")
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


def series_of(page: str) -> Series:
    """Return the labels of each series by its name; prometheus-client's own parser changes names of counters."""
    found: Series = {}
    for line in page.splitlines():
        if not line.startswith("#"):
            sample = SAMPLE.fullmatch(line)
            assert sample, line
            found.setdefault(sample["name"], []).append(dict(LABEL.findall(sample["labels"] or "")))
    return found


def selects(selector: promql.VectorSelector, labels: dict[str, str]) -> bool:
    """Return whether a selector selects a series; Grafana's variables stand for any value."""

    def holds(name: str, operator: Any, value: str) -> bool:
        if name in SCRAPED and name not in labels:  # Prometheus adds it
            return True
        actual, pattern = labels.get(name, ""), re.sub(r"\$\w+", ".*", value)
        if operator in (promql.MatchOp.Equal, promql.MatchOp.NotEqual):
            return (actual == value) is (operator == promql.MatchOp.Equal)
        return (re.fullmatch(pattern, actual) is not None) is (operator == promql.MatchOp.Re)

    return all(holds(*matcher) for matcher in matchers(selector))


async def run_jobs(there: Cluster) -> None:
    """Run a Job that completes, one that fails and one that goes on."""
    queue = {
        "apiVersion": kinds.QUEUE.api_version,
        "kind": "Queue",
        "metadata": {"name": "gold"},
        "spec": {"weight": 1, "capability": {"cpu": "100", "memory": "100Gi"}},
    }
    await there.create(queue)
    await there.create(job_manifest("done", replicas=2))
    await there.create(job_manifest("broken", annotations={"sim.volcanoio.dev/exit-code": "1"}, maxRetry=1))
    going = job_manifest("going", run="10m", queue="gold")
    resources = going["spec"]["tasks"][0]["template"]["spec"]["containers"][0]["resources"]
    resources["requests"] |= {"memory": "1Gi", "nvidia.com/gpu": "1"}
    resources["limits"] = {"nvidia.com/gpu": "1"}
    await there.create(going)

    def ended(jobs: dict[str, Job]) -> bool:
        phases = {name: job.status.state.phase for name, job in jobs.items()}
        return phases == {"done": "Completed", "broken": "Failed", "going": "Running"}

    await there.until(kinds.JOB, Job, ended, "three Jobs in their phases")


async def test_queries_of_boards_select_series_of_a_cluster() -> None:
    ours = [
        (query.where, selector)
        for query in panel_queries()
        for selector in selectors(query.expression)
        if selector.name not in EXPORTERS and selector.name not in ELSEWHERE
    ]
    missing: list[str] = []
    async with cluster(nodes=2, node_resources="cpu=8,memory=32Gi,pods=110,nvidia.com/gpu=4") as there:
        await run_jobs(there)
        with anyio.move_on_after(PATIENCE):
            while True:
                series = series_of((await there.local.probe.render()).decode())
                missing = [
                    f"{where}: {selector.prettify()}"
                    for where, selector in ours
                    if not any(selects(selector, labels) for labels in series.get(selector.name or "", ()))
                ]
                if not missing:
                    break
                await anyio.sleep(0.1)
        page = (await there.local.probe.render()).decode()
    assert not missing, "\n".join(missing)
    assert len(ours) > 40
    check_labels(series)
    reached = {
        stage: sample(page, f'volcano_task_scheduling_latency_milliseconds_count{{stage="{stage}"}}')
        for stage in TASK_STAGES
    }
    assert all(reached.values()), reached


def sample(page: str, series: str) -> float:
    """Return the value of a series."""
    return next(float(line.rpartition(" ")[2]) for line in page.splitlines() if line.startswith(f"{series} "))


def check_labels(series: Series) -> None:
    """Each series has the labels that the catalogue names; series of plugins are in it too."""
    for name, all_labels in series.items():
        if name.startswith("volcano"):
            metric = CATALOGUE.get(name) or CATALOGUE.get(re.sub(r"_(bucket|sum|count)$", "", name))
            assert metric is not None, name
            for labels in all_labels:
                assert set(labels) - {"le"} == set(metric.labels), (name, labels)
            assert known_labels(name) is not None
