"""How many pods of a kind are on which node, with the latest changes: who follows one need not read it all again."""

from __future__ import annotations

from collections.abc import Sequence

KEPT = 1024
"""Changes kept at most; who is further behind reads the counts."""


class PodTally:
    """Implements `podterms.Tally`."""

    __slots__ = ("_changes", "_dropped", "by_node")

    def __init__(self) -> None:
        self.by_node: dict[str, int] = {}
        """As `podterms.Tally`."""
        self._changes: list[tuple[str, int]] = []
        self._dropped = 0

    @property
    def version(self) -> int:
        """As `podterms.Tally`."""
        return self._dropped + len(self._changes)

    def since(self, version: int) -> Sequence[tuple[str, int]] | None:
        """As `podterms.Tally`."""
        start = version - self._dropped
        return self._changes[start:] if start >= 0 else None

    def add(self, node: str, amount: int) -> None:
        """Count pods on a node in, or with a negative amount out."""
        count = self.by_node.get(node, 0) + amount
        if count:
            self.by_node[node] = count
        else:
            del self.by_node[node]
        changes = self._changes
        if len(changes) >= KEPT:
            self._dropped += len(changes)
            changes.clear()
        changes.append((node, amount))
