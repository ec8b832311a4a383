"""A profile: actions and plugins in their tiers, constructed from a configuration, and the resources they read."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from volcanoio.engine.scheduling.config.configuration import (
    ActionOption,
    Configuration,
    ConfigurationError,
    PluginOption,
)
from volcanoio.engine.scheduling.config.yaml_nodes import Problem
from volcanoio.framework.arguments import ArgumentError, suggestion
from volcanoio.framework.scheduling.points import IGNORED_RESOURCES, PER_DEVICE_RESOURCES, Plugin, PluginFactory
from volcanoio.framework.scheduling.session import Action, ActionFactory
from volcanoio.framework.scheduling.settings import MetricsSettings
from volcanoio.model import kinds

_SESSION_KINDS = (kinds.POD, kinds.NODE, kinds.POD_GROUP, kinds.QUEUE, kinds.PRIORITY_CLASS, kinds.SECRET)
WATCHABLE = frozenset(kinds.BY_RESOURCE).difference(kind.resource for kind in _SESSION_KINDS)
"""The resources that plugins may watch: all but those every session has, and secrets."""


def watches_of(plugin: Any) -> tuple[str, ...]:
    """Return the resources a plugin reads, sorted; it names them in its class or constructor."""
    return tuple(sorted(getattr(plugin, "watches", ())))


def watch_error(plugin: Any) -> str:
    """Return why a plugin may not watch one of its resources, "" if it may."""
    for resource in watches_of(plugin):
        if resource not in WATCHABLE:
            hint = suggestion(resource, sorted(WATCHABLE))
            return f'plugin "{plugin.name}" watches "{resource}", which plugins cannot watch{hint}'
    return ""


Constructed = TypeVar("Constructed", Plugin, Action)


@dataclass(frozen=True, slots=True)
class Enabled:
    """A plugin in its tier, with the switches of its configuration."""

    plugin: Plugin
    switches: Mapping[str, bool]


@dataclass(frozen=True, slots=True)
class Profile:
    """The actions and plugins of a cycle. Build one per configuration: plugins keep state between cycles."""

    tiers: tuple[tuple[Enabled, ...], ...]
    actions: tuple[Action, ...]
    metrics: MetricsSettings | None = None
    """The source of node metrics, if configured."""
    watches: frozenset[str] = field(init=False)
    """The resources that its plugins read beside what every session has."""
    ignored_resources: frozenset[str] = field(init=False)
    """The resources that its plugins account for themselves (`points.IGNORED_RESOURCES`)."""
    per_device_resources: Mapping[str, str] = field(init=False)
    """The resources that pods request of each device (`points.PER_DEVICE_RESOURCES`)."""

    def __post_init__(self) -> None:
        """Collect what the plugins watch; raises ValueError for a resource that they may not watch."""
        found: set[str] = set()
        ignored: set[str] = set()
        per_device: dict[str, str] = {}
        for enabled in itertools.chain.from_iterable(self.tiers):
            ignored.update(getattr(enabled.plugin, IGNORED_RESOURCES, ()))
            per_device.update(getattr(enabled.plugin, PER_DEVICE_RESOURCES, {}))
            if fault := watch_error(enabled.plugin):
                raise ValueError(fault)
            found.update(watches_of(enabled.plugin))
        object.__setattr__(self, "watches", frozenset(found))
        object.__setattr__(self, "ignored_resources", frozenset(ignored))
        object.__setattr__(self, "per_device_resources", per_device)

    @classmethod
    def build(
        cls, configuration: Configuration, plugins: Mapping[str, PluginFactory], actions: Mapping[str, ActionFactory]
    ) -> Profile:
        """Construct every plugin and action of the configuration.

        Raises ConfigurationError for invalid arguments, each with its position; KeyError for an unregistered name,
        which the parser refuses before.
        """
        profile, problems = cls.attempt(configuration, plugins, actions)
        if problems:
            raise ConfigurationError(problems)
        return profile

    @classmethod
    def attempt(
        cls, configuration: Configuration, plugins: Mapping[str, PluginFactory], actions: Mapping[str, ActionFactory]
    ) -> tuple[Profile, list[Problem]]:
        """Construct what can be constructed; return it with the problems of the rest."""
        problems: list[Problem] = []
        tiers = tuple(
            tuple(
                Enabled(plugin, option.switches)
                for option in tier.plugins
                if (plugin := _construct(plugins[option.name], option, problems)) is not None
            )
            for tier in configuration.tiers
        )
        none = ActionOption()
        chosen = tuple(
            action
            for name in configuration.actions
            if (action := _construct(actions[name], configuration.configurations.get(name, none), problems)) is not None
        )
        return cls(tiers, chosen, configuration.metrics), problems

    @classmethod
    def of(cls, tiers: Sequence[Sequence[Plugin]], actions: Sequence[Action]) -> Profile:
        """Return a profile of existing plugins and actions, every switch at its default."""
        return cls(tuple(tuple(Enabled(plugin, {}) for plugin in tier) for tier in tiers), tuple(actions))


def _construct(
    factory: Callable[[Mapping[str, Any]], Constructed], option: PluginOption | ActionOption, problems: list[Problem]
) -> Constructed | None:
    """Construct a plugin or action; None and problems for invalid arguments or an exception in the constructor.

    The same holds if it watches a resource that plugins may not watch.
    """
    try:
        constructed = factory(option.arguments)
        if not (fault := watch_error(constructed)):
            return constructed
        problems.append(Problem(*option.place, fault))
    except ArgumentError as error:
        places = option.argument_places
        problems.extend(Problem(*places.get(fault.key, option.place), fault.text) for fault in error.faults)
    except Exception as error:
        name = getattr(factory, "name", getattr(factory, "__name__", "the plugin"))
        text = f"{name}: its constructor raised {type(error).__name__}: {error}; fix it, or remove it from the file"
        problems.append(Problem(*option.place, text))
    return None
