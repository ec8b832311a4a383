"""The controllers' benchmarks: `python -m bench.lifecycle [--only ROW] [--jobs 10000]`.

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
    "life": ("life.together", 10),
    "controllers": ("life.apart", 10),
    "memory": ("held.memory", 1),
    "restart": ("held.restart", 1),
}
"""For each row, its function in `bench.lifecycles`, and the divisor of `--jobs`."""


def measure(row: str, jobs: int) -> dict[str, Any]:
    """Measure one row."""
    where, part = ROWS[row]
    module, _, name = where.partition(".")
    figures = getattr(importlib.import_module(f"bench.lifecycles.{module}"), name)(max(1, jobs // part))
    return {"row": row, "machine": machine(), **figures}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; returns 1 if a check or a row failed."""
    parser = argparse.ArgumentParser(prog="python -m bench.lifecycle", description=__doc__)
    parser.add_argument("--only", choices=sorted(ROWS), action="append", help="this row; may be given several times")
    parser.add_argument("--jobs", type=int, default=10_000, help="jobs of ten pods that are held; a tenth are run")
    given = parser.parse_args(arguments)
    rows = given.only or list(ROWS)
    if len(rows) == 1:
        figures = measure(rows[0], given.jobs)
        print(json.dumps(figures), flush=True)
        return 1 if figures.get("violations") else 0
    command = [sys.executable, "-m", "bench.lifecycle", "--jobs", str(given.jobs), "--only"]
    codes = [subprocess.run([*command, row], check=False).returncode for row in rows]
    return 1 if any(codes) else 0


if __name__ == "__main__":
    sys.exit(main())
