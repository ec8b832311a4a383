"""What an operator's plan is given of one object: the object, what it owns, and what was refused of late."""

from __future__ import annotations

from typing import Generic, TypeVar

from volcanoio.framework.controller import Lookup
from volcanoio.model.base import ApiObject
from volcanoio.model.kinds import Kind

Object = TypeVar("Object", bound=ApiObject)


class Parts(Generic[Object]):
    """The `subject`, and what it controls.

    `problem` is what was said of the last write that was refused, "" once a whole plan was carried out.
    """

    def __init__(self, subject: Object, lookup: Lookup, problem: str = "") -> None:
        self.subject = subject
        self.problem = problem
        self._lookup = lookup
        self._owned: dict[str, dict[str, ApiObject]] = {}

    def get(self, kind: Kind, name: str) -> ApiObject | None:
        """The object of that kind and name that the subject owns; one of an older subject's is none."""
        return self._of(kind).get(name)

    def all(self, kind: Kind) -> list[ApiObject]:
        """All of a kind that the subject owns, by name."""
        return list(self._of(kind).values())

    def _of(self, kind: Kind) -> dict[str, ApiObject]:
        found = self._owned.get(kind.resource)
        if found is None:
            uid = self.subject.metadata.uid
            found = self._owned[kind.resource] = {
                obj.metadata.name: obj
                for obj in self._lookup.mine(kind)
                if (owner := obj.metadata.controller) is not None and owner.uid == uid
            }
        return found


def owner_key(primary: Kind, obj: ApiObject) -> str:
    """The key of the primary object that controls another; "" for one that nobody of the kind controls."""
    owner = obj.metadata.controller
    if owner is None or (owner.api_version, owner.kind) != (primary.api_version, primary.kind):
        return ""
    return f"{obj.metadata.namespace}/{owner.name}" if primary.namespaced else owner.name
