"""How the board is shown: a live table on a terminal, one line a change elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from volcanoio.cli.board import Row

_COLOURS = {
    "Pending": "yellow",
    "Inqueue": "yellow",
    "Running": "cyan",
    "Completed": "green",
    "Failed": "red",
    "Restarting": "magenta",
    "Unknown": "red",
}
_BAR = 10


class Screen(Protocol):
    """Where the demo is shown."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def say(self, text: str) -> None:
        """A line of its own."""
        ...

    def show(self, rows: list[Row]) -> None:
        """The board as it is now."""
        ...


def gang_bar(row: Row) -> str:
    """`######.... 3/5`: pods placed of those that must run together; full for a gang that completed."""
    wanted = max(row.gang, 1)
    placed = wanted if row.finished and not row.failed_job else min(row.placed, wanted)
    filled = placed * _BAR // wanted
    return f"{'#' * filled}{'.' * (_BAR - filled)} {placed}/{row.gang}"


class LiveScreen:
    """A table that redraws in place."""

    def __init__(self) -> None:
        self._console = Console()
        self._live = Live(console=self._console, auto_refresh=False, transient=False)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def say(self, text: str) -> None:
        """A line above the table."""
        self._live.console.print(text)

    def show(self, rows: list[Row]) -> None:
        """Redraw."""
        table = Table(box=None, pad_edge=False, header_style="bold", expand=True)
        for name in ("JOB", "PHASE", "GANG", "PEND", "RUN", "DONE", "FAIL", "QUEUE"):
            table.add_column(name, no_wrap=True)
        table.add_column("NOTE", no_wrap=True, overflow="ellipsis", ratio=1)  # it alone gives way to a narrow terminal
        for row in rows:
            table.add_row(
                row.name,
                Text(row.phase, style=_COLOURS.get(row.phase, "")),
                gang_bar(row),
                str(row.pending or ""),
                str(row.running or ""),
                str(row.succeeded or ""),
                str(row.failed or ""),
                row.queue,
                _note(row),
            )
        self._live.update(table, refresh=True)


class PlainScreen:
    """One line each time a row's phase changes; for pipes, logs and CI."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._phases: dict[str, str] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        sys.stdout.flush()

    def say(self, text: str) -> None:
        """A line."""
        print(f"{self._elapsed()}  {text}", flush=True)

    def show(self, rows: list[Row]) -> None:
        """Print what changed phase."""
        for row in rows:
            if self._phases.get(row.name) == row.phase:
                continue
            self._phases[row.name] = row.phase
            counts = f"{row.pending}/{row.running}/{row.succeeded}/{row.failed}"
            print(
                f"{self._elapsed()}  {row.name:<22} {row.phase:<11} gang {gang_bar(row):<15} "
                f"pend/run/done/fail {counts:<9} queue {row.queue}{'  ' + _note(row) if _note(row) else ''}",
                flush=True,
            )

    def _elapsed(self) -> str:
        return f"{time.monotonic() - self._began:6.2f}s"


def _note(row: Row) -> str:
    if row.retries:
        return f"retry {row.retries}"
    return row.note.partition(":")[0]
