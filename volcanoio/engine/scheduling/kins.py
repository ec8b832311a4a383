"""Kins: pods that no selector tells apart; and what is counted of them.

A kin has one namespace, one shape, one set of terms, and one value of each label that any selector reads. So a selector
is asked once a kin, and a pod that is placed counts where its kin does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeAlias

from volcanoio.engine.scheduling.podterms import LabelsOf, all_select
from volcanoio.engine.scheduling.tally import PodTally
from volcanoio.engine.scheduling.tasks import TaskInfo
from volcanoio.framework.scheduling.podterms import PodTerms, Selectors
from volcanoio.framework.scheduling.views import Shape

Label: TypeAlias = tuple[str, str]


class KinKey(NamedTuple):
    """What makes a kin: the id of the shape, what it asks of other pods (encoded), namespace and labels that count."""

    shape: int
    asks: bytes
    namespace: str
    labels: tuple[str | None, ...]


class Kin:
    """Pods alike. `terms` is what they ask, `groups` what selects them, `carrying` the counts of what they carry.

    `everyone` and `living` are all counts they are part of: the latter without those that are terminating.
    """

    __slots__ = ("carrying", "everyone", "groups", "key", "labels", "living", "plain", "shape", "tasks", "terms")

    def __init__(self, key: KinKey, plain: Shape, labels: Mapping[str, str], terms: PodTerms | None) -> None:
        self.key = key
        self.plain = plain
        self.shape = plain
        self.labels = labels
        self.terms = terms
        self.tasks: dict[str, TaskInfo] = {}
        self.groups: dict[Selectors, Group] = {}
        self.carrying: list[PodTally] = []
        self.everyone: tuple[PodTally, ...] = ()
        self.living: tuple[PodTally, ...] = ()

    def recount(self) -> None:
        """Take over which counts the kin is part of."""
        groups = self.groups.values()
        self.everyone = (*self.carrying, *(group.everyone for group in groups if group.everyone is not None))
        self.living = tuple(group.living for group in groups if group.living is not None)


class Group:
    """Pods that all of some selectors select. A count is there while it has users, `topics` those who carry such a
    term to their nodes. `asked` is the last session in which a plugin asked for it.
    """

    __slots__ = ("asked", "everyone", "kins", "living", "selectors", "topics", "users")

    def __init__(self, selectors: Selectors) -> None:
        self.selectors = selectors
        self.everyone: PodTally | None = None
        self.living: PodTally | None = None
        self.users = 0
        self.topics = 0
        self.asked = -1
        self.kins: dict[KinKey, Kin] = {}


class Groups:
    """All groups and kins, and which kins belong to which groups. Both are found by a label that must be there."""

    def __init__(self, labels_of: LabelsOf) -> None:
        self.all: dict[Selectors, Group] = {}
        self.kins: dict[KinKey, Kin] = {}
        self._labels_of = labels_of
        self._by_label: dict[Label, dict[Selectors, Group]] = {}
        self._general: dict[Selectors, Group] = {}
        self._kins_by_label: dict[Label, dict[KinKey, Kin]] = {}

    def add_group(self, selectors: Selectors) -> Group:
        """A new group with all kins that are in it."""
        group = self.all[selectors] = Group(selectors)
        labels = _must_have(selectors)
        if labels is None:
            self._general[selectors] = group
            candidates: Iterable[Kin] = self.kins.values()
        else:
            for label in labels:
                self._by_label.setdefault(label, {})[selectors] = group
            candidates = [kin for label in labels for kin in self._kins_by_label.get(label, {}).values()]
        for kin in candidates:
            self._join(kin, group)
        return group

    def drop_group(self, group: Group) -> None:
        """Forget a group; its kins are out of it."""
        del self.all[group.selectors]
        labels = _must_have(group.selectors)
        if labels is None:
            del self._general[group.selectors]
        for label in labels or ():
            there = self._by_label[label]
            del there[group.selectors]
            if not there:
                del self._by_label[label]
        for kin in group.kins.values():
            del kin.groups[group.selectors]
            kin.recount()

    def add_kin(self, kin: Kin) -> None:
        """A new kin, in all groups it belongs to."""
        self.kins[kin.key] = kin
        for label in kin.labels.items():
            self._kins_by_label.setdefault(label, {})[kin.key] = kin
            for group in self._by_label.get(label, {}).values():
                self._join(kin, group)
        for group in self._general.values():
            self._join(kin, group)

    def drop_kin(self, kin: Kin) -> None:
        """Forget a kin without pods."""
        del self.kins[kin.key]
        for label in kin.labels.items():
            there = self._kins_by_label[label]
            del there[kin.key]
            if not there:
                del self._kins_by_label[label]
        for group in kin.groups.values():
            del group.kins[kin.key]

    def _join(self, kin: Kin, group: Group) -> None:
        if group.selectors not in kin.groups and all_select(
            group.selectors, kin.key.namespace, kin.labels, self._labels_of
        ):
            kin.groups[group.selectors] = group
            group.kins[kin.key] = kin


def _must_have(selectors: Selectors) -> list[Label] | None:
    """Labels of which a selected pod has one; None where that is not said."""
    for selector in selectors:
        for requirement in selector.labels or ():
            if requirement.operator == "In":
                return [(requirement.key, value) for value in dict.fromkeys(requirement.values)]
    return None
