"""For tests of plugins and controllers.

Check a plugin on random clusters, see where pods go on a cluster in one literal, have a whole cluster inside a test.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import anyio

from volcanoio.compose.local import LocalCluster
from volcanoio.compose.options import LocalOptions
from volcanoio.engine.scheduling.cluster import ClusterState
from volcanoio.engine.scheduling.offline import Offline
from volcanoio.framework import groups
from volcanoio.kube.client import Client
from volcanoio.model.base import ApiObject, Manifest
from volcanoio.model.custom import custom_kind
from volcanoio.model.kinds import Kind
from volcanoio.runtime.conformance import belongs
from volcanoio.runtime.loading import discover
from volcanoio.runtime.plugincheck.check import check_action, check_plugin
from volcanoio.runtime.plugincheck.clusters import START, decoded
from volcanoio.runtime.plugincheck.report import Report
from volcanoio.runtime.scheduler_setup import Known, Setup

__all__ = ["DEFINITION", "Report", "check", "cluster", "placements", "until"]
DEFINITION = custom_kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition", namespaced=False)
"""The kind of definitions of custom resources."""
PATIENCE = 40.0
"""Seconds that `until` waits."""


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


@asynccontextmanager
async def cluster(**options: Any) -> AsyncIterator[Client]:
    """A whole cluster, as `volcanoio up --memory` with these options, and a client of it.

    Its time runs 20 times as fast unless told otherwise; what is installed runs in it. Raises OptionError.
    """
    async with LocalCluster(LocalOptions.parse(**{"speed": 20.0, **options})) as local:
        yield Client(local.transport)


async def until(
    client: Client, kind: Kind, name: str, holds: Callable[[Any], bool] | None, namespace: str = "default"
) -> ApiObject | None:
    """The object, once something holds of it; with None, return once it is gone.

    Raises AssertionError, with what was seen last, when that takes too long.
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
    msg = f"{kind.kind} {name}: what was waited for did not come about; last seen: {seen}"
    raise AssertionError(msg)
