"""From the configuration to policy instances, in the order in which they are asked."""

from __future__ import annotations

from collections.abc import Sequence

from volcanoio.framework import groups
from volcanoio.framework.arguments import ArgumentError, suggestion
from volcanoio.framework.lifecycle import LifecyclePolicy
from volcanoio.model import kinds
from volcanoio.model.kinds import Kind
from volcanoio.runtime.controller_conf import ConfigurationError, ControllerConfiguration
from volcanoio.runtime.loading import Registry


def make_policies(configuration: ControllerConfiguration, registry: Registry) -> list[LifecyclePolicy]:
    """The enabled policies with their arguments; raises ConfigurationError and PluginError."""
    made: list[LifecyclePolicy] = []
    for setting in configuration.policies:
        if not setting.enabled:
            continue
        loaded = registry.get(groups.LIFECYCLE_POLICIES, setting.name)
        try:
            policy: LifecyclePolicy = loaded.factory(setting.arguments)
        except ArgumentError as error:
            msg = f"line {setting.line}: {error}"
            raise ConfigurationError(msg) from error
        except Exception as error:
            msg = f'line {setting.line}: policy "{setting.name}" ({loaded.origin}) cannot be made: {error!r}'
            raise ConfigurationError(msg) from error
        made.append(policy)
    return made


def indexes_of(policies: Sequence[LifecyclePolicy]) -> tuple[Kind, ...]:
    """The kinds policies want to read beside the job and its pods; raises ConfigurationError for an unknown one."""
    by_resource = {kind.resource: kind for kind in kinds.ALL}
    wanted: dict[str, Kind] = {}
    for policy in policies:
        for resource in getattr(policy, "indexes", ()):
            if resource not in by_resource:
                msg = (
                    f'policy "{policy.name}": index "{resource}" is unknown{suggestion(resource, sorted(by_resource))}'
                )
                raise ConfigurationError(msg)
            wanted[resource] = by_resource[resource]
    return tuple(wanted[resource] for resource in sorted(wanted))
