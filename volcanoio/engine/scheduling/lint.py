"""What is wrong with a configuration, and what in it has no effect: all of it at once, each with its place.

Errors are what the scheduler refuses, and plugins that contradict each other; a file with warnings alone may be used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import NamedTuple

from volcanoio.engine.scheduling.configuration import Configuration, PluginOption, read
from volcanoio.engine.scheduling.profile import Profile
from volcanoio.engine.scheduling.yamlnodes import Place, Problem
from volcanoio.framework.scheduling import points
from volcanoio.framework.scheduling.points import SWITCHES, Plugin, PluginFactory
from volcanoio.framework.scheduling.session import ActionFactory


class Severity(StrEnum):
    """How bad a finding is."""

    ERROR = "error"
    WARNING = "warning"


class Finding(NamedTuple):
    """One thing found. `suggestion` is what to do about it, "" where the text says it."""

    severity: Severity
    line: int
    column: int
    text: str
    suggestion: str = ""

    @classmethod
    def of(cls, severity: Severity, problem: Problem) -> Finding:
        """A problem of the parser."""
        return cls(severity, problem.line, problem.column, problem.rule, problem.advice.lstrip(";, "))

    def __str__(self) -> str:
        """`4:11: error: text; suggestion`."""
        rest = f"; {self.suggestion}" if self.suggestion else ""
        return f"{self.line}:{self.column}: {self.severity}: {self.text}{rest}"


_VICTIMS: Mapping[str, tuple[type, ...]] = {
    "preempt": (points.Preemptable,),
    "reclaim": (points.Reclaimable,),
    "gangpreempt": (points.Evictable,),
    "gangreclaim": (points.Evictable,),
    "shuffle": (points.VictimTasks,),
}
"""Who must name victims for an action to find any."""
_RIVALS = (("capacity", "proportion", "both share out the queues"),)
"""Plugins that cannot both be right."""
_ENQUEUEING = (points.JobEnqueueable, points.JobEnqueued)
_ALWAYS = (points.Opens, points.Closes, points.Reports)


def lint(
    text: str,
    *,
    plugins: Mapping[str, PluginFactory],
    actions: Mapping[str, ActionFactory],
    ignore_unavailable: bool = False,
) -> tuple[Finding, ...]:
    """Everything found in a configuration's text, in the order of lines. Constructs the plugins that it names."""
    configuration, problems = read(text, actions=actions, plugins=plugins, ignore_unavailable=ignore_unavailable)
    profile, unfit = Profile.attempt(configuration, plugins, actions)
    found = [Finding.of(Severity.ERROR, problem) for problem in (*problems, *unfit)]
    found += [Finding.of(Severity.WARNING, problem) for problem in configuration.warnings]
    view = _View(configuration, profile)
    found += _rivals(view)
    found += _idle_switches(view)
    found += _idle_arguments(view)
    if not problems:  # what is missing cannot be told from what could not be read
        found += _missing(view)
    return tuple(sorted(set(found), key=lambda finding: finding[1:3]))


class _View:
    """Options beside the plugins made of them; those that could not be made are left out."""

    def __init__(self, configuration: Configuration, profile: Profile) -> None:
        made = {enabled.plugin.name: enabled.plugin for tier in profile.tiers for enabled in tier}
        self.configuration = configuration
        self.actions_place = configuration.actions_place
        self.actions = configuration.actions
        self.options = {option.name: option for tier in configuration.tiers for option in tier.plugins}
        self.plugins = [(option, made[name]) for name, option in self.options.items() if name in made]

    def enabled(self, *wanted: type) -> list[str]:
        """The plugins that implement any of these points with its switch on."""
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


def _rivals(view: _View) -> Iterator[Finding]:
    """Plugins that contradict each other. In one tier the parser refuses hierarchical drf beside proportion."""
    options = view.options
    for one, other, why in _RIVALS:
        if one in options and other in options:
            later = max(options[one], options[other], key=lambda option: option.place)
            text = f"{one} and {other} are both listed and contradict each other: {why}"
            yield _at(Severity.ERROR, later.place, text, "keep one of them")
    drf, proportion = options.get("drf"), options.get("proportion")
    if drf and proportion and drf.switches["enableHierarchy"] and not _one_tier(view, drf, proportion):
        text = "drf with enableHierarchy and proportion share out the same queues differently"
        yield _at(Severity.ERROR, max(drf.place, proportion.place), text, "keep one of them")


def _one_tier(view: _View, *options: PluginOption) -> bool:
    return any(all(option in tier.plugins for option in options) for tier in view.configuration.tiers)


def _idle_switches(view: _View) -> Iterator[Finding]:
    """Switches for what the plugin does not do."""
    for option, plugin in view.plugins:
        for key, place in option.switch_places.items():
            gated = (points.Hierarchical,) if key == "enableHierarchy" else SWITCHES.get(key, ())
            if any(points.implements(plugin, point) for point in gated):
                continue
            if gated:
                text = f"{key} of {option.name} has no effect: the plugin has no {_named(gated)}"
            else:
                text = f"{key} has no effect: no plugin of this version is asked for that"
            yield _at(Severity.WARNING, place, text, "remove it")


def _named(gated: tuple[type, ...]) -> str:
    return " or ".join(point.__name__ for point in gated)


def _idle_arguments(view: _View) -> Iterator[Finding]:
    """Arguments of actions that do not run."""
    for name, option in view.configuration.configurations.items():
        if name not in view.actions:
            text = f'the arguments of action "{name}" have no effect: it is not among the actions'
            yield _at(Severity.WARNING, option.place, text, "add it to actions, or remove them")


def _missing(view: _View) -> Iterator[Finding]:
    """Actions without the plugins they need, and plugins without the actions."""
    for action, wanted in _VICTIMS.items():
        if action in view.actions and not view.enabled(*wanted):
            text = f'action "{action}" finds no victims: no plugin with {_named(wanted)} is switched on'
            yield _at(Severity.WARNING, view.actions_place, text, "add such a plugin, or remove the action")
    if "enqueue" in view.actions:
        return
    for option, plugin in view.plugins:
        if any(points.implements(plugin, point) for point in _ENQUEUEING) and _does_nothing_else(plugin):
            text = f'plugin "{option.name}" has no effect: it says which jobs may wait, and enqueue is no action here'
            yield _at(Severity.WARNING, option.place, text, "add enqueue to actions, or remove the plugin")


def _does_nothing_else(plugin: Plugin) -> bool:
    implemented = [point for point in points.POINTS if points.implements(plugin, point)]
    return all(point in (*_ENQUEUEING, *_ALWAYS) for point in implemented)
