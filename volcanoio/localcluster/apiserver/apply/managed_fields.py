"""Entries of metadata.managedFields: managers, operations, versions, subresources and fields."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from volcanoio.localcluster.apiserver.apply import field_sets
from volcanoio.localcluster.apiserver.apply.field_sets import FieldSet
from volcanoio.model.base import Manifest

Operation: TypeAlias = Literal["Apply", "Update"]
MAX_UPDATERS: Final = 10
"""Maximal number of update entries; older ones are merged (Kubernetes: DefaultMaxUpdateManagers)."""
OLD_UPDATES: Final = "ancient-changes"


class Owner(NamedTuple):
    """Identity of an entry. Updates of several versions are separate.

    `version` is empty for appliers.
    """

    manager: str
    operation: Operation
    version: str
    subresource: str


class Author(NamedTuple):
    """Owner and time of a write, and whether it may take over fields without a conflict."""

    owner: Owner
    time: str
    force: bool = False


class Owned(NamedTuple):
    """Fields of an entry, their version, and the RFC 3339 time of the last write (may be empty)."""

    fields: FieldSet
    version: str
    time: str = ""


Owners: TypeAlias = dict[Owner, Owned]


def applier(manager: str, subresource: str = "") -> Owner:
    """Return the owner for applies under a manager's name."""
    return Owner(manager, "Apply", "", subresource)


def updater(manager: str, version: str, subresource: str = "") -> Owner:
    """Return the owner for updates under a manager's name."""
    return Owner(manager, "Update", version, subresource)


def decode(entries: Any) -> Owners:
    """Decode stored metadata.managedFields."""
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
    """Encode metadata.managedFields: appliers first, then by time and name."""
    return encode_pairs(owners.items())


def encode_pairs(pairs: Iterable[tuple[Owner, Owned]]) -> list[Manifest]:
    """Encode pairs, of which several may have the same owner."""
    return [_entry(owner, owned) for owner, owned in sorted(pairs, key=_order)]


def _order(item: tuple[Owner, Owned]) -> tuple[str, float, str, str, str]:
    owner, owned = item
    return owner.operation, seconds(owned.time), owner.manager, owned.version, owner.subresource


def seconds(time: str) -> float:
    """Return a time as seconds since 1970; 0 for none."""
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
    """Decode metadata.managedFields from a client; None for an invalid list."""
    if not isinstance(entries, list):
        return None
    found: list[Manifest] = []
    for entry in entries:
        if not isinstance(entry, dict) or entry.get("operation") not in ("Apply", "Update"):
            return None
        if not entry.get("apiVersion") or entry.get("fieldsType") != "FieldsV1":
            return None
        try:
            fields = field_sets.parse(entry.get("fieldsV1") or {})
            seconds(entry.get("time") or "")
        except (ValueError, TypeError):
            return None
        found.append({**entry, "fieldsV1": fields})
    return decode(found)


def is_reset(entries: Any) -> bool:
    """Return whether a client resets managed fields.

    It does so by an empty list, or a list of one empty entry.
    """
    return entries == [] or (isinstance(entries, list) and len(entries) == 1 and not any((entries[0] or {}).values()))


def same_but_times(one: Any, other: Any) -> bool:
    """Return whether two lists of entries are equal except for their times."""
    if len(one) != len(other):
        return False
    return all({**ours, "time": None} == {**theirs, "time": None} for ours, theirs in zip(one, other, strict=True))


def cap_updaters(owners: Owners) -> Owners:
    """Merge the oldest updaters of each version until there are at most MAX_UPDATERS."""
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
        found[bucket] = Owned(field_sets.union(owned.fields, known.fields), version, owned.time)
        left -= 1
    return found
