"""Entries of metadata.managedFields: who wrote which fields, how, in which version, through which subresource."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from volcanoio.localcluster.apiserver.apply import fieldset
from volcanoio.localcluster.apiserver.apply.fieldset import FieldSet
from volcanoio.model.base import Manifest

Operation: TypeAlias = Literal["Apply", "Update"]
MAX_UPDATERS: Final = 10
"""Entries of updates an object has at most; older ones become one (Kubernetes: DefaultMaxUpdateManagers)."""
OLD_UPDATES: Final = "ancient-changes"


class Owner(NamedTuple):
    """Who: one entry's identity. Updates are told apart by version too; `version` is empty for appliers."""

    manager: str
    operation: Operation
    version: str
    subresource: str


class Owned(NamedTuple):
    """What: the fields, the version they are fields of, and when the entry was written (RFC 3339, may be empty)."""

    fields: FieldSet
    version: str
    time: str = ""


Owners: TypeAlias = dict[Owner, Owned]


def applier(manager: str, subresource: str = "") -> Owner:
    """The identity of whoever applies under a name."""
    return Owner(manager, "Apply", "", subresource)


def updater(manager: str, version: str, subresource: str = "") -> Owner:
    """The identity of whoever updates under a name."""
    return Owner(manager, "Update", version, subresource)


def decode(entries: Any) -> Owners:
    """The owners in metadata.managedFields as it is stored."""
    found: Owners = {}
    for entry in entries or ():
        operation, version = entry["operation"], entry["apiVersion"]
        owner = Owner(
            entry.get("manager", ""),
            operation,
            "" if operation == "Apply" else version,
            entry.get("subresource", ""),
        )
        found[owner] = Owned(entry.get("fieldsV1") or {}, version, entry.get("time") or "")
    return found


def encode(owners: Owners) -> list[Manifest]:
    """metadata.managedFields of these owners: appliers first, then by time and name."""
    return encode_pairs(owners.items())


def encode_pairs(pairs: Iterable[tuple[Owner, Owned]]) -> list[Manifest]:
    """The same of pairs, of which several may be of one owner."""
    return [_entry(owner, owned) for owner, owned in sorted(pairs, key=_order)]


def _order(item: tuple[Owner, Owned]) -> tuple[str, float, str, str, str]:
    owner, owned = item
    return owner.operation, seconds(owned.time), owner.manager, owned.version, owner.subresource


def seconds(time: str) -> float:
    """A time as seconds since 1970; 0 for none."""
    return float(int(datetime.fromisoformat(time).timestamp())) if time else 0.0


def _entry(owner: Owner, owned: Owned) -> Manifest:
    found: Manifest = {"manager": owner.manager} if owner.manager else {}
    found |= {"operation": owner.operation, "apiVersion": owned.version}
    if owned.time:
        found["time"] = owned.time
    found |= {"fieldsType": "FieldsV1", "fieldsV1": owned.fields}
    if owner.subresource:
        found["subresource"] = owner.subresource
    return found


def stated(entries: Any) -> Owners | None:
    """The owners a client wrote into metadata.managedFields; None for what is no such list."""
    if not isinstance(entries, list):
        return None
    found: list[Manifest] = []
    for entry in entries:
        if not isinstance(entry, dict) or entry.get("operation") not in ("Apply", "Update"):
            return None
        if not entry.get("apiVersion") or entry.get("fieldsType") != "FieldsV1":
            return None
        try:
            fields = fieldset.parse(entry.get("fieldsV1") or {})
            seconds(entry.get("time") or "")
        except (ValueError, TypeError):
            return None
        found.append({**entry, "fieldsV1": fields})
    return decode(found)


def is_reset(entries: Any) -> bool:
    """Whether a client asks for everybody's fields to be forgotten: by no entry, or by an empty one."""
    return entries == [] or (isinstance(entries, list) and len(entries) == 1 and not any((entries[0] or {}).values()))


def same_but_times(one: Any, other: Any) -> bool:
    """Whether two lists of entries differ in times at most."""
    if len(one) != len(other):
        return False
    return all({**ours, "time": None} == {**theirs, "time": None} for ours, theirs in zip(one, other, strict=True))


def cap_updaters(owners: Owners) -> Owners:
    """The owners with the oldest updaters of each version united, as many as are too many."""
    updaters = [item for item in owners.items() if item[0].operation == "Update"]
    if len(updaters) <= MAX_UPDATERS:
        return owners
    updaters.sort(key=lambda item: (seconds(item[1].time), item[0]))
    found, left = dict(owners), len(updaters)
    first: dict[str, Owner] = {}
    for owner, owned in updaters:
        if left <= MAX_UPDATERS:
            break
        version = owned.version
        if version not in first:
            first[version] = owner
            continue
        bucket = updater(OLD_UPDATES, version)
        if bucket not in found:
            found[bucket] = found.pop(first[version])
        known = found[bucket]
        if owner != bucket:
            del found[owner]
        found[bucket] = Owned(fieldset.union(owned.fields, known.fields), version, owned.time)
        left -= 1
    return found
