"""The display of `volcanoio demo`: jobs, gangs and pods as rows, on a terminal or as lines.

`Board` folds watched objects into rows and does no I/O. `LiveScreen` redraws a table on a terminal; `PlainScreen`
prints one line per change elsewhere.
"""

import sys
import time
from collections import Counter
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from volcanoio.framework.events import Change, Observed
from volcanoio.model import names
from volcanoio.model.batch import FINISHED_PHASES, Job, JobPhase
from volcanoio.model.core import Event, Pod
from volcanoio.model.scheduling import PodGroup, PodGroupPhase

_ENDED = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the board: a Job, or a PodGroup that no Job owns."""

    name: str
    kind: str
    queue: str
    phase: str
    gang: int
    placed: int
    pending: int
    running: int
    succeeded: int
    failed: int
    retries: int
    note: str

    @property
    def finished(self) -> bool:
        """Whether the row is final."""
        return self.phase in FINISHED_PHASES or self.phase == JobPhase.ABORTED

    @property
    def failed_job(self) -> bool:
        """Whether the job ended without completing."""
        return self.finished and self.phase != JobPhase.COMPLETED


class Board:
    """Fold of observed Jobs, PodGroups, Pods, and of the Events with the reasons why PodGroups wait."""

    def __init__(self) -> None:
        self._jobs: dict[str, Job] = {}
        self._groups: dict[str, PodGroup] = {}
        self._pods: dict[str, Pod] = {}
        self._reasons: dict[str, str] = {}

    def fold(self, event: Observed) -> None:
        """Fold one observation."""
        obj = event.object
        store: dict[str, Job] | dict[str, PodGroup] | dict[str, Pod]
        if isinstance(obj, Job):
            store = self._jobs
        elif isinstance(obj, PodGroup):
            store = self._groups
        elif isinstance(obj, Pod):
            store = self._pods
        elif isinstance(obj, Event):
            if obj.involved_object.kind == "PodGroup" and obj.reason == "Unschedulable":
                self._reasons[obj.involved_object.uid] = obj.message
            return
        else:
            return
        if event.change is Change.GONE:
            store.pop(obj.metadata.key, None)
        else:
            store[obj.metadata.key] = obj

    def rows(self) -> list[Row]:
        """Return Jobs in the order of their names, then PodGroups of other owners."""
        by_group: dict[str, list[Pod]] = {}
        for pod in self._pods.values():
            group = pod.metadata.annotations.get(names.GROUP_NAME, "")
            by_group.setdefault(f"{pod.metadata.namespace}/{group}", []).append(pod)
        rows = [self._job_row(job, by_group) for _, job in sorted(self._jobs.items())]
        owned = {
            key
            for key, group in self._groups.items()
            if group.metadata.controller is not None and group.metadata.controller.kind == "Job"
        }
        rows += [
            self._group_row(group, by_group.get(key, []))
            for key, group in sorted(self._groups.items())
            if key not in owned
        ]
        return rows

    def _job_row(self, job: Job, by_group: dict[str, list[Pod]]) -> Row:
        key = f"{job.metadata.namespace}/{job.metadata.name}-{job.metadata.uid}"
        group = self._groups.get(key)
        status = job.status
        return Row(
            name=job.metadata.name,
            kind="job",
            queue=job.spec.queue,
            phase=status.state.phase or JobPhase.PENDING,
            gang=job.spec.min_available,
            placed=_placed(by_group.get(key, [])) if status.state.phase not in FINISHED_PHASES else status.succeeded,
            pending=status.pending,
            running=status.running,
            succeeded=status.succeeded,
            failed=status.failed,
            retries=status.retry_count,
            note=self._waiting(group) if status.state.phase in ("", JobPhase.PENDING) else "",
        )

    def _group_row(self, group: PodGroup, pods: list[Pod]) -> Row:
        counts = Counter(pod.status.phase for pod in pods)
        return Row(
            name=group.metadata.name,
            kind="podgroup",
            queue=group.spec.queue,
            phase=group.status.phase or PodGroupPhase.PENDING,
            gang=group.spec.min_member,
            placed=_placed(pods),
            pending=counts["Pending"],
            running=counts["Running"],
            succeeded=counts["Succeeded"],
            failed=counts["Failed"],
            retries=0,
            note=self._waiting(group),
        )

    def _waiting(self, group: PodGroup | None) -> str:
        """Return why a gang is not placed: its condition, or before it is Inqueue, the Event's message."""
        if group is None or group.status.phase not in ("", PodGroupPhase.PENDING, PodGroupPhase.INQUEUE):
            return ""
        messages = (each.message for each in reversed(group.status.conditions) if each.type == "Unschedulable")
        return next(messages, "") or self._reasons.get(group.metadata.uid, "")


