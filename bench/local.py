"""The whole system end to end: `python -m bench.local --nodes 1000 --jobs 500 --pods-per-job 20`.

API server, simulated nodes, controllers and scheduler run in one process, as under `volcanoio up`; users submit and
watch over HTTPS from another process, and again in-process. Each phase has a new cluster in a new process. Prints one
JSON object. Simulated pods never end, except in the phase `completion`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from bench.machine import machine, software
from bench.phase import MODES, NODE, NODE_CORES
from bench.users import PHASES, Load

DEFAULT_PHASES = ("latency", "backlog", "throughput")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure each phase in each mode and print the figures."""
    given = _parse(arguments)
    load = Load(given.jobs, given.pods_per_job, given.samples, given.backlog, given.run)
    figures: dict[str, Any] = {
        "bench": "local",
        "machine": machine(),
        "software": software(),
        "workload": {"nodes": given.nodes, "node": NODE, **asdict(load)},
        "storage": given.storage,
    }
    for mode in given.modes:
        phases = {phase: _measure(mode, phase, given.nodes, load, given.storage) for phase in given.phases}
        figures[mode.replace("-", "_")] = phases
    print(json.dumps(figures, indent=2))
    return 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.local", description=__doc__)
    parser.add_argument("--nodes", type=int, default=50)
    parser.add_argument("--jobs", type=int, default=25, help="jobs submitted at once for throughput")
    parser.add_argument("--pods-per-job", type=int, default=20)
    parser.add_argument("--samples", type=int, default=20, help="jobs submitted one by one for latency")
    parser.add_argument("--backlog", type=int, default=200, help="pending jobs in the phase backlog")
    parser.add_argument("--run", type=float, default=1.0, help="seconds a pod runs in the phase completion")
    parser.add_argument("--modes", nargs="+", choices=MODES, default=MODES)
    parser.add_argument("--phases", nargs="+", choices=tuple(PHASES), default=DEFAULT_PHASES)
    parser.add_argument("--storage", choices=("memory", "disk"), default="memory", help="where objects are stored")
    given = parser.parse_args(arguments)
    if max(given.jobs, 1) * given.pods_per_job > given.nodes * NODE_CORES:
        parser.error(
            f"the pods do not fit: --nodes must be at least {-(-given.jobs * given.pods_per_job // NODE_CORES)}"
        )
    return given


def _measure(mode: str, phase: str, nodes: int, load: Load, storage: str) -> dict[str, Any]:
    program = [sys.executable, "-m", "bench.phase", mode, phase, str(nodes), json.dumps(asdict(load)), storage]
    done = subprocess.run(program, stdout=subprocess.PIPE, check=True)
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


if __name__ == "__main__":
    sys.exit(main())
