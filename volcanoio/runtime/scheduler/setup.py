"""`Setup`: a configuration with its constructed plugins, which a scheduler adopts between two cycles.

`SchedulerReloader` makes a new one when the configuration or the mounted plugins change; see `loading.reloading`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Self

import structlog

from volcanoio.engine.scheduling.config.configuration import Configuration, ConfigurationError, parse
from volcanoio.engine.scheduling.config.metric_section import without_password
from volcanoio.engine.scheduling.config.profile import Profile
from volcanoio.framework import entrypoints
from volcanoio.framework.probe import Probe
from volcanoio.framework.scheduling.points import PluginFactory
from volcanoio.framework.scheduling.session import ActionFactory
from volcanoio.framework.scheduling_events import ConfigurationChanged
from volcanoio.kube.clock import Clock
from volcanoio.runtime.loading.mounted_files import MountError
from volcanoio.runtime.loading.registry import PluginError, Registry, discover
from volcanoio.runtime.loading.reloading import (
    ConfigurationReloader,
    ReloadMetrics,
    SourceContent,
    WatchedConfiguration,
)

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class PluginCatalog:
    """Plugins that configurations may name. `origins` contains the origin of each, `sources` the mounted files."""

    plugins: Mapping[str, PluginFactory]
    actions: Mapping[str, ActionFactory]
    origins: Mapping[str, str] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)
    ignore_unavailable: bool = False

    @classmethod
    def of(cls, registry: Registry, *, ignore_unavailable: bool = False) -> Self:
        """Return all scheduler plugins and actions of a registry; imports them. Raises PluginError."""
        return cls(
            plugins=registry.factories(entrypoints.SCHEDULER_PLUGINS),
            actions=registry.factories(entrypoints.ACTIONS),
            origins=registry.origins(entrypoints.SCHEDULER_PLUGINS),
            sources=registry.sources(entrypoints.SCHEDULER_PLUGINS, entrypoints.ACTIONS),
            ignore_unavailable=ignore_unavailable,
        )


@dataclass(frozen=True, kw_only=True)
class Setup:
    """A constructed configuration, and the event that announces it."""

    configuration: Configuration
    profile: Profile
    event: ConfigurationChanged

    @classmethod
    def make(cls, text: str, known: PluginCatalog) -> Self:
        """Construct a configuration from its text; raises ConfigurationError."""
        configuration = parse(
            text,
            actions=known.actions.keys(),
            plugins=known.plugins.keys(),
            ignore_unavailable=known.ignore_unavailable,
        )
        event = ConfigurationChanged(
            text=without_password(text),
            plugins=dict(known.origins),
            sources=dict(known.sources),
            ignore_unavailable=known.ignore_unavailable,
        )
        profile = Profile.build(configuration, known.plugins, known.actions)
        return cls(configuration=configuration, profile=profile, event=event)

    def warn(self, source: object) -> None:
        """Log each of the configuration's warnings; `source` is its file."""
        for problem in self.configuration.warnings:
            _log.warning(str(problem), file=str(source))


VALID, RELOADS, LAST = FIGURES = ReloadMetrics(
    "volcano_scheduler_config_valid",
    "volcano_scheduler_config_reload_total",
    "volcano_scheduler_config_last_success_timestamp_seconds",
)


class SchedulerReloader(ConfigurationReloader[tuple[PluginCatalog, Setup]]):
    """Reloader of setups; `known` are the plugins in force, `adopt` takes a new setup for the next cycle."""

    what = "the scheduler's configuration"
    when = "with the next cycle"
    metrics = FIGURES
    refusals = (ConfigurationError, PluginError, MountError)

    def __init__(
        self,
        watched: WatchedConfiguration,
        known: PluginCatalog,
        *,
        adopt: Callable[[Setup], None],
        clock: Clock,
        probe: Probe,
    ) -> None:
        super().__init__(watched, clock=clock, probe=probe)
        self._dirs = watched.source.plugins_dirs
        self._known = known
        self._adopt = adopt

    def make(self, seen: SourceContent, *, mounted_changed: bool) -> tuple[PluginCatalog, Setup]:
        """Construct the setup of new content. Raises ConfigurationError, PluginError and MountError."""
        known = self._known
        if mounted_changed:
            registry = discover(plugins_dirs=self._dirs)
            known = PluginCatalog.of(registry, ignore_unavailable=known.ignore_unavailable)
        return known, Setup.make(seen.text or "", known)

    def take_over(self, made: tuple[PluginCatalog, Setup]) -> None:
        """Put a setup into force and log its warnings."""
        self._known, setup = made
        self._adopt(setup)
        setup.warn(self.source)
