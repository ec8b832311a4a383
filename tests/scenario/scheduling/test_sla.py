"""Plugin sla: what has waited longer than it was promised goes in, and who is promised more stands before others."""

from __future__ import annotations

from typing import Any

import pytest
from volcanoio_plugins.scheduling.sla import Sla

from tests.scenario.scheduling.harness import World, group, node, pod
from volcanoio.framework.arguments import ArgumentError
from volcanoio.model.base import Manifest

START = 1_767_225_600.0
"""When the objects of the harness are made (2026-01-01T00:00:00Z)."""
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


def promised(name: str, waiting: str = "", key: str = "sla-waiting-time", **spec: Any) -> Manifest:
    manifest = group(name, 1, minResources={"cpu": "100"}, **spec)
    manifest["metadata"]["annotations"] = {key: waiting} if waiting else {}
    return manifest


def phase(at: float, of: Manifest, arguments: str = "{}") -> str:
    world = World(node("n1"), of, now=START + at, conf=CONF.replace("{arguments}", arguments))
    world.cycle()
    return world.phase(of["metadata"]["name"])


@pytest.mark.parametrize("key", ["sla-waiting-time", "volcano.sh/sla-waiting-time"])
def test_a_job_that_waits_too_long_is_admitted_whatever_later_tiers_say(key: str) -> None:
    assert phase(59, promised("a", "1m", key)) == "Pending"
    assert phase(61, promised("a", "1m", key)) == "Inqueue"


def test_the_argument_is_for_jobs_that_say_nothing_themselves() -> None:
    arguments = "{sla-waiting-time: 1m}"
    assert phase(61, promised("a"), arguments) == "Inqueue"
    assert phase(61, promised("a", "1h"), arguments) == "Pending"
    assert phase(61, promised("a", "soon"), arguments) == "Inqueue", "what is no duration says nothing"


def test_the_earlier_deadline_goes_first_and_jobs_without_one_last() -> None:
    jobs = [promised("a", phase="Inqueue"), promised("b", "2h", phase="Inqueue"), promised("c", "1h", phase="Inqueue")]
    pods = [pod(f"{name}-p", name, cpu="1") for name in "abc"]
    world = World(node("n1", cpu="1"), *jobs, *pods, conf=CONF.replace("{arguments}", "{}"))
    world.cycle()
    assert set(world.binds) == {"c-p"}


@pytest.mark.parametrize("given", ["0s", "tomorrow", 60])
def test_an_argument_that_is_no_time_is_reported(given: object) -> None:
    with pytest.raises(ArgumentError, match="sla-waiting-time"):
        Sla({"sla-waiting-time": given})
