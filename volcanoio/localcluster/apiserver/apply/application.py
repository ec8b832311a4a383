"""Computation of one apply: from the live object, its managers and the configuration to the new object.

A configuration can be merged when its fields are declared, its values have the declared types, and its list items are
distinct. Objects that were applied client-side before carry kubectl's last-applied annotation, whose fields are taken
over (API: well-known annotations).
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from volcanoio.localcluster.apiserver.apimachinery.errors import ApiError
from volcanoio.localcluster.apiserver.apimachinery.objects import decode, encode
from volcanoio.localcluster.apiserver.apply import field_sets, managed_fields, ownership
from volcanoio.localcluster.apiserver.apply.configuration import Options
from volcanoio.localcluster.apiserver.apply.field_sets import FieldSet
from volcanoio.localcluster.apiserver.apply.managed_fields import Author, Owners
from volcanoio.localcluster.apiserver.apply.ownership import Conflicts, Terms
from volcanoio.localcluster.apiserver.apply.typed_values import compare, fields_of
from volcanoio.localcluster.apiserver.apply.types import Scalar, Type
from volcanoio.model.base import Manifest

_EXPECTED: Final[dict[Scalar, str]] = {
    "numeric": "expected numeric (int or float), got {}",
    "string": "expected string, got {}",
    "boolean": "expected boolean, got {}",
    "untyped": "expected any scalar, got {}",
}


def type_problems(type_: Type, value: Any, path: str = "") -> list[str]:
    """Return errors of a value that does not match its type, as texts that begin with the path."""
    shape = type_.shape(value)
    if value is None:
        return []
    if shape == "map":
        if not isinstance(value, dict):
            return [_at(path, f"expected map, got {_go(value)}")]
        return _map_problems(type_, value, path)
    if shape == "list":
        if not isinstance(value, list):
            return [_at(path, f"expected list, got {_go(value)}")]
        return _list_problems(type_, value, path)
    if not _is(type_.scalar, value):
        return [_at(path, _EXPECTED[type_.scalar].format(_scalar_text(type_.scalar, value)))]
    return []


def problem_summary(found: list[str]) -> str:
    """Return several problems as one text."""
    return found[0] if len(found) == 1 else "\n".join(["errors:", *(f"  {one}" for one in found)])


def _map_problems(type_: Type, value: dict[str, Any], path: str) -> list[str]:
    found: list[str] = []
    for name, inner in value.items():
        kind = type_.fields.get(name) or type_.others
        if kind is None:
            found.append(_at(f"{path}.{name}", "field not declared in schema"))
        else:
            found += type_problems(kind, inner, f"{path}.{name}")
    return found


def _list_problems(type_: Type, values: list[Any], path: str) -> list[str]:
    items = type_.items
    if items is None:
        return []
    found: list[str] = []
    seen: set[str] = set()
    for at, value in enumerate(values):
        step = f"i:{at}"
        if type_.list_kind != "atomic":
            try:
                step = type_.step(value)
            except ValueError as error:
                return [*found, _at(path, f"element {at}: {error}")]
            if step in seen:
                found.append(_at(path, f"duplicate entries for key {field_sets.shown_step(step)}"))
            seen.add(step)
        found += type_problems(items, value, path + field_sets.shown_step(step))
    return found


def _is(scalar: Scalar, value: Any) -> bool:
    if scalar == "boolean":
        return isinstance(value, bool)
    if scalar == "numeric":
        return isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, str) if scalar == "string" else not isinstance(value, dict | list)


def _at(path: str, text: str) -> str:
    return f"{path}: {text}" if path else text


def _scalar_text(scalar: Scalar, value: Any) -> str:
    """Return the value as the message for its expected type writes it: its Go type or its text."""
    if scalar == "string":
        return f"&value.valueUnstructured{{Value:{_literal(value)}}}"
    if scalar == "boolean":
        return f"&{{{value if isinstance(value, str) else _go(value)}}}"
    if scalar != "numeric":
        return _go(value)
    if isinstance(value, dict | list):
        return "map[string]interface {}" if isinstance(value, dict) else "[]interface {}"
    return {bool: "bool", str: "string"}.get(type(value), "interface {}")


def _literal(value: Any) -> str:
    """Return a value as Go's %#v writes it."""
    if isinstance(value, dict):
        return "map[string]interface {}{" + ", ".join(f"{_go(key)}:{_literal(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list):
        return "[]interface {}{" + ", ".join(map(_literal, value)) + "}"
    return _go(value)


def _go(value: Any) -> str:
    return encode(value).decode()


ANNOTATION: Final = "kubectl.kubernetes.io/last-applied-configuration"
KUBECTL: Final = "kubectl"
"""The only manager for which the last-applied annotation is read and updated."""
_MAX_ANNOTATIONS: Final = 256 * 1024
"""Bytes of all annotations together (apimachinery: TotalAnnotationSizeLimitB)."""


def unchanged_applied_fields(type_: Type, version: str, live: Manifest) -> FieldSet:
    """Return the fields that were applied client-side and have not changed since."""
    text = (live["metadata"].get("annotations") or {}).get(ANNOTATION)
    try:
        applied = decode(text.encode()) if text else None
    except ValueError:
        return {}
    if not isinstance(applied, dict) or applied.get("apiVersion") != version or type_problems(type_, applied):
        return {}
    changes = compare(type_, applied, live)
    fields = fields_of(type_, applied)
    for gone in changes:
        fields = field_sets.difference(fields, gone)
    return fields


def update_last_applied(merged: Manifest, config: Manifest) -> Manifest:
    """Return the merged object with an updated last-applied annotation, if it has one."""
    metadata = merged.get("metadata") or {}
    annotations = metadata.get("annotations") or {}
    if not annotations.get(ANNOTATION):
        return merged
    stated = config.get("metadata") or {}
    if isinstance(stated.get("annotations"), dict):
        others = {key: value for key, value in stated["annotations"].items() if key != ANNOTATION}
        kept = {key: value for key, value in stated.items() if key != "annotations"}
        stated = {**kept, "annotations": others} if others else kept
    text = _sorted({**config, "metadata": stated}) + "\n"
    now = {**annotations, ANNOTATION: text}
    if sum(len(key.encode()) + len(value.encode()) for key, value in now.items()) > _MAX_ANNOTATIONS:
        del now[ANNOTATION]
    return {**merged, "metadata": {**metadata, "annotations": now}}


def _sorted(obj: Manifest) -> str:
    return encode(obj, order="sorted").decode()


BEFORE_FIRST_APPLY: Final = "before-first-apply"
"""Manager of existing fields when an untracked object is first applied to."""


class ApplyRequest(NamedTuple):
    """One request to apply: the configuration, its options, the subresource and the time."""

    config: Manifest
    options: Options
    subresource: str
    now: str


def applied(
    terms: Terms, stored: Terms, live: Manifest, known: Owners, request: ApplyRequest
) -> tuple[Manifest | None, Owners]:
    """Return the object after an apply, None when it does not change, and its owners.

    `live` is without managed fields.

    `terms` are those of objects as clients write them, `stored` those of stored objects. Raises ApiError 409 for
    conflicts, 500 for a configuration that does not fit the schema.
    """
    config, options, subresource, now = request
    check(terms, config)
    if not known:
        first = managed_fields.updater(BEFORE_FIRST_APPLY, terms.version, subresource)
        empty: Manifest = {"apiVersion": live["apiVersion"], "kind": live["kind"]}
        known = ownership.update(stored, empty, live, {}, Author(first, now))
    author = Author(managed_fields.applier(options.manager, subresource), now, options.force)
    try:
        found = ownership.apply(terms, live, config, known, author)
    except Conflicts as conflicts:
        if options.manager == KUBECTL:
            allowed = unchanged_applied_fields(terms.type(), terms.version, live)
            conflicts = conflicts.without(allowed)
        if conflicts.fields:
            raise conflicts.refusal() from None
        found = ownership.apply(terms, live, config, known, author._replace(force=True))
    if options.manager == KUBECTL:
        kept_up = update_last_applied(found.obj or live, config)
        return None if kept_up is live else kept_up, found.owners
    return found.obj, found.owners


def check(terms: Terms, config: Manifest) -> None:
    """Refuse a configuration that does not fit the schema.

    Raises ApiError 500, as Kubernetes does.
    """
    if problems := type_problems(terms.type(), config):
        metadata = config.get("metadata")
        metadata = metadata if isinstance(metadata, dict) else {}
        group, _, version = terms.version.rpartition("/")
        who = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}; {group}/{version}, Kind={config['kind']}"
        text = f"failed to create typed patch object ({who}): {problem_summary(problems)}"
        raise ApiError(500, "", text)
