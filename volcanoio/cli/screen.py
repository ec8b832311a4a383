"""How the board is shown: a live table on a terminal, one line a change elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console, Group
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
_WIDE = 128
"""Columns from which notes stand beside their rows; below it they stand under the table."""
_QUEUES = 72
"""Columns from which the queue is shown."""
_BAR = {True: 10, False: 4}
"""Width of the gang's bar, wide or not."""


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


def gang_bar(row: Row, width: int = _BAR[True]) -> str:
    """`######.... 3/5`: pods placed of those that must run together; full for a gang that completed."""
    wanted = max(row.gang, 1)
    placed = wanted if row.finished and not row.failed_job else min(row.placed, wanted)
    filled = placed * width // wanted
    return f"{'#' * filled}{'.' * (width - filled)} {placed}/{row.gang}"


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
        self._live.update(drawn(rows, self._console.width), refresh=True)


def drawn(rows: list[Row], width: int) -> Group:
    """The table, as much of it as the terminal has room for; only names give way."""
    wide = width >= _WIDE
    table = Table(box=None, pad_edge=False, padding=(0, 2 if wide else 1, 0, 0), header_style="bold")
    names = ("JOB", "PHASE", "GANG", "PEND", "RUN", "DONE", "FAIL", "QUEUE", "NOTE")
    shown = len(names) if wide else len(names) - 1 if width >= _QUEUES else len(names) - 2
    for name in names[:shown]:
        table.add_column(name, no_wrap=name not in ("JOB", "QUEUE"), overflow="ellipsis")
    for row in rows:
        cells = (
            row.name,
            Text(row.phase, style=_COLOURS.get(row.phase, "")),
            gang_bar(row, _BAR[wide]),
            str(row.pending or ""),
            str(row.running or ""),
            str(row.succeeded or ""),
            str(row.failed or ""),
            row.queue,
            note(row),
        )
        table.add_row(*cells[:shown])
    waiting = [] if wide else [f"{row.name} {note(row)}" for row in rows if row.note]
    return Group(table, *(Text(line, no_wrap=True, overflow="ellipsis") for line in waiting))


class PlainScreen:
    """One line each time a row changes phase, or is told why it waits; for pipes, logs and CI."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._told: dict[str, tuple[str, bool]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if sys.stdout is not None:
            sys.stdout.flush()

    def say(self, text: str) -> None:
        """A line."""
        print(f"{self._elapsed()}  {text}", flush=True)

    def show(self, rows: list[Row]) -> None:
        """Print what changed."""
        for row in rows:
            state = (row.phase, bool(row.note))
            if self._told.get(row.name) in (state, (row.phase, True)):
                continue
            self._told[row.name] = state
            counts = f"{row.pending}/{row.running}/{row.succeeded}/{row.failed}"
            print(
                f"{self._elapsed()}  {row.name:<22} {row.phase:<11} gang {gang_bar(row):<15} "
                f"pend/run/done/fail {counts:<9} queue {row.queue}{'  ' + note(row) if note(row) else ''}",
                flush=True,
            )

    def _elapsed(self) -> str:
        return f"{time.monotonic() - self._began:6.2f}s"


def screen_for_stdout() -> Screen:
    """A live table where stdout is a terminal that can redraw, else lines."""
    console = Console()
    live = sys.stdout is not None and sys.stdout.isatty() and not console.is_dumb_terminal
    return LiveScreen() if live else PlainScreen()


def note(row: Row) -> str:
    """What is to be said beside the counts: why a gang waits, and how often a job was restarted."""
    said = [f"waits: {row.note.partition(':')[0]}"] if row.note else []
    return ", ".join(said + [f"retry {row.retries}"] * (row.retries > 0))
