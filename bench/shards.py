"""Submission of a job with many shards: `python -m bench.shards [--shards 10000] [--runs 5]`.

`Client.map` with a row per shard, over HTTPS to an embedded cluster in the same process: until it returns, which is
when the API server has stored the Job and the table of rows, and until the last of its pods runs. The nodes are
simulated and have room for all pods. Prints one JSON object, in seconds.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from typing import Any

from bench.machine import machine, software
from bench.statistics import percentile
from volcanoio.client import Client, LocalOptions
from volcanoio.model import names

PODS_PER_NODE = 110
POLL = 0.25
"""Seconds between two reads of the job; the time until all pods run is measured to this precision."""


def run(client: Client, number: int, shards: int) -> tuple[float, float]:
    """Return the seconds until `map` returned and until the last pod ran."""
    rows = [{"SYMBOL": f"SYM{index:06}", "YEAR": 2000 + index % 25} for index in range(shards)]
    forever = {"metadata": {"annotations": {names.RUN_DURATION: "never"}}}
    began = time.perf_counter()
    job = client.map("backtest $SYMBOL $YEAR", rows=rows, image="busybox", name=f"shards-{number}", pod=forever)
    submitted = time.perf_counter() - began
    while job.status.running < shards:
        time.sleep(POLL)
    running = time.perf_counter() - began
    job.cancel()
    while client.jobs() or job.pods():
        time.sleep(POLL)
    return submitted, running


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.shards", description=__doc__)
    parser.add_argument("--shards", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=5)
    given = parser.parse_args(arguments)
    nodes = -(-given.shards // PODS_PER_NODE)
    with Client(local=LocalOptions(nodes=nodes)) as client:
        found = [run(client, number, given.shards) for number in range(given.runs)]
    submitted, running = (list(column) for column in zip(*found, strict=True))
    result: dict[str, Any] = {
        "shards": given.shards,
        "nodes": nodes,
        "runs": given.runs,
        "submitted_median": round(percentile(submitted, 0.5), 3),
        "submitted_max": round(max(submitted), 3),
        "all_pods_running_median": round(percentile(running, 0.5), 2),
        "machine": machine(),
        "software": software(),
    }
    print(json.dumps(result, indent=2))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
