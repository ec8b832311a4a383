"""What a PodGroup says of which of its tasks belong together (Volcano: pkg/scheduler/plugins/task-topology).

Annotations `volcano.sh/task-topology-affinity` and `-anti-affinity` hold groups of task names, such as
`ps,worker;chief`: the names of a group attract (or repel) each other, a name alone itself. `-task-order` lists names,
the first first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

AFFINITY = "volcano.sh/task-topology-affinity"
ANTI_AFFINITY = "volcano.sh/task-topology-anti-affinity"
TASK_ORDER = "volcano.sh/task-topology-task-order"

_SELF_ANTI, _INTER, _SELF, _INTER_ANTI = 4, 3, 2, 1
"""How much a task's strongest bond counts when tasks are put in order."""


class Affinities:
    """The bonds between task names. `rank` orders them: larger goes first; only names with a bond have one."""

    def __init__(
        self, attracted: Iterable[Collection[str]], repelled: Iterable[Collection[str]], order: Collection[str]
    ) -> None:
        self._attract: set[tuple[str, str]] = set()
        self._repel: set[tuple[str, str]] = set()
        self._strength: dict[str, int] = {}
        self._order = {name: len(order) - at for at, name in enumerate(order)}
        for group in attracted:
            self._bind(group, self._attract, _SELF, _INTER)
        for group in repelled:
            self._bind(group, self._repel, _SELF_ANTI, _INTER_ANTI)

    def __contains__(self, name: str) -> bool:
        return name in self._strength

    def rank(self, name: str) -> tuple[int, int]:
        """By the given order, then by the strongest bond."""
        return self._order.get(name, 0), self._strength[name]

    def pull(self, name: str, others: Mapping[str, int], *, only_repelled: bool = False) -> int:
        """How many of the others (counts by name) attract a task of that name, less how many repel it."""
        total = 0
        for other, count in others.items():
            if not only_repelled and (name, other) in self._attract:
                total += count
            if (name, other) in self._repel:
                total -= count
        return total

    def _bind(self, group: Collection[str], bonds: set[tuple[str, str]], alone: int, together: int) -> None:
        strength = alone if len(group) == 1 else together
        for name in group:
            bonds.update((name, other) for other in group if other != name or len(group) == 1)
            self._strength[name] = max(self._strength.get(name, 0), strength)


def affinities_of(annotations: Mapping[str, str], roles: Collection[str]) -> Affinities | None:
    """What the annotations say, where `roles` are the job's task names.

    None when they say nothing, name a task that the job does not have, or name one twice in a group.
    """
    if not annotations.keys() & {AFFINITY, ANTI_AFFINITY, TASK_ORDER}:
        return None
    attracted, repelled = _groups(annotations.get(AFFINITY, "")), _groups(annotations.get(ANTI_AFFINITY, ""))
    order = _names(annotations.get(TASK_ORDER, ""))
    for group in (*attracted, *repelled, order):
        if len(set(group)) != len(group) or not set(group) <= set(roles):
            return None
    return Affinities(attracted, repelled, order)


def _groups(text: str) -> list[list[str]]:
    return [group for part in text.split(";") if (group := _names(part))]


def _names(text: str) -> list[str]:
    return [name for part in text.split(",") if (name := part.strip())]
