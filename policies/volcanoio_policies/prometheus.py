"""What pods use, as Prometheus knows it; asked for a whole namespace at once and remembered for a while."""

from __future__ import annotations

import aiohttp

QUERIES = {
    "cpu": 'sum by (pod) (rate(container_cpu_usage_seconds_total{{namespace="{namespace}",container!=""}}[5m]))',
    "memory": 'sum by (pod) (container_memory_working_set_bytes{{namespace="{namespace}",container!=""}})',
}
"""The metrics that kubelets' cAdvisor exports, in cores and bytes."""
FRESH = 15.0
"""Seconds for which an answer serves."""
TIMEOUT = 5.0

Usage = dict[str, dict[str, float]]
"""By pod, then by resource: cores, bytes."""


class Prometheus:
    """A Prometheus server at an address."""

    def __init__(self, address: str) -> None:
        self._address = address.rstrip("/")
        self._known: dict[str, tuple[float, Usage]] = {}

    async def usage(self, namespace: str, now: float) -> Usage:
        """What the pods of a namespace use; raises aiohttp.ClientError and ValueError for no answer and a bad one."""
        at, known = self._known.get(namespace, (float("-inf"), {}))
        if not at <= now < at + FRESH:
            known = await self._ask(namespace)
            self._known[namespace] = (now, known)
        return known

    async def _ask(self, namespace: str) -> Usage:
        found: Usage = {}
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=TIMEOUT)) as session:
            for resource, query in QUERIES.items():
                asked = {"query": query.format(namespace=namespace)}
                async with session.get(f"{self._address}/api/v1/query", params=asked) as answer:
                    answer.raise_for_status()
                    told = await answer.json()
                if told.get("status") != "success":
                    msg = f"Prometheus at {self._address} answered {told.get('error') or told}"
                    raise ValueError(msg)
                for series in told["data"]["result"]:
                    found.setdefault(series["metric"].get("pod", ""), {})[resource] = float(series["value"][1])
        return found
