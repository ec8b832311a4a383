"""Which paths differ between two versions of an object."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from volcanoio.localcluster.apiserver.apply import elements, fieldset
from volcanoio.localcluster.apiserver.apply.elements import SELF
from volcanoio.localcluster.apiserver.apply.fieldset import FieldSet
from volcanoio.localcluster.apiserver.apply.types import ABSENT, DEDUCED, Type
from volcanoio.localcluster.apiserver.objects import encode

_LEAF: Final[FieldSet] = {}
_COMPOSITE: Final = frozenset({dict, list})
_BY_ITEM: Final = frozenset({"set", "map"})


class Comparison(NamedTuple):
    """The paths that the new version has no more, has with another value, and has newly."""

    removed: FieldSet
    modified: FieldSet
    added: FieldSet

    def without(self, ignored: FieldSet) -> Comparison:
        """The comparison without these fields and what is below them."""
        if not ignored:
            return self
        return Comparison(*(fieldset.without_below(one, ignored) for one in self))


def compare(type_: Type, old: dict[str, Any], new: dict[str, Any]) -> Comparison:
    """Compare two objects of a type."""
    found = Comparison({}, {}, {})
    _compare_maps(type_, old, new, found)
    return found


def _compare(type_: Type, step: str, old: Any, new: Any, found: Comparison) -> None:
    """Note below `step` how two values differ; one of them may be ABSENT."""
    if old is ABSENT:
        found.added[step] = _all(type_, new) if new.__class__ in _COMPOSITE else _LEAF
        return
    if new is ABSENT:
        found.removed[step] = _all(type_, old)
        return
    if old == new and not type_.present:
        return
    before, after = type_.shape(old), type_.shape(new)
    inner = Comparison({}, {}, {})
    if before != after:
        found.modified[step] = {}
        inner = Comparison(_below(type_, old), {}, _below(type_, new))
    elif after == "map" and not type_.atomic_map and (old or new or type_.present):
        _compare_maps(type_, old or {}, new or {}, inner)
    elif after == "list" and type_.list_kind != "atomic" and (old or new):
        _compare_lists(type_, old or [], new or [], inner)
    elif old != new:
        found.modified[step] = {}
        return
    for outer, below in zip(found, inner, strict=True):
        if below:
            outer[step] = below


def _compare_maps(type_: Type, old: dict[str, Any], new: dict[str, Any], found: Comparison) -> None:
    present, omitted = type_.present, type_.omitted
    for name, value in new.items():
        if not value and name in omitted:
            continue
        before = old.get(name, ABSENT)
        if before is ABSENT or (not before and name in omitted):
            before = present.get(name, ABSENT)
        if before is ABSENT or before is not value:
            _compare(type_.field(name), elements.field(name), before, value, found)
    for name, value in old.items():
        after = new.get(name, ABSENT)
        if (after is ABSENT or (not after and name in omitted)) and (value or name not in omitted):
            _compare(type_.field(name), elements.field(name), value, present.get(name, ABSENT), found)


def _compare_lists(type_: Type, old: list[Any], new: list[Any], found: Comparison) -> None:
    """Items are compared by key; several of one key are compared as one."""
    items = type_.items
    assert items is not None
    before, after = _by_step(type_, old), _by_step(type_, new)
    for step in before | after:
        ours, theirs = before.get(step, []), after.get(step, [])
        if len(ours) < 2 and len(theirs) < 2:
            _compare(items, step, ours[0] if ours else ABSENT, theirs[0] if theirs else ABSENT, found)
        elif len(ours) > 1 and len(theirs) > 1:
            if ours != theirs:
                found.modified[step] = {}
        elif len(ours) > 1:
            found.removed[step] = {}
            if theirs:
                found.added[step] = _all(items, theirs[0])
        else:
            found.added[step] = {}
            if ours:
                found.removed[step] = _all(items, ours[0])


def _by_step(type_: Type, values: list[Any]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    step_of = type_.step
    for at, value in enumerate(values):
        try:
            step = step_of(value)
        except ValueError:  # an item that no rule of the list allows: told apart by what it is
            step = elements.item({"": [at, encode(value).decode()]})
        if step in found:
            found[step].append(value)
        else:
            found[step] = [value]
    return found


def _all(type_: Type, value: Any) -> FieldSet:
    """The path of a value that is there newly, or no more, and of everything below it, what Go writes unasked included.

    Flat on purpose: every new object passes here as a whole.
    """
    found: FieldSet = {SELF: _LEAF}
    if isinstance(value, dict):
        if not type_.is_map or type_.atomic_map:
            return _LEAF
        fields, others, omitted, present = type_.fields, type_.others or DEDUCED, type_.omitted, type_.present
        for name, inner in value.items():
            if inner.__class__ in _COMPOSITE:
                if inner or name not in omitted:
                    found["f:" + name] = _all(fields.get(name) or others, inner)
            elif inner or name not in omitted:
                found["f:" + name] = _LEAF
        for name, zero in present.items():
            if name not in value:
                found["f:" + name] = _all(fields[name], zero)
    elif isinstance(value, list) and value and type_.list_kind in _BY_ITEM:
        items = type_.items
        assert items is not None
        for step, values in _by_step(type_, value).items():
            found[step] = _all(items, values[0]) if len(values) == 1 else _LEAF
    return found if len(found) > 1 else _LEAF


def _below(type_: Type, value: Any) -> FieldSet:
    """Everything below a value that is owned by parts, without the value itself."""
    return {step: below for step, below in _all(type_, value).items() if step != SELF}
