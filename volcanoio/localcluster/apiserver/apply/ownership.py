"""How ownership of fields moves with an update and with an applied configuration.

Kubernetes: structured-merge-diff, `merge`. A conflict is a field that an applied configuration would change although
another manager owns it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from volcanoio.localcluster.apiserver.apimachinery.errors import ApiError
from volcanoio.localcluster.apiserver.apimachinery.objects import encode
from volcanoio.localcluster.apiserver.apply import field_sets
from volcanoio.localcluster.apiserver.apply.field_sets import FieldSet
from volcanoio.localcluster.apiserver.apply.managed_fields import Author, Owned, Owner, Owners
from volcanoio.localcluster.apiserver.apply.typed_values import (
    Comparison,
    compare,
    fields_of,
    merge,
    reconcile,
    remove,
    with_parents,
)
from volcanoio.localcluster.apiserver.apply.types import Type
from volcanoio.model.base import Manifest


class Conflicts(Exception):  # noqa: N818 - named for what they are
    """Fields in conflict, by their owners."""

    def __init__(self, fields: Mapping[Owner, FieldSet]) -> None:
        super().__init__("conflicts")
        self.fields = dict(fields)

    def without(self, allowed: FieldSet) -> Conflicts:
        """Return the conflicts without the allowed fields."""
        left = {owner: field_sets.difference(fields, allowed) for owner, fields in self.fields.items()}
        return Conflicts({owner: fields for owner, fields in left.items() if fields})

    def refusal(self) -> ApiError:
        """Return a 409 that lists every field and its manager (texts: apimachinery `managedfields`)."""
        named = [(described(owner), owner) for owner in sorted(self.fields, key=_identity)]
        found = [
            (name, field_sets.shown_path(path))
            for name, owner in named
            for path in field_sets.paths(self.fields[owner])
        ]
        causes = [
            {"reason": "FieldManagerConflict", "message": f"conflict with {name}", "field": path}
            for name, path in found
        ]
        if len(found) == 1:
            message = f"Apply failed with 1 conflict: conflict with {found[0][0]}: {found[0][1]}"
        else:
            lines = []
            for name, _ in named:
                lines += [f"conflicts with {name}:", *(f"- {path}" for other, path in found if other == name)]
            message = f"Apply failed with {len(found)} conflicts: " + "\n".join(lines)
        return ApiError(409, "Conflict", message, {"causes": causes})


def _identity(owner: Owner) -> str:
    """Return the sort key of a manager, as in Kubernetes: its entry as JSON."""
    fields = {"manager": owner.manager, "operation": owner.operation, "apiVersion": owner.version}
    fields["subresource"] = owner.subresource
    return encode({key: value for key, value in fields.items() if value}).decode()


def described(owner: Owner) -> str:
    """Return a manager as conflicts name it; updates with their version."""
    text = f'"{owner.manager}"'
    if owner.subresource:
        text += f' with subresource "{owner.subresource}"'
    return f"{text} using {owner.version}" if owner.operation == "Update" else text


TypeOf: TypeAlias = Callable[[str], Type | None]
"""The type of the object in an apiVersion; None for an unserved one."""

_SERVERS: Final = field_sets.of(
    ("f:apiVersion",),
    ("f:kind",),
    ("f:metadata",),
    *(
        ("f:metadata", f"f:{name}")
        for name in (
            *("name", "namespace", "creationTimestamp", "selfLink", "uid"),
            *("clusterName", "generation", "managedFields", "resourceVersion"),
        )
    ),
)
"""Fields without a manager."""


class Terms(NamedTuple):
    """The version of a write, the types by version, and the fields that it cannot write."""

    version: str
    type_of: TypeOf
    reset: FieldSet
    reset_elsewhere: FieldSet = {}
    """The reset fields as seen in other versions."""
    changing: bool = True
    """Whether the types may have changed since fields were recorded, as for custom resources."""

    def type(self) -> Type:
        """Return the type in the write's own version."""
        found = self.type_of(self.version)
        assert found is not None
        return found


class Applied(NamedTuple):
    """The merged object, or None when nothing changes, and the new owners."""

    obj: Manifest | None
    owners: Owners


