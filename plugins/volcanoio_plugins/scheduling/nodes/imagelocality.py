"""Kubernetes' score for nodes that have a pod's images already (pkg/scheduler/framework/plugins/imagelocality).

An image counts by its size times the share of nodes that have it, so that not all pods go to the few nodes that began
with it; what containers' images come to, from 23 MB to 1000 MB a container, is 0 to 100. Which images count, and for
how much, is in the trait of a task: images that no node has, or every one, tell no nodes apart. With 100 nodes and more
shares are whole percents, so that one node more or less does not make other traits of all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from volcanoio.framework.scheduling.sessionview import SessionView
from volcanoio.framework.scheduling.verdicts import Depends
from volcanoio.framework.scheduling.views import NodeRow, Nodes, Shape, Task
from volcanoio.model.core import PodSpec
from volcanoio_plugins.scheduling.nodes.nodeimages import Mask, NodeImages
from volcanoio_plugins.scheduling.nodes.nodescores import MAX

LEAST = 23 * 1024 * 1024
"""Bytes up to which images count for nothing."""
MOST = 1000 * 1024 * 1024
"""Bytes a container from which they count for no more."""
_EXACT = 100
"""With fewer nodes shares are exact."""
_KEPT = 4096


class ImageScorer:
    """Prefers nodes that have the images of a pod; `plugin` is the name under which the traits are."""

    def __init__(self, plugin: str, weight: int) -> None:
        self._plugin = plugin
        self._weight = weight
        self._images = NodeImages()
        self._nodes: Nodes | None = None
        self._rows: dict[str, int] = {}
        self._traits: dict[tuple[str, ...] | str, str] = {}
        self.seen = False
        """Whether any node ever reported images: before, no task has a trait."""

    def open(self, session: SessionView) -> Iterator[None]:
        """Nodes, or what they have, may have changed since the last cycle."""
        version, self._nodes = self._images.version, session.nodes
        yield from self._images.follow(session.nodes)
        if self._images.version != version:
            self._traits.clear()
            self._rows.clear()
            self.seen |= bool(self._images)

    def trait(self, task: Task) -> str:
        """What the images of a task count for, see `Wanted`; "" where all nodes score the same."""
        spec = task.pod.spec
        if len(spec.containers) == 1 and not spec.init_containers and not spec.volumes:
            key: tuple[str, ...] | str = spec.containers[0].image
        else:
            key = (str(len(spec.containers) + len(spec.init_containers)), *_references(spec))
        trait = self._traits.get(key)
        if trait is None:
            if len(self._traits) >= _KEPT:
                self._traits.clear()
            trait = self._traits[key] = self._judge(spec)
        return trait

    def score_depends(self, shape: Shape) -> Depends:
        """What the row's own node has; the other nodes' part is in the trait."""
        return Depends.NODE_SPEC if shape.traits.get(self._plugin) else Depends.NOTHING

    def score(self, shape: Shape, nodes: Nodes, feasible: Mask) -> NDArray[np.float64]:  # noqa: ARG002 - not relative to other nodes
        """The score of all nodes."""
        trait = shape.traits.get(self._plugin)
        if not trait:
            return np.zeros(len(nodes))
        containers, everywhere, images = _wanted(trait)
        rows = slice(0, len(nodes)) if nodes is self._nodes else self._rows_of(nodes)
        total = np.full(len(nodes), everywhere, np.int64)
        for name, amount in images:
            total[self._images.having(name)[rows]] += amount
        most = MOST * containers
        np.clip(total, LEAST, most, out=total)
        total -= LEAST
        total *= MAX
        total //= most - LEAST
        return (total * self._weight).astype(float)

    def score_on(self, shape: Shape, node: NodeRow) -> float:
        """The score of one node."""
        trait = shape.traits.get(self._plugin)
        if not trait:
            return 0.0
        containers, total, images = _wanted(trait)
        for name, amount in images:
            if self._images.having(name).item(node.row):
                total += amount
        return float(_points(total, containers) * self._weight)

    def _rows_of(self, nodes: Nodes) -> NDArray[np.intp]:
        """The rows of some nodes among all."""
        if not self._rows and self._nodes is not None:
            self._rows = {name: row for row, name in enumerate(self._nodes.names)}
        return np.fromiter(map(self._rows.__getitem__, nodes.names), np.intp, len(nodes))

    def _judge(self, spec: PodSpec) -> str:
        """The trait of pods of a spec."""
        containers = len(spec.containers) + len(spec.init_containers)
        everywhere, images = 0, dict[str, int]()
        for name in _references(spec):
            nodes, size = self._images.found(name)
            amount = scaled(size, nodes, len(self._images)) if nodes else 0
            if nodes == len(self._images):
                everywhere += amount
            elif amount:
                images[name] = images.get(name, 0) + amount
        if not containers or _points(everywhere, containers) == _points(everywhere + sum(images.values()), containers):
            return ""
        return " ".join([str(containers), str(everywhere), *(f"{name}={images[name]}" for name in sorted(images))])


def scaled(size: int, nodes: int, total: int) -> int:
    """What an image of a size (bytes) counts for that is on so many of all nodes."""
    spread = nodes / total if total < _EXACT else (100 * nodes + total // 2) // total / 100
    return int(size * spread)


def normalized(image: str) -> str:
    """The name under which nodes report an image: with the tag that is meant where it has none."""
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"


def _references(spec: PodSpec) -> list[str]:
    """The images of a pod: of init containers, containers and image volumes."""
    images = [container.image for container in (*spec.init_containers, *spec.containers)]
    mounted: Sequence[object] = [volume["image"].get("reference") for volume in spec.volumes if volume.get("image")]
    return [normalized(image) for image in (*images, *mounted) if isinstance(image, str)]


def _points(total: int, containers: int) -> int:
    """0 to 100 for what the images of so many containers come to."""
    most = MOST * containers
    return MAX * (min(max(total, LEAST), most) - LEAST) // (most - LEAST)


@lru_cache(maxsize=_KEPT)
def _wanted(trait: str) -> tuple[int, int, tuple[tuple[str, int], ...]]:
    """A trait's parts: the number of containers, bytes that count on every node, images and bytes that they count."""
    containers, everywhere, *images = trait.split(" ")
    parts = (image.rpartition("=") for image in images)
    return int(containers), int(everywhere), tuple((name, int(amount)) for name, _, amount in parts)
