"""Startup and liveness probes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from volcanoio.localcluster.processes.execution import failed_probe
from volcanoio.localcluster.processes.handlers import HookError, port_number, run_hook

QUICK = {"periodSeconds": 0, "failureThreshold": 2}


async def _never(_: list[str]) -> tuple[int, bytes]:
    raise AssertionError


async def _outcome(container: dict[str, Any], outcomes: Iterable[bool]) -> tuple[str, list[str]]:
    """Return the probe that ends a container with these results, and the reported failures."""
    coming = iter(outcomes)
    reported: list[str] = []

    async def attempt(_: Mapping[str, Any]) -> None:
        if not next(coming):
            raise HookError("sick")

    name = await failed_probe(container, attempt, lambda probe, how: reported.append(f"{probe} {how}"))
    return name, reported


async def test_failures_in_a_row_count() -> None:
    name, reported = await _outcome({"livenessProbe": QUICK}, [True, False, True, False, False])
    assert (name, reported) == ("Liveness", ["Liveness sick"] * 3)


async def test_startup_comes_first() -> None:
    both = {"startupProbe": QUICK, "livenessProbe": QUICK}
    assert await _outcome(both, [False, True, False, False]) == ("Liveness", ["Startup sick", *["Liveness sick"] * 2])
    assert await _outcome(both, [False, False]) == ("Startup", ["Startup sick"] * 2)


@pytest.mark.parametrize(("port", "number"), [(80, 80), ("web", 8080), ("81", 81)])
def test_ports_have_numbers_or_names(port: int | str, number: int) -> None:
    assert port_number({"port": port}, {"ports": [{"name": "web", "containerPort": 8080}]}) == number


async def test_a_port_without_a_listener_fails() -> None:
    with pytest.raises(HookError, match=r"dial tcp 127\.0\.0\.1:1"):
        await run_hook({"tcpSocket": {"port": 1}}, _never, {}, "127.0.0.1")
    with pytest.raises(HookError, match="neither a number"):
        await run_hook({"tcpSocket": {"port": "nope"}}, _never, {}, "127.0.0.1")
    with pytest.raises(HookError, match=r"GET http://127\.0\.0\.1:1/"):
        await run_hook({"httpGet": {"port": 1}}, _never, {}, "127.0.0.1")
