"""Queues limited in vGPUs: memory and cores count for each card of a pod, the number as it is."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.scenario.scheduling.devices import card, vgpu, vgpu_node, with_limits
from tests.scenario.scheduling.harness import World, group, profile, queue
from volcanoio.model.base import Manifest

NUMBER, MEMORY, CORES = "volcano.sh/vgpu-number", "volcano.sh/vgpu-memory", "volcano.sh/vgpu-cores"
FOUR = vgpu_node("n1", *[card(f"GPU-{at}") for at in range(4)])
PAIR = vgpu(2, memory=20480, cores=50)
"""Half of each of two cards."""


def conf(plugin: str, actions: str = "enqueue, allocate") -> str:
    deviceshare = {"name": "deviceshare", "arguments": {"deviceshare.VGPUEnable": True}}
    return json.dumps({"actions": actions, "tiers": [{"plugins": [{"name": "gang"}, {"name": plugin}, deviceshare]}]})


def jobs(queue_name: str, count: int, limits: dict[str, str], minimum: int = 1) -> list[Manifest]:
    """Return jobs of one pod each, with the minResources that the job controller writes."""
    made: list[Manifest] = []
    for name in (f"{queue_name}{at}" for at in range(count)):
        made += [group(name, minimum, queue=queue_name, minResources={"cpu": "1", **limits})]
        made += [with_limits(name, limits)]
    return made


@pytest.mark.parametrize("plugin", ["capacity", "proportion"])
@pytest.mark.parametrize(
    ("limits", "capability", "running"),
    [
        (PAIR, {MEMORY: "81919"}, 1),
        (PAIR, {MEMORY: "81920"}, 2),
        (PAIR, {CORES: "199"}, 1),
        (PAIR, {CORES: "200"}, 2),
        (PAIR, {NUMBER: "3"}, 1),
        (PAIR, {NUMBER: "4"}, 2),
        (vgpu(0, memory=20480), {MEMORY: "40960"}, 2),
        (vgpu(1, memory=20480), {MEMORY: "20479"}, 0),
    ],
)
def test_a_queue_gets_no_more_than_its_capability(
    plugin: str, limits: dict[str, str], capability: dict[str, str], running: int
) -> None:
    world = World(FOUR, queue("q", capability=capability), *jobs("q", 3, limits), conf=conf(plugin)).run(3)
    assert len(world.binds) == running


def test_containers_count_each_with_its_own_number() -> None:
    pod = with_limits("q0", PAIR, vgpu(1, memory=4096))
    world = World(FOUR, queue("q"), group("q0", 1, queue="q"), pod, conf=conf("capacity")).run(2)
    assert world.queue("q").status.allocated[MEMORY] == str(2 * 20480 + 4096)


def test_what_a_queue_deserves_of_memory_is_taken_back() -> None:
    """Without the number of cards queue a would hold 40960 MiB, which it deserves."""
    deserved: dict[str, Any] = {"deserved": {"cpu": "8", MEMORY: "40960"}, "reclaimable": True}
    cluster = [vgpu_node("n1", card("GPU-0"), card("GPU-1")), queue("a", **deserved), queue("b", **deserved)]
    world = World(*cluster, *jobs("a", 2, PAIR, minimum=0), conf=conf("capacity", "enqueue, allocate, reclaim")).run(2)
    assert sorted(world.binds) == ["a0", "a1"]
    for manifest in jobs("b", 1, PAIR):
        world.put(manifest)
    world.run(2)
    assert len(world.evictions) == 1
    world.remove_terminating_pods()
    assert world.run(2).binds["b0"] == "n1"


def test_amounts_of_pods_change_with_the_configuration() -> None:
    world = World(FOUR, queue("q"), *jobs("q", 1, PAIR), conf=conf("capacity")).run(2)
    assert world.queue("q").status.allocated[MEMORY] == "40960"
    world.profile = profile(json.dumps({"actions": "allocate", "tiers": [{"plugins": [{"name": "gang"}]}]}))
    world.run()
    assert world.state.ledger.tasks["ns-q0"].shape.requests[MEMORY] == 20480 * 1000
    assert world.state.ledger.columns.used(MEMORY).tolist() == [20480 * 1000]
