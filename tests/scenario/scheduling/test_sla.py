"""Plugin sla: a job that has waited too long is enqueued, and jobs are ordered by their deadlines."""

from __future__ import annotations

from typing import Any

import pytest
from volcanoio_plugins.scheduling.sla import Sla

from tests.scenario.scheduling.harness import World, group, node, pod
from volcanoio.framework.arguments import ArgumentError
from volcanoio.model.base import Manifest

START = 1_767_225_600.0
"""When the objects of the harness were created (2026-01-01T00:00:00Z)."""
CONF = """
actions: "enqueue, allocate"
tiers:
- plugins:
  - name: sla
    arguments: {arguments}
- plugins:
  - name: gang
  - name: overcommit
"""


def waiting_job(name: str, waiting: str = "", key: str = "sla-waiting-time", **spec: Any) -> Manifest:
    manifest = group(name, 1, minResources={"cpu": "100"}, **spec)
    manifest["metadata"]["annotations"] = {key: waiting} if waiting else {}
    return manifest


def phase(at: float, of: Manifest, arguments: str = "{}") -> str:
    world = World(node("n1"), of, now=START + at, conf=CONF.replace("{arguments}", arguments))
    world.cycle()
    return world.phase(of["metadata"]["name"])


@pytest.mark.parametrize("key", ["sla-waiting-time", "volcano.sh/sla-waiting-time"])
def test_a_job_that_has_waited_too_long_is_enqueued_even_if_later_tiers_reject_it(key: str) -> None:
    assert phase(59, waiting_job("a", "1m", key)) == "Pending"
    assert phase(61, waiting_job("a", "1m", key)) == "Inqueue"


def test_the_argument_applies_to_jobs_without_a_valid_annotation() -> None:
    arguments = "{sla-waiting-time: 1m}"
    assert phase(61, waiting_job("a"), arguments) == "Inqueue"
    assert phase(61, waiting_job("a", "1h"), arguments) == "Pending"
    assert phase(61, waiting_job("a", "soon"), arguments) == "Inqueue", "an invalid duration is ignored"


def test_jobs_are_ordered_by_deadline_and_jobs_without_one_come_last() -> None:
    jobs = [
        waiting_job("a", phase="Inqueue"),
        waiting_job("b", "2h", phase="Inqueue"),
        waiting_job("c", "1h", phase="Inqueue"),
    ]
    pods = [pod(f"{name}-p", name, cpu="1") for name in "abc"]
    world = World(node("n1", cpu="1"), *jobs, *pods, conf=CONF.replace("{arguments}", "{}"))
    world.cycle()
    assert set(world.binds) == {"c-p"}


@pytest.mark.parametrize("given", ["0s", "tomorrow", 60])
def test_an_argument_that_is_not_a_duration_is_rejected(given: object) -> None:
    with pytest.raises(ArgumentError, match="sla-waiting-time"):
        Sla({"sla-waiting-time": given})
