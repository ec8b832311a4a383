"""Plugin sla: a job that has waited too long is enqueued, and jobs are ordered by their deadlines."""

from __future__ import annotations

from typing import Any

import pytest
from volcanoio_plugins.scheduling.sla import Sla

from tests.scenario.scheduling.harness import Scenario, group, node, pod, scenarios
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


def waiting_job(name: str, waiting_time: str = "", key: str = "sla-waiting-time", **spec: Any) -> Manifest:
    """Return a job that only sla would enqueue, as it does not fit, with that waiting time in an annotation."""
    manifest = group(name, 1, minResources={"cpu": "100"}, **spec)
    manifest["metadata"]["annotations"] = {key: waiting_time} if waiting_time else {}
    return manifest


def conf(arguments: str = "{}") -> str:
    """Return a configuration with arguments of sla, whose later tier enqueues only what fits."""
    return CONF.replace("{arguments}", arguments)


@scenarios(
    Scenario(
        name="a job whose waiting time is not over is not enqueued if a later tier rejects it",
        now=START + 59,
        cluster=[node("n1"), waiting_job("a", "1m")],
        phases={"a": "Pending"},
    ),
    Scenario(
        name="a job whose waiting time is over is enqueued even if a later tier rejects it",
        now=START + 61,
        cluster=[node("n1"), waiting_job("a", "1m")],
        phases={"a": "Inqueue"},
    ),
    Scenario(
        name="with the prefixed annotation too a job is not enqueued before its waiting time is over",
        now=START + 59,
        cluster=[node("n1"), waiting_job("a", "1m", "volcano.sh/sla-waiting-time")],
        phases={"a": "Pending"},
    ),
    Scenario(
        name="with the prefixed annotation too a job is enqueued once its waiting time is over",
        now=START + 61,
        cluster=[node("n1"), waiting_job("a", "1m", "volcano.sh/sla-waiting-time")],
        phases={"a": "Inqueue"},
    ),
    Scenario(
        name="the argument applies to a job without annotation",
        conf=conf("{sla-waiting-time: 1m}"),
        now=START + 61,
        cluster=[node("n1"), waiting_job("a")],
        phases={"a": "Inqueue"},
    ),
    Scenario(
        name="the annotation is used instead of the argument",
        conf=conf("{sla-waiting-time: 1m}"),
        now=START + 61,
        cluster=[node("n1"), waiting_job("a", "1h")],
        phases={"a": "Pending"},
    ),
    Scenario(
        name="the argument applies to a job whose annotation is not a duration",
        conf=conf("{sla-waiting-time: 1m}"),
        now=START + 61,
        cluster=[node("n1"), waiting_job("a", "soon")],
        phases={"a": "Inqueue"},
    ),
    Scenario(
        name="the job with the earliest deadline is placed first and jobs without one come last",
        cluster=[
            node("n1", cpu="1"),
            waiting_job("a", phase="Inqueue"),
            waiting_job("b", "2h", phase="Inqueue"),
            waiting_job("c", "1h", phase="Inqueue"),
            pod("a-p", "a", cpu="1"),
            pod("b-p", "b", cpu="1"),
            pod("c-p", "c", cpu="1"),
        ],
        binds={"c-p": "n1"},
    ),
    conf=conf(),
)
def test_sla(scenario: Scenario) -> None:
    scenario.check()


@pytest.mark.parametrize("given", ["0s", "tomorrow", 60])
def test_an_argument_that_is_not_a_duration_is_rejected(given: object) -> None:
    with pytest.raises(ArgumentError, match="sla-waiting-time"):
        Sla({"sla-waiting-time": given})