def _placed(pods: list[Pod]) -> int:
    return sum(1 for pod in pods if pod.spec.node_name and pod.status.phase != "Failed")


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
"""Minimum width in columns to print notes beside their rows; with less they are printed below the table."""
_QUEUES = 72
"""Minimum width in columns to show the queue."""
_BAR = {True: 10, False: 4}
"""Width of the gang's bar, in a wide table or not."""


class Screen(Protocol):
    """Output of the demo."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def say(self, text: str) -> None:
        """Print a separate line."""
        ...

    def show(self, rows: list[Row]) -> None:
        """Show the current board."""
        ...


def gang_bar(row: Row, width: int = _BAR[True]) -> str:
    """Draw `######.... 3/5`: placed pods of those that must run together; full for a gang that completed."""
    wanted = max(row.gang, 1)
    placed = wanted if row.finished and not row.failed_job else min(row.placed, wanted)
    filled = placed * width // wanted
    return f"{'#' * filled}{'.' * (width - filled)} {placed}/{row.gang}"


class LiveScreen:
    """A table that is redrawn in place."""

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
        """Print a line above the table."""
        self._live.console.print(text)

    def show(self, rows: list[Row]) -> None:
        """Redraw the table."""
        self._live.update(draw(rows, self._console.width), refresh=True)


def draw(rows: list[Row], width: int) -> Group:
    """Return the table, cut to the size of the terminal; only names are shortened."""
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
    """Prints one line each time a row changes phase or its reason to wait; for pipes, logs and CI."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._printed: dict[str, tuple[str, bool]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if sys.stdout is not None:
            sys.stdout.flush()

    def say(self, text: str) -> None:
        """Print a line."""
        print(f"{self._elapsed()}  {text}", flush=True)

    def show(self, rows: list[Row]) -> None:
        """Print the changes."""
        for row in rows:
            state = (row.phase, bool(row.note))
            if self._printed.get(row.name) in (state, (row.phase, True)):
                continue
            self._printed[row.name] = state
            counts = f"{row.pending}/{row.running}/{row.succeeded}/{row.failed}"
            print(
                f"{self._elapsed()}  {row.name:<22} {row.phase:<11} gang {gang_bar(row):<15} "
                f"pend/run/done/fail {counts:<9} queue {row.queue}{'  ' + note(row) if note(row) else ''}",
                flush=True,
            )

    def _elapsed(self) -> str:
        return f"{time.monotonic() - self._began:6.2f}s"


def screen_for_stdout() -> Screen:
    """Return a live table if stdout is a terminal that can redraw, else lines."""
    console = Console()
    live = sys.stdout is not None and sys.stdout.isatty() and not console.is_dumb_terminal
    return LiveScreen() if live else PlainScreen()


def note(row: Row) -> str:
    """Return the text beside the counts: why a gang waits, and how often a job was restarted."""
    said = [f"waits: {row.note.partition(':')[0]}"] if row.note else []
    return ", ".join(said + [f"retry {row.retries}"] * (row.retries > 0))
