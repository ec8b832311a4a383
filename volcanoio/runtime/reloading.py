"""Files are read once a second, and what they hold is taken over when they change.

Files are read rather than watched for events: what is read is right after a ConfigMap's symlink swap, a rename over the
file, a write in place, on network file systems and when inotify has no watches left, and a few kilobytes a second cost
nothing. A change is acted on when two looks in a row saw the same: half a file that is being written takes no effect.
All blocking work, constructors of plugins included, runs on a thread.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

import anyio.to_thread
import structlog

from volcanoio.framework.probe import Probe
from volcanoio.kube.clock import Clock
from volcanoio.runtime.mounted import MountError, files_in

INTERVAL = 1.0
"""Seconds between two looks."""
Made = TypeVar("Made")
_log = structlog.get_logger(__name__)


class Figures(NamedTuple):
    """Names of metrics: whether what the files hold is in force, how often it was taken over, and when last."""

    valid: str
    reloads: str
    last: str


class Seen(NamedTuple):
    """What a look saw: the file's text (None: unreadable), what kept it from being read, and the mounted files."""

    text: str | None
    unreadable: str = ""
    mounted: tuple[tuple[str, str], ...] = ()
    """Path and digest of each."""


@dataclass(frozen=True, kw_only=True)
class Watched:
    """Where the configuration comes from. `path` None: it is `default`, and only plugins may change."""

    path: Path | None
    default: str
    plugins_dirs: Sequence[Path] = ()

    @property
    def changes(self) -> bool:
        """Whether there is any file that may change."""
        return self.path is not None or bool(self.plugins_dirs)

    def look(self) -> Seen:
        """What is there now; blocks on files."""
        try:
            mounted = tuple(
                (str(path), hashlib.sha256(path.read_bytes()).hexdigest())
                for directory in self.plugins_dirs
                for path in files_in(directory)
            )
            text = self.default if self.path is None else self.path.read_text(encoding="utf-8")
        except MountError as error:
            return Seen(None, str(error))
        except OSError as error:
            return Seen(None, f"{error.filename}: {error.strerror}; put a file that can be read there")
        except UnicodeDecodeError:
            return Seen(None, f"{self.path}: not UTF-8 text; give a YAML file")
        return Seen(text, "", mounted)


class Reloading(ABC, Generic[Made]):
    """Looks once a second, and hands over what changed; `run` until cancelled.

    `first` is what was seen of what is in force, `what` how it is called and `when` it takes effect, `refusals` what
    `make` raises for what cannot take effect. `clock` is the machine's: files live in its time, however fast that of a
    simulated cluster runs.
    """

    def __init__(
        self,
        watched: Watched,
        first: Seen,
        *,
        what: str,
        when: str,
        figures: Figures,
        refusals: Sequence[type[Exception]],
        clock: Clock,
        probe: Probe,
    ) -> None:
        self._watched = watched
        self._in_force = self._judged = self._last = first
        self._what = what
        self._when = when
        self._figures = figures
        self._refusals: tuple[type[Exception], ...] = (*refusals, MountError)
        self._clock = clock
        self._probe = probe

    @abstractmethod
    def make(self, seen: Seen, *, mounted_changed: bool) -> Made:
        """What is to be in force; runs on a thread. Raises one of the refusals."""

    @abstractmethod
    def take_over(self, made: Made) -> None:
        """Put it in force."""

    async def run(self) -> None:
        """Look, for ever, where there is anything to look at."""
        self._good()
        while self._watched.changes:
            await self._clock.idle(INTERVAL)
            await self.look()

    async def look(self) -> None:
        """One look, and what follows from it."""
        seen = await anyio.to_thread.run_sync(self._watched.look)
        settled, self._last = seen == self._last, seen
        if not settled or seen == self._judged:
            return
        self._judged = seen
        if seen == self._in_force:
            _log.info(f"{self._what} is again the one in force", file=self.source)
            self._good()
            return
        try:
            made = await anyio.to_thread.run_sync(self._make, seen)
        except self._refusals as error:
            problems = getattr(error, "problems", None)
            self._refused([str(problem) for problem in problems] if problems else str(error).splitlines())
        else:
            self._in_force = seen
            self.take_over(made)
            self._probe.count(self._figures.reloads, result="success")
            self._good()
            _log.info(f"{self._what} changed; it takes effect {self._when}", file=self.source)

    @property
    def source(self) -> str:
        """The file, as logs name it."""
        return str(self._watched.path or "default")

    def _make(self, seen: Seen) -> Made:
        if seen.text is None:
            raise MountError(seen.unreadable)
        return self.make(seen, mounted_changed=seen.mounted != self._in_force.mounted)

    def _good(self) -> None:
        self._probe.gauge(self._figures.valid, 1.0)
        self._probe.gauge(self._figures.last, self._clock.now())

    def _refused(self, problems: list[str]) -> None:
        """Say what is wrong, once for what was seen; what is in force stays."""
        self._probe.count(self._figures.reloads, result="failure")
        self._probe.gauge(self._figures.valid, 0.0)
        for problem in problems:
            _log.error(
                f"what {self._what} was changed to is refused, the last good one stays",
                file=self.source,
                problem=problem,
            )
