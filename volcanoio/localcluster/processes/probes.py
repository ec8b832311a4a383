"""Startup and liveness probes of containers that run: one that fails too often ends its container.

Kubernetes: `pkg/kubelet/prober`. Readiness is not probed: nothing here sends traffic to pods.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from volcanoio.localcluster.processes.hooks import HookFailed
from volcanoio.model.base import Manifest

Try = Callable[[Mapping[str, Any]], Awaitable[None]]
"""Carries a probe's handler out once. Raises HookFailed."""
Unhealthy = Callable[[str, str], None]
"""Told of each failure: which probe, and how."""


class Timing(msgspec.Struct, frozen=True, rename="camel"):
    """When a probe is made, in seconds, and how many failures in a row count."""

    initial_delay_seconds: float = 0.0
    period_seconds: float = 10.0
    timeout_seconds: float = 1.0
    failure_threshold: int = 3


async def failing(container: Manifest, attempt: Try, unhealthy: Unhealthy) -> str:
    """Return the name of the probe that has failed too often: `Startup`, then `Liveness`. Never returns without one."""
    startup, liveness = container.get("startupProbe"), container.get("livenessProbe")
    if startup and not await _probe(startup, "Startup", attempt, unhealthy, until_success=True):
        return "Startup"
    if liveness:
        await _probe(liveness, "Liveness", attempt, unhealthy, until_success=False)
        return "Liveness"
    found: str = await asyncio.get_running_loop().create_future()
    return found


async def _probe(
    probe: Mapping[str, Any], name: str, attempt: Try, unhealthy: Unhealthy, *, until_success: bool
) -> bool:
    """Probe until it has failed too often (false), or succeeded when that is enough (true)."""
    timing = msgspec.convert(dict(probe), Timing)
    failures = 0
    await asyncio.sleep(timing.initial_delay_seconds)
    while True:
        try:
            async with asyncio.timeout(timing.timeout_seconds):
                await attempt(probe)
            failures = 0
            if until_success:
                return True
        except (HookFailed, TimeoutError) as problem:
            failures += 1
            unhealthy(name, str(problem) or f"no answer within {timing.timeout_seconds:g}s")
            if failures >= timing.failure_threshold:
                return False
        await asyncio.sleep(timing.period_seconds)
