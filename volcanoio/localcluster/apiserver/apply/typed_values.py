"""Operations on a value and its type: compare, merge, remove, and the set of its fields.

Kubernetes: structured-merge-diff, `typed`. Merging removes nothing; where both values have a field, the applied one is
taken. Sets of another schema are reconciled: a value that has become atomic is one member.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final, NamedTuple

from volcanoio.localcluster.apiserver.apimachinery.objects import encode
from volcanoio.localcluster.apiserver.apply import field_sets
from volcanoio.localcluster.apiserver.apply.field_sets import SELF, FieldSet, is_member
from volcanoio.localcluster.apiserver.apply.types import ABSENT, DEDUCED, Type, is_deduced_map

_LEAF: Final[FieldSet] = {}
_COMPOSITE: Final = frozenset({dict, list})
_BY_ITEM: Final = frozenset({"set", "map"})


class Comparison(NamedTuple):
    """Paths that the new version removes, modifies and adds."""

    removed: FieldSet
    modified: FieldSet
    added: FieldSet

    def without(self, ignored: FieldSet) -> Comparison:
        """Return the comparison without these fields and all below them."""
        if not ignored:
            return self
        return Comparison(*(field_sets.without_below(one, ignored) for one in self))


def compare(type_: Type, old: dict[str, Any], new: dict[str, Any]) -> Comparison:
    """Compare two objects of a type."""
    found = Comparison({}, {}, {})
    _compare_maps(type_, old, new, found)
    return found


def _compare(type_: Type, step: str, old: Any, new: Any, found: Comparison) -> None:
    """Add the differences of two values below `step`; one of them may be ABSENT."""
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
        inner = Comparison(_parts_below(type_, old), {}, _parts_below(type_, new))
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
            _compare(type_.field(name), field_sets.field(name), before, value, found)
    for name, value in old.items():
        after = new.get(name, ABSENT)
        if (after is ABSENT or (not after and name in omitted)) and (value or name not in omitted):
            _compare(type_.field(name), field_sets.field(name), value, present.get(name, ABSENT), found)


def _compare_lists(type_: Type, old: list[Any], new: list[Any], found: Comparison) -> None:
    """Compare items by key; several items of one key are compared as one."""
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
        except ValueError:  # an invalid item of the list: identified by its value
            step = field_sets.item({"": [at, encode(value).decode()]})
        if step in found:
            found[step].append(value)
        else:
            found[step] = [value]
    return found


def _all(type_: Type, value: Any) -> FieldSet:
    """Return the path of an added or removed value and all below it.

    Includes the zero values that Go writes.

    Flat code: every new object passes here as a whole.
    """
    found: FieldSet = {SELF: _LEAF}
    if isinstance(value, dict):
        if not type_.is_map or type_.atomic_map:
            return _LEAF
        fields, others, omitted, present = type_.fields, type_.others or DEDUCED, type_.omitted, type_.present
        for name, inner in value.items():
            if inner or name not in omitted:
                is_leaf = inner.__class__ not in _COMPOSITE
                found["f:" + name] = _LEAF if is_leaf else _all(fields.get(name) or others, inner)
        for name, zero in present.items():
            if name not in value:
                found["f:" + name] = _all(fields[name], zero)
    elif isinstance(value, list) and value and type_.list_kind in _BY_ITEM:
        items = type_.items
        assert items is not None
        for step, values in _by_step(type_, value).items():
            found[step] = _all(items, values[0]) if len(values) == 1 else _LEAF
    return found if len(found) > 1 else _LEAF


def _parts_below(type_: Type, value: Any) -> FieldSet:
    """Return everything below a value that is owned by parts, without the value itself."""
    return {step: below for step, below in _all(type_, value).items() if step != SELF}


def merge(type_: Type, live: Any, config: Any) -> Any:
    """Merge two values, of which one may be ABSENT; the result shares parts with them."""
    if config is ABSENT:
        return live
    if live is ABSENT:
        return config
    shape = type_.shape(config)
    if shape == type_.shape(live) and (live or config):
        if shape == "map" and not type_.atomic_map:
            return _merge_maps(type_, live or {}, config or {})
        if shape == "list" and type_.list_kind != "atomic":
            return _merge_lists(type_, live or [], config or [])
    return config


def _merge_maps(type_: Type, live: dict[str, Any], config: dict[str, Any]) -> dict[str, Any]:
    merged = dict(live)
    for name, value in config.items():
        merged[name] = merge(type_.field(name), live.get(name, ABSENT), value)
    return merged


def _merge_lists(type_: Type, live: list[Any], config: list[Any]) -> list[Any]:
    """Merge items by key, in the configuration's order.

    Other live items stay behind their predecessor.

    Where several live items have one key, none is merged into the configuration's, and all but the first are
    dropped.
    """
    items = type_.items
    assert items is not None
    ours, theirs = type_.steps(live), type_.steps(config)
    known: dict[str, Any] = {}
    for step, value in zip(ours, live, strict=True):
        known[step] = None if step in known else value
    wanted = dict(zip(theirs, config, strict=True))
    shared = [step for step in theirs if step in known]
    merged: list[Any] = []
    done: set[str] = set()
    at = turn = 0
    while at < len(ours) or turn < len(theirs):
        if at < len(ours):
            step = ours[at]
            if step not in wanted:
                merged.append(live[at])
                at += 1
                continue
            if turn < len(theirs) and shared and shared[0] != step:
                at += 1  # placed later, in the configuration's order
                continue
            if step in done or (turn < len(theirs) and theirs[turn] == step):
                at += 1
        if turn < len(theirs):
            chosen = theirs[turn]
            turn += 1
            merged.append(merge(items, known.get(chosen, ABSENT), wanted[chosen]))
            done.add(chosen)
            if shared and shared[0] == chosen:
                shared.pop(0)
    return merged


def fields_of(type_: Type, value: Any) -> FieldSet:
    """Return the set of leaves and items of an object."""
    return _fields_below(type_, value) or {}


def _fields_below(type_: Type, value: Any) -> FieldSet | None:
    """Return the set of a value: `{}` when it is atomic, None when it has no members."""
    shape = type_.shape(value)
    if shape == "map":
        if type_.atomic_map:
            return {}
        return _fields(type_, value) if isinstance(value, dict) else None
    if shape == "list":
        if type_.list_kind == "atomic":
            return {}
        return _items(type_, value) if isinstance(value, list) else None
    return {} if shape == "scalar" else None


def _fields(type_: Type, value: dict[str, Any]) -> FieldSet | None:
    found: FieldSet = {}
    for name, inner in value.items():
        below = _fields_below(type_.field(name), inner)
        if inner is None or inner == {} or name not in type_.fields:
            below = _with_self(below)
        if below is not None:
            found[field_sets.field(name)] = below
    return found or None


def _items(type_: Type, values: list[Any]) -> FieldSet | None:
    """Return the set of list items; several items with the same key are one atomic member."""
    items = type_.items
    assert items is not None
    steps = type_.steps(values)
    counts = Counter(steps)
    found: FieldSet = {
        step: {} if counts[step] > 1 else _with_self(_fields_below(items, value))
        for step, value in zip(steps, values, strict=True)
    }
    return found or None


def _with_self(below: FieldSet | None) -> FieldSet:
    return {SELF: {}, **below} if below else {}


def reconcile(type_: Type, fields: FieldSet) -> FieldSet:
    """Adapt a set to this type; returns the same set when nothing changes."""
    changed: FieldSet = {}
    for step, below in fields.items():
        if step == SELF or not below:
            continue
        inner = _type_below(type_, step)
        if inner is None:
            continue
        if inner.is_map:
            atomic = inner.atomic_map and not is_deduced_map(inner)
        else:
            atomic = not inner.scalar and inner.list_kind == "atomic"
        now = {} if atomic else reconcile(inner, below)
        if now is not below:
            changed[step] = now
    return {**fields, **changed} if changed else fields


def _type_below(type_: Type, step: str) -> Type | None:
    """Return the type of a step's value; None where the schema does not declare it."""
    if type_.is_map:
        if is_deduced_map(type_) or step[:2] != "f:":
            return None
        return type_.fields.get(step[2:]) or type_.others
    return type_.items


