"""One phase of the end-to-end bench: a fresh cluster in this process, and its users.

`python -m bench.phase MODE PHASE NODES LOAD-AS-JSON`, MODE `in-process` (the users share the process and its transport)
or `http` (the users are a process of their own, over HTTPS). Memory and CPU are those of the cluster's process.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.machine import peak_memory
from bench.users import Load, use
from bench.writes import CountedRequests
from volcanoio.compose.local import LocalCluster
from volcanoio.compose.options import LocalOptions
from volcanoio.runtime.garbage_collection import tune_garbage_collector

NODE = "cpu=16,memory=64Gi,pods=110"
NODE_CORES = 16
MODES = ("http", "in-process")


async def measure(mode: str, phase: str, nodes: int, load: Load, *, memory: bool = True) -> dict[str, Any]:
    """Measure one phase. `memory` False stores the cluster's objects on disk."""
    requests = CountedRequests()
    before = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="volcanoio-bench-") as directory:
        options = LocalOptions.parse(nodes=nodes, node_resources=NODE, memory=memory, data=Path(directory))
        async with LocalCluster(options, faults=requests) as cluster:
            ready, cpu = time.perf_counter(), time.process_time()
            requests.forget()
            if mode == "http":
                seen = await _another_process(cluster.kubeconfig, phase, load)
            else:
                seen = await use(cluster.transport, phase, load)
            spent = time.process_time() - cpu
            overcommitted = len(cluster.fleet.overcommitted)
    pods = seen.get("pods", load.samples * load.pods)
    return {
        **seen,
        "writes_per_pod": requests.per(pods),
        "all_writes_per_pod": round(requests.writes.total() / pods, 3),
        "cpu_seconds": round(spent, 3),
        "cpu_microseconds_per_pod": round(1e6 * spent / pods),
        "peak_memory_bytes": peak_memory(),
        "cluster_ready_seconds": round(ready - before, 3),
        "pods_refused_by_nodes": overcommitted,
    }


async def _another_process(kubeconfig: Path, phase: str, load: Load) -> dict[str, Any]:
    program = [sys.executable, "-m", "bench.users", str(kubeconfig), phase, json.dumps(asdict(load))]
    process = await asyncio.create_subprocess_exec(*program, stdout=asyncio.subprocess.PIPE)
    output, _ = await process.communicate()
    if process.returncode:
        msg = f"the users' process ended with code {process.returncode}"
        raise RuntimeError(msg)
    seen: dict[str, Any] = json.loads(output)
    return seen


def main() -> int:
    """Measure a phase and print its figures."""
    mode, phase, nodes, load, storage = sys.argv[1:6]
    tune_garbage_collector()
    figures = asyncio.run(measure(mode, phase, int(nodes), Load(**json.loads(load)), memory=storage == "memory"))
    print(json.dumps(figures))
    return 0


if __name__ == "__main__":
    sys.exit(main())
