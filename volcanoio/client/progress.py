"""The progress of a job: a line that changes in a terminal, a card in a notebook, lines of text where it is asked for.

Everything goes to stderr, or to the output of the notebook's cell.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from volcanoio.client.cards import job_card
from volcanoio.model.batch import Job, JobPhase
from volcanoio.model.printing.ages import human_duration

BAR = 16
"""Characters of the bar."""
_STYLES = {JobPhase.COMPLETED: "green", JobPhase.RUNNING: "cyan", JobPhase.PENDING: "yellow", JobPhase.FAILED: "red"}


class Progress(Protocol):
    """Where the progress of one job is shown; `note` is why it waits, or ""."""

    is_shown: bool
    """Whether there is a reader, so that finding out why the job waits is worth its cost."""

    def show(self, job: Job, note: str) -> None:
        """Show the current state."""
        ...


@contextmanager
def open_progress(wanted: bool | None) -> Iterator[Progress]:
    """Choose where progress is shown: nowhere for False; for None nowhere unless there is a terminal or a notebook."""
    display = _notebook_display() if wanted is not False else None
    if display is not None:
        yield _Card(display)
    elif wanted is not False and sys.stderr.isatty():
        line = _Line()
        try:
            yield line
        finally:
            _TERMINAL.end(line)
    elif wanted:
        yield _Lines()
    else:
        yield _Nowhere()


def gang_counts(job: Job) -> tuple[int, int]:
    """Return how many pods of a job run or have ended, and how many it needs to start (or has, once it started)."""
    status = job.status
    total = sum(task.replicas for task in job.spec.tasks)
    started = status.running + status.succeeded + status.failed
    return min(started, total), total


def progress_text(job: Job, note: str, elapsed: float) -> str:
    """Return the state of a job in one line: `train  Running  ######.. 6/8  02:13`."""
    started, total = gang_counts(job)
    minimum = job.spec.min_available
    full = BAR * started // total if total else 0
    bar = "█" * full + "░" * (BAR - full)
    if 0 < minimum < total and started < minimum:  # where the gang is complete
        at = BAR * minimum // total
        bar = f"{bar[:at]}|{bar[at + 1 :]}"
    parts = [job.metadata.name, job.status.state.phase or JobPhase.PENDING, f"{bar} {started}/{total}"]
    if job.status.failed:
        parts.append(f"{job.status.failed} failed")
    parts.append(human_duration(elapsed))
    if note:
        parts.append(note)
    return "  ".join(parts)


class _Nowhere:
    is_shown = False

    def show(self, job: Job, note: str) -> None:
        """Show nothing."""


class _Lines:
    """One line for each change of phase or reason, where no line can be changed."""

    is_shown = True

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._last = ("", "")

    def show(self, job: Job, note: str) -> None:
        """Print a line if the phase or the reason has changed."""
        if (now := (job.status.state.phase, note)) != self._last:
            self._last = now
            print(progress_text(job, note, time.monotonic() - self._began), file=sys.stderr, flush=True)  # noqa: T201


class _Terminal:
    """The lines of all jobs that are waited for, below what the program prints; last lines stay."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lines: dict[object, Text] = {}
        self._live: Live | None = None

    def show(self, key: object, line: Text) -> None:
        """Draw a line again."""
        with self._lock:
            self._lines[key] = line
            if self._live is None:
                self._live = Live(console=Console(stderr=True), auto_refresh=False, transient=True)
                self._live.start()
            self._live.update(Group(*self._lines.values()), refresh=True)

    def end(self, key: object) -> None:
        """Leave a line as it is."""
        with self._lock:
            line = self._lines.pop(key, None)
            if self._live is None or line is None:
                return
            self._live.update(Group(*self._lines.values()), refresh=True)
            self._live.console.print(line)
            if not self._lines:
                self._live.stop()
                self._live = None


_TERMINAL = _Terminal()


class _Line:
    """A line of the terminal that changes."""

    is_shown = True

    def __init__(self) -> None:
        self._began = time.monotonic()

    def show(self, job: Job, note: str) -> None:
        """Draw the line again."""
        text = progress_text(job, note, time.monotonic() - self._began)
        style = _STYLES.get(JobPhase(job.status.state.phase or JobPhase.PENDING), "")
        _TERMINAL.show(self, Text(text, style=style, overflow="ellipsis", no_wrap=True))


class _Card:
    """An output of a notebook's cell that changes."""

    is_shown = True

    def __init__(self, display: Callable[..., Any]) -> None:
        self._display = display
        self._handle: Any = None
        self._last = ""

    def show(self, job: Job, note: str) -> None:
        """Replace the card."""
        content = job_card(job, note)
        if content == self._last:
            return
        self._last = content
        data = {"text/html": content, "text/plain": progress_text(job, note, 0.0)}
        if self._handle is None:
            self._handle = self._display(data, raw=True, display_id=True)
        else:
            self._handle.update(data, raw=True)


def _notebook_display() -> Callable[..., Any] | None:
    """Return IPython's `display` where it shows HTML: in a kernel; None elsewhere."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is None or not hasattr(shell, "kernel"):
        return None
    display: Callable[..., Any] = sys.modules["IPython.display"].display
    return display
