"""The scheduler's configuration file, in Volcano's format: actions, tiers of plugins, arguments of actions.

Schema and defaults: Volcano `pkg/scheduler/conf/scheduler_conf.go`, `pkg/scheduler/plugins/defaults.go`. Unlike there,
a name or key that nobody knows is an error with its line, and all errors of a file are told at once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import msgspec

from volcanoio.engine.scheduling.metricsection import metrics_settings
from volcanoio.engine.scheduling.yamlnodes import Place, Problem, Reader, Value
from volcanoio.framework.arguments import suggestion
from volcanoio.framework.scheduling.metricsettings import MetricsSettings
from volcanoio.model.packaged import config_path

SWITCH_DEFAULTS: Mapping[str, bool] = {
    "enableJobOrder": True,
    "enableHierarchy": False,
    "enableJobReady": True,
    "enableJobPipelined": True,
    "enableTaskOrder": True,
    "enablePreemptable": True,
    "enableReclaimable": True,
    "enablePreemptive": True,
    "enableQueueOrder": True,
    "enabledClusterOrder": False,
    "enablePredicate": True,
    "enableBestNode": True,
    "enableNodeOrder": True,
    "enableTargetJob": True,
    "enableReservedNodes": True,
    "enableJobEnqueued": True,
    "enabledVictim": True,
    "enableJobStarving": True,
    "enabledOverused": True,
    "enabledAllocatable": True,
    "enabledHyperNodeOrder": True,
    "enabledSubJobReady": True,
    "enabledSubJobPipelined": True,
    "enabledSubJobOrder": True,
    "enabledHyperNodeGradient": True,
}
"""Volcano's switches of a plugin, mixed spelling and all, and what a missing one means."""

VOLCANO_PLUGINS = frozenset({
    "binpack", "capacity", "cdp", "conformance", "deviceshare", "drf", "extender", "gang",
    "network-topology-aware", "nodegroup", "nodeorder", "numa-aware", "overcommit", "pdb", "predicates",
    "priority", "proportion", "rescheduling", "resource-strategy-fit", "resourcequota", "sla", "task-topology",
    "tdm", "usage",
})  # fmt: skip
"""Plugins of Volcano: one that is not registered here is "not available yet" rather than unknown."""

VOLCANO_ACTIONS = frozenset({
    "enqueue", "allocate", "backfill", "preempt", "reclaim", "shuffle", "gangpreempt", "gangreclaim",
})  # fmt: skip
"""Actions of Volcano, likewise."""

_KEYS = ("actions", "tiers", "configurations", "metrics")


IGNORE = "--ignore-unavailable-plugins"
"""The option that skips plugins and actions of Volcano that are not available yet."""


class PluginOption(msgspec.Struct, frozen=True, kw_only=True):
    """One plugin of a tier. `switches` has every key of SWITCH_DEFAULTS.

    `place` is where the file names it; `argument_places` and `switch_places` are where it gives which, by key.
    """

    name: str
    switches: Mapping[str, bool]
    arguments: Mapping[str, Any]
    place: Place = Place()
    argument_places: Mapping[str, Place] = {}
    switch_places: Mapping[str, Place] = {}


