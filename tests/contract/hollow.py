"""`volcanoio hollow-nodes` as its users run it: a process that serves simulated nodes to the cluster under test."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

from tests.commands import Command, run
from tests.contract.support import Cluster


@contextmanager
def hollow_nodes(cluster: Cluster, prefix: str, count: int) -> Iterator[tuple[str, ...]]:
    """Serve `count` nodes; yields their names, and removes them at the end."""
    words = ("hollow-nodes", f"--kubeconfig={cluster.kubeconfig}", f"--prefix={prefix}")
    with Command(*words, f"--count={count}") as command:
        assert command.stdout.readline() == f"ready nodes={count}\n", command.ended()
        yield tuple(f"{prefix}-{index}" for index in range(count))
        command.send(signal.SIGTERM)
        ended = command.ended()
        assert (ended.code, ended.out) == (0, ""), ended.err
        assert "the nodes stay" in ended.err
    assert run(*words, "--count=0").code == 0
    listed = cluster.get("/api/v1/nodes", labelSelector=f"sim.volcanoio.dev/node=hollow-{prefix}").ok()
    assert listed["items"] == []
