"""Who holds which cards of a node, and on which nodes pods with the same request fit.

Nothing is stored about holders: they are read from the annotations of the tasks on a node, those on the pods and those
chosen in this session (`Task.bind_annotations`). So the cards are right after a restart, when statements are undone and
when pods end. `PlacementTable` keeps the result for a request by row, and computes rows again that changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from volcanoio.framework.scheduling.sessionview import SessionView
from volcanoio.framework.scheduling.views import Nodes, Task, TaskStatus
from volcanoio.model.core import Node
from volcanoio.model.devices.annotations import LOCK_SECONDS, lock_time
from volcanoio.model.names import GROUP_NAME
from volcanoio_plugins.scheduling.devices.cards import Card, CardState, Choice, DeviceKind, Holder, Request, held_cards
from volcanoio_plugins.scheduling.devices.vgpu import Vgpu

MAX_CACHED_NODES = 100_000
"""Number of nodes whose cards are cached."""
_IN_FLIGHT = (TaskStatus.ALLOCATED, TaskStatus.BINDING)


class NodeCards(NamedTuple):
    """The usable cards of a node; nodes with cards that are alike have the same `model`."""

    usable: tuple[Card, ...]
    model: int
    refusal: str = ""
    """Why none is usable, "" if the node has not registered any."""


class DeviceLedger:
    """The cards of nodes and their holders."""

    def __init__(self, kinds: Sequence[DeviceKind], *, locks: bool) -> None:
        self.kinds: Mapping[str, DeviceKind] = {kind.name: kind for kind in kinds}
        self._rules = next((kind for kind in kinds if isinstance(kind, Vgpu)), None)
        self._locks = locks
        self._cards: dict[str, tuple[Node, dict[str, NodeCards]]] = {}
        """Cards by kind, with the Node object from which they were read."""
        self._models: dict[tuple[Card, ...], int] = {}
        """Number of each set of cards, their names aside."""
        self.session: SessionView

    def cards(self, kind: DeviceKind, node: Node) -> NodeCards:
        """Return the usable cards of a node, cached until its object changes."""
        name = node.metadata.name
        if (known := self._cards.get(name)) is None or known[0] is not node:
            if len(self._cards) >= MAX_CACHED_NODES:
                self._cards.clear()
            known = self._cards[name] = node, {}
        if (cards := known[1].get(kind.name)) is None:
            found = kind.cards(node)
            usable, refusal = ((), found) if isinstance(found, str) else (found, "")
            unnamed = tuple([card._replace(key="") for card in usable])
            model = self._models.setdefault(unnamed, len(self._models))
            cards = known[1][kind.name] = NodeCards(usable, model, refusal)
        return cards

    def forget(self, nodes: Iterable[str]) -> None:
        """Read the cards of nodes again when they are needed."""
        for name in nodes:
            self._cards.pop(name, None)

    def is_unused(self, kinds: Sequence[DeviceKind], name: str) -> bool:
        """Return whether no pod holds a card of these kinds on a node."""
        for task in self.session.tasks_on(name):
            annotations = task.bind_annotations or task.pod.metadata.annotations
            if any(kind.shares(task.pod, annotations) for kind in kinds):
                return False
        return True

    def holders(self, kind: DeviceKind, name: str, *, leaving: bool, without: str = "") -> Iterator[Holder]:
        """Yield the pods that hold cards of a node; `leaving`: also terminating ones, `without`: except that uid."""
        for task in self.session.tasks_on(name):
            if task.uid == without or (task.status is TaskStatus.RELEASING and not leaving):
                continue
            annotations = task.bind_annotations or task.pod.metadata.annotations
            if shares := kind.shares(task.pod, annotations):
                rules: frozenset[int] = frozenset() if self._rules is None else self._rules.matching_rules(task.pod)
                handed_over = kind.is_handed_over(annotations)
                yield Holder(task.uid, task.name, group_of(task), rules, shares, handed_over)

    def states(self, kind: DeviceKind, node: Node, *, leaving: bool, without: str = "") -> list[CardState]:
        """Return the cards of a node with what is held of them, as `holders`."""
        cards = self.cards(kind, node).usable
        return held_cards(cards, self.holders(kind, node.metadata.name, leaving=leaving, without=without))

    def has_leaving(self, name: str) -> bool:
        """Return whether a task on a node is terminating."""
        return any(task.status is TaskStatus.RELEASING for task in self.session.tasks_on(name))

    def locked_until(self, lock: str, node: Node, gang: str) -> float:
        """Return until when a node is locked (epoch seconds), 0 if it is not; infinity for binds in flight.

        A session locks the node for each task that it allocates, before the lock is written, but not for tasks of the
        same gang, whose binds are sent one after another.
        """
        if not self._locks or not lock:
            return 0.0
        kinds = [kind for kind in self.kinds.values() if kind.lock == lock]
        for task in self.session.tasks_on(node.metadata.name):
            is_same_gang = task.status is TaskStatus.ALLOCATED and task.job == gang
            is_locking = task.status in _IN_FLIGHT and not is_same_gang
            if is_locking and any(one.shares(task.pod, task.bind_annotations) for one in kinds):
                return float("inf")
        locked_at = lock_time(node.metadata.annotations.get(lock, ""))
        if locked_at is None or self.session.now >= locked_at + LOCK_SECONDS:
            return 0.0
        return locked_at + LOCK_SECONDS


def group_of(task: Task) -> str:
    """Return `namespace/name` of a task's PodGroup, "" without one."""
    name = task.pod.metadata.annotations.get(GROUP_NAME, "")
    return f"{task.namespace}/{name}" if name else ""


