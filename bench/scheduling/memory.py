"""The row `memory`: a process that listed all objects from bytes and bound the pods."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any


def memory(nodes: int, pods: int) -> dict[str, Any]:
    """Measure the peak memory of such a process, without the listed bytes and their server."""
    lists, all_of_it = (_peak(part, nodes, pods) for part in ("lists", "all"))
    return {
        "nodes": nodes,
        "pods": pods,
        "memory_mib": all_of_it["peak_memory_mib"] - lists["peak_memory_mib"] + lists["empty_mib"],
        "with_the_bytes_mib": all_of_it["peak_memory_mib"],
    }


def _peak(part: str, nodes: int, pods: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "bench.scheduling.memory", part, str(nodes), str(pods)]
    found: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    return found


if __name__ == "__main__":
    from bench.scheduling import starting

    print(json.dumps(starting.remembered(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))))
