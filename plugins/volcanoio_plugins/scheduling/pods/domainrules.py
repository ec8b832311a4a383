"""Rules that forbid topology domains, and the nodes that none forbids: kept as pods come and go."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from volcanoio_plugins.scheduling.nodes.nodeindex import Mask, Topology
from volcanoio_plugins.scheduling.pods.domaincounts import DomainCounts


class DomainRule(Protocol):
    """Forbids domains: `wrong` says by domain whether it does, the nodes without the label being the last."""

    wrong: Mask

    @property
    def topology(self) -> Topology:
        """The domains."""
        ...

    def follow(self) -> Sequence[int] | None:
        """Bring `wrong` up to date: the domains where it is another now, None when any may be."""
        ...


class Absent:
    """Forbids domains where there is a pod."""

    def __init__(self, pods: DomainCounts) -> None:
        self._pods = pods
        self.wrong: Mask = pods.counts > 0

    @property
    def topology(self) -> Topology:
        """As `DomainRule`."""
        return self._pods.topology

    def follow(self) -> Sequence[int] | None:
        """As `DomainRule`."""
        domains = self._pods.follow()
        if domains is None:
            self.wrong = self._pods.counts > 0
            return None
        return flip(self.wrong, [(domain, self._pods.counts.item(domain) > 0) for domain in domains])


class Allowed:
    """The nodes in no forbidden domain: `ok` by node."""

    def __init__(self, rules: Sequence[DomainRule], size: int) -> None:
        self._rules = rules
        self._against: NDArray[np.int16] = np.zeros(size, np.int16)
        self.ok: Mask = np.ones(size, np.bool_)
        self._judge()

    def follow(self) -> Mask:
        """`ok` as of now."""
        again = False
        for rule in self._rules:
            domains = rule.follow()
            if domains is None:
                again = True
                continue
            for domain in domains:
                rows = rule.topology.rows_of(domain)
                self._against[rows] += 1 if rule.wrong.item(domain) else -1
                self.ok[rows] = self._against[rows] == 0
        if again:
            self._judge()
        return self.ok

    def _judge(self) -> None:
        self._against[:] = 0
        for rule in self._rules:
            if rule.wrong.any():
                self._against += rule.wrong[rule.topology.codes]
        np.equal(self._against, 0, out=self.ok)


def flip(wrong: Mask, verdicts: Sequence[tuple[int, bool]]) -> list[int]:
    """Take over verdicts about domains; those that differ from the ones before."""
    flipped = []
    for domain, verdict in verdicts:
        if verdict is not wrong.item(domain):
            wrong[domain] = verdict
            flipped.append(domain)
    return flipped


def forbidden(rules: Sequence[DomainRule], size: int) -> Mask:
    """The nodes that any of the rules forbids."""
    failing: Mask = np.zeros(size, np.bool_)
    for rule in rules:
        failing |= rule.wrong[rule.topology.codes]
    return failing
