"""Tables: all that is known of the watched kinds, and the indexes by which controllers look."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar, cast

from volcanoio.framework.events import Change, Observed
from volcanoio.model.base import ApiObject
from volcanoio.model.core import Pod
from volcanoio.model.kinds import Kind

Object = TypeVar("Object", bound=ApiObject)
_NONE: Mapping[str, ApiObject] = {}


class Table:
    """The objects of one kind by `namespace/name`, and by namespace, controller and (of pods) node."""

    __slots__ = ("_by_controller", "_by_namespace", "_by_node", "_loose", "objects")

    def __init__(self) -> None:
        self.objects: dict[str, ApiObject] = {}
        self._by_namespace: dict[str, dict[str, ApiObject]] = {}
        self._by_controller: dict[str, dict[str, ApiObject]] = {}
        self._loose: dict[str, dict[str, ApiObject]] = {}
        self._by_node: dict[str, dict[str, ApiObject]] = {}

    def fold(self, event: Observed) -> None:
        """Take in one change."""
        obj = event.obj
        key = obj.metadata.key
        known = self.objects.get(key)
        if event.change is Change.GONE:
            if known is not None and known.metadata.uid == obj.metadata.uid:
                del self.objects[key]
                for index, value in self._places(known):
                    members = index[value]
                    del members[key]
                    if not members:
                        del index[value]
            return
        places = self._places(obj)
        if known is not None and not _alike(known, obj):
            for index, value in self._places(known):
                if not any(index is other and value == name for other, name in places):
                    members = index[value]
                    del members[key]
                    if not members:
                        del index[value]
        self.objects[key] = obj
        for index, value in places:
            there = index.get(value)
            if there is None:
                index[value] = {key: obj}
            else:
                there[key] = obj

    def _places(self, obj: ApiObject) -> list[tuple[dict[str, dict[str, ApiObject]], str]]:
        meta = obj.metadata
        controller = meta.controller
        places = [(self._by_namespace, meta.namespace)]
        places.append((self._loose, meta.namespace) if controller is None else (self._by_controller, controller.uid))
        if isinstance(obj, Pod) and obj.spec.node_name:
            places.append((self._by_node, obj.spec.node_name))
        return places

    def namespace(self, namespace: str) -> Mapping[str, ApiObject]:
        """Those of a namespace."""
        return self._by_namespace.get(namespace, _NONE)

    def controlled(self, uid: str) -> Mapping[str, ApiObject]:
        """Those whose controller has this uid."""
        return self._by_controller.get(uid, _NONE)

    def loose(self, namespace: str) -> Mapping[str, ApiObject]:
        """Those of a namespace that nobody controls."""
        return self._loose.get(namespace, _NONE)

    def on_node(self, node: str) -> Mapping[str, ApiObject]:
        """Pods bound to a node."""
        return self._by_node.get(node, _NONE)

    @property
    def nodes(self) -> Iterable[str]:
        """The names of all nodes that a pod is bound to."""
        return self._by_node.keys()


def _alike(before: ApiObject, after: ApiObject) -> bool:
    """Whether two versions of an object stand in the same places."""
    if before.metadata.owner_references != after.metadata.owner_references:
        return False
    return not isinstance(before, Pod) or not isinstance(after, Pod) or before.spec.node_name == after.spec.node_name


class Tables:
    """The tables of all watched kinds. Objects come sorted by name, so that no decision hangs on arrival."""

    def __init__(self) -> None:
        self._tables: dict[str, Table] = {}

    def table(self, kind: Kind) -> Table:
        """The table of a kind, empty where it is not watched."""
        return self.of(kind.resource)

    def of(self, resource: str) -> Table:
        """As `table`, by resource name."""
        known = self._tables.get(resource)
        if known is None:
            known = self._tables[resource] = Table()
        return known

    def get(self, kind: Kind, key: str, type_: type[Object]) -> Object | None:
        """One object by `namespace/name`."""
        del type_  # for the type checker
        return cast("Object | None", self.table(kind).objects.get(key))

    def all(self, kind: Kind, type_: type[Object]) -> list[Object]:
        """All objects of a kind."""
        return _sorted(self.table(kind).objects, type_)

    def namespace(self, kind: Kind, namespace: str, type_: type[Object]) -> list[Object]:
        """Those of a namespace."""
        return _sorted(self.table(kind).namespace(namespace), type_)

    def controlled(self, kind: Kind, uid: str, type_: type[Object]) -> list[Object]:
        """Those whose controller has this uid."""
        return _sorted(self.table(kind).controlled(uid), type_)

    def loose(self, kind: Kind, namespace: str, type_: type[Object]) -> list[Object]:
        """Those of a namespace that nobody controls."""
        return _sorted(self.table(kind).loose(namespace), type_)


def _sorted(objects: Mapping[str, ApiObject], type_: type[Object]) -> list[Object]:
    del type_  # for the type checker
    return cast("list[Object]", [objects[key] for key in sorted(objects)])
