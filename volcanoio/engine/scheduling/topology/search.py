"""Depth-first search for nodes of pods that differ, with backtracking under a step limit.

Pods are given as counts by kind, nodes through a `Board`, and HyperNodes as domains by name. A state that failed once
is not entered again, so that alike nodes and alike pods are not tried twice.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

STEPS_PER_CHECKPOINT = 32
"""Placements between two checkpoints."""


class PodKind(NamedTuple):
    """Alike pods of one part."""

    part: int
    role: str
    number: int


class GangPart(NamedTuple):
    """Pods that are placed in one of these domains: at least `least` of them, or none.

    `group` is the policy of which it is a sub-job.
    """

    domains: Sequence[str]
    least: int
    group: str = ""


class Gang(NamedTuple):
    """The pods to place, and how many at least: in all, by role, and parts by group. Kinds are ordered by part."""

    kinds: Sequence[PodKind]
    parts: Sequence[GangPart]
    total: int
    roles: Mapping[str, int]
    groups: Mapping[str, int]

    def is_enough(self, counts: Sequence[int]) -> bool:
        """Return whether so many pods of each kind suffice; those of a part that has too few do not count."""
        by_part = [0] * len(self.parts)
        for kind, count in zip(self.kinds, counts, strict=True):
            by_part[kind.part] += count
        total, roles, groups = 0, dict(self.roles), dict(self.groups)
        for kind, count in zip(self.kinds, counts, strict=True):
            if by_part[kind.part] >= self.parts[kind.part].least:
                total += count
                if kind.role in roles:
                    roles[kind.role] -= count
        for part, count in zip(self.parts, by_part, strict=True):
            if count >= part.least > 0 and part.group in groups:
                groups[part.group] -= 1
        return total >= self.total and all(left <= 0 for left in (*roles.values(), *groups.values()))

    @property
    def needs_all(self) -> bool:
        """Whether as many pods are needed as there are."""
        return sum(kind.number for kind in self.kinds) == self.total


class Board(Protocol):
    """Nodes while pods are put on them."""

    @property
    def can_hold_all(self) -> bool:
        """Whether enough is free in all for every pod."""
        ...

    def options(self, kind: int, domain: str) -> Iterable[Any]:
        """Return where one more pod of a kind fits in a domain, the best option first."""
        ...

    def put(self, kind: int, option: Any) -> None:
        """Put a pod of a kind there."""
        ...

    def undo(self) -> None:
        """Undo the last placement."""
        ...

    def state(self) -> Hashable:
        """Return what the further options depend on: equal values have the same options."""
        ...

    def content(self, domain: str) -> Hashable:
        """Return what a domain offers: of domains with equal values only one is tried."""
        ...


class _Position(NamedTuple):
    """What is decided next: the kind, how many pods of it are left, and the domain of their part, if it is chosen."""

    kind: int
    left: int
    domain: str | None


class AssignmentSearch:
    """One search; after it found a solution, the board holds it.

    `limit` is the maximum number of undone placements. When it is reached the search ends as `is_incomplete`, and it is
    unknown whether there is a solution.
    """

    def __init__(self, gang: Gang, board: Board, limit: int) -> None:
        self._gang = gang
        self._board = board
        self._limit = limit
        self._needs_all = gang.needs_all
        self._counts = [0] * len(gang.kinds)
        self._failed: set[Hashable] = set()
        """Positions, with the state of the board, after which nothing was found."""
        self.steps = 0
        """Placements that were undone."""
        self.is_incomplete = False

    def run(self) -> Generator[None, None, bool]:
        """Return True with the solution on the board; False if there is none or the search `is_incomplete`."""
        number = 0
        everything = [kind.number for kind in self._gang.kinds]
        if not self._gang.is_enough(everything) or (self._needs_all and not self._board.can_hold_all):
            return False
        first = self._start(0)
        stack = [(first, self._moves(first))]
        while stack:
            if (position := next(stack[-1][1], None)) is None:
                self._failed.add(self._key(stack.pop()[0]))
                continue
            number += 1
            if not number % STEPS_PER_CHECKPOINT:
                yield
            if self._is_enough():
                return True
            if self.steps >= self._limit:
                self.is_incomplete = True
                return False
            if position.kind < len(self._counts) and self._is_worth_trying(position):
                stack.append((position, self._moves(position)))
        return False

    def _moves(self, position: _Position) -> Iterator[_Position]:
        """Make each possible decision, yield the position after it, and undo it."""
        at, left, domain = position
        kind = self._gang.kinds[at]
        if domain is None:
            seen = set()
            for name in self._gang.parts[kind.part].domains:
                if (content := self._board.content(name)) not in seen:
                    seen.add(content)
                    yield _Position(at, left, name)
            if not self._needs_all:
                yield self._start(self._after_part(kind.part))
            return
        for option in self._board.options(at, domain) if left else ():
            self._board.put(at, option)
            self._counts[at] += 1
            yield _Position(at, left - 1, domain)
            self._board.undo()
            self._counts[at] -= 1
            self.steps += 1
        if left and self._needs_all:
            return
        following = at + 1
        if following < len(self._counts) and self._gang.kinds[following].part == kind.part:
            yield _Position(following, self._gang.kinds[following].number, domain)
        elif self._placed(kind.part) >= max(self._gang.parts[kind.part].least, 1):
            yield self._start(following)

    def _start(self, at: int) -> _Position:
        """Return the position at the first kind of a part."""
        return _Position(at, self._gang.kinds[at].number if at < len(self._counts) else 0, None)

    def _after_part(self, part: int) -> int:
        return next((at for at, kind in enumerate(self._gang.kinds) if kind.part > part), len(self._counts))

    def _placed(self, part: int) -> int:
        return sum(count for kind, count in zip(self._gang.kinds, self._counts, strict=True) if kind.part == part)

    def _is_enough(self) -> bool:
        if self._needs_all:
            return sum(self._counts) == sum(kind.number for kind in self._gang.kinds)
        return self._gang.is_enough(self._counts)

    def _is_worth_trying(self, position: _Position) -> bool:
        """Return whether enough pods are left for a solution, and the position did not fail before."""
        if not self._needs_all:
            most = [
                count + (position.left if at == position.kind else kind.number if at > position.kind else 0)
                for at, (kind, count) in enumerate(zip(self._gang.kinds, self._counts, strict=True))
            ]
            if not self._gang.is_enough(most):
                return False
        return not self._failed or self._key(position) not in self._failed

    def _key(self, position: _Position) -> Hashable:
        return position, tuple(self._counts), self._board.state()
