"""Sets of field paths, in the form FieldsV1 stores them, and their algebra.

A set is the nested JSON object itself: each key is a step (`elements`), its value what is below it. A field is a member
when its object is empty or holds `.`; the empty set is `{}`. Sets are never changed in place: results may share parts
with their operands (Kubernetes: structured-merge-diff, `fieldpath`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

from volcanoio.localcluster.apiserver.apply import elements
from volcanoio.localcluster.apiserver.apply.elements import SELF

FieldSet: TypeAlias = dict[str, Any]
Path: TypeAlias = tuple[str, ...]

_LEAF: FieldSet = {}


def of(*paths: Path) -> FieldSet:
    """The set of these paths."""
    found: FieldSet = {}
    for path in paths:
        one: FieldSet = {}
        for step in reversed(path):
            one = {step: one}
        found = union(found, one)
    return found


def is_member(node: FieldSet) -> bool:
    """Whether the field that has `node` below it is itself in the set."""
    return not node or SELF in node


def contains(fields: FieldSet, path: Path) -> bool:
    """Whether a path is in the set; the object as a whole never is."""
    for step in path:
        found = fields.get(step)
        if found is None:
            return False
        fields = found
    return bool(path) and is_member(fields)


def union(one: FieldSet, other: FieldSet) -> FieldSet:
    """What is in either."""
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
    """What is in both."""
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
    """What is in the first and not in the second; a parent stays when only its children go, and the reverse."""
    return _without(one, other, whole=False)


def without_below(one: FieldSet, other: FieldSet) -> FieldSet:
    """The first without the second's fields and everything below them."""
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
    """The paths, those of a level before those below it, sorted."""
    steps = sorted((step for step in fields if step != SELF), key=elements.order)
    for step in steps:
        if is_member(fields[step]):
            yield (*prefix, step)
    for step in steps:
        yield from paths(fields[step], (*prefix, step))


def shown(path: Path) -> str:
    """A path as messages show it: `.spec.containers[name="main"].image`."""
    return "".join(map(elements.shown, path))


def parse(value: Any) -> FieldSet:
    """A set as a client wrote it, in canonical form; raises ValueError."""
    if not isinstance(value, dict):
        raise ValueError(f"expected an object, got {value!r}")
    found: FieldSet = {}
    for step, below in value.items():
        name = elements.canonical(step)
        found[name] = _LEAF if name == SELF else parse(below)
    return found
