"""Policies that sleep, loop, raise, answer nonsense or hang in their import are named and harm nothing else."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from tests.scenario.cluster.harness import Cluster, cluster, job_manifest
from volcanoio.compose import local_settings
from volcanoio.compose.controllers import ControllerSettings
from volcanoio.model import names
from volcanoio.runtime.policies import policy_set

POLICY = """
import time
from volcanoio.framework.decisions import Abstain
{before}
class Policy:
    name = "{name}"
    def __init__(self, arguments):
        pass
    async def decide(self, context):
        {body}
"""
BODIES = {
    "sleeps": "time.sleep(5)",
    "loops": "while True: pass",
    "raises": "raise KeyError('volume')",
    "nonsense": "return 'RestartJob'",
    "leaves": "raise SystemExit(1)",
}
FAULTS = {
    "sleeps": "stuck past its limit",
    "loops": "stuck past its limit",
    "raises": "raised KeyError: 'volume'",
    "nonsense": "answered str, which is not a Decision",
    "leaves": "raised SystemExit: 1",
    "hangs": "cannot be loaded: its import or constructor took longer than its limit",
    "broken": "ZeroDivisionError",
}


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits of half a second."""
    monkeypatch.setattr(policy_set, "LOAD_LIMIT", 0.5)
    monkeypatch.setattr(local_settings, "ControllerSettings", partial(ControllerSettings, policy_limit=0.5))


def write(directory: Path) -> None:
    directory.mkdir()
    for name, body in BODIES.items():
        (directory / f"{name}.py").write_text(POLICY.format(name=name, body=body, before=""))
    for name, before in (("hangs", "while True: pass"), ("broken", "1 / 0")):
        (directory / f"{name}.py").write_text(POLICY.format(name=name, body="return Abstain()", before=before))


async def figures(c: Cluster, name: str) -> set[str]:
    """Return the policies for which a metric is not 0."""
    text = (await c.local.probe.render()).decode()
    return {
        line.partition('policy="')[2].partition('"')[0]
        for line in text.splitlines()
        if line.startswith(name + "{") and float(line.rpartition(" ")[2])
    }


RESTARTS = [{"event": "PodFailed", "action": "RestartJob"}]


@pytest.mark.usefixtures("limits")
async def test_each_is_named_on_the_job_and_in_a_metric_and_the_next_policy_decides(tmp_path: Path) -> None:
    write(tmp_path / "policies")
    conf = tmp_path / "volcano-controller.conf"
    conf.write_text("policies:\n" + "".join(f"- name: {name}\n" for name in (*FAULTS, "declared")))
    async with cluster(controller_conf=conf, policies_dir=(tmp_path / "policies",)) as c:
        await c.create(job_manifest("job", annotations={names.FAIL_ATTEMPTS: "1"}, policies=RESTARTS))
        job = await c.job("job", "Completed")
        assert job.status.version == 1, "declared decided"
        reported = " ".join(event.message for event in await c.events("job", "PolicyFailed"))
        for name, fault in FAULTS.items():
            assert f'lifecycle policy "{name}" abstained' in reported
            assert fault in reported
        assert await figures(c, "volcanoio_policy_faults_total") == set(FAULTS)
        assert await figures(c, "volcanoio_policy_disabled") == {"sleeps", "loops"}
        assert await figures(c, "volcanoio_policy_load_failures_total") == {"hangs", "broken"}


@pytest.mark.usefixtures("limits")
async def test_one_that_a_job_names_hurts_that_job_alone(tmp_path: Path) -> None:
    write(tmp_path / "policies")
    async with cluster(policies_dir=(tmp_path / "policies",)) as c:
        for name in ("hangs", "raises", "missing"):
            manifest = job_manifest(name, annotations={names.FAIL_ATTEMPTS: "1"}, policies=RESTARTS)
            manifest["metadata"]["annotations"] = {names.POLICIES: name}
            await c.create(manifest)
        await c.create(job_manifest("fine"))
        for name in ("fine", "raises", "hangs", "missing"):
            await c.job(name, "Completed")
        for name, fault in (("hangs", "took longer"), ("raises", "KeyError"), ("missing", "does not exist")):
            assert any(fault in event.message for event in await c.events(name, "PolicyFailed"))
