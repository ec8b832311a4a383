"""`PolicySet`: the lifecycle policies of the configuration, and those that jobs may name.

Imports and constructors of third-party code run here, each with a time limit and on a thread of its own. A set never
changes; a reload makes another one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from volcanoio.framework import entrypoints
from volcanoio.framework.arguments import ArgumentError, parse_annotation, suggestion
from volcanoio.framework.lifecycle import LifecyclePolicy, PolicyEvent, PolicyRegistry, PolicySubscription
from volcanoio.model import kinds, names
from volcanoio.model.batch import POLICY_EVENTS, JobEvent
from volcanoio.model.kinds import Kind
from volcanoio.runtime.loading.registry import PluginError, Registry
from volcanoio.runtime.policies.calls import BoundedCall, OverrunError, can_suspend
from volcanoio.runtime.policies.configuration import ConfigurationError, ControllerConfiguration, PolicySetting

LOAD_LIMIT = 10.0
"""Limit in seconds for an import or a constructor."""

_NO_WANTS = PolicySubscription()
_CONFIG_TITLE = "the controllers' configuration"


@dataclass(frozen=True, slots=True, eq=False)
class Member:
    """A configured policy; `fault` is the error if it could not be loaded.

    `inline` policies answer on the main loop: the configuration trusts them, and their code cannot suspend.
    """

    name: str
    policy: LifecyclePolicy | None = None
    wants: PolicySubscription = _NO_WANTS
    indexes: tuple[Kind, ...] = ()
    inline: bool = False
    fault: str = ""

    @classmethod
    def of(cls, policy: LifecyclePolicy, *, inline: bool = False) -> Self:
        """Build a member from a policy's attributes; raises PluginError for invalid attributes."""
        at_once = inline and not can_suspend(policy.decide)
        return cls(policy.name, policy, _wants(policy), _indexes(policy), at_once)

    def hears(self, event: str) -> bool:
        """Return whether the policy is asked about an event."""
        if self.policy is None:
            return True
        return event not in _POLICY_EVENTS if self.wants.events is None else event in self.wants.events


@dataclass(frozen=True, kw_only=True)
class PolicySet:
    """`everywhere` are asked about every job, in order. `made` are those that jobs have named, by name."""

    everywhere: tuple[Member, ...] = ()
    settings: Mapping[str, PolicySetting] = field(default_factory=dict)
    registry: Registry = field(default_factory=lambda: Registry(()))

    @classmethod
    def of(cls, policies: Sequence[LifecyclePolicy], *, inline: bool = False) -> Self:
        """Build a set of instances, each asked about every job."""
        return cls(everywhere=tuple(Member.of(policy, inline=inline) for policy in policies))

    @classmethod
    def load(cls, configuration: ControllerConfiguration, registry: Registry, *, strict: bool) -> Self:
        """Load the set that a configuration describes. Blocks for imports: call it on a thread if a loop runs.

        Raises ConfigurationError for invalid arguments. If `strict`, a policy that cannot be loaded raises it too;
        otherwise it becomes a member with a fault, which is reported on the jobs.
        """
        members = []
        for setting in configuration.policies:
            if setting.enabled and setting.everywhere:
                member = _make_member(registry, setting, setting.arguments)
                if member.fault and strict:
                    whose = "" if f'policy "{setting.name}"' in member.fault else f'policy "{setting.name}" '
                    raise ConfigurationError(f"line {setting.line}: {whose}{member.fault}")
                members.append(member)
        settings = {setting.name: setting for setting in configuration.policies}
        return cls(everywhere=tuple(members), settings=settings, registry=registry)

    def named(self, name: str, arguments: str) -> Member:
        """Return the policy that a job names, with its annotation's arguments ("" for none). Blocks like `load`."""
        setting = self.settings.get(name, PolicySetting(name, everywhere=False))
        if not setting.enabled:
            return Member(
                name, fault=f"is off (enabled: false in {_CONFIG_TITLE}); remove it from the job's annotation"
            )
        known = self.registry.names(entrypoints.LIFECYCLE_POLICIES)
        if name not in known:
            return Member(name, fault=f"does not exist{suggestion(name, known)}")
        try:
            given = _job_arguments(self.registry, name, arguments)
            return _make_member(self.registry, setting, {**setting.arguments, **given})
        except ConfigurationError as error:
            reason = str(error).removeprefix(f"line {setting.line}: ")
            return Member(name, fault=f"{names.POLICY_ARGUMENTS}{name}: {reason}" if arguments else reason)
        except ArgumentError as error:
            return Member(name, fault=str(error))
        except (OverrunError, PluginError) as error:
            return Member(name, fault=str(error))

    def roster(self, named: Mapping[str, Member]) -> PolicyRegistry:
        """Return the policies in the form that reducers read, including those `named` by jobs."""
        return PolicyRegistry(
            everywhere={member.name: member.wants for member in self.everywhere},
            named={name: member.wants for name, member in sorted(named.items())},
        )

    @property
    def indexes(self) -> tuple[Kind, ...]:
        """Return the kinds that are read for every job, sorted."""
        found = {kind.resource: kind for member in self.everywhere for kind in member.indexes}
        return tuple(found[resource] for resource in sorted(found))

    def origins(self) -> dict[str, str]:
        """Return the origin of each member, as recorded in the journal."""
        known = self.registry.origins(entrypoints.LIFECYCLE_POLICIES)
        return {
            member.name: known.get(member.name, type(member.policy).__module__)
            for member in self.everywhere
            if member.policy is not None
        }


