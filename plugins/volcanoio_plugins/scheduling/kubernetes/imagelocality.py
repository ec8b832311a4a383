"""Kubernetes' scorer ImageLocality: prefers nodes that have a pod's images
(pkg/scheduler/framework/plugins/imagelocality).

An image counts by its size times the fraction of nodes that have it, so that not all pods go to the few nodes that have
it first; a sum from 23 MB to 1000 MB per container is scaled to 0 to 100. The images that count, and their points, are
in the trait of a task: images on no node, or on every one, make no difference. With 100 nodes and more, fractions are
whole percents, so that one more node does not change all other traits. `NodeImages` tracks the images of nodes, as
codes of four bytes per image and node; it is empty if no node reports images.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from volcanoio.framework.scheduling.sessionview import SessionView
from volcanoio.framework.scheduling.verdicts import Depends
from volcanoio.framework.scheduling.views import NodeRow, Nodes, Shape, Task
from volcanoio.model.core import ContainerImage, Node, PodSpec
from volcanoio_plugins.scheduling.kubernetes.noderesources import MAX

Mask = NDArray[np.bool_]
_NONE = -1
_STEP = 64
"""Nodes read between two checkpoints."""
_MASKS = 256
"""Number of cached masks of nodes by image name."""


class NodeImages:
    """The images of the nodes of a session. `version` changes when any node changed."""

    def __init__(self) -> None:
        self.version = 0
        self._objects: list[Node] = []
        self._codes: NDArray[np.int32] = np.zeros((0, 0), np.int32)
        self._code_of: dict[int, int] = {}
        """By identity: equal images of all nodes are one object."""
        self._images: list[ContainerImage | None] = []
        self._counts: list[int] = []
        self._free: list[int] = []
        self._named: dict[str, set[int]] = {}
        self._masks: dict[str, Mask] = {}

    def __bool__(self) -> bool:
        return bool(self._code_of)

    def __len__(self) -> int:
        return len(self._objects)

    def update(self, nodes: Nodes) -> Iterator[None]:
        """Read the changed nodes; the first time this takes many steps."""
        objects, known = nodes.objects, self._objects
        if objects == known:
            return
        self.version += 1
        self._make_room(len(objects), 0)
        for row in range(len(objects), len(known)):
            self._replace(row, known[row].status.images, ())
        del known[len(objects) :]
        changed = [row for row, node in enumerate(known) if objects[row] is not node]
        for at, row in enumerate((*changed, *range(len(known), len(objects)))):
            before: Sequence[ContainerImage] = ()
            if row < len(known):
                before, known[row] = known[row].status.images, objects[row]
            else:
                known.append(objects[row])
            self._replace(row, before, objects[row].status.images)
            if at % _STEP == _STEP - 1:
                yield

    def lookup(self, name: str) -> tuple[int, int]:
        """Return how many nodes have an image of that name, and its size in bytes (the largest, if nodes differ)."""
        codes = self._named.get(name, ())
        sizes = [image.size_bytes for code in codes if (image := self._images[code]) is not None]
        return sum(self._counts[code] for code in codes), max(sizes, default=0)

    def having(self, name: str) -> Mask:
        """Return the nodes that have an image of that name, by row; never write to it."""
        if (mask := self._masks.get(name)) is None:
            if len(self._masks) >= _MASKS:
                del self._masks[next(iter(self._masks))]
            mask = np.zeros(len(self._codes), np.bool_)
            for code in self._named.get(name, ()):
                mask |= (self._codes == code).any(axis=1)
            self._masks[name] = mask
        return mask

    def _replace(self, row: int, before: Sequence[ContainerImage], after: Sequence[ContainerImage]) -> None:
        if before == after:
            return
        self._make_room(row + 1, len(after))
        codes = [self._add_node(image) for image in after]
        for image in before:
            self._remove_node(image)
        self._codes[row] = _NONE
        self._codes[row, : len(codes)] = codes
        there = set(codes)
        for name, mask in self._masks.items():
            mask[row] = not there.isdisjoint(self._named.get(name, ()))

    def _make_room(self, size: int, width: int) -> None:
        rows, columns = self._codes.shape
        more_rows = 2 * size - rows if size > rows else 0
        more_columns = max(width - columns, 0)
        if more_rows or more_columns:
            self._codes = np.pad(self._codes, ((0, more_rows), (0, more_columns)), constant_values=_NONE)
        if more_rows:
            self._masks.clear()

    def _add_node(self, image: ContainerImage) -> int:
        """Count a node that has an image; return its code."""
        if (code := self._code_of.get(id(image))) is None:
            if self._free:
                code = self._free.pop()
                self._images[code] = image
            else:
                code = len(self._images)
                self._images.append(image)
                self._counts.append(0)
            self._code_of[id(image)] = code
            for name in image.names:
                self._named.setdefault(name, set()).add(code)
        self._counts[code] += 1
        return code

    def _remove_node(self, image: ContainerImage) -> None:
        """Count that a node lost an image, and remove an image without nodes."""
        code = self._code_of[id(image)]
        self._counts[code] -= 1
        if not self._counts[code]:
            del self._code_of[id(image)]
            self._images[code] = None
            self._free.append(code)
            for name in image.names:
                self._named[name].discard(code)
                if not self._named[name]:
                    del self._named[name]


MIN_BYTES = 23 * 1024 * 1024
"""Images below this size count nothing."""
MAX_BYTES = 1000 * 1024 * 1024
"""Bytes per container above which images count no more."""
_EXACT = 100
"""With fewer nodes, fractions are exact."""
_CACHE_LIMIT = 4096


class ImageScorer:
    """Prefers nodes that have the images of a pod; `plugin` is the key of its traits."""

    applies_to = ("traits",)

    def __init__(self, plugin: str, weight: int) -> None:
        self._plugin = plugin
        self._weight = weight
        self._images = NodeImages()
        self._nodes: Nodes | None = None
        self._rows: dict[str, int] = {}
        self._traits: dict[tuple[str, ...] | str, str] = {}

    def open(self, session: SessionView) -> Iterator[None]:
        """Update the nodes' images."""
        version, self._nodes = self._images.version, session.nodes
        yield from self._images.update(session.nodes)
        if self._images.version != version:
            self._traits.clear()
            self._rows.clear()

    def trait(self, task: Task) -> str:
        """Return the points of a task's images (see `_parse_trait`), "" if all nodes score the same."""
        spec = task.pod.spec
        if len(spec.containers) == 1 and not spec.init_containers and not spec.volumes:
            key: tuple[str, ...] | str = spec.containers[0].image
        else:
            key = (str(len(spec.containers) + len(spec.init_containers)), *_references(spec))
        if (trait := self._traits.get(key)) is None:
            if len(self._traits) >= _CACHE_LIMIT:
                self._traits.clear()
            trait = self._traits[key] = self._recompute(spec)
        return trait

    def score_depends(self, shape: Shape) -> Depends:
        """Depend on the row's own node; the influence of other nodes is in the trait."""
        return Depends.NODE_SPEC if shape.traits.get(self._plugin) else Depends.NOTHING

    def score(self, shape: Shape, nodes: Nodes, feasible: Mask) -> NDArray[np.float64]:  # noqa: ARG002 - not relative to other nodes
        """Score all nodes."""
        if not (trait := shape.traits.get(self._plugin)):
            return np.zeros(len(nodes))
        containers, everywhere, images = _parse_trait(trait)
        rows = slice(0, len(nodes)) if nodes is self._nodes else self._rows_of(nodes)
        total = np.full(len(nodes), everywhere, np.int64)
        for name, amount in images:
            total[self._images.having(name)[rows]] += amount
        most = MAX_BYTES * containers
        np.clip(total, MIN_BYTES, most, out=total)
        total -= MIN_BYTES
        total *= MAX
        total //= most - MIN_BYTES
        return (total * self._weight).astype(float)

    def score_on(self, shape: Shape, node: NodeRow) -> float:
        """Score one node."""
        if not (trait := shape.traits.get(self._plugin)):
            return 0.0
        containers, total, images = _parse_trait(trait)
        for name, amount in images:
            if self._images.having(name).item(node.row):
                total += amount
        return float(_points(total, containers) * self._weight)

    def _rows_of(self, nodes: Nodes) -> NDArray[np.intp]:
        if not self._rows and self._nodes is not None:
            self._rows = {name: row for row, name in enumerate(self._nodes.names)}
        return np.fromiter(map(self._rows.__getitem__, nodes.names), np.intp, len(nodes))

    def _recompute(self, spec: PodSpec) -> str:
        containers = len(spec.containers) + len(spec.init_containers)
        everywhere, images = 0, dict[str, int]()
        for name in _references(spec):
            nodes, size = self._images.lookup(name)
            amount = scaled(size, nodes, len(self._images)) if nodes else 0
            if nodes == len(self._images):
                everywhere += amount
            elif amount:
                images[name] = images.get(name, 0) + amount
        if not containers or _points(everywhere, containers) == _points(everywhere + sum(images.values()), containers):
            return ""
        return " ".join([str(containers), str(everywhere), *(f"{name}={images[name]}" for name in sorted(images))])


