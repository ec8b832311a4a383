"""Policies and their configuration change while the cluster runs; what is wrong leaves what was there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scenario.cluster.harness import Cluster, cluster, job_manifest
from volcanoio.model import names
from volcanoio.runtime.loading import reloading

POLICY = """
from volcanoio.framework.decisions import Abstain, Annotate
from volcanoio.framework.lifecycle import PolicyEvent

class Marks:
    name = "marks"
    events = (PolicyEvent.PODS_DUE,)
    def __init__(self, arguments):
        pass
    async def decide(self, context):
        if "example.com/mark" in context.job.metadata.annotations:
            return Abstain()
        return Annotate(annotations={"example.com/mark": "%s"})
"""


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reloading, "INTERVAL", 0.02)


async def mark(c: Cluster, name: str) -> str:
    manifest = job_manifest(name)
    manifest["metadata"]["annotations"] = {names.POLICIES: "marks"}
    await c.create(manifest)
    job = await c.job(name, "Completed")
    return job.metadata.annotations.get("example.com/mark", "")


async def reloads(c: Cluster, result: str, number: int) -> None:
    """Return once so many reloads came to that."""
    wanted = f'volcanoio_controller_config_reload_total{{result="{result}"}} {number:.1f}'
    while wanted not in (await c.local.probe.render()).decode():
        await c.local.clock.sleep(0.2)


async def test_a_changed_file_is_taken_over_and_a_bad_one_is_not(tmp_path: Path) -> None:
    directory = tmp_path / "policies"
    directory.mkdir()
    file = directory / "marks.py"
    file.write_text(POLICY % "one")
    async with cluster(policies_dir=(directory,)) as c:
        assert await mark(c, "a") == "one"
        file.write_text(POLICY % "two")
        await reloads(c, "success", 1)
        assert await mark(c, "b") == "two"
        for number, bad in enumerate(("class (", "1 / 0\n" + POLICY % "three", "x = 1"), start=1):
            file.write_text(bad)
            await reloads(c, "failure", number)
            assert await mark(c, f"c{number}") == "two"
        file.write_text(POLICY % "four")
        await reloads(c, "success", 2)
        assert await mark(c, "d") == "four"


async def test_a_changed_configuration_is_taken_over_and_a_bad_one_is_not(tmp_path: Path) -> None:
    conf = tmp_path / "volcano-controller.conf"
    conf.write_text("policies:\n- name: declared\n")
    async with cluster(controller_conf=conf) as c:
        await c.create(job_manifest("a"))
        job = await c.job("a", "Completed")
        assert names.COOLDOWN_TIME not in job.metadata.annotations
        conf.write_text("policies:\n- name: min_runtime\n  arguments: {duration: 90s}\n- name: declared\n")
        await reloads(c, "success", 1)
        conf.write_text("policies:\n- name: min_runtim\n")
        await reloads(c, "failure", 1)
        await c.create(job_manifest("b"))
        job = await c.job("b", "Completed")
        assert job.metadata.annotations[names.COOLDOWN_TIME] == "1m30s"
        (pod,) = await c.pods("b")
        assert pod.metadata.annotations[names.COOLDOWN_TIME] == "1m30s"
