"""Hot reload: the configuration's file and mounted plugins are read once a second, and taken over when they change.

Files are read rather than watched for events: what is read is right after a ConfigMap's symlink swap, a rename over the
file, a write in place, on network file systems and when inotify has no watches left, and a few kilobytes a second cost
nothing. A change is acted on when two looks in a row saw the same: half a file that is being written takes no effect.
All blocking work, constructors of plugins included, runs on a thread.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import anyio.to_thread
import structlog

from volcanoio.engine.scheduling.configuration import ConfigurationError
from volcanoio.framework.probe import Probe
from volcanoio.kube.clock import Clock
from volcanoio.runtime.loading import PluginError, discover
from volcanoio.runtime.mounted import MountError, files_in
from volcanoio.runtime.scheduler_setup import Known, Setup

INTERVAL = 1.0
"""Seconds between two looks."""
VALID, RELOADS, LAST = (
    "volcano_scheduler_config_valid",
    "volcano_scheduler_config_reload_total",
    "volcano_scheduler_config_last_success_timestamp_seconds",
)
_log = structlog.get_logger(__name__)


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
        except (OSError, MountError) as error:
            return Seen(None, str(error))
        except UnicodeDecodeError:
            return Seen(None, f"{self.path}: not UTF-8 text; give a YAML file")
        return Seen(text, "", mounted)


class Reloader:
    """Looks once a second, and hands over what changed; `run` until cancelled.

    `known` is what is in force, as `first` was seen; `adopt` takes over a new setup. `clock` is the machine's: files
    live in its time, however fast a simulated cluster's runs.
    """

    def __init__(
        self, watched: Watched, known: Known, first: Seen, *, adopt: Callable[[Setup], None], clock: Clock, probe: Probe
    ) -> None:
        self._watched = watched
        self._known = known
        self._in_force = self._judged = self._last = first
        self._adopt = adopt
        self._clock = clock
        self._probe = probe

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
            _log.info("the scheduler's configuration is again the one in force", file=self._source)
            self._good()
            return
        try:
            known, setup = await anyio.to_thread.run_sync(self._make, seen)
        except ConfigurationError as error:
            self._refused([str(problem) for problem in error.problems])
        except (PluginError, MountError) as error:
            self._refused([str(error)])
        else:
            self._known, self._in_force = known, seen
            self._adopt(setup)
            self._probe.count(RELOADS, result="success")
            self._good()
            setup.warn(self._source)
            _log.info("the scheduler's configuration changed; it takes effect with the next cycle", file=self._source)

    @property
    def _source(self) -> str:
        return str(self._watched.path or "default")

    def _make(self, seen: Seen) -> tuple[Known, Setup]:
        """The setup of what was seen; runs on a thread. Raises ConfigurationError, PluginError and MountError."""
        if seen.text is None:
            raise MountError(seen.unreadable)
        known = self._known
        if seen.mounted != self._in_force.mounted:
            registry = discover(plugins_dirs=self._watched.plugins_dirs)
            known = Known.of(registry, ignore_unavailable=known.ignore_unavailable)
        return known, Setup.make(seen.text, known)

    def _good(self) -> None:
        self._probe.gauge(VALID, 1.0)
        self._probe.gauge(LAST, self._clock.now())

    def _refused(self, problems: list[str]) -> None:
        """Say what is wrong, once for what was seen; what is in force stays."""
        self._probe.count(RELOADS, result="failure")
        self._probe.gauge(VALID, 0.0)
        for problem in problems:
            _log.error(
                "the scheduler's new configuration is refused, the last good one stays",
                file=self._source,
                problem=problem,
            )
