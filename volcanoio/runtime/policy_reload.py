"""Hot reload of lifecycle policies: the controllers' configuration and the mounted policies; see `reloading`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from volcanoio.framework import groups
from volcanoio.framework.probe import Probe
from volcanoio.kube.clock import Clock
from volcanoio.runtime.controller_conf import ConfigurationError, parse
from volcanoio.runtime.loading import PluginError, Registry, discover
from volcanoio.runtime.policy_desk import Wanted
from volcanoio.runtime.policy_sets import Member, PolicySet
from volcanoio.runtime.reloading import Figures, Reloading, Seen, Watched

FIGURES = Figures(
    "volcanoio_controller_config_valid",
    "volcanoio_controller_config_reload_total",
    "volcanoio_controller_config_last_success_timestamp_seconds",
)
Loaded = tuple[Registry, PolicySet, Mapping[Wanted, Member]]


class PolicyReloader(Reloading[Loaded]):
    """`registry` is what is in force, as `first` was seen; `adopt` takes over new policies. `named` are those that jobs
    have named so far, which are made again with the others: if one cannot be, all stays as it is.
    """

    def __init__(
        self,
        watched: Watched,
        registry: Registry,
        first: Seen,
        *,
        adopt: Callable[[PolicySet, Mapping[Wanted, Member]], None],
        named: Callable[[], Mapping[Wanted, Member]],
        clock: Clock,
        probe: Probe,
    ) -> None:
        super().__init__(
            watched, first, what="the controllers' configuration", when="at once", figures=FIGURES,
            refusals=(ConfigurationError, PluginError), clock=clock, probe=probe,
        )  # fmt: skip
        self._dirs = watched.plugins_dirs
        self._registry = registry
        self._adopt = adopt
        self._named = named

    def make(self, seen: Seen, *, mounted_changed: bool) -> Loaded:
        """The policies of what was seen. Raises ConfigurationError, PluginError and MountError."""
        registry = discover(policies_dirs=self._dirs) if mounted_changed else self._registry
        known: Collection[str] = registry.names(groups.LIFECYCLE_POLICIES)
        policies = PolicySet.load(parse(seen.text or "", known), registry, strict=True)
        members: dict[Wanted, Member] = {}
        for wanted, before in self._named().items():
            members[wanted] = member = policies.named(*wanted)
            if member.fault and not before.fault and wanted[0] in known:
                msg = f'policy "{member.name}" {member.fault}'
                raise PluginError(msg)
        return registry, policies, members

    def take_over(self, made: Loaded) -> None:
        """Put them in force."""
        self._registry, policies, members = made
        self._adopt(policies, members)
