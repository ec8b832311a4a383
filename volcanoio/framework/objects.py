"""`Objects`: typed, indexed reads of the cache for controllers that reconcile from what is observed.

An `Index` groups the cached objects of a kind (client-go: `cache.Indexers`); a host builds one when it is first read.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeVar, cast

from volcanoio.model.base import ApiObject
from volcanoio.model.core import Pod
from volcanoio.model.kinds import POD, Kind

Object = TypeVar("Object", bound=ApiObject)


@dataclass(frozen=True, slots=True)
class Index:
    """The value under which each object of a kind is found; objects without one are not in the index."""

    name: str
    value: Callable[[ApiObject], str | None]


def _controller_uid(obj: ApiObject) -> str | None:
    controller = obj.metadata.controller
    return controller.uid if controller is not None else None


def _namespace_of_orphan(obj: ApiObject) -> str | None:
    return obj.metadata.namespace if obj.metadata.controller is None else None


def _node(obj: ApiObject) -> str | None:
    return (obj.spec.node_name or None) if isinstance(obj, Pod) else None


BY_NAMESPACE = Index("namespace", lambda obj: obj.metadata.namespace)
BY_CONTROLLER = Index("controller", _controller_uid)
"""By the uid of the owner reference that is the controller."""
ORPHANS = Index("orphans", _namespace_of_orphan)
"""Objects without a controller, by namespace."""
BY_NODE = Index("node", _node)
"""Bound pods, by node."""


class ObjectStore(Protocol):
    """The cache behind `Objects`; the host's own."""

    def by_key(self, resource: str) -> Mapping[str, ApiObject]:
        """Return all objects of a resource by `namespace/name`, a live view."""
        ...

    def indexed(self, resource: str, index: Index) -> Mapping[str, Mapping[str, ApiObject]]:
        """Return the objects of a resource by value of an index, then by `namespace/name`; a live view."""
        ...


_NONE: Mapping[str, ApiObject] = {}


class Objects:
    """Reads of the cache. Lists are sorted by namespace and name, so that no decision depends on arrival.

    With `resources`, reading another resource raises LookupError: it would be empty, as nothing watches it.
    """

    def __init__(self, store: ObjectStore, resources: frozenset[str] | None = None) -> None:
        self._store = store
        self._resources = resources

    def get(self, kind: Kind, key: str, type_: type[Object]) -> Object | None:
        """Return one object by `namespace/name`."""
        del type_  # for the type checker
        return cast("Object | None", self.by_key(kind).get(key))

    def all(self, kind: Kind, type_: type[Object]) -> list[Object]:
        """Return all objects of a kind."""
        return _sorted(self.by_key(kind), type_)

    def namespace(self, kind: Kind, namespace: str, type_: type[Object]) -> list[Object]:
        """Return the objects of a namespace."""
        return _sorted(self.indexed(kind, BY_NAMESPACE, namespace), type_)

    def controlled(self, kind: Kind, uid: str, type_: type[Object]) -> list[Object]:
        """Return the objects whose controller has this uid."""
        return _sorted(self.indexed(kind, BY_CONTROLLER, uid), type_)

    def orphans(self, kind: Kind, namespace: str, type_: type[Object]) -> list[Object]:
        """Return the objects of a namespace that have no controller."""
        return _sorted(self.indexed(kind, ORPHANS, namespace), type_)

    def on_node(self, node: str) -> list[Pod]:
        """Return the pods bound to a node."""
        return _sorted(self.indexed(POD, BY_NODE, node), Pod)

    def nodes_with_pods(self) -> Iterable[str]:
        """Return the names of all nodes that a pod is bound to."""
        return self._store.indexed(self._checked(POD), BY_NODE).keys()

    def by_key(self, kind: Kind) -> Mapping[str, ApiObject]:
        """Return all objects of a kind by `namespace/name`, a live view."""
        return self._store.by_key(self._checked(kind))

    def indexed(self, kind: Kind, index: Index, value: str) -> Mapping[str, ApiObject]:
        """Return the objects of a kind that have this value in an index, by `namespace/name`; a live view."""
        return self._store.indexed(self._checked(kind), index).get(value, _NONE)

    def _checked(self, kind: Kind) -> str:
        if self._resources is not None and kind.resource not in self._resources:
            raise LookupError(f"{kind} is read but not declared: add it to the controller's reads (owns, looks_up)")
        return kind.resource


def _sorted(objects: Mapping[str, ApiObject], type_: type[Object]) -> list[Object]:
    del type_  # for the type checker
    return cast("list[Object]", [objects[key] for key in sorted(objects)])