class Fit(NamedTuple):
    """The result for one node: why a pod does not fit ("" if it does), why it does not fit yet, and the score."""

    reason: str = ""
    reason_now: str = ""
    score: float = 0.0
    until: float = 0.0
    """When a lock expires that is the reason (epoch seconds)."""


def obstacle(ledger: DeviceLedger, kinds: Sequence[DeviceKind], node: Node, gang: str) -> Fit | None:
    """Return why no cards of a node can be used by a pod of a gang, None if they can."""
    for kind in kinds:
        cards = ledger.cards(kind, node)
        if not cards.usable:
            return Fit(cards.refusal or f"node not initialized with device {kind.name}")
        if until := ledger.locked_until(kind.lock, node, gang):
            return Fit(f"node has been locked within 5 minutes for {kind.name}", until=until)
    return None


def fit_on(ledger: DeviceLedger, requests: Sequence[Request], node: Node, policy: str) -> Fit:
    """Return whether the requests of a pod, one for each kind of devices, can be met with the cards of a node."""
    name, score, reason_now = node.metadata.name, 0.0, ""
    has_leaving = ledger.has_leaving(name)
    for request in requests:
        kind = ledger.kinds[request.kind]
        result = kind.choose(request, ledger.states(kind, node, leaving=False), policy)
        if not isinstance(result, Choice):
            return Fit(result)
        if has_leaving:
            now = kind.choose(request, ledger.states(kind, node, leaving=True), policy)
            if isinstance(now, Choice):
                result = now
            else:
                reason_now = now
        score += result.score
    return Fit("", reason_now, score)


class PlacementTable:
    """Where pods with some requests fit, and the scores, by row of the session's nodes.

    `update` computes the rows again that changed.
    """

    def __init__(self, ledger: DeviceLedger, requests: Sequence[Request], policy: str, weight: int) -> None:
        self.requests = requests
        self._ledger = ledger
        self._policy = policy
        self._weight = weight
        self._version = -1
        self._kinds = [ledger.kinds[request.kind] for request in requests]
        self._gang = next((request.gang for request in requests), "")
        self._names_cards = any(request.use_cards or request.avoid_cards for request in requests)
        self._unused: dict[tuple[int, ...], Fit] = {}
        """The result for nodes with unused cards, by what the cards are."""
        self._locked: dict[int, float] = {}
        """Rows whose lock expires at that time."""
        self.allowed: NDArray[np.bool_] = np.zeros(0, np.bool_)
        """Rows where a pod fits once terminating pods are gone."""
        self.allowed_now: NDArray[np.bool_] = np.zeros(0, np.bool_)
        self.scores: NDArray[np.float64] = np.zeros(0)
        self._reasons: list[str] = []

    def update(self) -> PlacementTable:
        """Return itself, up to date with the session."""
        session = self._ledger.session
        nodes, version = session.nodes, session.nodes_version
        size = len(nodes)
        if size != len(self._reasons):
            self._version = -1
            self.allowed, self.allowed_now = np.zeros(size, np.bool_), np.zeros(size, np.bool_)
            self.scores, self._reasons = np.zeros(size), [""] * size
        rows: set[int] = set()
        if version != self._version:
            rows.update(session.changed_rows(self._version))
            self._version = version
        if self._locked:
            rows.update(row for row, until in self._locked.items() if until <= session.now)
        if rows:
            self._compute(rows, nodes)
        return self

    def _compute(self, rows: set[int], nodes: Nodes) -> None:
        objects, size = nodes.objects, len(nodes)
        for row in rows:
            if row >= size:
                continue
            fit = self._fit(objects[row])
            self.allowed[row] = not fit.reason
            self.allowed_now[row] = not fit.reason and not fit.reason_now
            self.scores[row] = int(fit.score + 0.5) * self._weight
            self._reasons[row] = fit.reason
            if fit.until:
                self._locked[row] = fit.until
            else:
                self._locked.pop(row, None)

    def _fit(self, node: Node) -> Fit:
        """Return the result for a node; most nodes of a large cluster have the same unused cards."""
        ledger, kinds = self._ledger, self._kinds
        if (fit := obstacle(ledger, kinds, node, self._gang)) is not None:
            return fit
        if self._names_cards or not ledger.is_unused(kinds, node.metadata.name):
            return fit_on(ledger, self.requests, node, self._policy)
        models = tuple([ledger.cards(kind, node).model for kind in kinds])
        if (fit := self._unused.get(models)) is None:
            fit = self._unused[models] = fit_on(ledger, self.requests, node, self._policy)
        return fit

    def reasons(self) -> tuple[tuple[str, NDArray[np.bool_]], ...]:
        """Return each reason with the rows that fail for it."""
        texts = np.array(self._reasons, object)
        return tuple((text, texts == text) for text in sorted(set(self._reasons) - {""}))
