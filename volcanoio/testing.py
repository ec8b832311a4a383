"""For tests of plugins: check one on random clusters, and see where pods go on a cluster in one literal."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from volcanoio.engine.scheduling.cluster import ClusterState
from volcanoio.engine.scheduling.offline import Offline
from volcanoio.framework import groups
from volcanoio.model.base import Manifest
from volcanoio.runtime.conformance import belongs
from volcanoio.runtime.loading import discover
from volcanoio.runtime.plugincheck.check import check_action, check_plugin
from volcanoio.runtime.plugincheck.clusters import START, decoded
from volcanoio.runtime.plugincheck.report import Report
from volcanoio.runtime.scheduler_setup import Known, Setup

__all__ = ["Report", "check", "placements"]


def check(
    factory: Callable[..., Any], *, arguments: Mapping[str, Any] | None = None, configuration: str | None = None
) -> Report:
    """Check a scheduler plugin or action; `Report.problems` is empty when it is right.

    It runs beside the plugins of a configuration, the default where none is given. Raises ConfigurationError for
    arguments or a configuration that do not fit.
    """
    known = Known.of(discover())
    if isinstance(factory, type) and belongs(groups.ACTIONS, factory):
        return check_action(factory, known, configuration=configuration)
    return check_plugin(factory, known, configuration=configuration, arguments=arguments, timer=time.perf_counter)


def placements(
    configuration: str, manifests: Iterable[Manifest], *, plugins: Iterable[type] = (), cycles: int = 1
) -> dict[str, str]:
    """Where pods go: `namespace/name` to node, after so many cycles of a scheduler with that configuration.

    `plugins` are classes of plugins and actions, added to what is installed. A manifest may leave out uid and
    creationTimestamp. Raises ConfigurationError.
    """
    known = Known.of(discover())
    more: dict[str, dict[str, Any]] = {groups.SCHEDULER_PLUGINS: {}, groups.ACTIONS: {}}
    for cls in plugins:
        group = groups.ACTIONS if belongs(groups.ACTIONS, cls) else groups.SCHEDULER_PLUGINS
        more[group][cls.name] = cls  # type: ignore[attr-defined]  # every plugin has one
    known = replace(
        known,
        plugins={**known.plugins, **more[groups.SCHEDULER_PLUGINS]},
        actions={**known.actions, **more[groups.ACTIONS]},
    )
    offline = Offline(ClusterState(), Setup.make(configuration, known).profile, now=START)
    offline.load(map(decoded, manifests))
    offline.run(cycles)
    return {f"{bind.namespace}/{bind.name}": bind.node for bind in offline.requests}
