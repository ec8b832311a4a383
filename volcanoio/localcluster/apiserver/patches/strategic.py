"""Strategic merge patch: a merge patch in which lists of objects are merged by a key.

Directives: Kubernetes' `strategic-merge-patch` (api-conventions). Lists without a merge key are replaced as a whole. A
plain patch of a status, without nulls and directives as a node's patches are, is merged without looking for them.
"""

from __future__ import annotations

from typing import Any, Final

from volcanoio.localcluster.apiserver.patches import MalformedPatchError, PatchError

_CONTAINER = {"env": "name", "ports": "containerPort", "volumeMounts": "mountPath", "volumeDevices": "devicePath"}

MERGE_KEYS: Final[dict[str, dict[str, str]]] = {
    "": {"secrets": "name", "webhooks": "name"},
    "metadata": {"ownerReferences": "uid"},
    "containers": _CONTAINER,
    "initContainers": _CONTAINER,
    "ephemeralContainers": _CONTAINER,
    "spec": {
        "containers": "name",
        "initContainers": "name",
        "ephemeralContainers": "name",
        "imagePullSecrets": "name",
        "schedulingGates": "name",
        "volumes": "name",
        "resourceClaims": "name",
        "hostAliases": "ip",
        "topologySpreadConstraints": "topologyKey",
        "ports": "port",
    },
    "status": {
        "conditions": "type",
        "addresses": "type",
        "podIPs": "ip",
        "hostIPs": "ip",
        "resourceClaimStatuses": "name",
        "reservedFor": "uid",
    },
}
"""Merge key of a list, by the field that encloses it and its own name."""

MERGED_SETS: Final = {("metadata", "finalizers"), ("spec", "podCIDRs")}
"""Lists of scalars that are merged as sets."""

_NESTED: Final = (dict, list)
_ORDER = "$setElementOrder/"
_DELETE = "$deleteFromPrimitiveList/"


def apply(target: dict[str, Any], patch: Any) -> dict[str, Any]:
    """Merge a patch; `target` is changed in place. Raises PatchError."""
    if not isinstance(patch, dict):
        msg = "a strategic merge patch is an object"
        raise MalformedPatchError(msg)
    return _merge(target, patch, "")


