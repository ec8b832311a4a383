"""Sets that were written under another schema: what has become one value since is owned as one."""

from __future__ import annotations

from volcanoio.localcluster.apiserver.apply.elements import SELF
from volcanoio.localcluster.apiserver.apply.fieldset import FieldSet
from volcanoio.localcluster.apiserver.apply.types import Type, is_deduced_map


def reconcile(type_: Type, fields: FieldSet) -> FieldSet:
    """The set as this type allows it; the same one when nothing has to change."""
    changed: FieldSet = {}
    for step, below in fields.items():
        if step == SELF or not below:
            continue
        inner = _below(type_, step)
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


def _below(type_: Type, step: str) -> Type | None:
    """The type of what a step leads to; None where the schema says nothing."""
    if type_.is_map:
        if is_deduced_map(type_) or step[:2] != "f:":
            return None
        return type_.fields.get(step[2:]) or type_.others
    return type_.items
