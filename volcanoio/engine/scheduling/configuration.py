"""The scheduler's configuration file, in Volcano's format: actions, tiers of plugins, arguments of actions.

Schema and defaults: Volcano `pkg/scheduler/conf/scheduler_conf.go`, `pkg/scheduler/plugins/defaults.go`. Unlike there,
a name or key that nobody knows is an error with its line, and all errors of a file are told at once.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from volcanoio.engine.scheduling.yamlnodes import Problem, Reader, Value
from volcanoio.framework.arguments import suggestion
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


class PluginOption(msgspec.Struct, frozen=True, kw_only=True):
    """One plugin of a tier. `switches` has every key of SWITCH_DEFAULTS; `line` is where the file names it."""

    name: str
    switches: Mapping[str, bool]
    arguments: Mapping[str, Any]
    line: int = 0


class Tier(msgspec.Struct, frozen=True, kw_only=True):
    """Plugins that decide together, before those of later tiers."""

    plugins: tuple[PluginOption, ...]


class Configuration(msgspec.Struct, frozen=True, kw_only=True):
    """What the scheduler does, in order; `configurations` holds the arguments of actions by action."""

    actions: tuple[str, ...]
    tiers: tuple[Tier, ...]
    configurations: Mapping[str, Mapping[str, Any]] = {}


class ConfigurationError(ValueError):
    """A file that cannot be used; `problems` are all of them, in the order of lines."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = problems


def parse(text: str, *, actions: Collection[str], plugins: Collection[str]) -> Configuration:
    """The configuration in `text`, where these actions and plugins are registered; raises ConfigurationError."""
    return _Parser(actions, plugins).configuration(text)


def default_text() -> str:
    """The file used where none is given: Volcano's Helm default."""
    return config_path("scheduler", "volcano-scheduler.conf").read_text(encoding="utf-8")


def default_configuration(*, actions: Collection[str], plugins: Collection[str]) -> Configuration:
    """The configuration used where no file is given."""
    return parse(default_text(), actions=actions, plugins=plugins)


class _Parser:
    """Reads one document; problems gather in the reader, and what is wrong is left out of the result."""

    def __init__(self, actions: Collection[str], plugins: Collection[str]) -> None:
        self._actions = sorted(actions)
        self._plugins = sorted(plugins)
        self._reader = Reader()
        self._seen: dict[str, int] = {}

    def configuration(self, text: str) -> Configuration:
        """The whole document."""
        document = self._reader.document(text, 'actions: "enqueue, allocate, backfill" and tiers')
        fields = document.mapping("the document", _KEYS) if document else {}
        result = Configuration(
            actions=self._action_names(document, fields.get("actions")),
            tiers=tuple(self._tier(item) for item in _items(fields, "tiers")),
            configurations=dict(self._action_arguments(item) for item in _items(fields, "configurations")),
        )
        if (metrics := fields.get("metrics")) and not metrics.empty:
            metrics.problem(
                "metrics is not available yet: no plugin of this version reads node metrics", "; remove the section"
            )
        if problems := self._reader.problems:
            raise ConfigurationError(tuple(sorted(problems, key=lambda problem: (problem.line, problem.column))))
        return result

    def _action_names(self, document: Value | None, value: Value | None) -> tuple[str, ...]:
        if value is None:
            if document is not None and document.is_mapping:
                document.problem("actions is missing", '; add a line such as actions: "enqueue, allocate, backfill"')
            return ()
        text = value.string("actions")
        names = tuple(name.strip() for name in text.split(","))
        for name in names if text else ():
            self._known(value, "action", name, self._actions, VOLCANO_ACTIONS)
        return names

    def _known(self, value: Value, what: str, name: str, known: list[str], upstream: frozenset[str]) -> None:
        """Check a name against those registered and those Volcano has."""
        if name in known:
            return
        if not name:
            value.problem(f"{what} without a name", "; name it or remove it")
        elif name in upstream:
            value.problem(
                f'{what} "{name}" of Volcano is not available yet', f"; available are: {', '.join(known)}; remove it"
            )
        else:
            value.problem(f'{what} "{name}" is unknown', suggestion(name, known))

    def _tier(self, value: Value) -> Tier:
        fields = value.mapping("a tier", ("plugins",))
        given = _items(fields, "plugins")
        plugins = tuple(map(self._plugin, given))
        hierarchical = [item for item in plugins if item.name == "drf" and item.switches["enableHierarchy"]]
        if hierarchical and any(item.name == "proportion" for item in plugins):
            value.problem(
                "drf with enableHierarchy and proportion are in one tier and share out the same queues differently",
                "; keep one of them",
            )
        for item, option in zip(given, plugins, strict=True):
            if option in hierarchical:
                item.problem("enableHierarchy of drf is not available yet", "; remove it or set it to false")
        return Tier(plugins=plugins)

    def _plugin(self, value: Value) -> PluginOption:
        fields = value.mapping("a plugin", ("name", "arguments", *SWITCH_DEFAULTS))
        name = self._name(value, fields, "plugin", self._plugins, VOLCANO_PLUGINS)
        if name in self._seen:
            value.problem(f'plugin "{name}" is listed twice, first in line {self._seen[name]}', "; keep one of them")
        elif name:
            self._seen[name] = value.line
        switches = {
            key: fields[key].boolean(key, default) if key in fields else default
            for key, default in SWITCH_DEFAULTS.items()
        }
        return PluginOption(name=name, switches=switches, arguments=_arguments(fields), line=value.line)

    def _action_arguments(self, value: Value) -> tuple[str, dict[str, Any]]:
        fields = value.mapping("a configuration", ("name", "arguments"))
        return self._name(value, fields, "action", self._actions, VOLCANO_ACTIONS), _arguments(fields)

    def _name(
        self, value: Value, fields: Mapping[str, Value], what: str, known: list[str], upstream: frozenset[str]
    ) -> str:
        """The checked `name` of an entry."""
        if "name" not in fields:
            if value.is_mapping:
                value.problem("an entry has no name", f"; add the {what}'s name")
            return ""
        name = fields["name"].string("name")
        self._known(fields["name"], what, name, known, upstream)
        return name


def _items(fields: Mapping[str, Value], key: str) -> list[Value]:
    """The entries of a list that may be missing."""
    return fields[key].items(key) if key in fields else []


def _arguments(fields: Mapping[str, Value]) -> dict[str, Any]:
    """The plain values under `arguments`, which may be missing."""
    return fields["arguments"].plain_mapping("arguments") if "arguments" in fields else {}
