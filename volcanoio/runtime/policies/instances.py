"""`PolicyInstances`: the policies that are asked about each job, and the instances for policies that jobs name.

An instance is constructed off the event loop when a job first names the policy with these arguments. `PolicyReloader`
constructs all instances again when the controllers' configuration or the mounted policies change; see
`loading.reloading`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Protocol

import structlog

from volcanoio.framework import entrypoints
from volcanoio.framework.arguments import suggestion
from volcanoio.framework.lifecycle import PolicyRegistry, named_policies
from volcanoio.framework.probe import Probe
from volcanoio.kube.clock import Clock
from volcanoio.model import names
from volcanoio.model.batch import Job
from volcanoio.model.nodes import DiscoverySource
from volcanoio.runtime.loading.mounted_files import MountError
from volcanoio.runtime.loading.registry import PluginError, Registry, discover
from volcanoio.runtime.loading.reloading import (
    ConfigurationReloader,
    ReloadMetrics,
    SourceContent,
    WatchedConfiguration,
)
from volcanoio.runtime.policies.calls import BoundedCall
from volcanoio.runtime.policies.configuration import ConfigurationError, parse
from volcanoio.runtime.policies.policy_set import LOAD_LIMIT, Member, PolicySet
from volcanoio.runtime.timers import Timers

MAX_INSTANCES = 1024
"""Maximum number of instances for arguments of jobs; the oldest is dropped first."""
SLACK = 1.0
"""Seconds to wait for a construction beyond the limits of import and constructor."""
_log = structlog.get_logger(__name__)
FAULTS = "volcanoio_policy_faults_total"
InstanceKey = tuple[str, str]
"""A policy's name, and the text of the arguments in a job's annotation."""


class PolicyInstances:
    """Instances of policies for one event loop.

    `made` is called when a policy that jobs wait for is constructed, `changed` when the roster changes.
    """

    def __init__(
        self,
        policies: PolicySet,
        timers: Timers,
        probe: Probe,
        *,
        made: Callable[[], None],
        changed: Callable[[], None],
    ) -> None:
        self.policies = policies
        self._timers = timers
        self._clock = timers.clock
        self._probe = probe
        self._made = made
        self._changed = changed
        self.members: dict[InstanceKey, Member] = {}
        """Policies that jobs named, with the jobs' arguments."""
        self._pending: dict[InstanceKey, BoundedCall[Member]] = {}
        self._begin_counters()

    @property
    def busy(self) -> bool:
        """Whether an instance is being constructed."""
        return bool(self._pending)

    @property
    def roster(self) -> PolicyRegistry:
        """The policies in force, in the form that reducers read."""
        return self.policies.roster({name: member for (name, _), member in self.members.items()})

    def adopt(self, policies: PolicySet, members: Mapping[InstanceKey, Member]) -> None:
        """Replace the set; `members` were constructed from it beforehand."""
        self.close()
        self.policies = policies
        self.members = dict(members)
        self._begin_counters()
        self._changed()

    def close(self) -> None:
        """Stop waiting for constructions."""
        for wanted, call in self._pending.items():
            self._timers.stop(("policy made", wanted))
            call.give_up()
        self._pending.clear()

    def line(self, job: Job) -> tuple[Member, ...] | None:
        """Return the policies that are asked about a job, in order; None while one is being constructed."""
        marks = job.metadata.annotations
        everywhere = self.policies.everywhere
        if names.POLICIES not in marks and not any(key.startswith(names.POLICY_ARGUMENTS) for key in marks):
            return everywhere
        theirs = {member.name: member for member in everywhere}
        line: list[Member | None] = [*_unused_arguments(marks, (*theirs, *named_policies(job)))]
        line += [
            self._member((name, marks.get(names.POLICY_ARGUMENTS + name, "")))
            for name in named_policies(job)
            if name not in theirs
        ]
        for name, member in theirs.items():
            text = marks.get(names.POLICY_ARGUMENTS + name, "")
            line.append(self._member((name, text)) if text else member)
        found = tuple(member for member in line if member is not None)
        return found if len(found) == len(line) else None

    def _member(self, wanted: InstanceKey) -> Member | None:
        """Return the policy that a job names, None while it is being constructed."""
        member = self.members.get(wanted)
        if member is None and wanted not in self._pending:
            policies, loop = self.policies, asyncio.get_running_loop()

            def done() -> None:
                try:
                    loop.call_soon_threadsafe(self._take, wanted, policies)
                except RuntimeError:  # the loop is closed: there is no receiver
                    return

            self._pending[wanted] = BoundedCall(lambda: policies.named(*wanted), f"policy {wanted[0]}", done)
            due = self._clock.now() + (2 * LOAD_LIMIT + SLACK) * self._clock.rate
            self._timers.start(("policy made", wanted), due, lambda: self._give_up(wanted))
        return member

    def _take(self, wanted: InstanceKey, policies: PolicySet) -> None:
        if policies is not self.policies or wanted not in self._pending:
            return
        call = self._pending.pop(wanted)
        self._timers.stop(("policy made", wanted))
        try:
            self._keep(wanted, call.result())
        except BaseException as error:  # third-party code may raise anything
            self._keep(wanted, Member(wanted[0], fault=f"cannot be made: {type(error).__name__}: {error}"))

    def _give_up(self, wanted: InstanceKey) -> None:
        self._pending.pop(wanted).give_up()
        self._keep(wanted, Member(wanted[0], fault=f"cannot be made within {2 * LOAD_LIMIT:g} s"))

    def _keep(self, wanted: InstanceKey, member: Member) -> None:
        while len(self.members) >= MAX_INSTANCES:
            del self.members[next(iter(self.members))]
        self.members[wanted] = member
        self._begin_counter(member)
        self._changed()
        self._made()

    def _begin_counters(self) -> None:
        for member in self.policies.everywhere:
            self._begin_counter(member)

    def _begin_counter(self, member: Member) -> None:
        """Begin to count the faults of a policy, or report that it cannot be used."""
        if not member.fault:
            self._probe.count(FAULTS, 0.0, policy=member.name)
            return
        self._probe.count("volcanoio_policy_load_failures_total", policy=member.name)
        _log.error("a lifecycle policy cannot be used", policy=member.name, fault=member.fault)


