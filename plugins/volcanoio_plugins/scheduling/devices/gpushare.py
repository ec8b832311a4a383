"""GPU sharing: pods that take memory of one GPU, or whole GPUs by number.

Source: Volcano, pkg/scheduler/api/devices/nvidia/gpushare. All GPUs of a node are alike and known by their index.
"""

from __future__ import annotations

from collections.abc import Mapping

from volcanoio.model.core import Container, Node, Pod
from volcanoio.model.devices.annotations import (
    GPU_INDEX,
    GPU_LOCK,
    GPU_MEMORY,
    GPU_NUMBER,
    GPU_UNHEALTHY,
    PREDICATE_TIME,
)
from volcanoio_plugins.scheduling.devices.cards import (
    WHOLE,
    Card,
    CardState,
    Choice,
    ContainerRequest,
    Request,
    Share,
    limit_of,
    names_in,
    whole_units,
)

NO_MEMORY = "GpuShare no enough gpu memory on node"
NO_CARDS = "GpuNumber no enough gpu number on node"


class GpuShare:
    """One of both modes: by memory, or by number."""

    name = "GpuShare"
    lock = GPU_LOCK

    def __init__(self, *, by_number: bool) -> None:
        self._by_number = by_number
        self.resources: tuple[str, ...] = (GPU_NUMBER if by_number else GPU_MEMORY,)

    def request(self, pod: Pod) -> Request | None:
        """Return what a pod asks for: the larger of its containers together and of each init container."""
        if not (amount := _limits(pod, self.resources[0])):
            return None
        wanted = ContainerRequest(amount) if self._by_number else ContainerRequest(1, memory=amount)
        return Request(self.name, (wanted,))

    def cards(self, node: Node) -> tuple[Card, ...]:
        """Return the healthy cards of a node, which divide its memory evenly."""
        capacity = node.status.capacity or node.status.allocatable
        number, memory = whole_units(capacity.get(GPU_NUMBER)) or 0, whole_units(capacity.get(GPU_MEMORY)) or 0
        if not number or GPU_MEMORY not in capacity:
            return ()
        unhealthy = names_in(node.metadata.annotations, GPU_UNHEALTHY)
        kept = [str(index) for index in range(number) if str(index) not in unhealthy]
        return tuple(Card(key, number=memory, memory=memory // number) for key in kept)

    def shares(self, pod: Pod, annotations: Mapping[str, str]) -> tuple[Share, ...]:
        """Return the cards of a pod by their indexes, and its memory on each."""
        if GPU_INDEX not in annotations:
            return ()
        memory = _limits(pod, GPU_MEMORY)
        cores = 0 if memory else WHOLE
        return tuple(Share(index, memory, cores) for index in names_in(annotations, GPU_INDEX))

    def is_handed_over(self, annotations: Mapping[str, str]) -> bool:  # noqa: ARG002 - nothing is created
        """Return true: no part of a card is created for a pod."""
        return True

    def choose(self, request: Request, states: list[CardState], policy: str) -> Choice | str:  # noqa: ARG002 - none here
        """Choose the first card with enough memory, or that many idle cards."""
        (wanted,) = request.containers
        if self._by_number:
            chosen = [state for state in states if not state.sharers][: wanted.number]
            if len(chosen) < wanted.number:
                return NO_CARDS
            shares = tuple(Share(state.card.key, 0, WHOLE) for state in chosen)
        else:
            fitting = (state for state in states if state.cores < WHOLE and state.free_memory >= wanted.memory)
            if (first := next(fitting, None)) is None:
                return NO_MEMORY
            chosen, shares = [first], (Share(first.card.key, wanted.memory),)
        for state, share in zip(chosen, shares, strict=True):
            state.add(share)
        return Choice((shares,))

    def annotations(self, request: Request, choice: Choice, node: str, now: float) -> dict[str, str]:  # noqa: ARG002 - the indexes contain all
        """Return the indexes of the cards, and the time."""
        (shares,) = choice.containers
        return {PREDICATE_TIME: str(int(now * 1e9)), GPU_INDEX: ",".join(share.card for share in shares)}


def _limits(pod: Pod, resource: str) -> int:
    """Return the larger of the sum over containers and of each init container."""

    def one(container: Container) -> int:
        return limit_of(container, resource) or 0

    return max(sum(map(one, pod.spec.containers)), max(map(one, pod.spec.init_containers), default=0))
