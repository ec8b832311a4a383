"""A configuration brought to life: plugins by tier, with their switches, and actions in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from volcanoio.engine.scheduling.configuration import Configuration, PluginOption
from volcanoio.framework.arguments import ArgumentError
from volcanoio.framework.scheduling.points import Plugin, PluginFactory
from volcanoio.framework.scheduling.session import Action, ActionFactory


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

    @classmethod
    def build(
        cls,
        configuration: Configuration,
        plugins: Mapping[str, PluginFactory],
        actions: Mapping[str, ActionFactory],
    ) -> Profile:
        """Construct every plugin and action the configuration names.

        Raises ArgumentError for arguments that do not fit, naming the plugin's line; KeyError for a name that is not
        registered (the parser of configurations refuses those before).
        """
        return cls(
            tiers=tuple(
                tuple(Enabled(_construct(plugins, option), option.switches) for option in tier.plugins)
                for tier in configuration.tiers
            ),
            actions=tuple(actions[name](configuration.configurations.get(name, {})) for name in configuration.actions),
        )

    @classmethod
    def of(cls, tiers: Sequence[Sequence[Plugin]], actions: Sequence[Action]) -> Profile:
        """A profile of plugins and actions at hand, every switch at its default."""
        return cls(tuple(tuple(Enabled(plugin, {}) for plugin in tier) for tier in tiers), tuple(actions))


def _construct(plugins: Mapping[str, PluginFactory], option: PluginOption) -> Plugin:
    try:
        return plugins[option.name](option.arguments)
    except ArgumentError as error:
        if not option.line:
            raise
        msg = f"line {option.line}: {error}"
        raise ArgumentError(msg) from None
