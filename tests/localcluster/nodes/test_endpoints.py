"""Endpoints of simulated pods: they answer while the pod is ready; others are asked by way of the network."""

from __future__ import annotations

from typing import Any, cast

import pytest

from volcanoio.framework.effects import CheckEndpoint
from volcanoio.localcluster.nodes.fleet import SimulatedEndpoints


class Network:
    """Says that it was asked."""

    async def check(self, effect: CheckEndpoint) -> tuple[int, str]:
        return 299, effect.host


class Container:
    def __init__(self, ready: bool) -> None:
        self.ready = ready


class Run:
    def __init__(self, *ready: bool) -> None:
        self.mains = tuple(map(Container, ready))


class Entry:
    def __init__(self, run: Run | None) -> None:
        self.run = run


PODS = cast(
    "Any",
    {"ready": Entry(Run(True, True)), "half": Entry(Run(True, False)), "ended": Entry(None), "none": Entry(Run())},
)


@pytest.mark.parametrize(
    ("pod", "host", "expected"),
    [
        ("ready", "10.244.0.1", (200, "")),
        ("half", "10.244.0.1", (0, "connection refused")),
        ("none", "10.244.0.1", (0, "connection refused")),
        ("ended", "10.244.0.1", (0, "no route to host")),
        ("unknown", "10.244.0.1", (0, "no route to host")),
        ("ready", "127.16.0.1", (299, "127.16.0.1")),
        ("", "10.0.0.1", (299, "10.0.0.1")),
    ],
)
async def test_pods_that_answer_checks(pod: str, host: str, expected: tuple[int, str]) -> None:
    endpoints = SimulatedEndpoints(PODS, Network())
    assert await endpoints.check(CheckEndpoint(check="c", host=host, port=80, pod=pod)) == expected
