"""`volcanoio history`: finished jobs, also deleted ones, from the file that the controllers keep."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from volcanoio.cli.connection import find_kubeconfigs
from volcanoio.cli.terminal import CommandError, ExitCode, UsageError, fitted_columns
from volcanoio.compose.options import HISTORY
from volcanoio.engine.accounting.finished_jobs import FinishedJob, UnitSeconds
from volcanoio.engine.accounting.summaries import GroupBy, Summary, summarise
from volcanoio.model.resources import CPU, MEMORY
from volcanoio.model.times import DurationError, go_duration, parse_duration, rfc3339
from volcanoio.runtime.accounting.history_store import HistoryError, Selection, read_history

_DAYS = re.compile(r"([0-9]+)d")
_DAY = 86_400.0
_Cell: TypeAlias = tuple[str, object]
"""Title of a column, and the value in it."""


def run_history(*, file: Path | None, kubeconfig: Path | None, by: str | None, output: str, **selected: Any) -> int:
    """Read, sum and print; returns the exit code. Raises CommandError."""
    now, places = time.time(), selected.pop("places")
    if places and (output != "json" or by is not None):
        raise UsageError("--places: a table has no room for them; write -o json, without --by")
    since, until = (moment(f"--{name}", selected.pop(name), now) for name in ("since", "until"))
    jobs = read_jobs(file, kubeconfig, Selection(since=since, until=until, **selected), with_places=places)
    if output == "json":
        found = jobs if by is None else summarise(jobs, GroupBy(by))
        print(msgspec.json.encode(found).decode(), flush=True)
    elif not jobs:
        print("no job has finished in that time", flush=True)
    elif by is None:
        print(jobs_table(jobs, is_wide=output == "wide"), flush=True)
    else:
        print(summary_table(summarise(jobs, GroupBy(by)), by, is_wide=output == "wide"), flush=True)
    return ExitCode.OK


def read_jobs(
    file: Path | None, kubeconfig: Path | None, selection: Selection, *, with_places: bool = False
) -> list[FinishedJob]:
    """Return the jobs of a file, else of the `volcanoio up` that wrote the kubeconfig. Raises CommandError."""
    if (file := file or find_history(kubeconfig)) is None:
        raise CommandError(
            "no history here: name the controllers' --history-file with --file; `volcanoio up` writes one into its "
            "data directory, unless it runs with --memory"
        )
    try:
        return read_history(file, selection, with_places=with_places)
    except HistoryError as error:
        raise UsageError(error) from None


def find_history(kubeconfig: Path | None) -> Path | None:
    """Return the history of the `volcanoio up` that wrote the kubeconfig, None if there is none."""
    beside = [path.parent / HISTORY for path in find_kubeconfigs(kubeconfig)]
    return next((path for path in beside if path.exists()), None)


def moment(option: str, text: str | None, now: float) -> float | None:
    """Return a time in epoch seconds: RFC 3339, or that long ago as in 7d and 36h; None for none. Raises UsageError."""
    if text is None:
        return None
    try:
        if (days := _DAYS.match(text)) is not None:
            rest = text[days.end() :]
            return now - int(days[1]) * _DAY - (parse_duration(rest) if rest else 0.0)
        return now - parse_duration(text)
    except DurationError:
        pass
    try:
        given = datetime.fromisoformat(text)
    except ValueError:
        given = None
    if given is None:
        raise UsageError(f"{option}: {text} is no time; write how long ago, as 7d or 36h, or 2026-01-01T00:00:00Z")
    return (given if given.tzinfo is not None else given.replace(tzinfo=UTC)).timestamp()


def jobs_table(jobs: Sequence[FinishedJob], *, is_wide: bool) -> str:
    """Return jobs as a table; amounts are in hours."""
    return _table([_job_cells(job) + (_wide_job_cells(job) if is_wide else []) for job in jobs])


def _job_cells(job: FinishedJob) -> list[_Cell]:
    return [
        ("NAMESPACE", job.namespace),
        ("NAME", job.name),
        ("OWNER", job.owner or "-"),
        ("QUEUE", job.queue),
        ("PHASE", job.phase),
        ("EXIT", "-" if job.exit_code is None else job.exit_code),
        ("PODS", job.pods),
        ("WAIT", span(job.wait)),
        ("RUN", span(job.run_time)),
        ("CPU-H", hours(job.requested, CPU)),
        ("USED", hours(job.used, CPU)),
        ("FINISHED", rfc3339(job.finished)),
    ]


def _wide_job_cells(job: FinishedJob) -> list[_Cell]:
    return [
        ("MEM-GIB-H", hours(job.requested, MEMORY)),
        ("USED", hours(job.used, MEMORY)),
        ("OTHER-H", _others(job.requested)),
        ("MEASURED", f"{job.measured:.0%}"),
        ("RESTARTS", job.restarts),
        ("REASON", job.reason or "-"),
    ]


def summary_table(groups: Sequence[Summary], by: str, *, is_wide: bool) -> str:
    """Return sums as a table; amounts are in hours."""
    return _table([_sum_cells(each, by) + (_wide_sum_cells(each) if is_wide else []) for each in groups])


def _sum_cells(each: Summary, by: str) -> list[_Cell]:
    return [
        (by.upper(), each.group),
        ("JOBS", each.jobs),
        ("COMPLETED", each.completed),
        ("FAILED", each.failed),
        ("PODS", each.pods),
        ("WAIT-P50", span(each.wait_p50)),
        ("WAIT-P90", span(each.wait_p90)),
        ("RUN-P50", span(each.run_p50)),
        ("CPU-H", hours(each.requested, CPU)),
        ("USED", hours(each.used, CPU)),
        ("UNUSED", _share(each.unused, CPU)),
    ]


def _wide_sum_cells(each: Summary) -> list[_Cell]:
    return [
        ("RUN-P90", span(each.run_p90)),
        ("MEM-GIB-H", hours(each.requested, MEMORY)),
        ("USED", hours(each.used, MEMORY)),
        ("UNUSED", _share(each.unused, MEMORY)),
        ("OTHER-H", _others(each.requested)),
        ("MEASURED", f"{each.measured:.0%}"),
        ("RESTARTS", each.restarts),
    ]


def _table(rows: Sequence[Sequence[_Cell]]) -> str:
    return fitted_columns([title for title, _ in rows[0]], [[cell for _, cell in row] for row in rows], gap=2)


def hours(amounts: UnitSeconds, resource: str) -> str:
    """Return unit-hours with three digits (GiB-hours of memory), "-" for none."""
    if resource not in amounts:
        return "-"
    number = amounts[resource] / 3600 / (2**30 if resource == MEMORY else 1)
    return f"{number:.0f}" if number >= 100 else f"{number:.3g}"


def _others(amounts: UnitSeconds) -> str:
    return ",".join(f"{name}={hours(amounts, name)}" for name in sorted(amounts) if name not in (CPU, MEMORY)) or "-"


def _share(shares: dict[str, float], resource: str) -> str:
    return f"{shares[resource]:.0%}" if resource in shares else "-"


def span(seconds: float | None) -> str:
    """Return seconds as a duration, "-" for None."""
    return "-" if seconds is None else go_duration(round(seconds))
