"""The host's fold of observed objects, and which resources are listed."""

from __future__ import annotations

from collections.abc import Iterable

from volcanoio.framework.events import Change, Observed, Relisting, Synced
from volcanoio.model.base import ApiObject


class ObjectCache:
    """The newest known object of every resource, by `namespace/name`; shared by all controllers of a process."""

    def __init__(self) -> None:
        self._objects: dict[str, dict[str, ApiObject]] = {}
        self._synced: set[str] = set()

    def fold(self, event: Observed | Synced | Relisting) -> None:
        """Take in one observation."""
        if isinstance(event, Observed):
            objects = self._objects.setdefault(event.resource, {})
            obj = event.obj
            if event.change is Change.GONE:
                objects.pop(obj.metadata.key, None)
            else:
                objects[obj.metadata.key] = obj
        elif isinstance(event, Synced):
            self._synced.add(event.resource)
        else:
            self._synced.discard(event.resource)

    def synced(self, resources: Iterable[str]) -> bool:
        """Whether all of these were listed and none is being relisted."""
        return self._synced.issuperset(resources)

    @property
    def resources(self) -> list[str]:
        """Every resource of which an object was seen or which was listed, sorted."""
        return sorted({*self._objects, *self._synced})

    def get(self, resource: str, key: str) -> ApiObject | None:
        """One object by `namespace/name`, or the name alone."""
        return self._objects.get(resource, {}).get(key)

    def some(self, resource: str, keys: Iterable[str]) -> list[ApiObject]:
        """Those of the keys that there are, in the order of the keys."""
        objects = self._objects.get(resource, {})
        return [obj for key in keys if (obj := objects.get(key)) is not None]

    def all(self, resource: str) -> list[ApiObject]:
        """All objects of a resource, sorted by namespace and name."""
        objects = self._objects.get(resource, {})
        return [objects[key] for key in sorted(objects, key=lambda key: key.rpartition("/")[::2])]
