"""Everything a client needs beside the resources themselves, put onto a server."""

from __future__ import annotations

from volcanoio.localcluster.apiserver.authn.pages import OpenIdPages
from volcanoio.localcluster.apiserver.clock import TimeOfDay
from volcanoio.localcluster.apiserver.discovery import Discovery
from volcanoio.localcluster.apiserver.events.route import EventsRoute
from volcanoio.localcluster.apiserver.health import Health, version
from volcanoio.localcluster.apiserver.logs import LogSource, PodLogs
from volcanoio.localcluster.apiserver.metrics.exposition import Figures, MetricsPage
from volcanoio.localcluster.apiserver.metrics.nodeproxy import NodeProxy
from volcanoio.localcluster.apiserver.metrics.route import MetricsRoute
from volcanoio.localcluster.apiserver.openapi import OpenApi
from volcanoio.localcluster.apiserver.openapi_v2 import OpenApiV2
from volcanoio.localcluster.apiserver.printing.tables import Tables
from volcanoio.localcluster.apiserver.reviews import Reviews
from volcanoio.localcluster.apiserver.server import ApiServer
from volcanoio.localcluster.apiserver.unserved import unserved


def install(
    server: ApiServer, *, logs: LogSource | None = None, clock: TimeOfDay | None = None, figures: Figures | None = None
) -> None:
    """Add discovery, OpenAPI, version, health, reviews, metrics and tables, and pod logs when they have a source.

    `figures` gives those of the other components of the process, for /metrics.
    """
    clock = clock or server.core.clock
    registry = server.registry
    metrics, proxy = MetricsRoute(server.core, server.reader, clock), NodeProxy(server.core, clock)
    server.pages += [
        Discovery(registry),
        OpenApi(registry),
        OpenApiV2(registry),
        version,
        Health(server.core),
        metrics,
        proxy,
    ]
    server.pages += [OpenIdPages(server.tokens), MetricsPage(server.core, server.traffic, figures)]
    server.routes += [
        Reviews(server.core, server.tokens),
        unserved,
        EventsRoute(registry, server.handle, server.core.new_suffix),
    ]
    if logs is not None:
        server.pages.append(PodLogs(server.handle, logs, clock))
    server.table = Tables(clock)
