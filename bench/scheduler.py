"""The scheduler's benchmarks: `python -m bench.scheduler [--only ROW] [--nodes 10000] [--pods 100000]`.

Each row runs in a process of its own, one after another, and is one line of JSON with the machine. bench/README.md
describes the rows.
"""

from __future__ import annotations

import argparse
import importlib
import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from bench.machine import machine

ROWS = {
    "gangs": "placing.gangs",
    "turns": "placing.turns",
    "single-pods": "placing.single_pods",
    "constrained": "placing.constrained",
    "holds": "starting.holds",
    "quiet": "steady.quiet",
    "event": "steady.event",
    "answers": "steady.answers",
    "start": "starting.start",
    "reclaim": "taking.reclaim",
    "preempt": "taking.preempt",
    "memory": "memory.memory",
    "growth": "placing.growth",
    "topology": "topology.topology",
    "large-gang": "topology.large_gang",
}
"""For each row, its function in `bench.scheduling`."""


def measure(row: str, nodes: int, pods: int) -> dict[str, Any]:
    """Measure one row."""
    module, _, name = ROWS[row].partition(".")
    figures = getattr(importlib.import_module(f"bench.scheduling.{module}"), name)(nodes, pods)
    return {"row": row, "machine": machine(), **figures}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; returns 1 if a placement was wrong or a row failed."""
    parser = argparse.ArgumentParser(prog="python -m bench.scheduler", description=__doc__)
    parser.add_argument("--only", choices=sorted(ROWS), action="append", help="this row; may be given several times")
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--pods", type=int, default=100_000)
    given = parser.parse_args(arguments)
    rows = given.only or list(ROWS)
    if len(rows) == 1:
        figures = measure(rows[0], given.nodes, given.pods)
        print(json.dumps(figures), flush=True)
        return 1 if figures.get("violations") else 0
    size = ["--nodes", str(given.nodes), "--pods", str(given.pods)]
    codes = [
        subprocess.run([sys.executable, "-m", "bench.scheduler", "--only", row, *size], check=False).returncode
        for row in rows
    ]
    return 1 if any(codes) else 0


if __name__ == "__main__":
    sys.exit(main())
