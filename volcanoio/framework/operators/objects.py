"""What a plan says of objects, each as an effect, or None where nothing is to be done."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from volcanoio.framework.effects import Create, Delete, Patch, Record
from volcanoio.model.base import ApiObject, Manifest
from volcanoio.model.kinds import Kind
from volcanoio.model.references import object_reference
from volcanoio.model.times import rfc3339

_NAMES = ("apiVersion", "kind", "metadata", "status")


def applied(kind: Kind, manifest: Manifest, there: ApiObject | None) -> Create | Patch | None:
    """Create the object if it is not there; patch what differs of labels, annotations and content; None when it is so.

    What the manifest does not say stays as it is, and so does what the kind's Struct does not read (of a Pod, most).
    """
    if there is None:
        return Create(resource=kind.resource, manifest=manifest)
    wanted = msgspec.to_builtins(msgspec.convert(manifest, kind.type, strict=False))
    have = msgspec.to_builtins(there)
    content = {key: value for key, value in manifest.items() if key not in _NAMES}
    patch = differences(content, wanted, have)
    marks = {key: manifest.get("metadata", {}).get(key, {}) for key in ("labels", "annotations")}
    meta = differences(marks, wanted.get("metadata", {}), have.get("metadata", {}))
    if meta:
        patch["metadata"] = meta
    return _patch(kind, there, patch) if patch else None


def status(kind: Kind, obj: ApiObject, wanted: Manifest) -> Patch | None:
    """Write these fields of the status if they differ, computed from the version that we know; None when they are so.

    A field that is None is removed.
    """
    have = msgspec.to_builtins(obj).get("status", {})
    said = {key: value for key, value in wanted.items() if value is not None}
    read = msgspec.to_builtins(msgspec.convert({"status": said}, kind.type, strict=False)).get("status", {})
    patch = differences(said, read, have) | {key: None for key in wanted if key not in said and key in have}
    if not patch:
        return None
    return msgspec.structs.replace(
        _patch(kind, obj, {"status": patch}),
        subresource="status" if kind.status_subresource else "",
        resource_version=obj.metadata.resource_version,
    )


def deleted(kind: Kind, obj: ApiObject) -> Delete | None:
    """Delete this very object; None while it is being deleted."""
    meta = obj.metadata
    if meta.deletion_timestamp is not None:
        return None
    return Delete(resource=kind.resource, namespace=meta.namespace, name=meta.name, uid=meta.uid)


def event(kind: Kind, obj: ApiObject, reason: str, message: str, *, type_: str = "Normal") -> Record:
    """An Event on the object; `type_` is Normal or Warning."""
    return Record(regarding=object_reference(kind, obj), type=type_, reason=reason, message=message)


def condition(
    conditions: Iterable[Mapping[str, Any]], type_: str, holds: bool, reason: str, message: str = "", *, now: float
) -> list[Manifest]:
    """The conditions, by type, with this one set: its `lastTransitionTime` moves with its status only.

    `now` is the view's.
    """
    known = {str(each.get("type")): dict(each) for each in conditions}
    before = known.get(type_, {})
    verdict = "True" if holds else "False"
    since = before.get("lastTransitionTime") if before.get("status") == verdict else None
    known[type_] = {
        "type": type_, "status": verdict, "reason": reason, "message": message,
        "lastTransitionTime": since or rfc3339(now),
    }  # fmt: skip
    return [known[name] for name in sorted(known)]


def differences(said: Manifest, wanted: Manifest, have: Manifest) -> Manifest:
    """The merge patch for what is said and not so. `wanted` and `have` are as the Struct reads them, defaults left out:
    a field in neither is at its default, or none that the Struct reads.
    """
    patch: Manifest = {}
    for key, value in said.items():
        if key not in wanted and key not in have:
            continue
        want, has = wanted.get(key, value), have.get(key)
        if isinstance(value, dict) and isinstance(want, dict) and isinstance(has, dict):
            if nested := differences(value, want, has):
                patch[key] = nested
        elif want != has:
            patch[key] = value
    return patch


def _patch(kind: Kind, obj: ApiObject, content: Manifest) -> Patch:
    meta = obj.metadata
    return Patch(resource=kind.resource, namespace=meta.namespace, name=meta.name, patch=content, uid=meta.uid)
