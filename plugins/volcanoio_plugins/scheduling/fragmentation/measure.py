"""What typical pods can use of the free shares of nodes' cards.

Source of FGD's measure and score: Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with
Fragmentation Gradient Descent", USENIX ATC 2023. A card's free share is a fragment for a typical pod that its node
cannot host (too little CPU, too few cards with enough room, labels that do not match, or the pod requests no card), and
where it is smaller than what the pod needs of one card. A node's fragmentation is the expected value over typical pods.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from volcanoio_plugins.scheduling.fragmentation.cards import WHOLE

Ints = NDArray[np.int64]
Floats = NDArray[np.float32]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Typical:
    """Typical pods as columns: cpu (milli-cores), cards, and the share of each card in thousandths.

    A share of 0 is that of a pod without cards. `weight` is the part of all pods; weights add up to at most 1.
    """

    cpu: Ints
    cards: Ints
    share: Ints
    weight: NDArray[np.float64]
    shares: Ints = field(init=False)
    """The distinct shares."""
    of_share: NDArray[np.intp] = field(init=False)
    """By pod the index of its share in `shares`."""

    def __post_init__(self) -> None:
        shares, of_share = np.unique(np.maximum(self.share, 1), return_inverse=True)
        object.__setattr__(self, "shares", shares)
        object.__setattr__(self, "of_share", of_share)


@dataclass(frozen=True, slots=True)
class Room:
    """Idle cpu (milli-cores) of some nodes, and the free shares of their cards; a place without a card has -1."""

    cpu: Ints
    free: Ints

    @property
    def idle(self) -> Ints:
        """The free shares of each node in total."""
        total: Ints = np.maximum(self.free, 0).sum(1)
        return total

    def with_pod(self, cpu: int, cards: int, share: int) -> Room:
        """Return the room once a pod of this demand is on each node; each has room for it.

        Shares of a card are taken from the fullest card that fits, whole cards from idle ones.
        """
        if not cards:
            return Room(self.cpu - cpu, self.free)
        free = self.free.copy()
        fits = np.where(free >= share, free, 2 * WHOLE)
        chosen = np.argsort(fits, 1, kind="stable")[:, :cards]
        np.put_along_axis(free, chosen, np.take_along_axis(free, chosen, 1) - share, 1)
        return Room(self.cpu - cpu, free)

    def fits(self, cards: int, share: int) -> Mask:
        """Return whether the cards of each node have room for a pod."""
        enough: Mask = (self.free >= share).sum(1) >= cards
        return enough


def usable_once(room: Room, typical: Typical, reach: Mask) -> Floats:
    """Return what one pod of each kind finds usable on each node: FGD's measure. `reach`: labels match."""
    count, sums = _by_kind(room, typical, copies=False)
    return np.where(_hosts(room, typical, reach, count), sums, 0).astype(np.float32)


def usable_by_copies(room: Room, typical: Typical, reach: Mask) -> Floats:
    """Return what as many pods of each kind as possible could use on each node.

    Whole copies fit on a card; the cpu that is idle limits them in proportion.
    """
    count, sums = _by_kind(room, typical, copies=True)
    by_cpu = room.cpu[:, None] / np.maximum(typical.cpu, 1) * (typical.cards * typical.share)
    return np.where(_hosts(room, typical, reach, count), np.minimum(sums, by_cpu), 0).astype(np.float32)


def fragmentation(room: Room, typical: Typical, reach: Mask) -> NDArray[np.float64]:
    """Return the fragmentation of each node in thousandths of a card: between 0 and what is idle on it."""
    usable = usable_once(room, typical, reach).astype(np.float64)
    fragments: NDArray[np.float64] = room.idle - usable @ typical.weight
    return fragments


def _hosts(room: Room, typical: Typical, reach: Mask, count: Ints) -> Mask:
    """Return which kind each node can host; none without cards."""
    enough: Mask = (count >= typical.cards) & (room.cpu[:, None] >= typical.cpu) & (typical.share > 0) & reach
    return enough


def _by_kind(room: Room, typical: Typical, *, copies: bool) -> tuple[Ints, Ints]:
    """Return by node and kind the number of cards with enough room, and their free shares (or whole copies in them)."""
    free = np.maximum(room.free, 0)[:, :, None]
    enough = free >= typical.shares
    used = free // typical.shares * typical.shares if copies else free * enough
    return enough.sum(1)[:, typical.of_share], used.sum(1)[:, typical.of_share]
