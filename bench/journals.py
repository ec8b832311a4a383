"""Reading the journal of a day: `python -m bench.journals [--pods 300000] [--part 10000] [--directory DIR]`.

A part of the platform's day (`bench.platform`) is recorded, and repeated until it has so many pods: as further starts
of the processes, each of which is replayed from nothing. `--directory` keeps the recorded part for the next run.
Measured are the replay of both processes (`volcanoio replay`), the index of past states, moments of the day read from
it, a timeline, and the redaction of the part, in CPU seconds unless a name says otherwise. Repeated parts are the same
files; for the index they are copies in which each begins when the one before ended.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from bench.day.arrivals import NODES, PODS
from bench.machine import machine, peak_memory, software
from bench.platform import day
from bench.statistics import percentile
from volcanoio.cli.offline.replaying import PROCESSES
from volcanoio.compose.journals.redacting import JournalRedaction
from volcanoio.compose.journals.states import INDEX, PastStates
from volcanoio.compose.journals.timeline import journal_timeline
from volcanoio.runtime.garbage_collection import tune_garbage_collector
from volcanoio.runtime.loading.registry import discover

PART = 10_000
READS = 200
"""Moments of the day that are read."""
GAP = 60.0
"""Seconds between two parts."""
_AT = re.compile(rb'("at":)([0-9.]+)')


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Return the CPU seconds that work takes, which vary less on a busy machine, and its result."""
    began = time.process_time()
    result = work()
    return time.process_time() - began, result


def repeated(part: Path, into: Path, times: int) -> None:
    """Make a journal of a part, so many times, without copying it."""
    for process in PROCESSES:
        (into / process).mkdir(parents=True)
        segments = sorted((part / process).glob("*.jsonl"))
        for number in range(times * len(segments)):
            os.link(segments[number % len(segments)], into / process / f"{number + 1:08}.jsonl")


def one_after_another(part: Path, into: Path, times: int) -> None:
    """Copy a part so many times, each with later times of events; objects keep theirs."""
    past = PastStates(part)
    past.refresh()
    assert past.span is not None
    length = past.span[1] - past.span[0] + GAP
    for process in PROCESSES:
        (into / process).mkdir(parents=True)
        segments = sorted((part / process).glob("*.jsonl"))
        for number in range(times * len(segments)):
            later = number // len(segments) * length
            _copy_later(segments[number % len(segments)], into / process / f"{number + 1:08}.jsonl", later)


def _copy_later(source: Path, target: Path, later: float) -> None:
    def moved(at: re.Match[bytes]) -> bytes:
        return b"%s%f" % (at[1], float(at[2]) + later)

    with source.open("rb") as lines, target.open("wb") as copy:
        copy.writelines(_AT.sub(moved, line, count=1) for line in lines)


def replayed(process: str, directory: Path) -> tuple[float, int, int]:
    """Replay a process; return the CPU seconds, the number of decisions and that of different ones."""
    tune_garbage_collector()
    began = time.process_time()
    report = PROCESSES[process](directory, discover())
    return time.process_time() - began, report.decisions, report.different


def measure_replay(whole: Path) -> dict[str, Any]:
    """Replay both processes side by side, each in a process of its own, as the command does with large journals."""
    with ProcessPoolExecutor(len(PROCESSES), mp_context=get_context("spawn")) as pool:
        began = time.perf_counter()
        running = {process: pool.submit(replayed, process, whole / process) for process in PROCESSES}
        results = {process: each.result() for process, each in running.items()}
        seconds = time.perf_counter() - began
    return {
        "replay_wall_seconds": round(seconds, 1),
        "replay_cpu_seconds": {process: round(cpu, 1) for process, (cpu, _, _) in results.items()},
        "decisions": {process: decisions for process, (_, decisions, _) in results.items()},
        "decisions_that_differ": {process: different for process, (_, _, different) in results.items()},
    }


def measure_states(whole: Path, seed: int = 0) -> dict[str, Any]:
    """Build the index of past states, load it, and read random moments from it."""
    built, past = timed(lambda: _refreshed(whole))
    loaded, past = timed(lambda: _refreshed(whole))
    begin, end = past.span
    drawn = random.Random(seed)
    reads = [timed(lambda: past.at(drawn.uniform(begin, end)))[0] for _ in range(READS)]
    totals, _ = timed(past.totals)
    return {
        "hours": round((end - begin) / 3600, 2),
        "index_build_seconds": round(built, 1),
        "index_load_seconds": round(loaded, 3),
        "index_mib": round((whole / INDEX).stat().st_size / 2**20, 1),
        "frames": len(past.totals(1 << 20)),
        "read_milliseconds": {
            name: round(1000 * percentile(reads, share), 1)
            for name, share in (("p50", 0.5), ("p99", 0.99), ("max", 1.0))
        },
        "totals_milliseconds": round(1000 * totals, 1),
    }


def _refreshed(directory: Path) -> PastStates:
    past = PastStates(directory)
    past.refresh()
    return past


def measure_part(part: Path, scratch: Path) -> dict[str, Any]:
    """Read the timeline of a job of the part, and redact the part."""
    timeline, found = timed(lambda: journal_timeline(part, "short-7"))
    redaction, _ = timed(lambda: JournalRedaction(part).write(scratch / "redacted"))
    size = sum(path.stat().st_size for path in part.rglob("*.jsonl"))
    return {
        "part_mib": round(size / 2**20),
        "timeline_seconds": round(timeline, 2),
        "timeline_entries": len(found.entries),
        "redaction_seconds": round(redaction, 1),
    }


def bench(given: argparse.Namespace) -> dict[str, Any]:
    """Record or take the part, repeat it and measure the chosen rows."""
    directory: Path | None = given.directory
    times = -(-given.pods // given.part)
    with tempfile.TemporaryDirectory(prefix="bench-journals-", dir=directory) as name:
        scratch = Path(name)
        part = (directory or scratch) / f"part-{given.part}"
        if not part.exists():
            asyncio.run(day(given.part, NODES, journal=part))
        size = sum(path.stat().st_size for path in part.rglob("*.jsonl"))
        figures: dict[str, Any] = {"pods": given.part * times, "parts": times}
        figures["journal_gib"] = round(times * size / 2**30, 2)
        if given.only in (None, "replay"):
            repeated(part, scratch / "same", times)
            figures["replay"] = measure_replay(scratch / "same")
        if given.only in (None, "states"):
            one_after_another(part, scratch / "later", times)
            figures["states"] = measure_states(scratch / "later")
        if given.only in (None, "part"):
            figures["part"] = measure_part(part, scratch)
        return {**figures, "peak_memory_mib": round(peak_memory() / 2**20)}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; returns 1 if a decision differs."""
    parser = argparse.ArgumentParser(prog="python -m bench.journals", description=__doc__)
    parser.add_argument("--pods", type=int, default=PODS, help="pods of the day")
    parser.add_argument("--part", type=int, default=PART, help="pods of the part that is recorded")
    parser.add_argument("--directory", type=Path, help="where the part and large copies are kept")
    parser.add_argument("--only", choices=["replay", "states", "part"], help="measure this alone")
    given = parser.parse_args(arguments)
    figures = bench(given)
    print(json.dumps({"bench": "journals", "machine": machine(), "software": software(), **figures}, indent=2))
    return 1 if any(figures.get("replay", {}).get("decisions_that_differ", {}).values()) else 0


if __name__ == "__main__":
    sys.exit(main())
