"""metrics.k8s.io/v1beta1: what pods use, as metrics-server says it. It is listed and cannot be watched."""

from __future__ import annotations

from volcanoio.model.base import ApiObject, Model
from volcanoio.model.core import ResourceList


class ContainerMetrics(Model):
    """`containers[]` of PodMetrics: usage of cpu and memory."""

    name: str = ""
    usage: ResourceList = {}


class PodMetrics(ApiObject):
    """What one pod uses, on the average of `window` before `timestamp`."""

    timestamp: str | None = None
    window: str = ""
    containers: tuple[ContainerMetrics, ...] = ()
