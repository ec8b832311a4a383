"""Typed settings of the scheduler: feature gates, and the `metrics` section of its configuration.

Feature gates: those of Volcano's pkg/features/volcano_features.go that change scheduling.
"""

from enum import StrEnum

import msgspec


class FeatureGate(StrEnum):
    """A feature that is off by default."""

    QUEUE_ADMISSION = "SchedulingGatesQueueAdmission"
    """Pods wait behind a scheduling gate until their queue has room for them; see `queue_gates`."""


class MetricsType(StrEnum):
    """The types of metrics source that Volcano supports (`pkg/scheduler/metrics/source`)."""

    PROMETHEUS = "prometheus"
    PROMETHEUS_ADAPTOR = "prometheus_adaptor"
    ELASTICSEARCH = "elasticsearch"


class ElasticsearchSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Access to Elasticsearch: the index, the account, and the field that contains a node's name."""

    index: str = "metricbeat-*"
    username: str = ""
    password: str = ""
    hostname_field: str = "host.hostname"


class MetricsSettings(msgspec.Struct, frozen=True, kw_only=True):
    """One metrics source. `address` is its URL, "" if the type needs none; `interval` is seconds between two polls."""

    type: MetricsType
    address: str = ""
    interval: float = 30.0
    insecure_skip_verify: bool = False
    """Whether a TLS certificate that cannot be verified is accepted."""
    elasticsearch: ElasticsearchSettings = ElasticsearchSettings()
