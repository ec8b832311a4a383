"""`volcanoio hollow-nodes` as its users run it: a process that serves simulated nodes to the cluster under test."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.contract.support import Cluster

PROGRAM = Path(sys.executable).with_name("volcanoio")
_SECONDS = 90


@contextmanager
def hollow_nodes(cluster: Cluster, prefix: str, count: int) -> Iterator[tuple[str, ...]]:
    """Serve `count` nodes; yields their names, and removes them at the end."""
    command = [str(PROGRAM), "hollow-nodes", f"--kubeconfig={cluster.kubeconfig}", f"--prefix={prefix}"]
    process = subprocess.Popen(
        [*command, f"--count={count}"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == f"ready nodes={count}\n", process.communicate(timeout=_SECONDS)
        yield tuple(f"{prefix}-{index}" for index in range(count))
        process.terminate()
        output, errors = process.communicate(timeout=_SECONDS)
        assert (process.returncode, output) == (0, ""), errors
        assert "the nodes stay" in errors
    finally:
        process.kill()
        process.communicate(timeout=_SECONDS)
    subprocess.run([*command, "--count=0"], check=True, timeout=_SECONDS, capture_output=True)
    listed = cluster.get("/api/v1/nodes", labelSelector=f"sim.volcanoio.dev/node=hollow-{prefix}").ok()
    assert listed["items"] == []
