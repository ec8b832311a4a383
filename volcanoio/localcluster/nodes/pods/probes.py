"""Probes and hooks of simulated containers: when a container is started, ready, or killed as unhealthy.

A probe passes at its first try unless an annotation changes that. Kubernetes: `pkg/kubelet/prober/worker.go`. Only
probes that the container declares have an effect.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Any

import msgspec

from volcanoio.model import times
from volcanoio.model.core import Container

_AFTER = re.compile(r"(ok|fail)-after\(\s*([^)\s]+)\s*\)")
_PERIOD, _THRESHOLD = 10.0, 3


class Change(StrEnum):
    """Change caused by a probe."""

    UP = "started"
    READY = "ready"
    UNREADY = "unready"
    STARTUP_FAILED = "startup"
    LIVENESS_FAILED = "liveness"


class Pulse(msgspec.Struct, frozen=True, gc=False):
    """A change at a moment (epoch seconds)."""

    at: float
    change: Change


class Outcome(msgspec.Struct, frozen=True, gc=False):
    """Result of a probe: success (`ok`) or failure from `after` seconds of the run on."""

    ok: bool = True
    after: float = 0.0


class Outcomes(msgspec.Struct, frozen=True, gc=False):
    """Results of the three probes of a pod's containers."""

    startup: Outcome = Outcome()
    readiness: Outcome = Outcome()
    liveness: Outcome = Outcome()


PASSING = Outcomes()


def parse_outcome(text: str) -> Outcome:
    """Parse `ok`, `fail`, `ok-after(20s)` or `fail-after(20s)`; raises ValueError."""
    if text in ("ok", "fail"):
        return Outcome(text == "ok")
    if match := _AFTER.fullmatch(text):
        return Outcome(match[1] == "ok", times.parse_duration(match[2]))
    msg = f"{text!r} must be ok, fail, ok-after(20s) or fail-after(20s)"
    raise ValueError(msg)


def pulses(container: Container, at: float, said: Outcomes) -> tuple[Pulse, ...]:
    """Return the probe results of a container that starts at `at`, in order of time."""
    startup, readiness, liveness = container.startup_probe, container.readiness_probe, container.liveness_probe
    if startup is None and readiness is None and (liveness is None or said.liveness.ok):
        return ()
    up = at
    if startup is not None:
        first = at + _number(startup, "initialDelaySeconds", 0.0)
        given_up = first + _failing(startup)
        passes = max(first, at + said.startup.after) if said.startup.ok else None
        if passes is None or passes > given_up:
            return (Pulse(given_up, Change.STARTUP_FAILED),)
        up = passes
    found = [Pulse(up, Change.UP)]
    if readiness is None:
        found.append(Pulse(up, Change.READY))
    else:
        first = max(up, at + _number(readiness, "initialDelaySeconds", 0.0))
        if said.readiness.ok:
            found.append(Pulse(max(first, at + said.readiness.after), Change.READY))
        elif said.readiness.after:
            found.append(Pulse(first, Change.READY))
            found.append(Pulse(max(first, at + said.readiness.after) + _failing(readiness), Change.UNREADY))
    if liveness is not None and not said.liveness.ok:
        first = max(up, at + _number(liveness, "initialDelaySeconds", 0.0), at + said.liveness.after)
        found.append(Pulse(first + _failing(liveness), Change.LIVENESS_FAILED))
    return tuple(sorted(found, key=lambda pulse: pulse.at))


def _failing(probe: dict[str, Any]) -> float:
    """Return the seconds from a probe's first failure to the failure that counts."""
    threshold = _number(probe, "failureThreshold", _THRESHOLD)
    return (threshold - 1) * _number(probe, "periodSeconds", _PERIOD)


def _number(probe: dict[str, Any], field: str, default: float) -> float:
    value = probe.get(field)
    return float(value) if isinstance(value, int | float) and value > 0 else default


def probe_grace(container: Container, change: Change) -> float | None:
    """Return the grace period of a failed probe."""
    probe = container.startup_probe if change is Change.STARTUP_FAILED else container.liveness_probe
    value = (probe or {}).get("terminationGracePeriodSeconds")
    return float(value) if isinstance(value, int) else None


def hook_seconds(container: Container, hook: str) -> float:
    """Return the duration of a hook (`postStart`, `preStop`).

    That is its sleep; other handlers take no time.
    """
    handler = (container.lifecycle or {}).get(hook) or {}
    seconds = (handler.get("sleep") or {}).get("seconds")
    return float(seconds) if isinstance(seconds, int) else 0.0
