"""`volcanoio timeline`: prints what happened to a job, from a cluster or from a journal."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import msgspec

from volcanoio.bus.journal import JournalError
from volcanoio.cli.connection import connected, reporting_api_errors
from volcanoio.cli.terminal import CommandError, UsageError
from volcanoio.compose.journals.live_timeline import read_timeline
from volcanoio.compose.journals.timeline import (
    Entry,
    Timeline,
    UnknownJobError,
    grouped,
    journal_timeline,
)
from volcanoio.framework.arguments import pluralize


def run_timeline(*, job: str, namespace: str, journal: Path | None, kubeconfig: Path | None, **given: Any) -> int:
    """Print the timeline of a job; returns the exit code. Raises CommandError."""
    name = job.rpartition("/")[2]
    try:
        if journal is not None:
            found = journal_timeline(journal, name, namespace)
        else:
            found = anyio.run(_read, kubeconfig, name, namespace)
    except UnknownJobError as error:
        raise CommandError(str(error)) from None
    except JournalError as error:
        raise UsageError(error) from None
    if given["output"] == "json":
        print(msgspec.json.encode(found).decode(), flush=True)
    else:
        print(timeline_text(found, each=given["each"]), flush=True)
    return 0


async def _read(kubeconfig: Path | None, name: str, namespace: str) -> Timeline:
    with reporting_api_errors():
        async with connected(kubeconfig) as client:
            return await read_timeline(client, name, namespace)


def timeline_text(found: Timeline, *, each: bool = False) -> str:
    """Return a timeline as text: one line for several pods, or for `each` pod and with causes."""
    entries = list(found.entries) if each else grouped(found.entries)
    if not entries:
        return f"nothing is known of {found.job}"
    start = entries[0].at
    lines = [f"{found.job}, {datetime.fromtimestamp(start, UTC):%Y-%m-%d} (UTC)"]
    if found.earlier:
        lines[0] += f"; {pluralize(found.earlier, 'earlier job')} of this name in the journal"
    is_exact = found.source == "journal"
    width = max(len(_offset(entry.at - start, is_exact=is_exact)) for entry in entries)
    for entry in entries:
        time = f"{datetime.fromtimestamp(entry.at, UTC):%H:%M:%S}"
        line = f"  {time}  {_offset(entry.at - start, is_exact=is_exact):>{width}}  {entry.text}"
        lines.append(f"{line}  [{_source(entry)}]" if entry.seq else line)
        if each and entry.causes:
            indent = " " * (width + 14)
            lines += [f"{indent}because of #{cause.seq} {cause.text}" for cause in reversed(entry.causes)]
    return "\n".join(lines)


def _offset(seconds: float, *, is_exact: bool) -> str:
    return f"+{seconds:.3f}s" if is_exact else f"+{seconds:.0f}s"


def _source(entry: Entry) -> str:
    cycle = f", cycle {entry.cycle}" if entry.cycle else ""
    run = f" start {entry.run}" if entry.run > 1 else ""
    return f"{entry.process}{run} #{entry.seq}{cycle}"
