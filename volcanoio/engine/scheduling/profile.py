"""A configuration brought to life: plugins by tier, with their switches, and actions in order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from volcanoio.engine.scheduling.configuration import ActionOption, Configuration, ConfigurationError, PluginOption
from volcanoio.engine.scheduling.watching import fault_of
from volcanoio.engine.scheduling.yamlnodes import Problem
from volcanoio.framework.arguments import ArgumentError
from volcanoio.framework.scheduling.metricsettings import MetricsSettings
from volcanoio.framework.scheduling.points import Plugin, PluginFactory
from volcanoio.framework.scheduling.session import Action, ActionFactory

Made = TypeVar("Made", Plugin, Action)


@dataclass(frozen=True, slots=True)
class Enabled:
    """A plugin in its tier, with the switches of its configuration."""

    plugin: Plugin
    switches: Mapping[str, bool]


@dataclass(frozen=True, slots=True)
class Profile:
    """What a cycle runs. Build one per configuration: plugins keep what they learned at construction."""

    tiers: tuple[tuple[Enabled, ...], ...]
    actions: tuple[Action, ...]
    metrics: MetricsSettings | None = None
    """Where sources of plugins poll figures of nodes."""

    @classmethod
    def build(
        cls,
        configuration: Configuration,
        plugins: Mapping[str, PluginFactory],
        actions: Mapping[str, ActionFactory],
    ) -> Profile:
        """Construct every plugin and action the configuration names.

        Raises ConfigurationError for arguments that do not fit, each with its place; KeyError for a name that is not
        registered (the parser of configurations refuses those before).
        """
        profile, problems = cls.attempt(configuration, plugins, actions)
        if problems:
            raise ConfigurationError(problems)
        return profile

    @classmethod
    def attempt(
        cls,
        configuration: Configuration,
        plugins: Mapping[str, PluginFactory],
        actions: Mapping[str, ActionFactory],
    ) -> tuple[Profile, list[Problem]]:
        """As `build`, for who wants to go on: what could be constructed, and what keeps the rest from it."""
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
        """A profile of plugins and actions at hand, every switch at its default."""
        return cls(tuple(tuple(Enabled(plugin, {}) for plugin in tier) for tier in tiers), tuple(actions))


def _construct(
    factory: Callable[[Mapping[str, Any]], Made], option: PluginOption | ActionOption, problems: list[Problem]
) -> Made | None:
    """A plugin or action; None and problems where its arguments do not fit or its constructor raises.

    Likewise where it watches what plugins may not.
    """
    try:
        made = factory(option.arguments)
        if not (fault := fault_of(made)):
            return made
        problems.append(Problem(*option.place, fault))
    except ArgumentError as error:
        places = option.argument_places
        problems.extend(Problem(*places.get(fault.key, option.place), fault.text) for fault in error.faults)
    except Exception as error:
        name = getattr(factory, "name", getattr(factory, "__name__", "the plugin"))
        text = f"{name}: its constructor raised {type(error).__name__}: {error}; mend it, or remove it from the file"
        problems.append(Problem(*option.place, text))
    return None