class ActionOption(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of an action, and where the file gives them."""

    arguments: Mapping[str, Any] = {}
    place: Place = Place()
    argument_places: Mapping[str, Place] = {}


class Tier(msgspec.Struct, frozen=True, kw_only=True):
    """Plugins that decide together, before those of later tiers."""

    plugins: tuple[PluginOption, ...]


class Configuration(msgspec.Struct, frozen=True, kw_only=True):
    """What the scheduler does, in order; `configurations` holds the arguments of actions by action.

    `warnings` are what was skipped or has no effect; `actions_place` is where the actions are listed.
    """

    actions: tuple[str, ...]
    tiers: tuple[Tier, ...]
    configurations: Mapping[str, ActionOption] = {}
    metrics: MetricsSettings | None = None
    warnings: tuple[Problem, ...] = ()
    actions_place: Place = Place()


class ConfigurationError(ValueError):
    """A file that cannot be used; `problems` are all of them, in the order of lines."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = in_order(problems)
        super().__init__("\n".join(map(str, self.problems)))


def in_order(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """By line and column."""
    return tuple(sorted(problems, key=lambda problem: (problem.line, problem.column)))


def parse(
    text: str, *, actions: Collection[str], plugins: Collection[str], ignore_unavailable: bool = False
) -> Configuration:
    """The configuration in `text`, where these actions and plugins are registered; raises ConfigurationError.

    With `ignore_unavailable`, those of Volcano that are not registered are left out with a warning each.
    """
    configuration, problems = read(text, actions=actions, plugins=plugins, ignore_unavailable=ignore_unavailable)
    if problems:
        raise ConfigurationError(problems)
    return configuration


def read(
    text: str, *, actions: Collection[str], plugins: Collection[str], ignore_unavailable: bool = False
) -> tuple[Configuration, tuple[Problem, ...]]:
    """As `parse`, for who wants to go on: what can be made of the text, and what is wrong with it."""
    return _Parser(actions, plugins, ignore_unavailable).configuration(text)


def default_text() -> str:
    """The file used where none is given: Volcano's Helm default."""
    return config_path("scheduler", "volcano-scheduler.conf").read_text(encoding="utf-8")


def default_configuration(*, actions: Collection[str], plugins: Collection[str]) -> Configuration:
    """The configuration used where no file is given."""
    return parse(default_text(), actions=actions, plugins=plugins)


class _Parser:
    """Reads one document; problems gather in the reader, and what is wrong is left out of the result."""

    def __init__(self, actions: Collection[str], plugins: Collection[str], ignore_unavailable: bool) -> None:
        self._actions = sorted(actions)
        self._plugins = sorted(plugins)
        self._ignore = ignore_unavailable
        self._reader = Reader()
        self._seen: dict[str, int] = {}
        self._skipped: set[tuple[str, str]] = set()

    def configuration(self, text: str) -> tuple[Configuration, tuple[Problem, ...]]:
        """The whole document."""
        document = self._reader.document(text, 'actions: "enqueue, allocate, backfill" and tiers')
        fields = document.mapping("the document", _KEYS) if document else {}
        metrics = fields.get("metrics")
        result = Configuration(
            actions=self._action_names(document, fields.get("actions")),
            tiers=tuple(self._tier(item) for item in _items(fields, "tiers")),
            configurations=self._action_options(_items(fields, "configurations")),
            metrics=None if metrics is None or metrics.empty else metrics_settings(metrics),
            warnings=in_order(self._reader.warnings),
            actions_place=fields["actions"].place if "actions" in fields else Place(1, 1),
        )
        return result, in_order(self._reader.problems)

    def _action_names(self, document: Value | None, value: Value | None) -> tuple[str, ...]:
        if value is None:
            if document is not None and document.is_mapping:
                document.problem("actions is missing", '; add a line such as actions: "enqueue, allocate, backfill"')
            return ()
        names: list[str] = []
        at = 0
        for part in value.string("actions").split(",") if value.string("actions") else ():
            name = part.strip()
            if self._known(value, "action", name, at=at + part.find(name)):
                names.append(name)
            at += len(part) + 1
        return tuple(names)

    def _known(self, value: Value, what: str, name: str, *, at: int | None = None) -> bool:
        """Whether a name is registered; one that is not is a problem, or a warning where those of Volcano may miss."""
        known, upstream = {
            "action": (self._actions, VOLCANO_ACTIONS),
            "plugin": (self._plugins, VOLCANO_PLUGINS),
        }[what]
        if name in known:
            return True
        if not name:
            value.problem(f"{what} without a name", "; name it or remove it", at=at)
        elif name not in upstream:
            value.problem(f'{what} "{name}" is unknown', suggestion(name, known), at=at)
        elif self._ignore:
            if (what, name) not in self._skipped:
                self._skipped.add((what, name))
                value.warning(f'{what} "{name}" of Volcano is not available yet and is skipped', at=at)
        else:
            value.problem(
                f'{what} "{name}" of Volcano is not available yet',
                f"; available are: {', '.join(known)}; remove it, or skip it with {IGNORE}",
                at=at,
            )
        return False

    def _tier(self, value: Value) -> Tier:
        fields = value.mapping("a tier", ("plugins",))
        given = _items(fields, "plugins")
        plugins = tuple(option for item in given if (option := self._plugin(item)) is not None)
        hierarchical = [item for item in plugins if item.name == "drf" and item.switches["enableHierarchy"]]
        if hierarchical and any(item.name == "proportion" for item in plugins):
            value.problem(
                "drf with enableHierarchy and proportion are in one tier and share out the same queues differently",
                "; keep one of them",
            )
        return Tier(plugins=plugins)

    def _plugin(self, value: Value) -> PluginOption | None:
        """One plugin; None when it is not to be had."""
        fields = value.mapping("a plugin", ("name", "arguments", *SWITCH_DEFAULTS))
        name, known = self._name(value, fields, "plugin")
        if name in self._seen:
            value.problem(f'plugin "{name}" is listed twice, first in line {self._seen[name]}', "; keep one of them")
        elif name:
            self._seen[name] = value.place.line
        switches = {
            key: fields[key].boolean(key, default) if key in fields else default
            for key, default in SWITCH_DEFAULTS.items()
        }
        arguments, places = _arguments(fields)
        if not known:
            return None
        return PluginOption(
            name=name,
            switches=switches,
            arguments=arguments,
            place=value.place,
            argument_places=places,
            switch_places={
                key: value.key for key, value in fields.items() if key in SWITCH_DEFAULTS and not value.null
            },
        )

    def _action_options(self, values: Iterable[Value]) -> dict[str, ActionOption]:
        """The arguments of actions; an action that is not to be had is left out."""
        result: dict[str, ActionOption] = {}
        for value in values:
            fields = value.mapping("a configuration", ("name", "arguments"))
            name, known = self._name(value, fields, "action")
            arguments, places = _arguments(fields)
            if name in result:
                line = result[name].place.line
                value.problem(f'action "{name}" is configured twice, first in line {line}', "; keep one of them")
            elif known:
                result[name] = ActionOption(arguments=arguments, place=value.place, argument_places=places)
        return result

    def _name(self, value: Value, fields: Mapping[str, Value], what: str) -> tuple[str, bool]:
        """The `name` of an entry, and whether it is registered."""
        if "name" not in fields:
            if value.is_mapping:
                value.problem("an entry has no name", f"; add the {what}'s name")
            return "", False
        name = fields["name"].string("name")
        return name, bool(name) and self._known(fields["name"], what, name)


def _items(fields: Mapping[str, Value], key: str) -> list[Value]:
    """The entries of a list that may be missing."""
    return fields[key].items(key) if key in fields else []


def _arguments(fields: Mapping[str, Value]) -> tuple[dict[str, Any], dict[str, Place]]:
    """The plain values under `arguments`, which may be missing, and where their keys stand."""
    return fields["arguments"].plain_mapping("arguments") if "arguments" in fields else ({}, {})