def apply_status(status: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    """Merge a patch of the status alone; `status` is changed in place. Raises PatchError."""
    return _merge(status, patch, "status")


def _merge(target: dict[str, Any], patch: dict[str, Any], parent: str) -> dict[str, Any]:
    if "$patch" in patch and (replaced := _replacement(patch)) is not None:
        return replaced
    if "$retainKeys" in patch:
        retained = set(_list(patch["$retainKeys"], "$retainKeys"))
        target = {key: value for key, value in target.items() if key in retained}
    orders: dict[str, list[Any]] = {}
    before: dict[str, list[Any]] = {}
    for key, value in patch.items():
        if isinstance(value, str) and key[:1] != "$":  # most fields
            target[key] = value
        elif key[:1] != "$":
            if isinstance(value, list) and isinstance(target.get(key), list):
                before[key] = target[key]
            _merge_field(target, key, value, parent)
        elif key.startswith(_ORDER):
            orders[key.removeprefix(_ORDER)] = _list(value, key)
        elif key.startswith(_DELETE):
            _delete_values(target, before, key, value)
    for field, order in orders.items():
        _apply_order(target, field, order, before, parent)
    return target


def _apply_order(
    target: dict[str, Any], field: str, order: list[Any], before: dict[str, list[Any]], parent: str
) -> None:
    """Apply `$setElementOrder`; `before` has the lists that the patch changed."""
    items = target.get(field)
    if isinstance(items, list):
        target[field] = _ordered(items, order, before.get(field, items), MERGE_KEYS.get(parent, {}).get(field))


def _replacement(patch: dict[str, Any]) -> dict[str, Any] | None:
    """Return the object that the directive `$patch` requires.

    The result is None when the patch is to be merged.
    """
    match patch["$patch"]:
        case "replace":
            return {key: _plain(value) for key, value in patch.items() if key != "$patch"}
        case "delete":
            return {}
        case None | "merge":
            return None
        case other:
            msg = f"unknown $patch directive {other!r}; use replace, delete or merge"
            raise PatchError(msg)


def _delete_values(target: dict[str, Any], before: dict[str, list[Any]], key: str, value: Any) -> None:
    """Apply `$deleteFromPrimitiveList`; `before` keeps the list as it was."""
    field, gone = key.removeprefix(_DELETE), _list(value, key)
    if isinstance(target.get(field), list):
        before.setdefault(field, target[field])
        target[field] = [one for one in target[field] if one not in gone]


def _merge_field(target: dict[str, Any], key: str, value: Any, parent: str) -> None:
    known = target.get(key)
    if value is None:
        target.pop(key, None)
    elif isinstance(value, dict):
        target[key] = _merge(known if isinstance(known, dict) else {}, value, key)
    elif isinstance(value, list):
        merge_key = MERGE_KEYS.get(parent, {}).get(key)
        before = known if isinstance(known, list) else []
        if known is None and not any(isinstance(one, dict) and "$patch" in one for one in value):
            target[key] = _plain(value)
        elif merge_key is not None:
            target[key] = merge_list(before, value, key, merge_key)
        elif (parent, key) in MERGED_SETS:
            merged = before + [one for one in value if one not in before]
            target[key] = _ordered(merged, value, before, None)
        else:
            target[key] = _plain(value)
    else:
        target[key] = value


def merge_list(before: list[Any], patch: list[Any], field: str, merge_key: str) -> list[Any]:
    """Merge by key, in the patch's order; items are removed with `$patch: delete`."""
    merged = list(before)
    latest, in_order, all_new = -1, True, True
    for one in patch:
        if not isinstance(one, dict) or merge_key not in one:
            if any(isinstance(one, dict) and one.get("$patch") == "replace" and merge_key not in one for one in patch):
                return [_plain(one) for one in patch if one.get("$patch") != "replace"]
            msg = f"an item of {field} does not contain the merge key {merge_key}"
            raise PatchError(msg)
        position = _position(merged, merge_key, one[merge_key])
        all_new = all_new and position is None
        if one.get("$patch") == "delete":
            if position is not None:
                del merged[position]
        elif position is None:
            merged.append(_merge({}, one, field))
            in_order = not before and in_order
        else:
            merged[position] = _merge(merged[position], one, field)
            in_order, latest = in_order and position > latest, position
    if in_order:
        return merged
    if all_new and len(merged) == len(before) + len(patch):  # such as the first conditions of a node
        return merged[len(before) :] + before
    return _ordered(merged, patch, before, merge_key)


def _position(items: list[Any], merge_key: str, value: Any) -> int | None:
    for at, one in enumerate(items):
        if one.get(merge_key) == value:
            return at
    return None


def _ordered(items: list[Any], order: list[Any], before: list[Any], merge_key: str | None) -> list[Any]:
    """Sort items named in `order`.

    Each other item stays before the first one it preceded in the list before.
    """

    def identity(item: Any) -> Any:
        return item.get(merge_key) if merge_key is not None and isinstance(item, dict) else item

    wanted, known = [identity(one) for one in order], [identity(one) for one in before]
    named = sorted((item for item in items if identity(item) in wanted), key=lambda item: wanted.index(identity(item)))
    others = [item for item in items if identity(item) not in wanted]
    result: list[Any] = []
    for item in named:
        own = identity(item)
        while own in known and others and (other := identity(others[0])) in known:
            if known.index(other) > known.index(own):
                break
            result.append(others.pop(0))
        result.append(item)
    return result + others


def _plain(value: Any) -> Any:
    """Return a value without directives and nulls."""
    if isinstance(value, dict):
        return {
            key: _plain(one) if isinstance(one, _NESTED) else one
            for key, one in value.items()
            if one is not None and key[:1] != "$"
        }
    return [_plain(one) for one in value] if isinstance(value, list) else value


def _list(value: Any, directive: str) -> list[Any]:
    if not isinstance(value, list):
        msg = f"{directive} is not a list"
        raise PatchError(msg)
    return value


def is_plain(body: bytes) -> bool:
    """Return whether the JSON of a patch certainly has no directives and nulls.

    False may be a false alarm.
    """
    return b"null" not in body and b'"$' not in body


def apply_plain_status(status: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    """Merge a plain patch.

    `status` is changed in place, and shares the patch's values. Raises PatchError.
    """
    return _merge_plain(status, patch, "status")


def _merge_plain(target: dict[str, Any], patch: dict[str, Any], parent: str) -> dict[str, Any]:
    keys = MERGE_KEYS.get(parent, {})
    for key, value in patch.items():
        kind = value.__class__
        if kind is dict:
            known = target.get(key)
            target[key] = _merge_plain(known, value, key) if isinstance(known, dict) else value
        elif kind is list:
            known = target.get(key)
            if not isinstance(known, list) or key not in keys:
                target[key] = value
            elif known and _are_new(known, value, keys[key]):
                target[key] = value + known
            else:
                target[key] = merge_list(known, value, key, keys[key])
        else:
            target[key] = value
    return target


def _are_new(known: list[Any], items: list[Any], merge_key: str) -> bool:
    """Return whether no item has the key of an existing or another item.

    This is so for a node's first conditions.
    """
    named = [one.get(merge_key) for one in items if one.__class__ is dict]
    if len(named) != len(items) or None in named or len(set(map(str, named))) != len(named):
        return False
    return not any(one.get(merge_key) in named for one in known)
