"""What part of a resource a list or watch asks for."""

from __future__ import annotations

from collections.abc import Callable

from volcanoio.localcluster.apiserver.objects import Stored
from volcanoio.localcluster.apiserver.selectors import LabelMatch
from volcanoio.model.base import Manifest


class Selection:
    """A namespace (empty for all), labels and fields; `name` is the fast path of metadata.name=X."""

    __slots__ = ("_fields", "_labels", "_read", "all", "name", "namespace")

    def __init__(
        self,
        namespace: str = "",
        name: str = "",
        labels: LabelMatch | None = None,
        fields: tuple[tuple[str, bool, str], ...] = (),
        read: Callable[[Manifest], dict[str, str]] | None = None,
    ) -> None:
        self.namespace = namespace
        self.name = name
        self._labels = labels
        self._fields = fields
        self._read = read
        self.all = not (namespace or name or labels or fields)
        """Whether every object is selected."""

    @property
    def reads_fields(self) -> Callable[[Manifest], dict[str, str]] | None:
        """What reads the fields it selects by; None when it selects by none."""
        return self._read if self._fields else None

    def selects(self, stored: Stored) -> bool:
        """Whether the object is part of it."""
        if self.all:
            return True
        if self.namespace and stored.namespace != self.namespace:
            return False
        if self.name and stored.name != self.name:
            return False
        if self._labels is not None and not self._labels(stored.labels):
            return False
        return not self._fields or self._selects_fields(stored)

    def _selects_fields(self, stored: Stored) -> bool:
        values: dict[str, str] | None = stored.fields
        if values is None:
            values = stored.fields = self._read(stored.decode()) if self._read is not None else {}
        for path, equal, value in self._fields:
            if path == "metadata.name":
                found = stored.name
            elif path == "metadata.namespace":
                found = stored.namespace
            else:
                found = values.get(path, "")
            if (found == value) is not equal:
                return False
        return True


EVERYTHING = Selection()
