"""A configuration with its plugins made: all that a scheduler takes over at once between two cycles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

import structlog

from volcanoio.engine.scheduling.configuration import Configuration, parse
from volcanoio.engine.scheduling.metricsection import without_password
from volcanoio.engine.scheduling.profile import Profile
from volcanoio.framework import groups
from volcanoio.framework.scheduling.points import PluginFactory
from volcanoio.framework.scheduling.session import ActionFactory
from volcanoio.framework.scheduling_events import ConfigurationChanged
from volcanoio.runtime.loading import Registry

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class Known:
    """What configurations may name. `origins` says where each plugin comes from, `sources` are the mounted files."""

    plugins: Mapping[str, PluginFactory]
    actions: Mapping[str, ActionFactory]
    origins: Mapping[str, str] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)
    ignore_unavailable: bool = False

    @classmethod
    def of(cls, registry: Registry, *, ignore_unavailable: bool = False) -> Self:
        """All that a registry holds for schedulers; imports it. Raises PluginError."""
        return cls(
            plugins=registry.factories(groups.SCHEDULER_PLUGINS),
            actions=registry.factories(groups.ACTIONS),
            origins=registry.origins(groups.SCHEDULER_PLUGINS),
            sources=registry.sources(groups.SCHEDULER_PLUGINS, groups.ACTIONS),
            ignore_unavailable=ignore_unavailable,
        )


@dataclass(frozen=True, kw_only=True)
class Setup:
    """What takes effect, and the event that says so."""

    configuration: Configuration
    profile: Profile
    event: ConfigurationChanged

    @classmethod
    def make(cls, text: str, known: Known) -> Self:
        """Construct what the text names; raises ConfigurationError."""
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
        """Log each of the configuration's warnings; `source` is the file it is from."""
        for problem in self.configuration.warnings:
            _log.warning(str(problem), file=str(source))
