"""Rows of preempt and reclaim: the median of three runs of `bench.victims` with 1,000 nodes' worth of victims."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

NODES = 1000
RUNS = 3


def preempt(nodes: int, pods: int) -> dict[str, Any]:  # noqa: ARG001 - always of 1,000 nodes
    """Measure victims of the same queue with lower priority."""
    return _taken("preempt")


def reclaim(nodes: int, pods: int) -> dict[str, Any]:  # noqa: ARG001 - always of 1,000 nodes
    """Measure victims of a queue above its deserved amount."""
    return _taken("reclaim")


def _taken(action: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "bench.victims", "--action", action, "--nodes", str(NODES), "--worth", str(NODES)]
    runs = [json.loads(subprocess.run(command, check=False, capture_output=True).stdout) for _ in range(RUNS)]
    runs.sort(key=lambda run: float(run["evicting"]["cpu_seconds"]))
    middle: dict[str, Any] = runs[RUNS // 2]
    return {
        "nodes": NODES,
        "evicting": middle["evicting"],
        "while_victims_terminate": middle["while_victims_terminate"],
        "violations": sum(run["violations"] for run in runs),
    }
