"""Cards, what pods hold of them, and the interface of a kind of devices.

A card is one device of a node. Its state is the sum of what pods hold; a kind of devices chooses cards on such states.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

import msgspec

from volcanoio.model.core import Container, Node, Pod
from volcanoio.model.quantity import QuantityError, value
from volcanoio_plugins.scheduling.devices import mig

UNSET = 101
"""A percentage of memory that was not given (HAMi: DefaultMemPercentage)."""
WHOLE = 100
"""Cores of a whole card, in percent."""
BINPACK, SPREAD = "binpack", "spread"
"""Policies: fill cards that are used already, or prefer unused cards."""
MAX_SCORE = 100.0


class Card(NamedTuple):
    """One device of a node: `number` pods may share it.

    Memory is in MiB, cores in percent or as counted by the chip. `geometries` are those of vGPUs, `cpus` (AI CPUs) and
    `network` (cards of one network are close) those of NPUs.
    """

    key: str
    number: int
    memory: int
    cores: int = WHOLE
    type: str = ""
    mode: str = ""
    geometries: tuple[mig.Geometry, ...] = ()
    cpus: int = 0
    network: int | None = None


class Share(NamedTuple):
    """What a pod holds of one card; `instance` names the part of a divided card, `vgroup` the group it is in."""

    card: str
    memory: int = 0
    cores: int = 0
    instance: str = ""
    cpus: int = 0
    vgroup: str = ""


class Holder(NamedTuple):
    """A pod that holds shares: the PodGroup (`namespace/name`) and exclusive rules that keep others from its cards."""

    uid: str
    name: str
    group: str
    rules: frozenset[int]
    shares: tuple[Share, ...]
    is_handed_over: bool = True
    """Whether the device plugin has handed the devices over."""


class CardState:
    """A card with the sum of what is held of it."""

    __slots__ = (
        "card",
        "cores",
        "cpus",
        "groups",
        "instances",
        "is_exclusive",
        "memory",
        "rules",
        "sharers",
        "uncreated",
        "vgroups",
    )

    def __init__(self, card: Card) -> None:
        self.card = card
        self.sharers = 0
        self.memory = 0
        self.cores = 0
        self.is_exclusive = False
        """Whether a pod has all cores of the card, of which more than 100 percent may be registered."""
        self.cpus = 0
        self.instances: set[str] = set()
        self.groups: set[str] = set()
        self.rules: set[int] = set()
        self.vgroups: set[str] = set()
        self.uncreated: set[str] = set()
        """Instances that device plugins have not created yet."""

    def add(self, share: Share) -> None:
        """Count a share."""
        self.sharers += 1
        # all of an instance's memory is taken, however much the pod asked for
        self.memory += mig.memory_of(self.card.geometries, share.instance) or share.memory
        self.cores += share.cores
        self.is_exclusive |= share.cores >= WHOLE
        self.cpus += share.cpus
        if share.instance:
            self.instances.add(share.instance)
        if share.vgroup:
            self.vgroups.add(share.vgroup)

    @property
    def free_memory(self) -> int:
        """Free memory, below zero if pods hold more than the card has."""
        return self.card.memory - self.memory


def held_cards(cards: Sequence[Card], holders: Iterable[Holder]) -> list[CardState]:
    """Return the states of cards in their order; shares of cards that do not exist are left out."""
    states = {card.key: CardState(card) for card in cards}
    for holder in holders:
        for share in holder.shares:
            if (state := states.get(share.card)) is None:
                continue
            state.add(share)
            state.groups.add(holder.group)
            state.rules.update(holder.rules)
            if share.instance and not holder.is_handed_over:
                state.uncreated.add(share.instance)
    return list(states.values())


class ContainerRequest(msgspec.Struct, frozen=True, array_like=True):
    """What one container asks for: cards, and of each the memory (MiB, or percent unless UNSET) and cores."""

    number: int
    memory: int = 0
    percentage: int = UNSET
    cores: int = 0


class Request(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a pod asks for of one kind of devices; a text of it is part of the trait of tasks.

    `use_cards` and `use_types` (parts of types) are allowed, `avoid_cards` and `avoid_types` are not. `spread` is a
    PodGroup that has each of its pods on cards of their own, `gang` one of whose pods a node may get several although
    it is locked for each. `rules` are the exclusive rules that the pod matches. `level` and `dvpp` are those of
    MindCluster.
    """

    kind: str
    containers: tuple[ContainerRequest, ...]
    mode: str = ""
    use_cards: tuple[str, ...] = ()
    avoid_cards: tuple[str, ...] = ()
    use_types: tuple[str, ...] = ()
    avoid_types: tuple[str, ...] = ()
    rules: tuple[int, ...] = ()
    spread: str = ""
    gang: str = ""
    level: str = ""
    dvpp: str = ""

    def allows(self, card: Card) -> bool:
        """Return whether the annotations of the pod allow a card."""
        if (self.use_cards and card.key not in self.use_cards) or card.key in self.avoid_cards:
            return False
        kind = card.type.upper()
        if self.use_types:
            return any(part in kind for part in self.use_types)
        return not any(part in kind for part in self.avoid_types)


