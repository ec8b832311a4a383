"""What is planned for claims that wait: by binds under way, and by this session, where a discard takes it back."""

from __future__ import annotations

from volcanoio.framework.scheduling.sessionview import SessionView, Table
from volcanoio.model import kinds
from volcanoio.model.storage import SELECTED_NODE

_OWNER = "predicates"
FORGET = 100_000
"""Names that are kept numbered between sessions."""


class VolumePlans:
    """By claim (`namespace/name`) the volume it is to get, or the node for which one is to be made.

    `taken` are the volumes that are planned for a claim, `changes` what came to them and left them (1, -1) since
    `session` began, the number of which grows. The session's part is in tables of numbers, so that the undo log covers
    it; names are numbered as they are met. Call `follow` before reading `taken` and `changes`.
    """

    def __init__(self) -> None:
        self.taken: set[str] = set()
        self.changes: list[tuple[str, int]] = []
        self.session = 0
        self._names: list[str] = [""]
        self._numbers: dict[str, int] = {"": 0}
        self._volumes: dict[str, str] = {}
        self._nodes: dict[str, str] = {}
        self._of_claims: Table
        self._nodes_of: Table
        self._owners: Table
        self._writers: Table
        self._seen = -1
        self._mine: list[str] = []
        """The volumes this session has planned, in their order."""

    def open(self, session: SessionView) -> None:
        """A session begins: plans are those of binds under way."""
        self._of_claims = session.table(_OWNER, "volumes of claims")
        self._nodes_of = session.table(_OWNER, "nodes of claims")
        self._owners = session.table(_OWNER, "owners of volumes")
        self._writers = session.table(_OWNER, "writers of claims")
        if len(self._names) > FORGET:
            self._names, self._numbers = [""], {"": 0}
        self._seen = self._owners.version
        self._mine.clear()
        self.changes.clear()
        self.session += 1
        self._volumes.clear()
        self._nodes.clear()
        for steps in session.prebinding.values():
            for step in steps:
                if step.resource == kinds.PV.resource and (ref := step.patch.get("spec", {}).get("claimRef")):
                    self._volumes[f"{ref['namespace']}/{ref['name']}"] = step.name
                elif step.resource == kinds.PVC.resource:
                    node = step.patch.get("metadata", {}).get("annotations", {}).get(SELECTED_NODE)
                    if node:
                        self._nodes[f"{step.namespace}/{step.name}"] = node
        self.taken = set(self._volumes.values())

    def follow(self) -> None:
        """Drop what was taken back since: mostly the latest."""
        undone = self._owners.version - self._seen
        if undone:
            self._seen = self._owners.version
            kept = []
            while undone and self._mine:
                name = self._mine.pop()
                if self._owners.get(name):
                    kept.append(name)
                else:
                    undone -= 1
                    self.taken.discard(name)
                    self.changes.append((name, -1))
            self._mine.extend(reversed(kept))

    def volume_of(self, claim: str) -> str:
        """The volume a claim is to get, "" when none is planned."""
        return self._volumes.get(claim) or self._names[self._of_claims.get(claim)]

    def node_of(self, claim: str) -> str:
        """The node for which a volume is to be made, "" when none is planned."""
        return self._nodes.get(claim) or self._names[self._nodes_of.get(claim)]

    def writer_of(self, claim: str) -> str:
        """The uid of the task for which this session planned it: what is planned is written before its bind."""
        return self._names[self._writers.get(claim)]

    def take(self, claim: str, volume: str, task: str) -> None:
        """Plan a volume for a claim of a task (its uid)."""
        self.follow()
        self._writers.set(claim, self._number(task))
        self._of_claims.set(claim, self._number(volume))
        if volume not in self.taken:
            self._owners.set(volume, self._number(claim))
            self._seen = self._owners.version
            self._mine.append(volume)
            self.taken.add(volume)
            self.changes.append((volume, 1))

    def make(self, claim: str, node: str, task: str) -> None:
        """Plan that a volume is made for a claim of a task (its uid)."""
        self._writers.set(claim, self._number(task))
        self._nodes_of.set(claim, self._number(node))

    def _number(self, name: str) -> int:
        number = self._numbers.get(name)
        if number is None:
            number = self._numbers[name] = len(self._names)
            self._names.append(name)
        return number
