"""Reload in a whole cluster; its journal, with the sources of the mounted plugins, replays to the same decisions."""

from __future__ import annotations

from pathlib import Path

import anyio

from tests.scenario.cluster.harness import PATIENCE, cluster, job_manifest
from tests.scenario.reload.mounts import MOUNTED, PICKY, Mount
from volcanoio.runtime.scheduler.setup import VALID

WAITS = PICKY.replace(", allocate", "")


async def test_configuration_and_plugins_change_under_a_running_cluster(tmp_path: Path) -> None:
    conf = Mount(_made(tmp_path / "conf"), "volcano-scheduler.conf", WAITS)
    plugin = Mount(_made(tmp_path / "plugins"), "picky.py", MOUNTED.format(wanted="node-1"))
    async with cluster(scheduler_conf=conf.path, plugins_dir=(plugin.directory,)) as running:
        await running.create(job_manifest("first", run="1h"))
        conf.write(PICKY)
        await running.job("first", "Running")
        assert [pod.spec.node_name for pod in await running.pods("first")] == ["node-1"]
        plugin.write(MOUNTED.format(wanted="node-2"))
        node, at = "node-1", 0
        with anyio.fail_after(PATIENCE):
            while node == "node-1":
                at += 1
                await running.create(job_manifest(f"later-{at}", run="10ms", cpu="1m"))
                await running.job(f"later-{at}", "Completed")
                node = (await running.pods(f"later-{at}-"))[0].spec.node_name
        assert node == "node-2"
        assert running.local.probe.value(VALID) == 1.0


def _made(directory: Path) -> Path:
    directory.mkdir()
    return directory
