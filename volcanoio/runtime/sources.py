"""Runs the sources of a profile's plugins, and the product's own: each on its own, cancelled with its plugin.

One that ends or raises is started again after a pause that grows; both are logged and counted.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import anyio
import structlog

from volcanoio.engine.scheduling.profile import Profile
from volcanoio.framework.events import Event
from volcanoio.framework.probe import Probe
from volcanoio.framework.scheduling.metricsettings import MetricsSettings
from volcanoio.framework.scheduling.sources import NODE_METRICS, Source
from volcanoio.framework.scheduling_events import FactsSaid
from volcanoio.kube.clock import Clock

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
"""Seconds before a source is started again, doubling; a source that has said something begins with the first."""
_log = structlog.get_logger(__name__)


class _Wanted(NamedTuple):
    """A source to run; another `origin` (compared by `==`) means that it is another one under the same name."""

    origin: object
    source: Source


class _Origin(NamedTuple):
    """A plugin, which is equal to itself alone."""

    plugin: int


class _Feed:
    """What one run of a source is given. Implements `sources.Feed`."""

    def __init__(self, name: str, publish: Callable[[list[Event]], object], clock: Clock) -> None:
        self._name = name
        self._publish = publish
        self._clock = clock
        self.said = False
        self.open = True

    def now(self) -> float:
        """The time (epoch seconds)."""
        return self._clock.now()

    async def sleep(self, seconds: float) -> None:
        """Wait; time never hurries for a source's sake."""
        await self._clock.idle(seconds)

    def say(self, facts: Mapping[str, Any], *, whole: bool = False) -> None:
        """Publish facts; what a source says after it was cancelled is not heard."""
        if self.open:
            self.said = True
            self._publish([FactsSaid(source=self._name, facts=dict(facts), whole=whole)])


class SourceHost:
    """Runs what `follow` asks for. `node_metrics` makes the product's source of a configuration's settings."""

    def __init__(
        self,
        publish: Callable[[list[Event]], object],
        *,
        clock: Clock,
        probe: Probe,
        node_metrics: Callable[[MetricsSettings], Source],
    ) -> None:
        self._publish = publish
        self._clock = clock
        self._probe = probe
        self._node_metrics = node_metrics
        self._wanted: dict[str, _Wanted] = {}
        self._changed = anyio.Event()
        self._running: dict[str, tuple[object, anyio.CancelScope]] = {}
        self._plugins: list[object] = []

    def follow(self, profile: Profile) -> None:
        """Run the sources of this profile and no others; facts of a source that is not among them are taken back."""
        wanted: dict[str, _Wanted] = {}
        self._plugins = [enabled.plugin for enabled in itertools.chain.from_iterable(profile.tiers)]
        for plugin in self._plugins:
            for name, source in _sources_of(plugin).items():
                wanted[name] = _Wanted(_Origin(id(plugin)), source)
        if profile.metrics is not None:
            wanted[NODE_METRICS] = _Wanted(profile.metrics, self._node_metrics(profile.metrics))
        self._wanted = wanted
        self._changed.set()

    async def run(self) -> None:
        """Run until cancelled."""
        async with anyio.create_task_group() as tasks:
            while True:
                await self._changed.wait()
                self._changed = anyio.Event()
                for name, (origin, scope) in list(self._running.items()):
                    if name not in self._wanted or self._wanted[name].origin != origin:
                        scope.cancel()
                        del self._running[name]
                    if name not in self._wanted:
                        self._publish([FactsSaid(source=name, whole=True)])
                for name, wanted in self._wanted.items():
                    if name not in self._running:
                        scope = anyio.CancelScope()
                        self._running[name] = wanted.origin, scope
                        tasks.start_soon(self._keep, name, wanted.source, scope)

    async def _keep(self, name: str, source: Source, scope: anyio.CancelScope) -> None:
        """Run a source again and again until its scope is cancelled."""
        with scope:
            pause = FIRST_PAUSE
            while True:
                feed = _Feed(name, self._publish, self._clock)
                reason = "it ended by itself"
                try:
                    await source(feed)
                except Exception as error:
                    reason = f"{type(error).__name__}: {error}"
                finally:
                    feed.open = False
                if feed.said:
                    pause = FIRST_PAUSE
                self._probe.count("volcanoio_source_failures_total", source=name)
                _log.warning("source stopped; it is started again", source=name, reason=reason, seconds=pause)
                await self._clock.idle(pause)
                pause = min(2 * pause, LONGEST_PAUSE)


def _sources_of(plugin: object) -> Mapping[str, Source]:
    """A plugin's sources by the names under which sessions have their facts; none, and a log line, if it raises."""
    sources, owner = getattr(plugin, "sources", None), getattr(plugin, "name", "")
    try:
        return {f"{owner}/{name}": source for name, source in sources().items()} if callable(sources) else {}
    except Exception:
        _log.exception("a plugin's sources cannot be had; it goes on without them", plugin=owner)
        return {}
