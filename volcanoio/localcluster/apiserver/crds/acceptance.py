"""Accepted names of a definition: those that no other definition of its group has (apiextensions `status`)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from volcanoio.localcluster.apiserver.crds.spec import approval_condition
from volcanoio.model.base import Manifest

_RESOURCES = ("plural", "singular")
_KINDS = ("kind", "listKind")
_REASONS = {
    "plural": "PluralConflict",
    "singular": "SingularConflict",
    "kind": "KindConflict",
    "listKind": "ListKindConflict",
}


def accept(definition: Manifest, others: Iterable[Manifest], now: str) -> None:
    """Set status.acceptedNames, conditions and storedVersions in place.

    `others` are the definitions of the group.
    """
    spec, status = definition["spec"], definition.setdefault("status", {})
    names = spec.get("names") or {}
    others = list(others)
    resources = _used(others, (*_RESOURCES, "shortNames"))
    kinds = _used(others, _KINDS)
    accepted = dict(status.get("acceptedNames") or {})
    conflict: tuple[str, str] | None = None
    for field in (*_RESOURCES, *_KINDS):
        wanted = names.get(field)
        if wanted != accepted.get(field) and wanted in (kinds if field in _KINDS else resources):
            conflict = (_REASONS[field], f'"{wanted}" is already in use')
        else:
            accepted[field] = wanted
        if field == "singular":
            conflict = _short_names(names, accepted, resources) or conflict
    accepted["categories"] = names.get("categories")
    status["acceptedNames"] = {field: value for field, value in accepted.items() if value} | {
        field: accepted.get(field) or "" for field in ("plural", "kind")
    }
    _set_conditions(definition, status, conflict, now)
    stored = [one.get("name") or "" for one in spec.get("versions") or () if one.get("storage")]
    status["storedVersions"] = list(dict.fromkeys([*(status.get("storedVersions") or ()), *stored[:1]]))


def is_established(definition: Manifest) -> bool:
    """Return whether the definition is served."""
    conditions = (definition.get("status") or {}).get("conditions") or ()
    return any(one.get("type") == "Established" and one.get("status") == "True" for one in conditions)


def _short_names(names: Manifest, accepted: Manifest, resources: set[str]) -> tuple[str, str] | None:
    wanted, known = names.get("shortNames") or [], accepted.get("shortNames") or []
    if wanted == known:
        return None
    taken = [one for one in wanted if one not in known and one in resources]
    if not taken:
        accepted["shortNames"] = wanted
        return None
    texts = [f'"{one}" is already in use' for one in dict.fromkeys(taken)]
    return "ShortNamesConflict", texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


def _used(others: list[Manifest], fields: tuple[str, ...]) -> set[str]:
    found: set[str] = set()
    for one in others:
        accepted = (one.get("status") or {}).get("acceptedNames") or {}
        for field in fields:
            value = accepted.get(field)
            found.update(value if isinstance(value, list) else [value] if value else [])
    return found


def _set_conditions(definition: Manifest, status: Manifest, conflict: tuple[str, str] | None, now: str) -> None:
    served = is_established(definition)
    wanted: list[dict[str, Any]] = []
    if conflict is not None:
        wanted.append({"type": "NamesAccepted", "status": "False", "reason": conflict[0], "message": conflict[1]})
    else:
        text = "no conflicts found"
        wanted.append({"type": "NamesAccepted", "status": "True", "reason": "NoConflicts", "message": text})
    if served or conflict is None:
        text = "the initial names have been accepted"
        wanted.append({"type": "Established", "status": "True", "reason": "InitialNamesAccepted", "message": text})
    else:
        text = "not all names are accepted"
        wanted.append({"type": "Established", "status": "False", "reason": "NotAccepted", "message": text})
    if (approval := approval_condition(definition)) is not None:
        wanted.append(dict(approval))
    known = {one["type"]: one for one in status.get("conditions") or ()}
    found = []
    for one in wanted:
        before = known.pop(one["type"], {})
        since = before.get("lastTransitionTime") if before.get("status") == one["status"] else None
        found.append({"lastTransitionTime": since or now, **one})
    status["conditions"] = [*found, *known.values()]
