"""Merging an applied configuration into a live object: nothing is removed, what both have is the configuration's."""

from __future__ import annotations

from typing import Any

from volcanoio.localcluster.apiserver.apply.types import ABSENT, Type


def merge(type_: Type, live: Any, config: Any) -> Any:
    """The merged value; parts are shared with the operands. One of them may be ABSENT."""
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
    """Items by key, in the configuration's order; the live list's own stay behind the shared one they followed.

    Of several live items of one key, none is merged into the configuration's, and all but the first go.
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
                at += 1  # its turn comes with the configuration's order
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
