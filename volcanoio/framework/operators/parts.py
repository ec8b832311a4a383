"""What an operator knows about one object: the object, what it owns, and what was refused of late."""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec

from volcanoio.framework.events import Change, Observed
from volcanoio.model.base import ApiObject
from volcanoio.model.kinds import Kind

Object = TypeVar("Object", bound=ApiObject)


class Parts(msgspec.Struct, Generic[Object], frozen=True):
    """The `subject`, and what it controls, by (resource, name).

    `problem` is what was said of the last write that was refused, "" once a whole plan was carried out. `failures`
    counts refusals until then; nothing is planned before `retry_at` (epoch seconds). `troubled`: one of the plan under
    way was refused.
    """

    found: Object | None = None
    owned: dict[tuple[str, str], ApiObject] = {}
    problem: str = ""
    failures: int = 0
    retry_at: float = 0.0
    troubled: bool = False

    @property
    def subject(self) -> Object:
        """The object that a plan is made for: it is there whenever one is asked for."""
        assert self.found is not None
        return self.found

    def get(self, kind: Kind, name: str) -> ApiObject | None:
        """The object of that kind and name that the subject owns; one of an older subject's is none."""
        found = self.owned.get((kind.resource, name))
        return found if found is not None and self._owns(found) else None

    def all(self, kind: Kind) -> list[ApiObject]:
        """All of a kind that the subject owns, by name."""
        return [
            self.owned[key] for key in sorted(self.owned) if key[0] == kind.resource and self._owns(self.owned[key])
        ]

    def _owns(self, obj: ApiObject) -> bool:
        owner = obj.metadata.controller
        return owner is not None and self.found is not None and owner.uid == self.found.metadata.uid


def observed(parts: Parts[Object], event: Observed, primary: Kind, key: str) -> Parts[Object]:
    """Fold an observation of the subject of a key, or of what belongs to it; a reference that changed is neither."""
    obj = event.object
    gone = event.change is Change.GONE
    if event.resource == primary.resource and event.obj.metadata.key == key:
        return msgspec.structs.replace(parts, found=None if gone else obj)
    mark = (event.resource, event.obj.metadata.name)
    belongs = not gone and owner_key(primary, event.obj) == key
    if not belongs and mark not in parts.owned:
        return parts
    owned = {mark_: known for mark_, known in parts.owned.items() if mark_ != mark}
    if belongs:
        owned[mark] = event.obj
    return msgspec.structs.replace(parts, owned=owned)


def owner_key(primary: Kind, obj: ApiObject) -> str:
    """The key of the primary object that controls another; "" for one that nobody of the kind controls."""
    owner = obj.metadata.controller
    if owner is None or (owner.api_version, owner.kind) != (primary.api_version, primary.kind):
        return ""
    return f"{obj.metadata.namespace}/{owner.name}" if primary.namespaced else owner.name
