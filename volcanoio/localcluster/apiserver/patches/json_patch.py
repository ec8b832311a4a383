"""JSON patch (RFC 6902) over JSON pointers (RFC 6901)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from volcanoio.localcluster.apiserver.patches import MalformedPatchError, PatchError


def apply(document: Any, operations: Any) -> Any:
    """Apply operations; `document` is changed in place. Raises PatchError."""
    if not isinstance(operations, list):
        msg = "error decoding patch: a JSON patch is a list of operations"
        raise MalformedPatchError(msg)
    for number, operation in enumerate(operations):
        if not isinstance(operation, dict):
            msg = f"operation {number} is not an object"
            raise PatchError(msg)
        try:
            document = _apply_one(document, operation)
        except (KeyError, IndexError, ValueError, TypeError) as error:
            reason = f"missing {error}" if isinstance(error, KeyError) else str(error)
            msg = f"operation {number} ({operation.get('op')} {operation.get('path')}): {reason}"
            raise PatchError(msg) from error
    return document


def _apply_one(document: Any, operation: dict[str, Any]) -> Any:
    path = _pointer(operation["path"])
    apply_operation = _OPERATIONS.get(operation["op"])
    if apply_operation is None:
        msg = f"unknown operation {operation['op']!r}; use {', '.join(list(_OPERATIONS)[:-1])} or test"
        raise ValueError(msg)
    return apply_operation(document, path, operation)


def _apply_remove(document: Any, path: list[str], _operation: dict[str, Any]) -> Any:
    _remove(document, path)
    return document


def _apply_replace(document: Any, path: list[str], operation: dict[str, Any]) -> Any:
    if not path:
        return operation["value"]
    parent, key = _parent(document, path)
    if not isinstance(parent, dict):  # a missing field of an object is added, as Kubernetes' library does
        _child(parent, key)
    parent[_index(parent, key)] = operation["value"]
    return document


def _apply_move(document: Any, path: list[str], operation: dict[str, Any]) -> Any:
    source = _pointer(operation["from"])
    if path[: len(source)] == source and path != source:
        msg = "cannot move a value into itself"
        raise ValueError(msg)
    value = _find(document, source)
    _remove(document, source)
    return _add(document, path, value)


def _apply_test(document: Any, path: list[str], operation: dict[str, Any]) -> Any:
    if not _same(_find(document, path), operation["value"]):
        msg = "testing value failed"
        raise ValueError(msg)
    return document


_OPERATIONS: Final[dict[Any, Callable[[Any, list[str], dict[str, Any]], Any]]] = {
    "add": lambda document, path, operation: _add(document, path, operation["value"]),
    "remove": _apply_remove,
    "replace": _apply_replace,
    "move": _apply_move,
    "copy": lambda document, path, operation: _add(document, path, _copy(_find(document, _pointer(operation["from"])))),
    "test": _apply_test,
}


def _pointer(text: Any) -> list[str]:
    if not isinstance(text, str):
        msg = f"{text!r} is not a JSON pointer; it is a text"
        raise TypeError(msg)
    if text == "":
        return []
    if not text.startswith("/"):
        msg = f"{text!r} is not a JSON pointer; it starts with /"
        raise ValueError(msg)
    return [part.replace("~1", "/").replace("~0", "~") for part in text[1:].split("/")]


def _index(parent: Any, key: str) -> Any:
    """Return the key in an object, or the position in a list."""
    if isinstance(parent, dict):
        return key
    if not isinstance(parent, list):
        msg = f"{key!r} is looked for in a value that is neither object nor list"
        raise TypeError(msg)
    if not key.isdigit() or (len(key) > 1 and key[0] == "0"):
        msg = f"{key!r} is not a position in a list"
        raise ValueError(msg)
    return int(key)


def _child(parent: Any, key: str) -> Any:
    try:
        return parent[_index(parent, key)]
    except (KeyError, IndexError):
        msg = f"the object has no {key!r} there"
        raise ValueError(msg) from None


def _find(document: Any, path: list[str]) -> Any:
    for key in path:
        document = _child(document, key)
    return document


def _parent(document: Any, path: list[str]) -> tuple[Any, str]:
    return _find(document, path[:-1]), path[-1]


def _add(document: Any, path: list[str], value: Any) -> Any:
    if not path:
        return value
    parent, key = _parent(document, path)
    if isinstance(parent, list):
        position = len(parent) if key == "-" else _index(parent, key)
        if position > len(parent):
            msg = f"position {position} is past the end of the list"
            raise ValueError(msg)
        parent.insert(position, value)
    else:
        parent[_index(parent, key)] = value
    return document


def _remove(document: Any, path: list[str]) -> None:
    if not path:
        msg = "the whole object cannot be removed"
        raise ValueError(msg)
    parent, key = _parent(document, path)
    _child(parent, key)
    del parent[_index(parent, key)]


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copy(one) for key, one in value.items()}
    return [_copy(one) for one in value] if isinstance(value, list) else value


def _same(left: Any, right: Any) -> bool:
    """Return whether JSON values are equal: unlike in Python, true is not 1."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_same(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_same, left, right))
    return bool(left == right)
