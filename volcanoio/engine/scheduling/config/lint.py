"""Errors and warnings about a configuration, all at once, each with its position.

Errors are what the scheduler refuses, and plugins that contradict each other; a file with warnings only can be used.
"""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import NamedTuple, Self

from volcanoio.engine.scheduling.config.configuration import Configuration, PluginOption, read
from volcanoio.engine.scheduling.config.profile import Profile
from volcanoio.engine.scheduling.config.yaml_nodes import Place, Problem
from volcanoio.framework.scheduling import points
from volcanoio.framework.scheduling.points import SWITCHES, Plugin, PluginFactory
from volcanoio.framework.scheduling.session import ActionFactory


class Severity(StrEnum):
    """The severity of a finding."""

    ERROR = "error"
    WARNING = "warning"


class Finding(NamedTuple):
    """One finding. `suggestion` is how to fix it, "" if the text says it."""

    severity: Severity
    line: int
    column: int
    text: str
    suggestion: str = ""

    @classmethod
    def of(cls, severity: Severity, problem: Problem) -> Self:
        """Convert a problem of the parser."""
        return cls(severity, problem.line, problem.column, problem.rule, problem.advice.lstrip(";, "))

    def __str__(self) -> str:
        """Return `4:11: error: text; suggestion`."""
        rest = f"; {self.suggestion}" if self.suggestion else ""
        return f"{self.line}:{self.column}: {self.severity}: {self.text}{rest}"


_VICTIM_POINTS: Mapping[str, tuple[type, ...]] = {
    "preempt": (points.Preemptable,),
    "reclaim": (points.Reclaimable,),
    "gangpreempt": (points.Evictable,),
    "gangreclaim": (points.Evictable,),
    "shuffle": (points.VictimTasks,),
}
"""Extension points of which an action needs a plugin to find victims."""
_CONTRADICTIONS = (("capacity", "proportion", "both share out the queues"),)
"""Plugins that contradict each other."""
_ADMISSION_POINTS = (points.JobEnqueueable, points.JobEnqueued)
_LIFECYCLE_POINTS = (points.Opens, points.Closes, points.Reports)


def lint(
    text: str,
    *,
    plugins: Mapping[str, PluginFactory],
    actions: Mapping[str, ActionFactory],
    ignore_unavailable: bool = False,
) -> tuple[Finding, ...]:
    """Return all findings about a configuration's text, in the order of lines. Constructs its plugins."""
    configuration, problems = read(text, actions=actions, plugins=plugins, ignore_unavailable=ignore_unavailable)
    profile, construction_problems = Profile.attempt(configuration, plugins, actions)
    found = [Finding.of(Severity.ERROR, problem) for problem in (*problems, *construction_problems)]
    found += [Finding.of(Severity.WARNING, problem) for problem in configuration.warnings]
    view = _ConfiguredPlugins(configuration, profile)
    found += _contradictions(view)
    found += _unused_switches(view)
    found += _unused_arguments(view)
    if not problems:  # else a missing plugin may be one that could not be read
        found += _missing_counterparts(view)
    return tuple(sorted(set(found), key=lambda finding: finding[1:3]))


class _ConfiguredPlugins:
    """Options with their plugins; those that could not be constructed are skipped."""

    def __init__(self, configuration: Configuration, profile: Profile) -> None:
        constructed = {enabled.plugin.name: enabled.plugin for tier in profile.tiers for enabled in tier}
        self.configuration = configuration
        self.actions_place = configuration.actions_place
        self.actions = configuration.actions
        self.options = {option.name: option for tier in configuration.tiers for option in tier.plugins}
        self.plugins = [(option, constructed[name]) for name, option in self.options.items() if name in constructed]

    def enabled(self, *wanted: type) -> list[str]:
        return [
            option.name
            for option, plugin in self.plugins
            if any(points.implements(plugin, point) and _switched_on(option, point) for point in wanted)
        ]


def _switched_on(option: PluginOption, point: type) -> bool:
    switch = next((key for key, gated in SWITCHES.items() if point in gated), "")
    return option.switches.get(switch, True)


def _at(severity: Severity, place: Place, text: str, suggestion: str = "") -> Finding:
    return Finding(severity, place.line, place.column, text, suggestion)


def _contradictions(view: _ConfiguredPlugins) -> Iterator[Finding]:
    """Yield plugins that contradict each other. The parser refuses hierarchical drf with proportion in one tier."""
    options = view.options
    for one, other, why in _CONTRADICTIONS:
        if one in options and other in options:
            later = max(options[one], options[other], key=lambda option: option.place)
            text = f"{one} and {other} are both listed and contradict each other: {why}"
            yield _at(Severity.ERROR, later.place, text, "keep one of them")
    drf, proportion = options.get("drf"), options.get("proportion")
    if drf and proportion and drf.switches["enableHierarchy"] and not _one_tier(view, drf, proportion):
        text = "drf with enableHierarchy and proportion share out the same queues differently"
        yield _at(Severity.ERROR, max(drf.place, proportion.place), text, "keep one of them")


def _one_tier(view: _ConfiguredPlugins, *options: PluginOption) -> bool:
    return any(all(option in tier.plugins for option in options) for tier in view.configuration.tiers)


def _unused_switches(view: _ConfiguredPlugins) -> Iterator[Finding]:
    for option, plugin in view.plugins:
        for key, place in option.switch_places.items():
            gated = (points.Hierarchical,) if key == "enableHierarchy" else SWITCHES.get(key, ())
            if any(points.implements(plugin, point) for point in gated):
                continue
            if gated:
                text = f"{key} of {option.name} has no effect: the plugin has no {_point_names(gated)}"
            else:
                text = f"{key} has no effect: no plugin of this version is asked for that"
            yield _at(Severity.WARNING, place, text, "remove it")


def _point_names(gated: tuple[type, ...]) -> str:
    return " or ".join(point.__name__ for point in gated)


def _unused_arguments(view: _ConfiguredPlugins) -> Iterator[Finding]:
    for name, option in view.configuration.configurations.items():
        if name not in view.actions:
            text = f'the arguments of action "{name}" have no effect: it is not among the actions'
            yield _at(Severity.WARNING, option.place, text, "add it to actions, or remove them")


def _missing_counterparts(view: _ConfiguredPlugins) -> Iterator[Finding]:
    for action, wanted in _VICTIM_POINTS.items():
        if action in view.actions and not view.enabled(*wanted):
            text = f'action "{action}" finds no victims: no plugin with {_point_names(wanted)} is switched on'
            yield _at(Severity.WARNING, view.actions_place, text, "add such a plugin, or remove the action")
    if "enqueue" in view.actions:
        return
    for option, plugin in view.plugins:
        if any(points.implements(plugin, point) for point in _ADMISSION_POINTS) and _only_admits(plugin):
            text = f'plugin "{option.name}" has no effect: it limits which jobs may wait, but enqueue is not listed'
            yield _at(Severity.WARNING, option.place, text, "add enqueue to actions, or remove the plugin")


def _only_admits(plugin: Plugin) -> bool:
    implemented = [point for point in points.POINTS if points.implements(plugin, point)]
    return all(point in (*_ADMISSION_POINTS, *_LIFECYCLE_POINTS) for point in implemented)