def update(terms: Terms, live: Manifest, new: Manifest, owners: Owners, author: Author) -> Owners:
    """Return the owners after a client replaced `live` by `new`.

    The author owns what it changed.
    """
    changes, kept = _pass_on(terms, live, new, _reconciled(terms, owners), None)
    taken = field_sets.union(changes.modified, changes.added)
    taken = field_sets.difference(field_sets.without_below(taken, terms.reset), _SERVERS)
    if taken:
        known = kept.get(author.owner)
        fields = field_sets.union(taken, known.fields) if known else taken
        kept[author.owner] = Owned(fields, terms.version, author.time)
    return kept


def apply(terms: Terms, live: Manifest, config: Manifest, owners: Owners, author: Author) -> Applied:
    """Merge a configuration into the live object.

    Raises Conflicts, unless the author may force it.
    """
    type_, applier = terms.type(), author.owner
    known = _reconciled(terms, owners)
    merged: Manifest = merge(type_, live, config)
    last = known.get(applier)
    fields = field_sets.without_below(fields_of(type_, config), terms.reset)
    time = last.time if last else ""
    known[applier] = Owned(fields, terms.version, time)
    merged = _prune(terms, merged, known, last)
    _, kept = _pass_on(terms, live, merged, known, author)
    fields = field_sets.difference(fields, _SERVERS)
    changed = merged != live
    if fields:
        kept[applier] = Owned(fields, terms.version, author.time if changed else time)
    else:
        kept.pop(applier, None)
    return Applied(merged if changed else None, kept)


def _reconciled(terms: Terms, owners: Owners) -> Owners:
    """Return the owners, adapted to the current schemas; those of unserved versions are dropped."""
    found: Owners = {}
    for owner, owned in owners.items():
        type_ = terms.type_of(owned.version)
        if type_ is not None:
            fields = reconcile(type_, owned.fields) if terms.changing else owned.fields
            found[owner] = owned if fields is owned.fields else owned._replace(fields=fields)
    return found


def _pass_on(
    terms: Terms, live: Manifest, new: Manifest, owners: Owners, applier: Author | None
) -> tuple[Comparison, Owners]:
    """Remove changed fields from all owners but the applier.

    Raises Conflicts when the applier may not force it.
    """
    compared: dict[str, Comparison] = {}

    def comparison(version: str) -> Comparison:
        found = compared.get(version)
        if found is None:
            type_ = terms.type_of(version)
            assert type_ is not None
            reset = terms.reset if version == terms.version else terms.reset_elsewhere
            found = compared[version] = compare(type_, live, new).without(reset)
        return found

    changes = comparison(terms.version)
    kept, conflicts = {}, {}
    for owner, owned in owners.items():
        if applier is not None and owner == applier.owner:
            kept[owner] = owned
            continue
        theirs = comparison(owned.version)
        disputed = field_sets.intersection(owned.fields, field_sets.union(theirs.modified, theirs.added))
        if disputed:
            conflicts[owner] = disputed
        left = field_sets.difference(field_sets.difference(owned.fields, disputed), theirs.removed)
        if left:
            kept[owner] = owned if left == owned.fields else owned._replace(fields=left)
    if conflicts and applier is not None and not applier.force:
        raise Conflicts(conflicts)
    return changes, kept


def _prune(terms: Terms, merged: Manifest, owners: Owners, last: Owned | None) -> Manifest:
    """Remove fields that the applier applied before, does not apply now, and no other manager owns."""
    if last is None or not last.fields:
        return merged
    type_ = terms.type_of(last.version)
    if type_ is None:
        return merged
    mine = with_parents(type_, last.fields)
    pruned: Any = remove(type_, merged, mine) or {}
    by_version: dict[str, FieldSet] = {}
    for owned in owners.values():
        by_version[owned.version] = field_sets.union(by_version.get(owned.version, {}), owned.fields)
    for version in sorted(by_version, key=lambda one: one != last.version):
        theirs = terms.type_of(version)
        if theirs is not None:
            everything = with_parents(theirs, fields_of(theirs, merged))
            kept = with_parents(theirs, fields_of(theirs, pruned))
            kept = field_sets.union(kept, with_parents(theirs, by_version[version]))
            pruned = remove(theirs, merged, field_sets.difference(everything, kept)) or {}
    everything = with_parents(type_, fields_of(type_, merged))
    left = with_parents(type_, fields_of(type_, pruned))
    gone = field_sets.intersection(field_sets.difference(everything, left), mine)
    result: Manifest = remove(type_, merged, gone) or {}
    return result
