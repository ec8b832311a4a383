"""Where figures of nodes are polled: the `metrics` section of the scheduler's configuration, as a typed value."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class MetricsType(StrEnum):
    """The kinds of source that Volcano knows (`pkg/scheduler/metrics/source`)."""

    PROMETHEUS = "prometheus"
    PROMETHEUS_ADAPTOR = "prometheus_adaptor"
    ELASTICSEARCH = "elasticsearch"


class ElasticsearchSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How Elasticsearch is asked: the index, the account, and the field that holds a node's name."""

    index: str = "metricbeat-*"
    username: str = ""
    password: str = ""
    hostname_field: str = "host.hostname"


class MetricsSettings(msgspec.Struct, frozen=True, kw_only=True):
    """One source. `address` is its URL, "" where the type needs none; `interval` is seconds between two polls."""

    type: MetricsType
    address: str = ""
    interval: float = 30.0
    insecure_skip_verify: bool = False
    """Whether a TLS certificate that cannot be verified is taken."""
    elasticsearch: ElasticsearchSettings = ElasticsearchSettings()
