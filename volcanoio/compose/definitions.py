"""Our CustomResourceDefinitions, and what changes where a cluster has other ones of the same names, such as Volcano's.

A definition is replaced only if ours accepts and keeps every object that the present one does: `compare` lists what it
adds and what it would break.
"""

from __future__ import annotations

from collections.abc import Iterator
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
_RULES = ("pattern", "format", "multipleOf", "not", "oneOf", "x-kubernetes-list-type")
"""Keywords whose values cannot be compared for strictness: any change of one counts as stricter."""


class Difference(NamedTuple):
    """Changes that our definition makes to another one, each as `version.path: what`."""

    added: tuple[str, ...]
    broken: tuple[str, ...]


def crd_manifests() -> list[Manifest]:
    """Return our CustomResourceDefinitions, by name."""
    return [manifest for file in sorted(config_path("crds").glob("*.yaml")) for manifest in read_manifests(file)]


def compare(present: Manifest, ours: Manifest) -> Difference:
    """Return what replacing a definition by ours adds, and what it breaks for clients and stored objects."""
    old, new = present["spec"], ours["spec"]
    added: list[str] = []
    identity = [(one["group"], one["scope"], one["names"]["kind"], one["names"]["plural"]) for one in (old, new)]
    broken = [] if identity[0] == identity[1] else [f"group, scope or names: {identity[0]} becomes {identity[1]}"]
    if old.get("conversion", {}).get("strategy", "None") != "None":
        broken.append("conversion: objects would no longer be converted by the webhook")
    versions = {version["name"]: version for version in new["versions"]}
    for version in old["versions"]:
        name, same = version["name"], versions.get(version["name"])
        if same is None:
            if version["served"] or name in present.get("status", {}).get("storedVersions", ()):
                broken.append(f"{name}: objects of this version would no longer be served")
            continue
        broken += _lost_subresources(name, version, same)
        schemas = (one.get("schema", {}).get("openAPIV3Schema", {}) for one in (version, same))
        for is_broken, text in _changes(name, *schemas):
            (broken if is_broken else added).append(text)
    added += [f"{name}: this version" for name in versions.keys() - {one["name"] for one in old["versions"]}]
    return Difference(tuple(sorted(added)), tuple(sorted(broken)))


def _lost_subresources(name: str, version: Manifest, same: Manifest) -> Iterator[str]:
    if version["storage"] and not same["storage"]:
        yield f"{name}: objects would no longer be stored in this version"
    old, new = ("status" in (one.get("subresources") or {}) for one in (version, same))
    if old != new:
        yield f"{name}: the status would be written {'to its subresource' if new else 'with the object'}"


def _changes(path: str, old: Schema, new: Schema) -> Iterator[tuple[bool, str]]:
    """Yield the changes below a path, each with whether it breaks something."""
    if new.get(_UNKNOWN):
        return
    if old.get(_UNKNOWN):
        yield True, f"{path}: unknown fields would be removed"
        return
    if old.get("type") != new.get("type") and not new.get("x-kubernetes-int-or-string"):
        yield True, f"{path}: its type would change from {old.get('type')} to {new.get('type')}"
        return
    for text in _stricter(old, new):
        yield True, f"{path}: {text}"
    yield from _changed_properties(path, old, new)
    for keyword, suffix in (("items", "[]"), ("additionalProperties", ".*")):
        before, after = old.get(keyword), new.get(keyword)
        if isinstance(before, dict) and isinstance(after, dict):
            yield from _changes(path + suffix, before, after)
        elif isinstance(before, dict) and keyword == "additionalProperties":
            yield True, f"{path}: names that the schema does not contain would be removed"


def _changed_properties(path: str, old: Schema, new: Schema) -> Iterator[tuple[bool, str]]:
    before, after = old.get("properties", {}), new.get("properties", {})
    if "additionalProperties" not in new:
        for name in before.keys() - after.keys():
            yield True, f"{path}.{name}: the field would be removed"
    for name in after.keys() - before.keys():
        yield False, f"{path}.{name}"
    for name in before.keys() & after.keys():
        yield from _changes(f"{path}.{name}", before[name], after[name])


def _stricter(old: Schema, new: Schema) -> Iterator[str]:
    """Yield why the new schema refuses values that the old one accepts."""
    if missing := set(new.get("required", ())) - set(old.get("required", ())):
        yield f"{', '.join(sorted(missing))} would be required"
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
