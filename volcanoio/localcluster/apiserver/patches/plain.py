"""Strategic merge of a status by a plain patch: one without nulls and directives, as a node's patches are.

Nothing of such a patch has to be looked through for what is not to be stored: its values are taken as they are.
"""

from __future__ import annotations

from typing import Any

from volcanoio.localcluster.apiserver.patches import strategic


def is_plain(body: bytes) -> bool:
    """Whether the JSON of a patch is certainly plain; a text may look as if it were not."""
    return b"null" not in body and b'"$' not in body


def apply_status(status: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    """The merged status; `status` is changed in place, and shares the patch's values. Raises PatchError."""
    return _merge(status, patch, "status")


def _merge(target: dict[str, Any], patch: dict[str, Any], parent: str) -> dict[str, Any]:
    keys = strategic.MERGE_KEYS.get(parent, {})
    for key, value in patch.items():
        kind = value.__class__
        if kind is dict:
            known = target.get(key)
            target[key] = _merge(known, value, key) if isinstance(known, dict) else value
        elif kind is list:
            known = target.get(key)
            if not isinstance(known, list) or key not in keys:
                target[key] = value
            elif known and _are_new(known, value, keys[key]):
                target[key] = value + known
            else:
                target[key] = strategic.merge_list(known, value, key, keys[key])
        else:
            target[key] = value
    return target


def _are_new(known: list[Any], items: list[Any], merge_key: str) -> bool:
    """Whether no item has the key of a known one or of another item, as the first conditions that a node writes."""
    named = [one.get(merge_key) for one in items if one.__class__ is dict]
    if len(named) != len(items) or None in named or len(set(map(str, named))) != len(named):
        return False
    return not any(one.get(merge_key) in named for one in known)
