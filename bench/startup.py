"""The time until `volcanoio up` is ready: `python -m bench.startup [--runs 5] [--nodes 4]`.

Each run is a new process on a new directory, and again on the directory of the run before. The imports alone and the
interpreter alone are measured too. The modules are compiled then, as after an installation. Prints one JSON object, in
seconds; CPU seconds are the process's own.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bench.machine import machine, software
from bench.statistics import percentile

IMPORTS = "import volcanoio.cli.main, volcanoio.cli.serving"


@dataclass(frozen=True, slots=True)
class Start:
    """Seconds until a process printed its line or ended, and the CPU seconds of its whole run."""

    wall: float
    cpu: float


def run(program: Sequence[str], *, ready: bytes = b"") -> Start:
    """Run a program until it prints a line that begins with `ready`, or without `ready` until it ends."""
    started = time.perf_counter()
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment) as process:
        assert process.stdout is not None
        line = process.stdout.readline() if ready else b""
        wall = time.perf_counter() - started
        if ready:
            process.send_signal(signal.SIGINT)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if not ready:
            wall = time.perf_counter() - started
    if not line.startswith(ready):
        msg = f"{program} said {line!r} and ended with code {process.returncode}"
        raise RuntimeError(msg)
    return Start(wall, usage.ru_utime + usage.ru_stime)


def summary(starts: Sequence[Start]) -> dict[str, float]:
    """Return median and minimum of several starts."""
    walls, cpus = [start.wall for start in starts], [start.cpu for start in starts]
    return {
        "wall_median": round(percentile(walls, 0.5), 3),
        "wall_min": round(min(walls), 3),
        "cpu_median": round(percentile(cpus, 0.5), 3),
        "cpu_min": round(min(cpus), 3),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.startup", description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--nodes", type=int, default=4)
    given = parser.parse_args(arguments)
    found: dict[str, list[Start]] = {"interpreter": [], "imports": [], "up": [], "up_again": []}
    for _ in range(given.runs):
        found["interpreter"].append(run([sys.executable, "-c", ""]))
        found["imports"].append(run([sys.executable, "-c", IMPORTS]))
        with tempfile.TemporaryDirectory(prefix="volcanoio-bench-") as directory:
            command = "import sys; from volcanoio.cli.main import main; sys.argv[0] = 'volcanoio'; main()"
            up = [sys.executable, "-c", command, "up", "--data", directory, "--nodes", str(given.nodes)]
            found["up"].append(run(up, ready=b"ready "))
            found["up_again"].append(run(up, ready=b"ready "))
    figures: dict[str, Any] = {
        "bench": "startup",
        "machine": machine(),
        "software": software(),
        "runs": given.runs,
        "nodes": given.nodes,
        "seconds": {name: summary(starts) for name, starts in found.items()},
    }
    print(json.dumps(figures, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
