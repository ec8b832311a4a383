"""The measure of fragmentation, and the annotations from which it is read."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from volcanoio_plugins.scheduling.fragmentation.cards import WHOLE, Demand, demand_of, healthy_cards
from volcanoio_plugins.scheduling.fragmentation.kinds import Kinds, TypicalPod
from volcanoio_plugins.scheduling.fragmentation.measure import (
    Room,
    Typical,
    fragmentation,
    usable_by_copies,
    usable_once,
)

from volcanoio.model.base import ObjectMeta
from volcanoio.model.core import Node

HALF, ONE, TWO = (2000, 1, 500), (4000, 1, WHOLE), (8000, 2, WHOLE)
"""Pods as (milli-cores, cards, share)."""


def typical(*pods: tuple[int, int, int], weights: list[float] | None = None) -> Typical:
    cpu, cards, share = np.array(pods, np.int64).T
    parts = np.array(weights or [1 / len(pods)] * len(pods))
    return Typical(cpu, cards, share, parts)


def room(cpu: int, *free: int) -> Room:
    return Room(np.array([cpu]), np.array([free]))


def reach(pods: Typical) -> np.ndarray:
    return np.ones((1, len(pods.cpu)), np.bool_)


@pytest.mark.parametrize(
    ("here", "pod", "fragments", "copies"),
    [
        pytest.param(room(8000, 700, 1000), HALF, 0, 1500, id="every card has room: only copies see the odd 200"),
        pytest.param(room(8000, 400, 1000), HALF, 400, 1000, id="a card with too little room is a fragment"),
        pytest.param(room(1000, 1000, 1000), HALF, 2000, 0, id="without enough cpu all that is idle is a fragment"),
        pytest.param(room(6000, 1000, 1000), ONE, 0, 1500, id="copies are limited by cpu in proportion"),
        pytest.param(room(8000, 1000, 999), TWO, 1999, 0, id="too few whole cards"),
        pytest.param(room(8000, 1000, -1), (1000, 0, 0), 1000, 0, id="a pod without cards can use none"),
    ],
)
def test_what_a_typical_pod_can_use(here: Room, pod: tuple[int, int, int], fragments: int, copies: int) -> None:
    pods = typical(pod)
    assert fragmentation(here, pods, reach(pods)).tolist() == [fragments]
    assert usable_by_copies(here, pods, reach(pods)).tolist() == [[copies]]


def test_labels_that_do_not_match_make_all_of_it_a_fragment() -> None:
    pods = typical(HALF, ONE, weights=[0.25, 0.75])
    assert fragmentation(room(8000, 1000), pods, np.array([[True, False]])).tolist() == [750]


SHARES = st.integers(1, WHOLE)
PODS = st.one_of(
    st.tuples(st.integers(0, 64_000), st.just(1), SHARES),
    st.tuples(st.integers(0, 64_000), st.integers(1, 4), st.just(WHOLE)),
    st.tuples(st.integers(0, 64_000), st.just(0), st.just(0)),
)
ROOMS = st.builds(
    lambda cpu, free: room(cpu, *free), st.integers(0, 64_000), st.lists(st.integers(-1, WHOLE), min_size=1)
)


@given(ROOMS, st.lists(PODS, min_size=1, max_size=6))
def test_fragmentation_is_between_nothing_and_what_is_idle(here: Room, pods: list[tuple[int, int, int]]) -> None:
    kinds = typical(*pods)
    (fragments,) = fragmentation(here, kinds, reach(kinds))
    assert -1e-6 <= fragments <= here.idle[0] + 1e-6
    assert (usable_by_copies(here, kinds, reach(kinds)) <= usable_once(here, kinds, reach(kinds))).all()


@given(ROOMS, PODS, st.lists(PODS, min_size=1, max_size=6))
def test_a_pod_takes_what_it_requests_and_makes_nothing_more_usable(
    here: Room, pod: tuple[int, int, int], pods: list[tuple[int, int, int]]
) -> None:
    cpu, cards, share = pod
    if here.cpu[0] < cpu or not here.fits(cards, share)[0]:
        return
    after, kinds = here.with_pod(cpu, cards, share), typical(*pods)
    assert after.idle[0] == here.idle[0] - cards * share
    for usable in (usable_once, usable_by_copies):
        assert (usable(after, kinds, reach(kinds)) <= usable(here, kinds, reach(kinds)) + 1e-3).all()


def test_a_share_is_taken_from_the_fullest_card_with_room() -> None:
    assert room(0, 1000, 300, 600, -1).with_pod(0, 1, 500).free.tolist() == [[1000, 300, 100, -1]]


def test_cards_that_are_not_healthy_do_not_count() -> None:
    text = "gpu-0,10,32768,NVIDIA-V100,true,hami-core:gpu-1,10,32768,NVIDIA-V100,false,hami-core:"
    node = Node(metadata=ObjectMeta(name="n1", annotations={"volcano.sh/node-vgpu-register": text}))
    assert [card.uuid for card in healthy_cards(node)] == ["gpu-0"]


@pytest.mark.parametrize(
    ("resources", "share"),
    [
        ({"vgpu-number": 1}, WHOLE),
        ({"vgpu-number": 1, "vgpu-memory": 4000}, 250),
        ({"vgpu-number": 2, "vgpu-memory-percentage": 30, "vgpu-cores": 50}, 500),
        ({"vgpu-number": 1, "vgpu-memory": 17000}, 1063),
    ],
)
def test_the_share_is_the_larger_of_memory_and_cores(resources: dict[str, int], share: int) -> None:
    demand = demand_of({f"volcano.sh/{name}": amount * 1000 for name, amount in resources.items()})
    assert (demand.cards, demand.share(16000)) == (resources["vgpu-number"], share)


def test_fgd_counts_popular_kinds_and_scarcity_those_with_the_largest_demand() -> None:
    listed = [
        TypicalPod(requests={"cpu": "1"}, count=90),
        TypicalPod(requests={"cpu": "1", "volcano.sh/vgpu-number": "1"}, count=8),
        TypicalPod(requests={"cpu": "8", "volcano.sh/vgpu-number": "8"}, count=2),
    ]
    whole = Demand(1, 0, 0, 0)
    popular = [(kind.demand, round(part, 3)) for kind, part in Kinds(listed, popular=True).chosen(1000)]
    assert popular == [(whole, round(8 / 98, 3))]
    demanded = [(kind.demand, part) for kind, part in Kinds(listed, popular=False).chosen(1000)]
    assert demanded == [(Demand(8, 0, 0, 0), 0.2), (whole, 0.8)]
