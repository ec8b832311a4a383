"""JSON merge patch (RFC 7386): objects are merged, null removes, everything else replaces."""

from __future__ import annotations

from typing import Any


def apply(target: Any, patch: Any) -> Any:
    """The merged document; `target` is changed in place where it is an object."""
    if not isinstance(patch, dict):
        return patch
    if not isinstance(target, dict):
        target = {}
    for key, value in patch.items():
        if value is None:
            target.pop(key, None)
        elif isinstance(value, dict):
            target[key] = apply(target.get(key), value)
        else:
            target[key] = value
    return target
