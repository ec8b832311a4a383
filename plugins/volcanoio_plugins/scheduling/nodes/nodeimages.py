"""Which nodes have which container images, as nodes report them, followed from session to session.

Every distinct image has a code; of each node the codes are kept (four bytes an image), so that the nodes that have an
image of some name are found in one pass. Where no node reports images nothing is kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from volcanoio.framework.scheduling.views import Nodes
from volcanoio.model.core import ContainerImage, Node

Mask = NDArray[np.bool_]
_NONE = -1
_STEP = 64
"""Nodes read in one go."""
_MASKS = 256
"""Names for which it is kept which nodes have them."""


class NodeImages:
    """The images of the nodes of a session. `version` is another number when any node is another than before."""

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

    def follow(self, nodes: Nodes) -> Iterator[None]:
        """Be right for these nodes; the first time it takes many steps."""
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

    def found(self, name: str) -> tuple[int, int]:
        """How many nodes have an image of that name, and its size in bytes (the largest, where nodes differ)."""
        codes = self._named.get(name, ())
        sizes = [image.size_bytes for code in codes if (image := self._images[code]) is not None]
        return sum(self._counts[code] for code in codes), max(sizes, default=0)

    def having(self, name: str) -> Mask:
        """The nodes that have an image of that name, by row; not to be written to."""
        mask = self._masks.get(name)
        if mask is None:
            if len(self._masks) >= _MASKS:
                del self._masks[next(iter(self._masks))]
            mask = np.zeros(len(self._codes), np.bool_)
            for code in self._named.get(name, ()):
                mask |= (self._codes == code).any(axis=1)
            self._masks[name] = mask
        return mask

    def _replace(self, row: int, before: Sequence[ContainerImage], after: Sequence[ContainerImage]) -> None:
        """The images of a row are others."""
        if before == after:
            return
        self._make_room(row + 1, len(after))
        codes = [self._taken(image) for image in after]
        for image in before:
            self._left(image)
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

    def _taken(self, image: ContainerImage) -> int:
        """Count a node that has an image; its code."""
        code = self._code_of.get(id(image))
        if code is None:
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

    def _left(self, image: ContainerImage) -> None:
        """A node has an image no longer; the last one forgets it."""
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
