"""Sets of field paths, in the form FieldsV1 stores them, and their algebra.

A step of a path is `f:NAME`, `k:{KEYS}`, `v:VALUE` or `i:INDEX` (API: ManagedFieldsEntry); its text is canonical (keys
sorted, no spaces), so that equal steps are equal texts. A set is the nested JSON object itself: each key is a step,
its value the set below it. A field is a member when its object is empty or holds `.`; the empty set is `{}`. Sets are
never changed in place: results may share parts with their operands (structured-merge-diff, `fieldpath`).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, TypeAlias

import msgspec

from volcanoio.localcluster.apiserver.apimachinery.objects import decode, encode

SELF = "."
"""Marks a field that is itself a member of the set, besides its subtree."""

_HTML = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
_encode_sorted = msgspec.json.Encoder(order="sorted").encode


def field(name: str) -> str:
    """Return the step to a field of an object."""
    return "f:" + name


def item(keys: dict[str, Any]) -> str:
    """Return the step to the list item with these keys."""
    return "k:" + _json(keys)


@lru_cache(maxsize=4096)
def named_item(key: str, value: str) -> str:
    """Return the step to an item with one key field, such as a container's name; cached."""
    return item({key: value})


def member(value: Any) -> str:
    """Return the step to a value of a set."""
    return "v:" + _json(value)


def _json(value: Any) -> str:
    """Return JSON as Go writes it into steps, with HTML characters escaped."""
    text = _encode_sorted(value).decode()
    if not text.isascii() or "<" in text or ">" in text or "&" in text:
        for letter, escape in _HTML.items():
            text = text.replace(letter, escape)
    return text


def canonical(step: str) -> str:
    """Return the step in canonical form; raises ValueError for an invalid one."""
    kind, text = step[:2], step[2:]
    if kind == "f:" or step == SELF:
        return step
    try:
        if kind == "k:" and isinstance(keys := decode(text.encode()), dict):
            return item(keys)
        if kind == "v:":
            return member(decode(text.encode()))
        if kind == "i:":
            return f"i:{int(text)}"
    except (msgspec.MsgspecError, ValueError) as error:
        raise ValueError(f"{step!r}: {error}") from None
    raise ValueError(f"{step!r} is no step of a field path")


def shown_step(step: str) -> str:
    """Return a step as messages show it: `.name`, `[key="value"]`, `[="value"]`, `[0]`."""
    kind, text = step[:2], step[2:]
    if kind == "f:":
        return "." + text
    if kind == "i:":
        return f"[{text}]"
    value = decode(text.encode())
    if kind == "v:":
        return f"[={_quoted(value)}]"
    return "[" + ",".join(f"{key}={_quoted(one)}" for key, one in sorted(value.items())) + "]"


def order(step: str) -> tuple[int, Any]:
    """Return the sort key of a step: fields, items by keys, values, indexes; numbers by size."""
    kind, text = step[:2], step[2:]
    if kind == "f:":
        return 0, text
    if kind == "i:":
        return 3, int(text)
    value = decode(text.encode())
    if kind == "v:":
        return 2, _rank(value)
    return 1, [(key, _rank(one)) for key, one in sorted(value.items())]


def _rank(value: Any) -> tuple[int, Any]:
    """Return the sort key of a key value: numbers, texts, booleans; other values by their JSON."""
    if isinstance(value, bool):
        return 2, value
    if isinstance(value, int | float):
        return 0, value
    return (1, value) if isinstance(value, str) else (3, encode(value))


def _quoted(value: Any) -> str:
    return encode(value).decode()


FieldSet: TypeAlias = dict[str, Any]
Path: TypeAlias = tuple[str, ...]

_LEAF: FieldSet = {}


def of(*paths: Path) -> FieldSet:
    """Return the set of the given paths."""
    found: FieldSet = {}
    for path in paths:
        one: FieldSet = {}
        for step in reversed(path):
            one = {step: one}
        found = union(found, one)
    return found


def is_member(node: FieldSet) -> bool:
    """Return whether the field whose subtree is `node` is itself in the set."""
    return not node or SELF in node


def contains(fields: FieldSet, path: Path) -> bool:
    """Return whether a path is in the set; the empty path never is."""
    for step in path:
        found = fields.get(step)
        if found is None:
            return False
        fields = found
    return bool(path) and is_member(fields)


def union(one: FieldSet, other: FieldSet) -> FieldSet:
    """Return paths that are in either set."""
    if not one or not other:
        return one or other
    found = dict(one)
    for step, theirs in other.items():
        ours = found.get(step)
        found[step] = theirs if ours is None else _united(ours, theirs)
    return found


def _united(ours: FieldSet, theirs: FieldSet) -> FieldSet:
    if ours is theirs:
        return ours
    if not ours:
        return theirs if is_member(theirs) else {SELF: _LEAF, **theirs}
    if not theirs:
        return ours if SELF in ours else {SELF: _LEAF, **ours}
    return union(ours, theirs)


def intersection(one: FieldSet, other: FieldSet) -> FieldSet:
    """Return paths that are in both sets."""
    found: FieldSet = {}
    for step, ours in one.items():
        theirs = other.get(step)
        if theirs is None or step == SELF:
            continue
        below = intersection(ours, theirs)
        if is_member(ours) and is_member(theirs):
            found[step] = {SELF: _LEAF, **below} if below else _LEAF
        elif below:
            found[step] = below
    return found


def difference(one: FieldSet, other: FieldSet) -> FieldSet:
    """Return the paths of the first set that are not in the second.

    Parents and children are independent members.
    """
    return _without(one, other, whole=False)


def without_below(one: FieldSet, other: FieldSet) -> FieldSet:
    """Return the first without the second's fields and everything below them."""
    return _without(one, other, whole=True)


def _without(one: FieldSet, other: FieldSet, *, whole: bool) -> FieldSet:
    if not other:
        return one
    found: FieldSet = {}
    for step, ours in one.items():
        theirs = other.get(step)
        if theirs is None:
            found[step] = ours
        elif step != SELF:
            gone = is_member(theirs)
            if gone and whole:
                continue
            below = _without(ours, theirs, whole=whole) if ours and theirs else ours
            if SELF in below:
                below = {key: value for key, value in below.items() if key != SELF}
            if is_member(ours) and not gone:
                found[step] = {SELF: _LEAF, **below} if below else _LEAF
            elif below:
                found[step] = below
    return found


def paths(fields: FieldSet, prefix: Path = ()) -> Iterator[Path]:
    """Yield all paths in sorted order, each level before the levels below it."""
    steps = sorted((step for step in fields if step != SELF), key=order)
    for step in steps:
        if is_member(fields[step]):
            yield (*prefix, step)
    for step in steps:
        yield from paths(fields[step], (*prefix, step))


def shown_path(path: Path) -> str:
    """Return a path as messages show it: `.spec.containers[name="main"].image`."""
    return "".join(map(shown_step, path))


def parse(value: Any) -> FieldSet:
    """Parse a set that a client wrote into canonical form; raises ValueError."""
    if not isinstance(value, dict):
        raise ValueError(f"expected an object, got {value!r}")
    found: FieldSet = {}
    for step, below in value.items():
        name = canonical(step)
        found[name] = _LEAF if name == SELF else parse(below)
    return found