_POLICY_EVENTS = frozenset(PolicyEvent)
_EVENTS = tuple(sorted({*PolicyEvent, *POLICY_EVENTS, JobEvent.POD_RUNNING} - {JobEvent.ANY}))
"""Valid values of a policy's events."""


def _make_member(registry: Registry, setting: PolicySetting, arguments: Mapping[str, Any]) -> Member:
    """Construct an instance; raises ConfigurationError for its arguments, other errors become its fault."""

    def make() -> LifecyclePolicy:
        policy: LifecyclePolicy = registry.get(entrypoints.LIFECYCLE_POLICIES, setting.name).factory(dict(arguments))
        return policy

    try:
        policy = BoundedCall(make, f"policy {setting.name}").wait(LOAD_LIMIT)
        return Member.of(policy, inline=setting.inline)
    except ArgumentError as error:
        raise ConfigurationError(f"line {setting.line}: {error}") from error
    except OverrunError as error:
        return Member(setting.name, fault=f"cannot be loaded: its import or constructor {error}")
    except PluginError as error:
        return Member(setting.name, fault=str(error))
    except BaseException as error:  # third-party code may raise anything, also SystemExit
        return Member(setting.name, fault=f"cannot be made: {type(error).__name__}: {error}")


def _job_arguments(registry: Registry, name: str, text: str) -> dict[str, Any]:
    """Parse the arguments of a job's annotation; raises ConfigurationError, OverrunError and PluginError."""
    if not text.strip():
        return {}
    given = parse_annotation(text, names.POLICY_ARGUMENTS + name, "{factor: 2}")
    factory = BoundedCall(lambda: registry.get(entrypoints.LIFECYCLE_POLICIES, name).factory, f"policy {name}").wait(
        LOAD_LIMIT
    )
    allowed = tuple(getattr(factory, "job_arguments", ()))
    for key in given:
        if key not in allowed:
            reason = f"jobs may give: {', '.join(sorted(allowed))}" if allowed else "jobs may give it no arguments"
            msg = f'takes no argument "{key}" from a job; {reason}; ask the administrator to set it in {_CONFIG_TITLE}'
            raise ConfigurationError(msg)
    return given


def _wants(policy: LifecyclePolicy) -> PolicySubscription:
    events = getattr(policy, "events", None)
    every = getattr(policy, "every", 0.0)
    if events is not None and not all(isinstance(event, str) for event in events):
        raise PluginError(f'policy "{policy.name}": events must be names of events, not {events!r}')
    for event in events or ():
        if event not in _EVENTS:
            raise PluginError(f'policy "{policy.name}": event "{event}" is unknown{suggestion(event, _EVENTS)}')
    if not isinstance(every, int | float) or not math.isfinite(every) or every < 0:
        raise PluginError(f'policy "{policy.name}": every must be seconds between two Ticks, not {every!r}')
    named = None if events is None else frozenset(map(str, events))
    return PolicySubscription(named, float(every) if named is not None and PolicyEvent.TICK in named else 0.0)


def _indexes(policy: LifecyclePolicy) -> tuple[Kind, ...]:
    found = []
    for resource in getattr(policy, "indexes", ()):
        if resource not in kinds.READABLE:
            msg = f'policy "{policy.name}": index "{resource}" is unknown{suggestion(resource, sorted(kinds.READABLE))}'
            raise PluginError(msg)
        found.append(kinds.READABLE[resource])
    return tuple(found)
