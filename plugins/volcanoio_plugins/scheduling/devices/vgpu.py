"""vGPU: shares of NVIDIA GPUs by number, memory and cores (HAMi's vGPU).

Source: Volcano, pkg/scheduler/api/devices/nvidia/vgpu, and docs/user-guide/how_to_use_volcano_vgpu.md. Cards in mode
hami-core are shared by limits that are enforced in the process, cards in mode mig by instances (`mig`). Differs from
Volcano: unhealthy cards are not used, a card's mode is its own, several containers of a pod count separately, and
`spread` scores cards that were unused before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from volcanoio.model.core import Node, Pod
from volcanoio.model.devices import annotations as names
from volcanoio.model.devices.annotations import DeviceShare, format_pod_devices, parse_pod_devices, parse_register
from volcanoio.model.resources import stored_amounts
from volcanoio_plugins.scheduling.devices import mig
from volcanoio_plugins.scheduling.devices.cards import (
    BINPACK,
    SPREAD,
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
from volcanoio_plugins.scheduling.devices.deviceconfig import NvidiaConfig

TYPE = "NVIDIA"
USE_TYPE, NO_USE_TYPE = "nvidia.com/use-gputype", "nvidia.com/nouse-gputype"
USE_UUID, NO_USE_UUID = "volcano.sh/vgpu-use-gpuuuid", "volcano.sh/vgpu-nouse-gpuuuid"
GROUP_POLICY = "volcano.sh/vgpu-podgroup-policy"
GROUP = "group"
"""The `spread` of a request that is not yet about a certain PodGroup."""
TOO_FEW = "no enough gpu cards on node"
NOT_FITTED = "not enough gpu fitted on this node"


class Vgpu:
    """Shares of GPUs; `rules` are maps of labels: pods that match one of them do not share a card with one another."""

    name = "hamivgpu"
    lock = names.VGPU_LOCK

    def __init__(self, config: NvidiaConfig, rules: Sequence[Mapping[str, str]] = ()) -> None:
        self._config = config
        self._rules = rules
        self.resources: tuple[str, ...] = (config.number, config.memory)

    def request(self, pod: Pod) -> Request | None:
        """Return what the containers of a pod ask for, with its annotations about cards."""
        config, annotations = self._config, pod.metadata.annotations
        wanted = container_requests(pod, config.number, config.memory, config.percentage, config.cores)
        if not wanted:
            return None
        return Request(
            self.name,
            tuple(wanted),
            mode=annotations.get(names.VGPU_MODE, ""),
            use_cards=names_in(annotations, USE_UUID),
            avoid_cards=names_in(annotations, NO_USE_UUID),
            use_types=tuple(part.upper() for part in names_in(annotations, USE_TYPE)),
            avoid_types=tuple(part.upper() for part in names_in(annotations, NO_USE_TYPE)),
            rules=tuple(sorted(self.matching_rules(pod))),
            spread=GROUP if annotations.get(GROUP_POLICY) == SPREAD else "",
        )

    def matching_rules(self, pod: Pod) -> frozenset[int]:
        """Return the indexes of the rules of which a pod has all labels."""
        labels = pod.metadata.labels
        return frozenset(
            at for at, rule in enumerate(self._rules) if all(labels.get(key) == wanted for key, wanted in rule.items())
        )

    def cards(self, node: Node) -> tuple[Card, ...]:
        """Return the healthy cards of a node that has number, memory and cores."""
        config = self._config
        offered = stored_amounts(node.status.allocatable)
        if not all(offered.get(name, 0) > 0 for name in (config.number, config.memory, config.cores)):
            return ()
        registered = parse_register(node.metadata.annotations.get(names.VGPU_REGISTER, ""))
        cards = []
        for each in registered:
            geometries = config.geometries_of(each.type) if each.mode == names.MIG else ()
            mode = names.MIG if geometries else names.HAMI_CORE
            if each.healthy:
                cards.append(
                    Card(each.uuid, each.number, each.memory, type=each.type, mode=mode, geometries=geometries)
                )
        return tuple(cards)

    def shares(self, pod: Pod, annotations: Mapping[str, str]) -> tuple[Share, ...]:  # noqa: ARG002 - annotations contain all
        """Return the shares that annotations name."""
        containers = parse_pod_devices(annotations.get(names.VGPU_IDS, ""))
        return tuple(Share(each.card, each.memory, each.cores, each.instance) for one in containers for each in one)

    def is_handed_over(self, annotations: Mapping[str, str]) -> bool:
        """Return whether the device plugin has finished."""
        return annotations.get(names.BIND_PHASE) != names.ALLOCATING

    def choose(self, request: Request, states: list[CardState], policy: str) -> Choice | str:
        """Choose cards for each container, by policy: most memory in use, fewest pods, or the last ones first."""
        if request.mode and not any(state.card.mode == request.mode for state in states):
            modes = ", ".join(sorted({state.card.mode for state in states}))
            return f"pod required sharing mode {request.mode} is not the same as the node mode {modes}"
        chosen, score = [], 0.0
        for wanted in request.containers:
            if wanted.number > len(states):
                return TOO_FEW
            shares: list[Share] = []
            for state in _in_order(states, policy):
                if (share := self._share(request, wanted, state)) is None:
                    continue
                was_idle = not state.sharers
                state.add(share)
                score += card_score(policy, state, was_idle=was_idle)
                shares.append(share)
                if len(shares) == wanted.number:
                    break
            else:
                return NOT_FITTED
            chosen.append(tuple(shares))
        return Choice(tuple(chosen), score)

    def _share(self, request: Request, wanted: ContainerRequest, state: CardState) -> Share | None:
        """Return the share of one card that a container gets, None if it may not have any."""
        card = state.card
        if state.sharers >= card.number or TYPE not in card.type.upper() or not request.allows(card):
            return None
        if request.mode not in ("", card.mode) or (request.spread and request.spread in state.groups):
            return None
        if card.mode == names.HAMI_CORE and not state.rules.isdisjoint(request.rules):
            return None
        if state.cores + wanted.cores > WHOLE or (state.cores >= WHOLE and not wanted.cores):
            return None
        if wanted.cores == WHOLE and state.sharers:
            return None
        memory = wanted.memory if wanted.percentage == UNSET else card.memory * wanted.percentage // WHOLE
        if state.free_memory < memory:
            return None
        if card.mode != names.MIG:
            return Share(card.key, memory, wanted.cores)
        instance = mig.free_instance(card.geometries, state.instances, memory)
        return None if instance is None else Share(card.key, memory, wanted.cores, instance.name)

    def annotations(self, request: Request, choice: Choice, node: str, now: float) -> dict[str, str]:  # noqa: ARG002 - the choice contains all
        """Return the shares for the device plugin, and that it is to hand them over."""
        seconds = str(int(now))
        ids = format_pod_devices([[_device(share) for share in shares] for shares in choice.containers])
        return {
            names.VGPU_NODE: node,
            names.VGPU_TIME: seconds,
            names.VGPU_IDS: ids,
            names.VGPU_TO_ALLOCATE: ids,
            names.BIND_PHASE: names.ALLOCATING,
            names.BIND_TIME: seconds,
        }


def _device(share: Share) -> DeviceShare:
    uuid = f"{share.card}[{share.instance}]" if share.instance else share.card
    return DeviceShare(uuid, TYPE, share.memory, share.cores)


def _in_order(states: list[CardState], policy: str) -> list[CardState]:
    if policy == BINPACK:
        return sorted(states, key=lambda state: -state.memory)
    if policy == SPREAD:
        return sorted(states, key=lambda state: state.sharers)
    return states[::-1]