def scaled(size: int, nodes: int, total: int) -> int:
    """Return the points of an image of a size (bytes) that is on so many of all nodes."""
    spread = nodes / total if total < _EXACT else (100 * nodes + total // 2) // total / 100
    return int(size * spread)


def normalized(image: str) -> str:
    """Return the name under which nodes report an image: with the default tag if it has none."""
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"


def _references(spec: PodSpec) -> list[str]:
    """Return the images of a pod: of init containers, containers and image volumes."""
    images = [container.image for container in (*spec.init_containers, *spec.containers)]
    mounted: Sequence[object] = [volume["image"].get("reference") for volume in spec.volumes if volume.get("image")]
    return [normalized(image) for image in (*images, *mounted) if isinstance(image, str)]


def _points(total: int, containers: int) -> int:
    """Return 0 to 100 for the sum of the images of so many containers."""
    most = MAX_BYTES * containers
    return MAX * (min(max(total, MIN_BYTES), most) - MIN_BYTES) // (most - MIN_BYTES)


@lru_cache(maxsize=_CACHE_LIMIT)
def _parse_trait(trait: str) -> tuple[int, int, tuple[tuple[str, int], ...]]:
    """Return a trait's parts: number of containers, bytes that count on every node, bytes by image."""
    containers, everywhere, *images = trait.split(" ")
    parts = (image.rpartition("=") for image in images)
    return int(containers), int(everywhere), tuple((name, int(amount)) for name, _, amount in parts)
