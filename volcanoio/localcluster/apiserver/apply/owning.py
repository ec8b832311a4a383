"""How ownership moves, with an update and with an applied configuration (structured-merge-diff: `merge`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeAlias

from volcanoio.localcluster.apiserver.apply import fieldset
from volcanoio.localcluster.apiserver.apply.compare import Comparison, compare
from volcanoio.localcluster.apiserver.apply.conflicts import Conflicts
from volcanoio.localcluster.apiserver.apply.fieldset import FieldSet
from volcanoio.localcluster.apiserver.apply.merge import merge
from volcanoio.localcluster.apiserver.apply.owned import claimed
from volcanoio.localcluster.apiserver.apply.owners import Owned, Owner, Owners
from volcanoio.localcluster.apiserver.apply.reconcile import reconcile
from volcanoio.localcluster.apiserver.apply.removal import remove, with_holders
from volcanoio.localcluster.apiserver.apply.types import Type
from volcanoio.model.base import Manifest

TypeOf: TypeAlias = Callable[[str], Type | None]
"""The type of the object in an apiVersion; None when that is not served any more."""

_SERVERS: Final = fieldset.of(
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
"""Fields nobody manages."""


class Terms(NamedTuple):
    """What a write is measured by: the version it is in, types by version, and fields it cannot write anyhow."""

    version: str
    type_of: TypeOf
    reset: FieldSet
    reset_elsewhere: FieldSet = {}
    """The same as seen in other versions."""
    changing: bool = True
    """Whether the types may have changed since fields were recorded, as those of custom resources may."""

    def type(self) -> Type:
        """The type in the write's own version."""
        found = self.type_of(self.version)
        assert found is not None
        return found


class Applied(NamedTuple):
    """The merged object, or None when nothing changes, and who owns what now."""

    obj: Manifest | None
    owners: Owners


def update(terms: Terms, live: Manifest, new: Manifest, owners: Owners, writer: Owner, now: str) -> Owners:
    """Who owns what after a client replaced `live` by `new`: the writer takes over what it changed."""
    changes, kept = _pass_on(terms, live, new, _reconciled(terms, owners), None)
    taken = fieldset.union(changes.modified, changes.added)
    taken = fieldset.difference(fieldset.without_below(taken, terms.reset), _SERVERS)
    if taken:
        known = kept.get(writer)
        kept[writer] = Owned(fieldset.union(taken, known.fields) if known else taken, terms.version, now)
    return kept


def apply(
    terms: Terms, live: Manifest, config: Manifest, owners: Owners, applier: Owner, now: str, *, force: bool
) -> Applied:
    """Merge a configuration into the live object. Raises Conflicts, unless forced."""
    type_ = terms.type()
    known = _reconciled(terms, owners)
    merged: Manifest = merge(type_, live, config)
    last = known.get(applier)
    fields = fieldset.without_below(claimed(type_, config), terms.reset)
    time = last.time if last else ""
    known[applier] = Owned(fields, terms.version, time)
    merged = _prune(terms, merged, known, last)
    _, kept = _pass_on(terms, live, merged, known, applier, force=force)
    fields = fieldset.difference(fields, _SERVERS)
    changed = merged != live
    if fields:
        kept[applier] = Owned(fields, terms.version, now if changed else time)
    else:
        kept.pop(applier, None)
    return Applied(merged if changed else None, kept)


def _reconciled(terms: Terms, owners: Owners) -> Owners:
    """The owners as today's schemas allow; those of versions that are gone are dropped."""
    found: Owners = {}
    for owner, owned in owners.items():
        type_ = terms.type_of(owned.version)
        if type_ is not None:
            fields = reconcile(type_, owned.fields) if terms.changing else owned.fields
            found[owner] = owned if fields is owned.fields else owned._replace(fields=fields)
    return found


def _pass_on(
    terms: Terms, live: Manifest, new: Manifest, owners: Owners, writer: Owner | None, *, force: bool = True
) -> tuple[Comparison, Owners]:
    """Take what changed from everybody but the writer; raises Conflicts when that is not to be forced."""
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
        if owner == writer:
            kept[owner] = owned
            continue
        theirs = comparison(owned.version)
        disputed = fieldset.intersection(owned.fields, fieldset.union(theirs.modified, theirs.added))
        if disputed:
            conflicts[owner] = disputed
        left = fieldset.difference(fieldset.difference(owned.fields, disputed), theirs.removed)
        if left:
            kept[owner] = owned if left == owned.fields else owned._replace(fields=left)
    if conflicts and not force:
        raise Conflicts(conflicts)
    return changes, kept


def _prune(terms: Terms, merged: Manifest, owners: Owners, last: Owned | None) -> Manifest:
    """Remove what the applier applied last time, does not apply now, and nobody else owns."""
    if last is None or not last.fields:
        return merged
    type_ = terms.type_of(last.version)
    if type_ is None:
        return merged
    mine = with_holders(type_, last.fields)
    pruned: Any = remove(type_, merged, mine) or {}
    by_version: dict[str, FieldSet] = {}
    for owned in owners.values():
        by_version[owned.version] = fieldset.union(by_version.get(owned.version, {}), owned.fields)
    for version in sorted(by_version, key=lambda one: one != last.version):
        theirs = terms.type_of(version)
        if theirs is not None:
            everything = with_holders(theirs, claimed(theirs, merged))
            kept = with_holders(theirs, claimed(theirs, pruned))
            kept = fieldset.union(kept, with_holders(theirs, by_version[version]))
            pruned = remove(theirs, merged, fieldset.difference(everything, kept)) or {}
    everything = with_holders(type_, claimed(type_, merged))
    left = with_holders(type_, claimed(type_, pruned))
    gone = fieldset.intersection(fieldset.difference(everything, left), mine)
    result: Manifest = remove(type_, merged, gone) or {}
    return result
