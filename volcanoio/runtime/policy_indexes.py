"""What policies read beside the job: objects by namespace and name, a fold of the same events that controllers see.

A policy reads them on its own thread while we go on. Every read of a dict here is one step of the interpreter (`get`,
`copy`), so it is whole without a lock; what a question has read of a namespace stays as it was for that question.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from volcanoio.framework.events import Change, Observed
from volcanoio.model.base import ApiObject

Objects = dict[str, dict[str, ApiObject]]
"""By namespace ("" for none), then by name."""


class Indexes:
    """The objects of the resources that policies declared."""

    def __init__(self) -> None:
        self._objects: dict[str, Objects] = {}

    def __contains__(self, resource: object) -> bool:
        return resource in self._objects

    def __bool__(self) -> bool:
        return bool(self._objects)

    def add(self, resource: str, objects: Iterable[ApiObject]) -> None:
        """Keep a resource from now on, beginning with what is known of it; in the place of what was kept."""
        kept: Objects = {}
        for obj in objects:
            kept.setdefault(obj.metadata.namespace, {})[obj.metadata.name] = obj
        self._objects[resource] = kept

    def fold(self, event: Observed) -> None:
        """Take in one observation of a resource that is kept; others are ignored."""
        objects = self._objects.get(event.resource)
        if objects is None:
            return
        obj = event.obj
        within = objects.setdefault(obj.metadata.namespace, {})
        if event.change is Change.GONE:
            within.pop(obj.metadata.name, None)
        else:
            within[obj.metadata.name] = obj

    def view(self, resources: Iterable[str]) -> Mapping[str, View]:
        """What one question may read of these resources."""
        return {resource: View(self._objects.get(resource, {})) for resource in resources}


class View(Mapping[str, ApiObject]):
    """One resource as one question reads it, by `namespace/name` or the name alone; see `lifecycle.Index`."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._read: dict[str, Mapping[str, ApiObject]] = {}

    def within(self, namespace: str) -> Mapping[str, ApiObject]:
        """The objects of a namespace by name."""
        if namespace not in self._read:
            self._read[namespace] = MappingProxyType(self._objects.get(namespace, {}).copy())
        return self._read[namespace]

    def __getitem__(self, key: str) -> ApiObject:
        namespace, _, name = key.rpartition("/")
        return self._objects.get(namespace, {})[name]

    def __iter__(self) -> Iterator[str]:
        for namespace in sorted(self._objects.copy()):
            for name in sorted(self.within(namespace)):
                yield f"{namespace}/{name}" if namespace else name

    def __len__(self) -> int:
        return sum(len(within) for within in self._objects.copy().values())
