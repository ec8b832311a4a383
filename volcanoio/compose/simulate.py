"""`simulate`: runs the scheduling engine on a state at hand, as a scheduler with the same flags would."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from volcanoio.compose.state_files import NodeMetrics, State, read_state, usage_facts
from volcanoio.engine.scheduling.cluster.memory import SchedulerMemory, restore
from volcanoio.engine.scheduling.cluster.native_groups import NATIVE_RESOURCES
from volcanoio.engine.scheduling.cluster.state import ClusterState, StateOptions
from volcanoio.engine.scheduling.config.configuration import default_text, parse
from volcanoio.engine.scheduling.config.profile import Profile
from volcanoio.engine.scheduling.config.yaml_nodes import Problem
from volcanoio.engine.scheduling.offline.offline import Offline
from volcanoio.engine.scheduling.offline.remedies import new_queue
from volcanoio.engine.scheduling.offline.until import Goal, Progress, RunTime, run_until, waiting_groups
from volcanoio.framework import entrypoints
from volcanoio.model import kinds
from volcanoio.model.base import ApiObject
from volcanoio.model.core import Node, Pod
from volcanoio.model.scheduling import PodGroup, Queue
from volcanoio.runtime.loading.registry import discover

USAGE_INTERVAL = 30.0
"""Default interval of usage polls in seconds; the usage of pods that started since the last one is estimated."""


@dataclass(frozen=True, kw_only=True)
class SimulateOptions:
    """Options of a simulation, named like the scheduler's flags; `period` in seconds, `now` in epoch seconds.

    A pair in `files` is a source's name and its content. `now` None is the time of the start.
    """

    files: Sequence[Path | tuple[str, bytes]]
    configuration: str | None = None
    cycles: int = 1
    state: StateOptions = field(default_factory=StateOptions)
    period: float = 1.0
    now: float | None = None
    ignore_unavailable: bool = False
    plugins_dirs: Sequence[Path] = ()


@dataclass
class Simulation:
    """Result: the cluster after the cycles, `notes` on the state and `warnings` about the configuration."""

    offline: Offline
    notes: list[str]
    warnings: tuple[Problem, ...] = ()


class Simulator:
    """Builds schedulers with the same options, each with its own plugins; `warnings` about the configuration.

    `reads` are the kinds that a scheduler with this configuration reads. Raises ConfigurationError for the
    configuration, PluginError and MountError for plugins.
    """

    def __init__(self, options: SimulateOptions) -> None:
        self.options = options
        self.now = time.time() if options.now is None else options.now
        self.registry = registry = discover(plugins_dirs=options.plugins_dirs)
        self.configuration = parse(
            default_text() if options.configuration is None else options.configuration,
            actions=registry.names(entrypoints.ACTIONS),
            plugins=registry.names(entrypoints.SCHEDULER_PLUGINS),
            ignore_unavailable=options.ignore_unavailable,
        )
        self.warnings = self.configuration.warnings
        # only the plugins and actions that it names are imported
        named = {option.name for tier in self.configuration.tiers for option in tier.plugins}
        self._plugins = {name: registry.get(entrypoints.SCHEDULER_PLUGINS, name).factory for name in named}
        self._actions = {name: registry.get(entrypoints.ACTIONS, name).factory for name in self.configuration.actions}
        wanted = self._profile().watches.union(options.state.required_resources, NATIVE_RESOURCES)
        self.reads = frozenset(kind for kind in kinds.ALL if kind.resource in wanted)

    def build(
        self,
        objects: Sequence[ApiObject],
        usage: Sequence[NodeMetrics] = (),
        memory: SchedulerMemory | None = None,
    ) -> Offline:
        """Return a scheduler that has read these objects and that usage of nodes, and has run no cycle yet.

        It continues with the `memory` of a running scheduler, at the time of that.
        """
        now = self.now if memory is None or self.options.now is not None else memory.at
        offline = Offline(ClusterState(self.options.state), self._profile(), now=now, period=self.options.period)
        known = [obj for obj in objects if kinds.of(obj) in self.reads]
        offline.load([*_default_queue(objects, self.options), *known])
        nodes = [obj for obj in objects if isinstance(obj, Node)]
        if (busy := usage_facts(usage, nodes, now=now, every=USAGE_INTERVAL)) is not None:
            offline.fold(busy)
        if memory is not None:
            restore(offline.state, memory)
        offline.age()
        return offline

    def run(self, state: State) -> Offline:
        """Return a scheduler that has read a state and has run the cycles of the options."""
        offline = self.build(state.objects, state.usage, state.memory)
        offline.run(self.options.cycles)
        return offline

    def run_until(
        self, state: State, goal: Goal, groups: Collection[str], run_time: RunTime
    ) -> tuple[Offline, Progress]:
        """Return a scheduler that has run cycles until the groups reached the goal or cannot, and how far they got."""
        offline = self.build(state.objects, state.usage, state.memory)
        wanted = groups or waiting_groups(offline)
        return offline, run_until(offline, goal, wanted, run_time, cycles=self.options.cycles)

    def with_configuration(self, text: str | None) -> Simulator:
        """Return a simulator that differs in its configuration alone. Raises as the constructor does."""
        return Simulator(replace(self.options, configuration=text, now=self.now))

    def _profile(self) -> Profile:
        return Profile.build(self.configuration, self._plugins, self._actions)


def simulate(options: SimulateOptions) -> Simulation:
    """Read the state and run the cycles.

    Raises StateError for the state, ConfigurationError for the configuration, PluginError and MountError for plugins.
    """
    simulator = Simulator(options)
    state = read_state(options.files, simulator.reads)
    return Simulation(simulator.run(state), notes(state, options), simulator.warnings)


def _default_queue(objects: Sequence[ApiObject], options: SimulateOptions) -> list[ApiObject]:
    """Return the default queue if a PodGroup needs it and it is missing; a live scheduler creates it at its start."""
    name = options.state.default_queue
    wanted = any(isinstance(obj, PodGroup) and (obj.spec.queue or name) == name for obj in objects)
    if not wanted or any(isinstance(obj, Queue) and obj.metadata.name == name for obj in objects):
        return []
    return [new_queue(name)]


def notes(state: State, options: SimulateOptions) -> list[str]:
    """Return warnings for the user about the state."""
    said = []
    if state.ignored:
        counted = ", ".join(f"{kind} ({count})" for kind, count in sorted(state.ignored.items()))
        said.append(f"ignored, as nothing here reads them: {counted}")
    if state.passed:
        said.append(
            f"not read, because their names do not end in .yaml, .yml or .json: {', '.join(map(str, state.passed))}"
        )
    pods = [obj for obj in state.objects if isinstance(obj, Pod)]
    if pods and not any(pod.spec.scheduler_name in options.state.scheduler_names for pod in pods):
        wanted = ", ".join(sorted(options.state.scheduler_names))
        said.append(f"no pod has spec.schedulerName {wanted}: there is nothing to schedule; see --scheduler-name")
    return said
