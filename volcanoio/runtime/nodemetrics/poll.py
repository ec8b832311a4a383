"""The source `node-metrics`: asks again and again, and says what every node's usage is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

import anyio

from volcanoio.framework.scheduling.metricsettings import MetricsSettings, MetricsType
from volcanoio.framework.scheduling.sources import Feed, Source
from volcanoio.kube.config import Connection
from volcanoio.kube.credentials import StaticCredentials, basic
from volcanoio.kube.http import HttpTransport
from volcanoio.kube.transport import Transport
from volcanoio.runtime.nodemetrics.adaptor import read_adaptor
from volcanoio.runtime.nodemetrics.answers import Percent
from volcanoio.runtime.nodemetrics.elasticsearch import read_elasticsearch
from volcanoio.runtime.nodemetrics.prometheus import read_prometheus

TIMEOUT = 60.0
"""Seconds one poll may take."""


class Reader(Protocol):
    """Asks one kind of server: cpu and memory in percent, each by node."""

    async def __call__(self, transport: Transport, settings: MetricsSettings) -> tuple[Percent, Percent]:
        """Ask once; raises MetricsError for an answer of no use, TransportError for none."""
        ...


class _Kind(NamedTuple):
    """A reader, and whether it asks the API server rather than an address of its own."""

    read: Reader
    of_api_server: bool


_KINDS: Mapping[MetricsType, _Kind] = {
    MetricsType.PROMETHEUS: _Kind(read_prometheus, of_api_server=False),
    MetricsType.PROMETHEUS_ADAPTOR: _Kind(read_adaptor, of_api_server=True),
    MetricsType.ELASTICSEARCH: _Kind(read_elasticsearch, of_api_server=False),
}


def node_metrics(api_server: Transport) -> Callable[[MetricsSettings], Source]:
    """How the source is made of settings."""

    def make(settings: MetricsSettings) -> Source:
        kind = _KINDS[settings.type]

        async def source(feed: Feed) -> None:
            if kind.of_api_server:
                await _poll(kind.read, api_server, settings, feed)
                return
            transport = HttpTransport(_connection(settings), connections=4, timeout=TIMEOUT)
            try:
                await _poll(kind.read, transport, settings, feed)
            finally:
                with anyio.CancelScope(shield=True):
                    await transport.aclose()

        return source

    return make


async def _poll(read: Reader, transport: Transport, settings: MetricsSettings, feed: Feed) -> None:
    """Ask, say and wait, until cancelled or something is wrong. A node of which half is known is left out."""
    while True:
        cpu, memory = await read(transport, settings)
        now = feed.now()
        facts = {
            node: {"cpu": cpu[node], "memory": memory[node], "at": now, "every": settings.interval}
            for node in sorted(cpu.keys() & memory.keys())
        }
        feed.say(facts, whole=True)
        await feed.sleep(settings.interval)


def _connection(settings: MetricsSettings) -> Connection:
    account = settings.elasticsearch if settings.type is MetricsType.ELASTICSEARCH else None
    header = basic(account.username, account.password) if account is not None and account.username else ""
    return Connection(
        server=settings.address,
        ssl=not settings.insecure_skip_verify,
        credentials=StaticCredentials(header),
    )