def remove(type_: Type, value: Any, gone: FieldSet) -> Any:
    """Return the value without these fields and items.

    Null where nothing remains, or where it is atomic.
    """
    if isinstance(value, dict) and type_.is_map:
        return None if type_.atomic_map else _remove_fields(type_, value, gone)
    if isinstance(value, list) and type_.list_kind:
        return None if type_.list_kind == "atomic" else _remove_items(type_, value, gone)
    return value


def _remove_fields(type_: Type, value: dict[str, Any], gone: FieldSet) -> dict[str, Any] | None:
    left = {}
    for name, inner in value.items():
        below = gone.get(field_sets.field(name))
        if below is None:
            left[name] = inner
        elif not is_member(below):
            left[name] = remove(type_.field(name), inner, below)
    return left or None


def _remove_items(type_: Type, values: list[Any], gone: FieldSet) -> list[Any] | None:
    items = type_.items
    assert items is not None
    left = []
    for step, value in zip(type_.steps(values), values, strict=True):
        below = gone.get(step)
        if below is None:
            left.append(value)
        elif not is_member(below):
            left.append(remove(items, value, below))
    return left or None


def with_parents(type_: Type, fields: FieldSet) -> FieldSet:
    """Return the set plus every declared field that has members below it.

    List items and map keys are not added.
    """
    found: FieldSet = {}
    for step, below in fields.items():
        if step == SELF or not below:
            found[step] = below
            continue
        name = step[2:]
        if step[:2] == "f:" and type_.is_map:
            inner = with_parents(type_.field(name), below)
            if name in type_.fields and SELF not in inner:
                inner = {SELF: {}, **inner}
        elif step[:2] == "k:" and type_.items is not None:
            inner = with_parents(type_.items, below)
        else:
            inner = below
        found[step] = inner
    return found


def as_go_writes(type_: Type, value: Any) -> Any:
    """Return the value in Go's form: omitted zero values removed, required ones added.

    Parts are shared.
    """
    if isinstance(value, dict) and type_.is_map:
        omitted = type_.omitted
        found = {
            name: as_go_writes(type_.field(name), inner)
            for name, inner in value.items()
            if inner or name not in omitted
        }
        for name, zero in type_.present.items():
            if name not in found and zero == {}:  # zero numbers and texts are left for the kind's defaults
                found[name] = as_go_writes(type_.field(name), zero)
        return found
    if isinstance(value, list) and type_.items is not None:
        items = type_.items
        return [as_go_writes(items, one) for one in value] if items.is_map else value
    return value
