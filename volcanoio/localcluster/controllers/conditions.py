"""Conditions of a status as plain JSON: one a type; the transition time moves with the status alone."""

from __future__ import annotations

from collections.abc import Iterable

from volcanoio.model.base import Manifest
from volcanoio.model.times import rfc3339


def find(conditions: Iterable[Manifest], type_: str) -> Manifest | None:
    """The condition of that type."""
    return next((one for one in conditions if one.get("type") == type_), None)


def with_condition(
    conditions: list[Manifest], type_: str, status: bool | str, reason: str, message: str, now: float, *, update: bool
) -> list[Manifest]:
    """The conditions with one of them set, at the end where it changed; the same list where it says so already.

    `update`: conditions of the kind carry lastUpdateTime, too.
    """
    told = status if isinstance(status, str) else str(status)
    known = find(conditions, type_)
    alike = known is not None and (known.get("status"), known.get("reason", "")) == (told, reason)
    if alike and (update or (known or {}).get("message", "") == message):
        return conditions
    moment = rfc3339(now)
    same = known is not None and known.get("status") == told
    entry: Manifest = {"type": type_, "status": told}
    if update:
        entry["lastUpdateTime"] = moment
    entry["lastTransitionTime"] = known["lastTransitionTime"] if same and known is not None else moment
    if reason:
        entry["reason"] = reason
    if message or update:
        entry["message"] = message
    return [*(one for one in conditions if one is not known), entry]


def without_condition(conditions: list[Manifest], type_: str) -> list[Manifest]:
    """The conditions without that type."""
    return [one for one in conditions if one.get("type") != type_]
