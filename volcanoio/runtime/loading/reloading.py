"""Hot reload: files are read every 0.75 s, and changed content takes effect within two reads.

Polling covers the symlink swap of a ConfigMap mount, a rename over the file and a write in place. Notifications of the
operating system (inotify, as by `watchfiles`) would still need it: they are missing on network file systems, and if no
inotify watches are left. Reading a few kilobytes a second is cheap; a ConfigMap of the API server is watched, and read
from the cache. A change is adopted when two reads in a row return the same content, so a half-written file has no
effect. All blocking work, including constructors of plugins, runs on a thread.

Controllers and job plugins are not reloaded, because a controller's watches and the objects of running jobs must not
change at run time. `StartupFiles` reports that a restart is needed.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Generic, NamedTuple, TypeVar

import anyio
import anyio.to_thread
import structlog

from volcanoio.framework.probe import Probe
from volcanoio.kube.clock import Clock
from volcanoio.kube.errors import ApiError
from volcanoio.kube.transport import TransportError
from volcanoio.model.documents import read_text
from volcanoio.runtime.loading.mounted_files import MountError, files_in

INTERVAL = 0.75
"""Seconds between two reads."""
Made = TypeVar("Made")
_log = structlog.get_logger(__name__)


class ReloadMetrics(NamedTuple):
    """Names of metrics: whether the files are in force, how often they took effect, and when last."""

    valid: str
    reloads: str
    last: str


class SourceContent(NamedTuple):
    """Content of a read: the file's text (None: unreadable), the error, and the mounted files."""

    text: str | None
    unreadable: str = ""
    mounted: tuple[tuple[str, str], ...] = ()
    """Path and digest of each file."""


@dataclass(frozen=True, kw_only=True)
class ConfigurationSource:
    """Source of the configuration: a file, or for `path` None the `default`, so that only plugins may change.

    `configmap_source` is the same for a ConfigMap.
    """

    path: Path | None
    default: str
    plugins_dirs: Sequence[Path] = ()

    @property
    def changes(self) -> bool:
        """Whether there is a file that may change."""
        return self.path is not None or bool(self.plugins_dirs)

    @property
    def source(self) -> str:
        """Name of the source in logs."""
        return str(self.path or "default")

    async def run(self) -> None:
        """Follow the source until cancelled; files need nothing between two reads."""

    async def see(self) -> SourceContent:
        """Read the current content without blocking the event loop."""
        return await anyio.to_thread.run_sync(self.look)

    def look(self) -> SourceContent:
        """Read the current content; blocks on files."""
        try:
            mounted = tuple(
                (str(path), hashlib.sha256(path.read_bytes()).hexdigest())
                for directory in self.plugins_dirs
                for path in files_in(directory)
            )
            text = self.default if self.path is None else read_text(self.path)
        except MountError as error:
            return SourceContent(None, str(error))
        except OSError as error:
            return SourceContent(None, f"{error.filename}: {error.strerror}; put a file that can be read there")
        except UnicodeDecodeError:
            return SourceContent(None, f"{self.path}: not UTF-8 text; give a YAML file")
        return SourceContent(text, "", mounted)


@dataclass(frozen=True, slots=True)
class WatchedConfiguration:
    """A source, and the content from which the current configuration was made."""

    source: ConfigurationSource
    in_force: SourceContent


