"""`/metrics` of a local cluster: what scheduler and controllers report, in Prometheus' text format."""

from __future__ import annotations

from volcanoio.localcluster.apiserver.api import ApiRequest, ApiResponse
from volcanoio.runtime.metrics import PrometheusProbe

_FORMAT = "text/plain; version=0.0.4; charset=utf-8"


class MetricsPage:
    """A page of the API server."""

    def __init__(self, probe: PrometheusProbe) -> None:
        self._probe = probe

    async def __call__(self, request: ApiRequest) -> ApiResponse | None:
        """The figures as they are now; None for any other path."""
        if request.path != "/metrics":
            return None
        return ApiResponse(200, await self._probe.render(), content_type=_FORMAT)
