"""The devices of a session against the rules: a pod is placed exactly if some node has devices for all its claims."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import assume, given
from hypothesis import strategies as st

from tests.examples import examples
from tests.scenario.scheduling.device_objects import (
    ENABLED,
    claim,
    claim_of,
    device_class,
    resource_slice,
    using,
)
from tests.scenario.scheduling.harness import World, group, node
from tests.unit.scheduling_plugins.device_rules import CARD, CLAIMS, DEVICES, Claim, Device, Taken, accepts, solutions
from volcanoio.model.base import Manifest

NODES = ("n1", "n2")
CARDS = [{"name": "s", "counters": {"cells": {"value": str(CARD)}}}]


def slices(name: str, devices: Sequence[Device]) -> list[Manifest]:
    """The pool of a node: its devices and its card."""
    found = [device.manifest(f"g{index}") for index, device in enumerate(devices)]
    return [
        resource_slice(f"d-{name}", found, on=name, pool=name, count=2, driver="d"),
        resource_slice(f"s-{name}", [], on=name, pool=name, count=2, driver="d", sharedCounters=CARDS),
    ]


def pod_with(name: str, job: str, claims: Sequence[Claim]) -> list[Manifest]:
    """A pod of a job, and its claims."""
    names = [f"{name}-{index}" for index in range(len(claims))]
    manifests = [{**claim(each), "spec": one.spec()} for each, one in zip(names, claims, strict=True)]
    return [*manifests, using(name, job, *names)]


def taken(world: World, name: str, claims: Sequence[Claim]) -> list[Taken]:
    """The devices of a job's claims in the order of its requests."""
    result = []
    for index, one in enumerate(claims):
        allocation = claim_of(world, f"{name}-{index}").status.allocation
        assert allocation is not None
        for device in allocation.devices.results:
            of, _, sub = device.request.partition("/")
            wanted = one.requests[int(of[1:])][int(sub[1:]) if sub else 0]
            result.append(Taken(index, int(of[1:]), wanted, int(device.device[1:])))
    return result


@given(DEVICES, DEVICES, CLAIMS, st.booleans())
@examples(120)
def test_a_pod_is_placed_exactly_if_a_node_has_devices_for_its_claims(
    first: list[Device], second: list[Device], claims: list[Claim], after_a_gang: bool
) -> None:
    inventory = dict(zip(NODES, (first, second), strict=True))
    parts = [part for name, devices in inventory.items() for part in slices(name, devices)]
    gang = [group("a", 2), *pod_with("a0", "a", claims), *pod_with("a1", "a", claims)] if after_a_gang else []
    world = World(*map(node, NODES), device_class("c"), *parts, conf=ENABLED)
    for manifest in (*gang, group("b", 1), *pod_with("b", "b", claims)):
        world.put(manifest)
    world.run(2)
    assume("a0" not in world.binds)  # a gang that has no devices for both of its pods leaves all devices
    feasible = {
        name for name, devices in inventory.items() if next(solutions(devices, frozenset(), claims), None) is not None
    }
    assert set(world.binds) == ({"b"} if feasible else set())
    if feasible:
        assert world.binds["b"] in feasible
        chosen = taken(world, "b", claims)
        devices = inventory[world.binds["b"]]
        for end in range(1, len(chosen) + 1):
            assert accepts(devices, frozenset(), claims, chosen[:end]), chosen[:end]
