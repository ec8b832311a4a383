"""Plugin deviceshare: its arguments, the forms of annotations, and that no card is ever given away twice."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from volcanoio_plugins.scheduling.devices.cards import CardState
from volcanoio_plugins.scheduling.devices.deviceshare import Deviceshare
from volcanoio_plugins.scheduling.devices.vgpu import Vgpu

from tests.scenario.scheduling.devices import card, configuration, vgpu, vgpu_node, with_limits
from tests.scenario.scheduling.harness import World, group
from volcanoio.framework.arguments import ArgumentError
from volcanoio.framework.scheduling.views import TaskStatus
from volcanoio.model import kinds
from volcanoio.model.devices.annotations import (
    DeviceShare,
    RegisteredCard,
    format_pod_devices,
    format_register,
    parse_pod_devices,
    parse_register,
)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            {"deviceshare.GPUSharingEnable": True, "deviceshare.GPUNumberEnable": True},
            (
                "deviceshare: can not define true in both gpu sharing and gpu number: GPUs are shared by memory, "
                "or given whole by number; set one of both to false"
            ),
        ),
        (
            {"deviceshare.GPUNumberEnable": "true", "deviceshare.VGPUEnable": True},
            (
                "deviceshare: gpu-share and vgpu can't be used together: both would give away the same GPUs; "
                "set GPUNumberEnable or VGPUEnable to false"
            ),
        ),
        ({"deviceshare.VGPU": True}, 'deviceshare: unknown argument "deviceshare.VGPU"; did you mean'),
        ({"deviceshare.SchedulePolicy": "pack"}, 'deviceshare: "deviceshare.SchedulePolicy" does not fit'),
        ({"deviceshare.GPUExclusiveRules": [{}]}, 'deviceshare: "deviceshare.GPUExclusiveRules" does not fit'),
    ],
)
def test_wrong_arguments_are_explained(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        Deviceshare(arguments)
    assert str(caught.value).startswith(text)


def test_registered_cards_are_read_as_they_are_written() -> None:
    cards = (RegisteredCard("GPU-0", 10, 40960, "NVIDIA-A100"), RegisteredCard("GPU-1", 7, 1, "V100", False, "mig"))
    text = "GPU-0,10,40960,NVIDIA-A100,true,hami-core:GPU-1,7,1,V100,false,mig:"
    assert (format_register(cards), parse_register(text)) == (text, cards)


@pytest.mark.parametrize("text", ["", "GPU-0", "GPU-0,x,1,t,true,mig:", "GPU-0,1,1,t,true:"])
def test_unreadable_cards_are_none(text: str) -> None:
    assert parse_register(text) == ()


def test_shares_are_read_as_they_are_written() -> None:
    shares = ((DeviceShare("GPU-0[g-1]", "NVIDIA", 5, 10), DeviceShare("GPU-1", "NVIDIA", 1, 0)),) * 2
    text = "GPU-0[g-1],NVIDIA,5,10:GPU-1,NVIDIA,1,0:;GPU-0[g-1],NVIDIA,5,10:GPU-1,NVIDIA,1,0:"
    assert (format_pod_devices(shares), parse_pod_devices(text)) == (text, shares)
    assert [(one.card, one.instance) for one in shares[0]] == [("GPU-0", "g-1"), ("GPU-1", "")]


MEMORY = 100
LIMITS = st.builds(
    vgpu,
    number=st.integers(1, 2),
    memory=st.sampled_from([1, 30, 60, MEMORY]),
    cores=st.sampled_from([0, 0, 10, 50, 100]),
)
JOBS = st.lists(
    st.tuples(st.integers(1, 3), st.lists(LIMITS, min_size=1, max_size=2), st.sampled_from(["keep", "end", "refuse"])),
    min_size=1,
    max_size=7,
)


def states_of(world: World) -> list[CardState]:
    """Return the cards of all nodes as the plugin sees them."""
    plugin = next(one.plugin for tier in world.profile.tiers for one in tier if isinstance(one.plugin, Deviceshare))
    (kind,) = [kind for kind in plugin._kinds if isinstance(kind, Vgpu)]
    nodes = [obj for (resource, _), obj in world.objects.items() if resource == kinds.NODE.resource]
    ledger = plugin._ledger
    return [state for node in nodes for state in ledger.states(kind, node, leaving=True)]  # type: ignore[arg-type]


@settings(max_examples=25, deadline=None)
@given(jobs=JOBS, policy=st.sampled_from(["", "binpack", "spread"]))
def test_no_card_is_oversubscribed_and_nothing_stays_taken(jobs: list[Any], policy: str) -> None:
    """Gangs are placed, undone, refused and ended: cards hold at any time what their pods say, and at last nothing."""
    nodes = [
        vgpu_node(name, *[card(f"{name}-{at}", number=2, memory=MEMORY) for at in range(2)]) for name in ("a", "b")
    ]
    world = World(*nodes, conf=configuration(VGPUEnable=True, SchedulePolicy=policy, ScheduleWeight=1))
    for index, (size, containers, fate) in enumerate(jobs):
        name = f"job{index}"
        world.put(group(name, size, phase="Inqueue"))
        for at in range(size):
            world.put(with_limits(f"{name}-{at}", *containers, job=name))
        world.cycle()
        world.echo(refuse={f"{name}-0": 409} if fate == "refuse" else None)
        check_cards(world)
        if fate == "end":
            for at in range(size):
                world.set_pod(f"{name}-{at}", phase="Succeeded")
            world.run()
            check_cards(world)
    world.run(2)
    check_cards(world)
    for resource, key in list(world.objects):
        if resource == kinds.POD.resource:
            world.remove(kinds.POD, key)
    world.run()
    assert [(state.sharers, state.memory, state.cores) for state in states_of(world)] == [(0, 0, 0)] * 4


def check_cards(world: World) -> None:
    """Check the cards against the annotations of pods, added up apart from the plugin."""
    held: dict[str, list[int]] = {}
    for (resource, _), obj in world.objects.items():
        if resource != kinds.POD.resource or obj.status.phase == "Succeeded":  # type: ignore[attr-defined]
            continue
        if not obj.spec.node_name:  # type: ignore[attr-defined]
            continue
        for one in parse_pod_devices(obj.metadata.annotations["volcano.sh/vgpu-ids-new"]):
            for share in one:
                sums = held.setdefault(share.uuid, [0, 0, 0])
                for place, amount in enumerate((1, share.memory, share.cores)):
                    sums[place] += amount
    seen = {state.card.key: [state.sharers, state.memory, state.cores] for state in states_of(world) if state.sharers}
    assert seen == held
    assert all(number <= 2 and memory <= MEMORY and cores <= 100 for number, memory, cores in held.values())
    ledger = world.state.ledger
    unseen = [task for task in ledger.tasks.values() if task.bind_annotations and task.status is not TaskStatus.BINDING]
    assert unseen == []
