"""Ascend NPUs as HAMi registers them: whole cards, the part of one that a template describes, or a share of one.

Source: Volcano, pkg/scheduler/api/devices/ascend/hami. Memory is rounded up to a template's; several cards are whole
ones. In mode hami-core (source: HAMi, pkg/device/ascend) a pod gets as much memory as it asks for, and a percentage of
the cores, on nodes whose device plugin offers that. Cards of an Ascend910 that name their network are taken from as few
networks as possible. Differs from Volcano: `spread` scores cards that were unused before, annotations about cards of a
name are followed, and the lock is HAMi's (pkg/util/nodelock), which its device plugin reads and releases: Volcano's is
released when the cards are chosen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

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
OTHER_MODE = "pod required sharing mode hami-core is not the same as the node mode template"
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
        config, annotations = self._config, pod.metadata.annotations
        mode = names.HAMI_CORE if annotations.get(names.NPU_MODE) == names.HAMI_CORE else ""
        cores = config.resource_core_name if mode else ""
        wanted = container_requests(pod, config.resource_name, config.resource_memory_name, "", cores)
        if not wanted:
            return None
        return Request(
            self.name,
            tuple(wanted),
            mode=mode,
            use_cards=names_in(annotations, f"hami.io/use-{self.name}-uuid"),
            avoid_cards=names_in(annotations, f"hami.io/no-use-{self.name}-uuid"),
        )

    def cards(self, node: Node) -> tuple[Card, ...]:
        """Return the healthy cards of a node that has the resource."""
        if stored_amounts(node.status.allocatable).get(self._config.resource_name, 0) <= 0:
            return ()
        annotations = node.metadata.annotations
        mode = names.HAMI_CORE if annotations.get(names.NPU_NODE_MODE) == "true" else ""
        return tuple(
            Card(each.id, each.count, each.devmem, each.devcore, each.type, mode, network=_network(each.custominfo))
            for each in parse_npus(annotations.get(names.npu_register(self.name), ""))
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
        if request.mode and any(state.card.mode != request.mode for state in states):
            return OTHER_MODE
        ordered = sorted(states, key=lambda state: -card_score(policy, state, was_idle=not state.sharers))
        is_networked = self.name.startswith(NETWORKED) and all(state.card.network is not None for state in states)
        chosen: list[tuple[Share, ...]] = []
        taken: list[CardState] = []
        score = 0.0
        for wanted in request.containers:
            memory = self._memory(wanted, states, request.mode)
            if isinstance(memory, str):
                return memory
            share = Share("", memory, min(wanted.cores, WHOLE))
            fitting = [
                state for state in ordered if state not in taken and request.allows(state.card) and _fits(state, share)
            ]
            if is_networked:
                fitting = _by_network(fitting)
            if len(fitting) < wanted.number:
                return TOO_FEW
            shares = []
            for state in fitting[: wanted.number]:
                score += card_score(policy, state, was_idle=not state.sharers)
                state.add(share)
                taken.append(state)
                shares.append(share._replace(card=state.card.key))
            chosen.append(tuple(shares))
        if is_networked and taken:
            (_, most), *_ = Counter(state.card.network for state in taken).most_common(1)
            score += NETWORK_WEIGHT * most / len(taken)
        return Choice(tuple(chosen), score)

    def _memory(self, wanted: ContainerRequest, states: Sequence[CardState], mode: str) -> int | str:
        """Return the memory of each card that a container gets, or why there is none."""
        most = max((state.card.memory for state in states), default=0)
        memory = wanted.memory or (most * wanted.percentage // WHOLE if wanted.percentage != UNSET else most)
        if mode:
            return PARTIAL if wanted.number > 1 and memory < most else memory
        if (template := self._config.template_for(memory)) is None:
            return TOO_LARGE
        if wanted.number > 1 and template[0] != self._config.memory_allocatable:
            return PARTIAL
        return template[0]

    def annotations(self, request: Request, choice: Choice, node: str, now: float) -> dict[str, str]:
        """Return the shares for the device plugin, and cards with templates for the runtime."""
        seconds = str(int(now))
        text = format_pod_devices(
            [
                [DeviceShare(share.card, self.name, share.memory, share.cores) for share in one]
                for one in choice.containers
            ],
            closed=True,
        )
        entry = _shared_entry if request.mode else self._templated_entry
        runtime = [entry(share) for one in choice.containers for share in one]
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

    def _templated_entry(self, share: Share) -> dict[str, Any]:
        template = self._config.template_for(share.memory)
        name = template[1] if template is not None else ""
        return {"UUID": share.card, **({"temp": name} if name else {})}


def _network(info: Mapping[str, object]) -> int | None:
    number = info.get("NetworkID")
    return int(number) if isinstance(number, int | float) else None


def _shared_entry(share: Share) -> dict[str, Any]:
    return {"UUID": share.card, "memory": share.memory, **({"core": share.cores} if share.cores else {})}


def _fits(state: CardState, share: Share) -> bool:
    card = state.card
    if state.sharers >= card.number or state.free_memory < share.memory or state.is_exclusive:
        return False
    if share.cores >= WHOLE and state.sharers:
        return False
    return not card.cores or (state.cores < card.cores and state.cores + share.cores <= card.cores)


def _by_network(states: list[CardState]) -> list[CardState]:
    """Return the cards of the network with most of them first."""
    sizes = Counter(state.card.network for state in states)
    return sorted(states, key=lambda state: (-sizes[state.card.network], state.card.network or 0))
