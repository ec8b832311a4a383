"""What random scripts know of a kind of objects."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

Obj = dict[str, Any]
OWN = "own-namespace"
"""Stands for the script's namespace, which has another name on each server, wherever it occurs in a request."""


class Kind(NamedTuple):
    """One kind: where it is served, how to make one, and changes of it (top-level parts of an object, merged in).

    `called` is what an object is called whose name is of a script's few; objects of cluster-scoped kinds have names of
    the script's own. Objects of `shared` kinds are written by controllers, too. `custom` kinds are not in every server.
    """

    plural: str
    new: Callable[[str, random.Random], Obj]
    change: Callable[[random.Random], Obj]
    custom: bool = False
    status: Callable[[random.Random], Obj] | None = None
    cluster: bool = False
    shared: bool = False
    called: str = ""

    def name(self, name: str) -> str:
        """What the object is called."""
        return (self.called or (f"{OWN}-{{}}" if self.cluster else "{}")).format(name)


def chosen(*ones: Any) -> Callable[[random.Random], Any]:
    """One of those."""
    return lambda rng: rng.choice(ones)


def obj(api_version: str, kind: str, name: str, **parts: Any) -> Obj:
    """An object of these parts."""
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, **parts}


def text(rng: random.Random) -> str:
    """A value of some text field."""
    return str(rng.choice(("a", "b", "", "long" * 10, "ünïcode", "1")))


def some(rng: random.Random, chances: float, **parts: Any) -> Obj:
    """Each of the parts with these chances; a value that can be called makes the part."""
    return {key: value(rng) if callable(value) else value for key, value in parts.items() if rng.random() < chances}


SELECTORS: tuple[Obj, ...] = (
    {"matchLabels": {"app": "a"}},
    {"matchExpressions": [{"key": "app", "operator": "Exists"}]},
    {"matchExpressions": [{"key": "app", "operator": "In"}]},
    {"matchExpressions": [{"key": "app", "operator": "Odd", "values": ["x"]}]},
    {"matchExpressions": [{"key": "bad key", "operator": "Exists", "values": ["x"]}]},
    {"matchLabels": {"bad key": "bad value!"}},
    {},
)
"""Label selectors, the first of them good ones."""