def _unused_arguments(marks: Mapping[str, str], asked: Sequence[str]) -> Iterator[Member]:
    """Yield a faulty member for each argument annotation whose policy is not asked about the job."""
    for key in sorted(marks):
        name = key.removeprefix(names.POLICY_ARGUMENTS)
        if name != key and name not in asked:
            problem = f"{key}: the policy is not asked about this job{suggestion(name, asked)}"
            yield Member(name, fault=f"{problem}; name it in {names.POLICIES} or remove its arguments")


FIGURES = ReloadMetrics(
    "volcanoio_controller_config_valid",
    "volcanoio_controller_config_reload_total",
    "volcanoio_controller_config_last_success_timestamp_seconds",
)
LoadedPolicies = tuple[Registry, PolicySet, Mapping[InstanceKey, Member], tuple[DiscoverySource, ...]]
"""What a configuration describes: the registry, its policies, those that jobs named, and sources of HyperNodes."""


class AdoptingHost(Protocol):
    """The methods of `runtime.controllers.ControllerHost` that the reloader uses."""

    def adopt(self, policies: PolicySet, named: Mapping[InstanceKey, Member]) -> None:
        """Ask these policies from now on."""
        ...

    def named_policies(self) -> Mapping[InstanceKey, Member]:
        """Return the policies that jobs have named so far."""
        ...

    def discover(self, sources: tuple[DiscoverySource, ...]) -> None:
        """Discover HyperNodes from these sources from now on."""
        ...


class PolicyReloader(ConfigurationReloader[LoadedPolicies]):
    """Reloader of policies; `registry` is the one in force.

    Policies that jobs named are constructed again with the others; if one fails, nothing changes.
    """

    what = "the controllers' configuration"
    when = "at once"
    metrics = FIGURES
    refusals = (ConfigurationError, PluginError, MountError)

    def __init__(
        self, watched: WatchedConfiguration, registry: Registry, *, host: AdoptingHost, clock: Clock, probe: Probe
    ) -> None:
        super().__init__(watched, clock=clock, probe=probe)
        self._dirs = watched.source.plugins_dirs
        self._registry = registry
        self._host = host

    def make(self, seen: SourceContent, *, mounted_changed: bool) -> LoadedPolicies:
        """Construct the policies of new content. Raises ConfigurationError, PluginError and MountError."""
        registry = discover(policies_dirs=self._dirs) if mounted_changed else self._registry
        known: Collection[str] = registry.names(entrypoints.LIFECYCLE_POLICIES)
        configuration = parse(seen.text or "", known)
        policies = PolicySet.load(configuration, registry, strict=True)
        members: dict[InstanceKey, Member] = {}
        for wanted, before in self._host.named_policies().items():
            members[wanted] = member = policies.named(*wanted)
            if member.fault and not before.fault and wanted[0] in known:
                raise PluginError(f'policy "{member.name}" {member.fault}')
        return registry, policies, members, configuration.discovery

    def take_over(self, made: LoadedPolicies) -> None:
        """Put policies and sources into force."""
        self._registry, policies, members, sources = made
        self._host.adopt(policies, members)
        self._host.discover(sources)
