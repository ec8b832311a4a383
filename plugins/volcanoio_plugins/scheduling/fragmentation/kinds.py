"""Which pods are typical: those of a list in the arguments, or all that were seen so far.

Pods are of one kind if they request the same cpu and cards and select nodes by the same labels.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from volcanoio.framework.scheduling.sessionview import SessionView
from volcanoio.framework.scheduling.views import Shape
from volcanoio.model.core import Affinity, ResourceList
from volcanoio.model.resources import CPU, amounts
from volcanoio_plugins.scheduling.fragmentation.cards import Demand, demand_of, demand_of_shape
from volcanoio_plugins.scheduling.fragmentation.measure import Mask, Typical
from volcanoio_plugins.scheduling.kubernetes.nodeaffinity import affine
from volcanoio_plugins.scheduling.kubernetes.nodeindex import NodeIndex

POPULAR = 0.95
"""FGD counts the most frequent kinds of pods, until they are this part of all pods."""
LARGEST = 64
"""Number of kinds that are counted by their demand: pods times requested share."""
GROWTH = 1.1
"""Kinds are counted again once so many times as many pods were seen."""


class TypicalPod(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A kind of pods in the arguments: how many there are of it, and the fields of a pod that decide where it fits."""

    requests: ResourceList
    count: int = 1
    node_selector: dict[str, str] = {}
    affinity: Affinity | None = None


class Kind(NamedTuple):
    """What makes pods alike; `labels` identifies node selector and affinity."""

    cpu: int
    demand: Demand
    labels: str


def kind_of(shape: Shape) -> Kind:
    """Return the kind of a pod."""
    affinity = shape.affinity.node_affinity if shape.affinity else None
    labels = ""
    if shape.node_selector or affinity is not None:
        labels = msgspec.json.encode((sorted(shape.node_selector.items()), affinity)).decode()
    return Kind(shape.requests.get(CPU, 0), demand_of_shape(shape), labels)


class Kinds:
    """Counts pods by kind; `version` changes with what `typical` returns."""

    def __init__(self, listed: Sequence[TypicalPod], *, popular: bool) -> None:
        """`popular`: choose kinds as FGD does, by their number of pods."""
        self._popular = popular
        self._learns = not listed
        self._counts: Counter[Kind] = Counter()
        self._shapes: dict[Kind, Shape] = {}
        self._of_shape: dict[int, Kind] = {}
        self._jobs: dict[str, Counter[Kind]] = {}
        self._counted = 0
        self.version = 0
        for pod in listed:
            asked = amounts(pod.requests)
            shape = Shape(
                id=-1, requests=asked, best_effort=False, node_selector=pod.node_selector, affinity=pod.affinity
            )
            kind = kind_of(shape)._replace(demand=demand_of(asked))
            self._counts[kind] += pod.count
            self._shapes[kind] = shape

    def learn(self, session: SessionView) -> None:
        """Count the pods that were added since the last session."""
        if not self._learns:
            return
        for job in session.changed_jobs(self):
            if job.key not in session.jobs:
                self._jobs.pop(job.key, None)
                continue
            now = Counter(self._kind(task.shape) for task in job.tasks)
            self._counts += now - self._jobs.get(job.key, Counter())
            self._jobs[job.key] = now
        if (total := self._counts.total()) > self._counted * GROWTH:
            self._counted = total
            self.version += 1

    def _kind(self, shape: Shape) -> Kind:
        if (kind := self._of_shape.get(shape.id)) is None:
            kind = self._of_shape[shape.id] = kind_of(shape)
            self._shapes.setdefault(kind, shape)
        return kind

    def chosen(self, card_memory: int) -> list[tuple[Kind, float]]:
        """Return the typical kinds with cards, and the part of all pods that each is."""
        order = sorted(
            self._counts.items(),
            key=lambda entry: (entry[1], entry[0].cpu, entry[0].demand, entry[0].labels),
            reverse=True,
        )
        if self._popular:
            missing, kept = POPULAR * self._counts.total(), []
            for kind, count in order:
                if missing <= 0:
                    break
                kept.append((kind, count))
                missing -= count
        else:
            order.sort(key=lambda entry: -entry[1] * entry[0].demand.cards * entry[0].demand.share(card_memory))
            kept = [entry for entry in order if entry[0].demand.cards][:LARGEST]
        total = sum(count for _, count in kept)
        return [(kind, count / total) for kind, count in kept if kind.demand.cards]

    def reach(self, kinds: Sequence[Kind], index: NodeIndex) -> Mask:
        """Return which nodes match the labels that each kind selects, by row and kind."""
        masks = np.ones((index.size, len(kinds)), np.bool_)
        for at, kind in enumerate(kinds):
            if kind.labels and (mask := affine(index, self._shapes[kind])) is not None:
                masks[:, at] = mask
        return masks


def columns(chosen: Sequence[tuple[Kind, float]], card_memory: int) -> Typical:
    """Return kinds as columns, for nodes whose cards have so much memory (MiB)."""
    return Typical(
        cpu=np.array([kind.cpu for kind, _ in chosen], np.int64),
        cards=np.array([kind.demand.cards for kind, _ in chosen], np.int64),
        share=np.array([kind.demand.share(card_memory) for kind, _ in chosen], np.int64),
        weight=np.array([weight for _, weight in chosen], np.float64),
    )
