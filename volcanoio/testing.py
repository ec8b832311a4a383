"""Tests of plugins and controllers.

Check a plugin on random clusters, see where pods are placed in a literal cluster, or run a whole cluster inside a test.
"""

import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import anyio

from volcanoio.compose.local import LocalCluster
from volcanoio.compose.options import LocalOptions
from volcanoio.engine.scheduling.cluster.state import ClusterState
from volcanoio.engine.scheduling.offline.offline import Offline
from volcanoio.framework import entrypoints
from volcanoio.kube.client import Client
from volcanoio.model.base import ApiObject, Manifest
from volcanoio.model.custom import custom_kind
from volcanoio.model.kinds import Kind
from volcanoio.plugincheck.check import Trial, check_action, check_plugin
from volcanoio.plugincheck.clusters import START, decoded
from volcanoio.plugincheck.report import Report
from volcanoio.runtime.loading.interfaces import conforms
from volcanoio.runtime.loading.registry import discover
from volcanoio.runtime.scheduler.setup import PluginCatalog, Setup

__all__ = ["DEFINITION", "Report", "check", "cluster", "placements", "until"]
DEFINITION = custom_kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition", namespaced=False)
"""The kind CustomResourceDefinition."""
PATIENCE = 40.0
"""The timeout of `until` in seconds."""


def check(
    factory: Callable[..., Any], *, arguments: Mapping[str, Any] | None = None, configuration: str | None = None
) -> Report:
    """Check a scheduler plugin or action; `Report.problems` is empty if it passed.

    It runs with the plugins of a configuration, by default the default one. Raises ConfigurationError for invalid
    arguments or an invalid configuration.
    """
    known = PluginCatalog.of(discover())
    if isinstance(factory, type) and conforms(entrypoints.ACTIONS, factory):
        return check_action(factory, Trial(known, configuration))
    return check_plugin(factory, Trial(known, configuration, arguments), timer=time.perf_counter)


def placements(
    configuration: str, manifests: Iterable[Manifest], *, plugins: Iterable[type] = (), cycles: int = 1
) -> dict[str, str]:
    """Return the node of each placed pod (`namespace/name`), after so many scheduling cycles.

    `plugins` are classes of plugins and actions, added to the installed ones. A manifest may leave out uid and
    creationTimestamp. Raises ConfigurationError.
    """
    known = PluginCatalog.of(discover())
    more: dict[str, dict[str, Any]] = {entrypoints.SCHEDULER_PLUGINS: {}, entrypoints.ACTIONS: {}}
    for cls in plugins:
        group = entrypoints.ACTIONS if conforms(entrypoints.ACTIONS, cls) else entrypoints.SCHEDULER_PLUGINS
        more[group][cls.name] = cls  # type: ignore[attr-defined]  # every plugin has one
    known = replace(
        known,
        plugins={**known.plugins, **more[entrypoints.SCHEDULER_PLUGINS]},
        actions={**known.actions, **more[entrypoints.ACTIONS]},
    )
    offline = Offline(ClusterState(), Setup.make(configuration, known).profile, now=START)
    offline.load(map(decoded, manifests))
    offline.run(cycles)
    return {f"{bind.namespace}/{bind.name}": bind.node for bind in offline.requests}


@asynccontextmanager
async def cluster(**options: Any) -> AsyncIterator[Client]:
    """Run a whole cluster, as `volcanoio up --memory` with these options, and return a client of it.

    Its clock runs 20 times as fast by default; installed plugins and controllers run in it. Raises OptionError.
    """
    async with LocalCluster(LocalOptions.parse(**{"speed": 20.0, **options})) as local:
        yield Client(local.transport)


async def until(
    client: Client, kind: Kind, name: str, holds: Callable[[Any], bool] | None, namespace: str = "default"
) -> ApiObject | None:
    """Return the object once `holds` is true for it; with None, return once it is deleted.

    Raises AssertionError with the last observed object after a timeout.
    """
    where = namespace if kind.namespaced else ""
    seen: ApiObject | None = None
    with anyio.move_on_after(PATIENCE):
        async with client.watch(kind, where) as changes:
            there = [obj.metadata.name for obj in await client.list(kind, where)]
            if holds is None and name not in there:
                return None
            async for change in changes:
                if change.object.metadata.name != name:
                    continue
                seen = change.object
                if change.type == "DELETED":
                    if holds is None:
                        return None
                elif holds is not None and holds(seen):
                    return seen
    raise AssertionError(f"{kind.kind} {name}: the expected state was not reached; last seen: {seen}")
