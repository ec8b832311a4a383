"""The scheduler's configuration file, in Volcano's format: actions, tiers of plugins, arguments of actions.

Schema and defaults: Volcano `pkg/scheduler/conf/scheduler_conf.go`, `pkg/scheduler/plugins/defaults.go`. Unlike there,
an unknown name or key is an error with its line, and all errors of a file are reported at once.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import msgspec

from volcanoio.engine.scheduling.config.metric_section import metrics_settings
from volcanoio.engine.scheduling.config.yaml_nodes import Place, Problem, Reader, Value
from volcanoio.framework.arguments import suggestion
from volcanoio.framework.scheduling.settings import MetricsSettings
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
"""Volcano's switches of a plugin, including their mixed spelling, and their defaults."""

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

    `place` is its position in the file; `argument_places` and `switch_places` are those of its arguments and switches,
    by key.
    """

    name: str
    switches: Mapping[str, bool]
    arguments: Mapping[str, Any]
    place: Place = Place()
    argument_places: Mapping[str, Place] = {}
    switch_places: Mapping[str, Place] = {}


class ActionOption(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of an action, and their positions in the file."""

    arguments: Mapping[str, Any] = {}
    place: Place = Place()
    argument_places: Mapping[str, Place] = {}


class Tier(msgspec.Struct, frozen=True, kw_only=True):
    """Plugins that decide together, before those of later tiers."""

    plugins: tuple[PluginOption, ...]


class Configuration(msgspec.Struct, frozen=True, kw_only=True):
    """A parsed configuration; `configurations` are the arguments of actions by action.

    `warnings` are about skipped entries and entries without effect; `actions_place` is the position of the list of
    actions.
    """

    actions: tuple[str, ...]
    tiers: tuple[Tier, ...]
    configurations: Mapping[str, ActionOption] = {}
    metrics: MetricsSettings | None = None
    warnings: tuple[Problem, ...] = ()
    actions_place: Place = Place()


class ConfigurationError(ValueError):
    """An invalid file; `problems` are all of them, in the order of lines."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = in_order(problems)
        super().__init__("\n".join(map(str, self.problems)))


def in_order(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Sort by line and column."""
    return tuple(sorted(problems, key=lambda problem: (problem.line, problem.column)))


def parse(
    text: str, *, actions: Collection[str], plugins: Collection[str], ignore_unavailable: bool = False
) -> Configuration:
    """Parse a configuration for these registered actions and plugins; raises ConfigurationError.

    With `ignore_unavailable`, actions and plugins of Volcano that are not registered are skipped with a warning each.
    """
    configuration, problems = read(text, actions=actions, plugins=plugins, ignore_unavailable=ignore_unavailable)
    if problems:
        raise ConfigurationError(problems)
    return configuration


def read(
    text: str, *, actions: Collection[str], plugins: Collection[str], ignore_unavailable: bool = False
) -> tuple[Configuration, tuple[Problem, ...]]:
    """Parse what is valid in a configuration; return it with the problems of the rest."""
    return _Parser(actions, plugins, ignore_unavailable).configuration(text)


def default_text() -> str:
    """Return the default file: Volcano's Helm default."""
    return config_path("scheduler", "volcano-scheduler.conf").read_text(encoding="utf-8")


def default_configuration(*, actions: Collection[str], plugins: Collection[str]) -> Configuration:
    """Return the configuration used without a file."""
    return parse(default_text(), actions=actions, plugins=plugins)


class _Parser:
    """Parses one document; problems are collected in the reader, and invalid entries are skipped."""

    def __init__(self, actions: Collection[str], plugins: Collection[str], ignore_unavailable: bool) -> None:
        self._actions = sorted(actions)
        self._plugins = sorted(plugins)
        self._ignore = ignore_unavailable
        self._reader = Reader()
        self._seen: dict[str, int] = {}
        self._skipped: set[tuple[str, str]] = set()

    def configuration(self, text: str) -> tuple[Configuration, tuple[Problem, ...]]:
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
        """Return whether a name is registered; else add a problem, or a warning for a skipped one of Volcano."""
        known, upstream = {"action": (self._actions, VOLCANO_ACTIONS), "plugin": (self._plugins, VOLCANO_PLUGINS)}[what]
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
                f"; available: {', '.join(known)}; remove it, or skip it with {IGNORE}",
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
        """Parse the arguments of actions, without unavailable actions."""
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
        """Return the `name` of an entry, and whether it is registered."""
        if "name" not in fields:
            if value.is_mapping:
                value.problem("an entry has no name", f"; add the {what}'s name")
            return "", False
        name = fields["name"].string("name")
        return name, bool(name) and self._known(fields["name"], what, name)


def _items(fields: Mapping[str, Value], key: str) -> list[Value]:
    return fields[key].items(key) if key in fields else []


def _arguments(fields: Mapping[str, Value]) -> tuple[dict[str, Any], dict[str, Place]]:
    """Return the plain values under `arguments`, if any, and the positions of their keys."""
    return fields["arguments"].plain_mapping("arguments") if "arguments" in fields else ({}, {})
