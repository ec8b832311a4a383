"""Steps of a field path as FieldsV1 writes them: `f:NAME`, `k:{KEYS}`, `v:VALUE`, `i:INDEX` (API: ManagedFieldsEntry).

The text of a step is canonical (keys sorted, no spaces), so that equal steps are equal texts.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import msgspec

from volcanoio.localcluster.apiserver.objects import decode, encode

SELF = "."
"""Marks a field that is itself a member of the set, beside what is below it."""

_HTML = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
_encode_sorted = msgspec.json.Encoder(order="sorted").encode


def field(name: str) -> str:
    """The step to a field of an object."""
    return "f:" + name


def item(keys: dict[str, Any]) -> str:
    """The step to the item of a list that has these keys."""
    return "k:" + _json(keys)


@lru_cache(maxsize=4096)
def named_item(key: str, value: str) -> str:
    """The step to an item told apart by one text, such as a container's name; few names serve many objects."""
    return item({key: value})


def member(value: Any) -> str:
    """The step to a value of a set."""
    return "v:" + _json(value)


def _json(value: Any) -> str:
    """JSON as Go writes it into steps: with escapes for what HTML would take amiss."""
    text = _encode_sorted(value).decode()
    if not text.isascii() or "<" in text or ">" in text or "&" in text:
        for letter, escape in _HTML.items():
            text = text.replace(letter, escape)
    return text


def canonical(step: str) -> str:
    """The same step in canonical form; raises ValueError for what is no step."""
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


def shown(step: str) -> str:
    """A step as messages show it: `.name`, `[key="value"]`, `[="value"]`, `[0]`."""
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
    """Sorts steps: fields, then items by their keys, then values, then indexes; numbers by size."""
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
    """Numbers before texts before truths; values of other kinds by their JSON."""
    if isinstance(value, bool):
        return 2, value
    if isinstance(value, int | float):
        return 0, value
    return (1, value) if isinstance(value, str) else (3, encode(value))


def _quoted(value: Any) -> str:
    return encode(value).decode()
