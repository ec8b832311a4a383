"""Ascend NPUs as HAMi registers them: whole cards, or the part of one that a template describes.

Source: Volcano, pkg/scheduler/api/devices/ascend/hami. Memory is rounded up to a template's; several cards are whole
ones. Cards of an Ascend910 that name their network are taken from as few networks as possible. Differs from Volcano:
`spread` scores cards that were unused before, annotations about cards of a name are followed, and the lock is HAMi's
(pkg/util/nodelock), which its device plugin reads and releases: Volcano's is released when the cards are chosen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from volcanoio.model.core import Node, Pod
from volcanoio.model.devices import annotations as names
from volcanoio.model.devices.annotations import DeviceShare, format_pod_devices, parse_npus, parse_pod_devices
from volcanoio.model.resources import stored_amounts
from volcanoio_plugins.scheduling.devices.cards import (
    UNSET,
    WHOLE,
    Card,
    CardState,
    Choice,
    ContainerRequest,
    Request,
    Share,
    card_score,
    container_requests,
    names_in,
)
from volcanoio_plugins.scheduling.devices.deviceconfig import NpuConfig

TOO_FEW = "no enough ascend device available"
PARTIAL = "vNPU does not support partial memory allocation when requesting multiple devices"
TOO_LARGE = "no ascend device has as much memory as requested"
NETWORKED = "Ascend910"
NETWORK_WEIGHT = 10.0
"""Score of cards that are all in one network."""


class Npu:
    """The NPUs of one chip."""

    lock = names.HAMI_LOCK

    def __init__(self, config: NpuConfig) -> None:
        self._config = config
        self.name = config.common_word
        self.resources: tuple[str, ...] = tuple(
            filter(None, (config.resource_name, config.resource_memory_name)),
        )
        self._to_allocate, self._allocated, self._runtime = names.npu_allocated(self.name)

    def request(self, pod: Pod) -> Request | None:
        """Return what the containers of a pod ask for, with its annotations about cards."""
        wanted = container_requests(pod, self._config.resource_name, self._config.resource_memory_name, "", "")
        if not wanted:
            return None
        annotations = pod.metadata.annotations
        return Request(
            self.name,
            tuple(wanted),
            use_cards=names_in(annotations, f"hami.io/use-{self.name}-uuid"),
            avoid_cards=names_in(annotations, f"hami.io/no-use-{self.name}-uuid"),
        )

    def cards(self, node: Node) -> tuple[Card, ...]:
        """Return the healthy cards of a node that has the resource."""
        if stored_amounts(node.status.allocatable).get(self._config.resource_name, 0) <= 0:
            return ()
        registered = parse_npus(node.metadata.annotations.get(names.npu_register(self.name), ""))
        return tuple(
            Card(each.id, each.count, each.devmem, each.devcore, each.type, network=_network(each.custominfo))
            for each in registered
            if each.health
        )

    def shares(self, pod: Pod, annotations: Mapping[str, str]) -> tuple[Share, ...]:  # noqa: ARG002 - annotations contain all
        """Return the shares that annotations name."""
        text = annotations.get(self._allocated) or annotations.get(self._to_allocate, "")
        return tuple(Share(each.uuid, each.memory, each.cores) for one in parse_pod_devices(text) for each in one)

    def is_handed_over(self, annotations: Mapping[str, str]) -> bool:
        """Return whether the device plugin has finished."""
        return annotations.get(names.HAMI_BIND_PHASE) != names.ALLOCATING

    def choose(self, request: Request, states: list[CardState], policy: str) -> Choice | str:
        """Choose cards that no other container of the pod has, the best ones by policy first."""
        ordered = sorted(states, key=lambda state: -card_score(policy, state, was_idle=not state.sharers))
        is_networked = self.name.startswith(NETWORKED) and all(state.card.network is not None for state in states)
        chosen: list[tuple[Share, ...]] = []
        taken: list[CardState] = []
        score = 0.0
        for wanted in request.containers:
            memory = self._memory(wanted, states)
            if isinstance(memory, str):
                return memory
            fitting = [
                state for state in ordered if state not in taken and request.allows(state.card) and _fits(state, memory)
            ]
            if is_networked:
                fitting = _by_network(fitting)
            if len(fitting) < wanted.number:
                return TOO_FEW
            shares = []
            for state in fitting[: wanted.number]:
                score += card_score(policy, state, was_idle=not state.sharers)
                share = Share(state.card.key, memory)
                state.add(share)
                taken.append(state)
                shares.append(share)
            chosen.append(tuple(shares))
        if is_networked and taken:
            (_, most), *_ = Counter(state.card.network for state in taken).most_common(1)
            score += NETWORK_WEIGHT * most / len(taken)
        return Choice(tuple(chosen), score)

    def _memory(self, wanted: ContainerRequest, states: Sequence[CardState]) -> int | str:
        """Return the memory of each card that a container gets, or why there is none."""
        most = max((state.card.memory for state in states), default=0)
        memory = wanted.memory or (most * wanted.percentage // WHOLE if wanted.percentage != UNSET else most)
        if (template := self._config.template_for(memory)) is None:
            return TOO_LARGE
        if wanted.number > 1 and template[0] != self._config.memory_allocatable:
            return PARTIAL
        return template[0]

    def annotations(self, request: Request, choice: Choice, node: str, now: float) -> dict[str, str]:  # noqa: ARG002 - the choice contains all
        """Return the shares for the device plugin, and cards with templates for the runtime."""
        seconds = str(int(now))
        text = format_pod_devices(
            [
                [DeviceShare(share.card, self.name, share.memory, share.cores) for share in one]
                for one in choice.containers
            ],
            closed=True,
        )
        runtime = [self._runtime_entry(share) for one in choice.containers for share in one]
        return {
            self._to_allocate: text,
            self._allocated: text,
            names.NPU_TIME: seconds,
            self._runtime: msgspec.json.encode(runtime).decode(),
            names.HAMI_NODE: node,
            names.HAMI_TIME: seconds,
            names.HAMI_BIND_PHASE: names.ALLOCATING,
            names.HAMI_BIND_TIME: seconds,
        }

    def _runtime_entry(self, share: Share) -> dict[str, str]:
        template = self._config.template_for(share.memory)
        name = template[1] if template is not None else ""
        return {"UUID": share.card, **({"temp": name} if name else {})}


def _network(info: Mapping[str, object]) -> int | None:
    number = info.get("NetworkID")
    return int(number) if isinstance(number, int | float) else None


def _fits(state: CardState, memory: int) -> bool:
    card = state.card
    is_full = bool(card.cores) and state.cores >= card.cores
    return state.sharers < card.number and state.free_memory >= memory and not is_full


def _by_network(states: list[CardState]) -> list[CardState]:
    """Return the cards of the network with most of them first."""
    sizes = Counter(state.card.network for state in states)
    return sorted(states, key=lambda state: (-sizes[state.card.network], state.card.network or 0))
