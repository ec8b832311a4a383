"""Mounted controllers and job plugins: they are read when the process starts, and a later change is said, not taken in.

What a controller watches, and what objects and pods of running jobs look like, does not change under way; a restart is
safe at any moment and takes the new files in.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import anyio.to_thread
import structlog

from volcanoio.framework.probe import Probe
from volcanoio.kube.clock import Clock
from volcanoio.runtime import reloading
from volcanoio.runtime.mounted import MountError, files_in

STALE = "volcanoio_restart_needed"
"""Files that differ from what was read at the start."""
_JOB_PLUGIN = b"JobPlugin"
"""Each derives from this class; other files of a plugins' directory are the scheduler's."""
_LOG = structlog.get_logger(__name__)


class StartFiles:
    """Looks once a second at the files of directories; `run` until cancelled.

    `plugins_dirs` hold the scheduler's plugins too, which are reloaded. `clock` is the machine's.
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
        self._told: Mapping[str, str] = {}

    async def run(self) -> None:
        """Look, for ever, where there is anything to look at."""
        while self._controllers_dirs or self._plugins_dirs:
            self._probe.gauge(STALE, float(len(self._told)))
            await self._clock.idle(reloading.INTERVAL)
            await self.look()

    async def look(self) -> None:
        """One look; a change is told when two looks in a row saw it."""
        seen = await anyio.to_thread.run_sync(self._seen)
        if seen is None:
            return
        settled, self._last = seen == self._last, seen
        if not settled:
            return
        differs = {
            path: "removed" if path not in seen else "changed" if path in self._first else "added"
            for path in sorted({*seen, *self._first})
            if seen.get(path) != self._first.get(path)
        }
        for path, what in differs.items():
            if self._told.get(path) != what:
                _LOG.warning(
                    "a file of controllers or job plugins, which are read at the start, is another; "
                    "restart to take it in",
                    file=path,
                    what=what,
                )
        for path in self._told.keys() - differs.keys():
            _LOG.info("a file of controllers or job plugins is again as it was read at the start", file=path)
        self._told = differs

    def _seen(self) -> dict[str, str] | None:
        """Digests by path, None while a directory cannot be read; blocks on files."""
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