class ConfigurationReloader(ABC, Generic[Made]):
    """Reads the source every INTERVAL and puts changes into force; `run` until cancelled.

    `clock` is the machine's: file times follow it, even if a simulated cluster runs faster.
    """

    what: ClassVar[str]
    """Name of the configuration in logs."""
    when: ClassVar[str]
    """Log text that says when a new configuration takes effect."""
    metrics: ClassVar[ReloadMetrics]
    refusals: ClassVar[tuple[type[Exception], ...]]
    """Exceptions that `make` raises for a configuration that cannot take effect."""

    def __init__(self, watched: WatchedConfiguration, *, clock: Clock, probe: Probe) -> None:
        self._watched = watched.source
        self._in_force = self._evaluated = self._last = watched.in_force
        self._clock = clock
        self._probe = probe
        self._default = False
        """Whether the default is in force because no other configuration could be used so far."""
        self._answered = True

    @abstractmethod
    def make(self, seen: SourceContent, *, mounted_changed: bool) -> Made:
        """Construct what a configuration describes; runs on a thread. Raises one of `refusals`."""

    @abstractmethod
    def take_over(self, made: Made) -> None:
        """Put a constructed configuration into force."""

    async def run(self) -> None:
        """Read the source periodically, if it may change."""
        if self._evaluated == self._in_force:
            self._good()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._watched.run)
            while self._watched.changes:
                await self._clock.idle(INTERVAL)
                await self.look()

    async def begin(self, *, required: bool = False) -> None:
        """Adopt the content at the start, if only the default is in force.

        Content that cannot be used is logged and the default stays; if `required`, it raises one of `refusals`.
        """
        self._default = True
        while (seen := await self._see()) is None:
            await self._clock.idle(INTERVAL)
        self._last = seen
        await self._evaluate(seen, required=required)

    async def look(self) -> None:
        """Read once and adopt changes."""
        seen = await self._see()
        is_stable, self._last = seen == self._last, seen or self._last
        if seen is not None and is_stable and seen != self._evaluated:
            await self._evaluate(seen)

    async def _see(self) -> SourceContent | None:
        """Read the current content; None if the API server did not answer, which is logged once."""
        try:
            seen = await self._watched.see()
        except (ApiError, TransportError) as error:
            if self._answered:
                _log.warning(f"cannot look for changes of {self.what}", file=self.source, error=str(error))
            self._answered = False
            return None
        self._answered = True
        return seen

    async def _evaluate(self, seen: SourceContent, *, required: bool = False) -> None:
        """Adopt new content, or log why it cannot be used; if `required`, raise that."""
        self._evaluated = seen
        if seen == self._in_force:
            if not self._default:
                _log.info(f"{self.what} was changed back to the one in force", file=self.source)
            self._default = False
            self._good()
            return
        try:
            made = await anyio.to_thread.run_sync(self._make, seen)
        except self.refusals as error:
            if required:
                raise
            problems = getattr(error, "problems", None)
            self._refused(seen, [str(problem) for problem in problems] if problems else str(error).splitlines())
        else:
            was, self._in_force, self._default = "was found" if self._default else "changed", seen, False
            self.take_over(made)
            self._probe.count(self.metrics.reloads, result="success")
            self._good()
            _log.info(f"{self.what} {was}; it takes effect {self.when}", file=self.source)

    @property
    def source(self) -> str:
        """Name of the file in logs."""
        return self._watched.source

    @property
    def in_force(self) -> str:
        """The text of the configuration in force."""
        return self._in_force.text or ""

    def _make(self, seen: SourceContent) -> Made:
        if seen.text is None:
            raise MountError(seen.unreadable)
        return self.make(seen, mounted_changed=seen.mounted != self._in_force.mounted)

    def _good(self) -> None:
        self._probe.gauge(self.metrics.valid, 1.0)
        self._probe.gauge(self.metrics.last, self._clock.now())

    def _refused(self, seen: SourceContent, problems: list[str]) -> None:
        """Log why the content was refused, once for each content; the current configuration stays."""
        verb = "cannot be read" if seen.text is None else "is refused"
        stays = "the default is in force" if self._default else "the last good one stays in force"
        self._probe.count(self.metrics.reloads, result="failure")
        self._probe.gauge(self.metrics.valid, 0.0)
        for problem in problems:
            _log.error(f"{self.what} {verb}; {stays}", file=self.source, problem=problem)


RESTART_NEEDED = "volcanoio_restart_needed"
"""Files that differ from those read at the start."""
_JOB_PLUGIN = b"JobPlugin"
"""Base class of job plugins; other files of a plugins directory belong to the scheduler."""
_LOG = structlog.get_logger(__name__)


class StartupFiles:
    """Checks the files of directories every INTERVAL; `run` until cancelled.

    `plugins_dirs` may contain scheduler plugins too; those are reloaded and skipped here. `clock` is the machine's.
    """

    def __init__(
        self, controllers_dirs: Sequence[Path], plugins_dirs: Sequence[Path], *, clock: Clock, probe: Probe
    ) -> None:
        self._controllers_dirs = controllers_dirs
        self._plugins_dirs = plugins_dirs
        self._clock = clock
        self._probe = probe
        self._first: dict[str, str] = {}
        self._first = self._last = self._seen() or {}
        self._reported: Mapping[str, str] = {}

    async def run(self) -> None:
        """Check periodically, if there are directories."""
        while self._controllers_dirs or self._plugins_dirs:
            self._probe.gauge(RESTART_NEEDED, float(len(self._reported)))
            await self._clock.idle(INTERVAL)
            await self.look()

    async def look(self) -> None:
        """Check once; a change is reported when two checks in a row see it."""
        seen = await anyio.to_thread.run_sync(self._seen)
        if seen is None:
            return
        is_stable, self._last = seen == self._last, seen
        if not is_stable:
            return
        differs = {
            path: "removed" if path not in seen else "changed" if path in self._first else "added"
            for path in sorted({*seen, *self._first})
            if seen.get(path) != self._first.get(path)
        }
        for path, what in differs.items():
            if self._reported.get(path) != what:
                _LOG.warning(
                    "a file of controllers or job plugins, which are read at the start, has changed; "
                    "restart to load it",
                    file=path,
                    what=what,
                )
        for path in self._reported.keys() - differs.keys():
            _LOG.info("a file of controllers or job plugins is again as it was read at the start", file=path)
        self._reported = differs

    def _seen(self) -> dict[str, str] | None:
        """Return digests by path, None while a directory cannot be read; blocks on files."""
        found: dict[str, str] = {}
        try:
            for directory in (*self._controllers_dirs, *self._plugins_dirs):
                for path in files_in(directory):
                    text = path.read_bytes()
                    if directory in self._controllers_dirs or str(path) in self._first or _JOB_PLUGIN in text:
                        found[str(path)] = hashlib.sha256(text).hexdigest()
        except (MountError, OSError):
            return None
        return found
