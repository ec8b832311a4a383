"""Our CustomResourceDefinitions, and what changes where a cluster has other ones of the same names, such as Volcano's.

A definition is replaced only if ours keeps every field and version that the present one has. Rules for values may
become stricter: an API server does not apply them to fields that an update leaves as they are (validation ratcheting,
in Kubernetes 1.30 and newer), so stored objects stay valid.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum, auto
from typing import Any, NamedTuple

from volcanoio.model.base import Manifest
from volcanoio.model.manifests import read_manifests
from volcanoio.model.packaged import config_path

Schema = dict[str, Any]
_BOUNDS = {
    **dict.fromkeys(("minimum", "minLength", "minItems", "minProperties"), 1),
    **dict.fromkeys(("maximum", "maxLength", "maxItems", "maxProperties"), -1),
}
"""Keywords of bounds: 1 where a greater one is stricter, -1 where a smaller one is."""
_UNKNOWN = "x-kubernetes-preserve-unknown-fields"
_RULES = ("pattern", "format", "multipleOf")
"""Keywords whose values cannot be compared for strictness: any change of one counts as stricter."""
_UNRATCHETED = ("not", "oneOf", "x-kubernetes-list-type")
"""Keywords that hold for unchanged fields, too."""


class Change(Enum):
    """What a change means for clients and stored objects."""

    ADDS = auto()
    RESTRICTS = auto()
    LOSES = auto()


class Difference(NamedTuple):
    """Changes that our definition makes to another one, each as `version.path: what`."""

    added: tuple[str, ...]
    stricter: tuple[str, ...]
    lost: tuple[str, ...]


def crd_manifests() -> list[Manifest]:
    """Return our CustomResourceDefinitions, by name."""
    return [manifest for file in sorted(config_path("crds").glob("*.yaml")) for manifest in read_manifests(file)]


def compare(present: Manifest, ours: Manifest) -> Difference:
    """Return what replacing a definition by ours adds, forbids for new values, and takes away."""
    found = list(_differences(present, ours))
    return Difference(*(tuple(sorted(text for kind, text in found if kind is change)) for change in Change))


def _differences(present: Manifest, ours: Manifest) -> Iterator[tuple[Change, str]]:
    old, new = present["spec"], ours["spec"]
    before, after = ((one["group"], one["scope"], one["names"]["kind"], one["names"]["plural"]) for one in (old, new))
    if before != after:
        yield Change.LOSES, f"group, scope or names: {before} becomes {after}"
    if old.get("conversion", {}).get("strategy", "None") != "None":
        yield Change.LOSES, "conversion: objects would no longer be converted by the webhook"
    versions = {version["name"]: version for version in new["versions"]}
    for version in old["versions"]:
        name, same = version["name"], versions.pop(version["name"], None)
        if same is None:
            if version["served"] or name in present.get("status", {}).get("storedVersions", ()):
                yield Change.LOSES, f"{name}: objects of this version would no longer be served"
            continue
        if version["storage"] and not same["storage"]:
            yield Change.LOSES, f"{name}: objects would no longer be stored in this version"
        has, will_have = ("status" in (one.get("subresources") or {}) for one in (version, same))
        if has != will_have:
            where = "to its subresource" if will_have else "with the object"
            yield Change.LOSES, f"{name}: the status would be written {where}"
        schemas = (one.get("schema", {}).get("openAPIV3Schema", {}) for one in (version, same))
        yield from _changes(name, *schemas)
    for name in versions:
        yield Change.ADDS, f"{name}: this version"


def _changes(path: str, old: Schema, new: Schema) -> Iterator[tuple[Change, str]]:
    if new.get(_UNKNOWN):
        return
    if old.get(_UNKNOWN):
        yield Change.LOSES, f"{path}: unknown fields would be removed"
        return
    if old.get("type") != new.get("type") and not new.get("x-kubernetes-int-or-string"):
        yield Change.LOSES, f"{path}: its type would change from {old.get('type')} to {new.get('type')}"
        return
    yield from ((Change.RESTRICTS, f"{path}: {text}") for text in _stricter(old, new))
    if missing := set(new.get("required", ())) - set(old.get("required", ())):
        yield Change.LOSES, f"{path}: {', '.join(sorted(missing))} would be required"
    for keyword in _UNRATCHETED:
        if keyword in new and new[keyword] != old.get(keyword):
            yield Change.LOSES, f"{path}: {keyword} {new[keyword]} would hold"
    yield from _changed_properties(path, old, new)
    for keyword, suffix in (("items", "[]"), ("additionalProperties", ".*")):
        before, after = old.get(keyword), new.get(keyword)
        if isinstance(before, dict) and isinstance(after, dict):
            yield from _changes(path + suffix, before, after)
        elif isinstance(before, dict) and keyword == "additionalProperties":
            yield Change.LOSES, f"{path}: names that the schema does not contain would be removed"


def _changed_properties(path: str, old: Schema, new: Schema) -> Iterator[tuple[Change, str]]:
    before, after = old.get("properties", {}), new.get("properties", {})
    if "additionalProperties" not in new:
        for name in before.keys() - after.keys():
            yield Change.LOSES, f"{path}.{name}: the field would be removed"
    for name in after.keys() - before.keys():
        yield Change.ADDS, f"{path}.{name}"
    for name in before.keys() & after.keys():
        yield from _changes(f"{path}.{name}", before[name], after[name])


def _stricter(old: Schema, new: Schema) -> Iterator[str]:
    """Yield why the new schema refuses values that the old one accepts."""
    if "enum" in new and not ("enum" in old and set(map(str, old["enum"])) <= set(map(str, new["enum"]))):
        yield f"only {', '.join(map(str, new['enum']))} would be valid"
    for keyword, sign in _BOUNDS.items():
        if keyword in new and (keyword not in old or sign * new[keyword] > sign * old[keyword]):
            yield f"{keyword} {new[keyword]} would hold"
    for keyword in _RULES:
        if keyword in new and new[keyword] != old.get(keyword):
            yield f"{keyword} {new[keyword]} would hold"
    known = [rule["rule"] for rule in old.get("x-kubernetes-validations", ())]
    for rule in new.get("x-kubernetes-validations", ()):
        if rule["rule"] not in known:
            yield f"the rule {rule['rule']} would hold"