class Choice(NamedTuple):
    """Shares by container, and the score before the weight."""

    containers: tuple[tuple[Share, ...], ...]
    score: float = 0.0


class DeviceKind(Protocol):
    """A kind of devices: what pods ask for, what nodes have, and which cards a pod gets."""

    @property
    def name(self) -> str:
        """The name of the kind, as in Volcano."""
        ...

    @property
    def resources(self) -> tuple[str, ...]:
        """The resources of which a pod that asks for such devices has a limit of at least one."""
        ...

    @property
    def lock(self) -> str:
        """The annotation that locks a node while devices are handed over, "" for none."""
        ...

    def request(self, pod: Pod) -> Request | None:
        """Return what a pod asks for, None for nothing."""
        ...

    def cards(self, node: Node) -> tuple[Card, ...] | str:
        """Return the usable cards of a node, () if it has not registered any; a text: why none may be used."""
        ...

    def shares(self, pod: Pod, annotations: Mapping[str, str]) -> tuple[Share, ...]:
        """Return what a pod holds according to annotations, which may not be on it yet."""
        ...

    def is_handed_over(self, annotations: Mapping[str, str]) -> bool:
        """Return whether the device plugin has handed the devices over."""
        ...

    def choose(self, request: Request, states: list[CardState], policy: str) -> Choice | str:
        """Choose cards, counting them in the states; return why that is not possible."""
        ...

    def annotations(self, request: Request, choice: Choice, node: str, now: float) -> dict[str, str]:
        """Return the annotations by which the device plugin gives the cards to the pod."""
        ...


def limit_of(container: Container, resource: str) -> int | None:
    """Return a container's limit of a resource in whole units, its request without a limit, None without both."""
    resources = container.resources
    return whole_units(resources.limits.get(resource, resources.requests.get(resource)))


def whole_units(text: str | int | float | None) -> int | None:
    """Return a quantity rounded up to whole units, None if it is missing or cannot be read."""
    try:
        return None if text is None else value(text)
    except QuantityError:
        return None


def container_requests(pod: Pod, number: str, memory: str, percentage: str, cores: str) -> list[ContainerRequest]:
    """Return what each container asks for by the resources of these names; those that ask for nothing are left out.

    Memory alone means one card; a number alone means whole cards.
    """
    found = []
    for container in pod.spec.containers:
        count, amount = limit_of(container, number), limit_of(container, memory)
        if count is None and amount is None:
            continue
        share = limit_of(container, percentage) if percentage else None
        if share is None:
            share = UNSET if amount else WHOLE
        wanted = ContainerRequest(
            number=1 if count is None else count,
            memory=amount or 0,
            percentage=share,
            cores=(limit_of(container, cores) or 0) if cores else 0,
        )
        if wanted.number > 0:
            found.append(wanted)
    return found


def names_in(annotations: Mapping[str, str], key: str) -> tuple[str, ...]:
    """Return the names of an annotation that are separated by commas."""
    return tuple(part for text in annotations.get(key, "").split(",") if (part := text.strip()))


def card_score(policy: str, state: CardState, *, was_idle: bool) -> float:
    """Score a card: the held part of its memory (of its cores for cards without memory), or whether it was unused."""
    if policy == BINPACK:
        held, total = (state.memory, state.card.memory) if state.card.memory else (state.cores, state.card.cores)
        return MAX_SCORE * held / total if total else 0.0
    return MAX_SCORE if policy == SPREAD and was_idle else 0.0
