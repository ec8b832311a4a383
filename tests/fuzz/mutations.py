"""Strategies of hostile input: damaged copies of valid objects, and texts that look like valid ones."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import yaml
from hypothesis import strategies as st

QUANTITIES = (
    "0", "-1", "1e999999999", "1e-999999999", "9" * 200, "9223372036854775807", "9223372036854775808", "1e64",
    "1e1.5", "0.0000000000000000001", "1Ei", "9999999999Ei", "1e18", ".5", "5.", "+1", "1 ", "٣", "Ki", "1m", "NaN",
    "Inf", "0x10",
)  # fmt: skip
"""Amounts at and over the edges of what Kubernetes and the schemas of custom resources admit."""
TEXTS = (
    "", " ", "a", "A" * 64, "x" * 300, "-", ".", "/", "//", "a/b/c", "..", "../../etc/passwd", "*", "?", "%s%n", "{}",
    "[]", "null", "true", "0", "٣", "é", "😀", "\x00", "\n", "\u2028", "a\tb", "$(A)", "${jndi:x}", "<b>", "\\", "'",
    '"', "~1", "~0", "-----BEGIN PRIVATE KEY-----", "2001-99-99", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z",
    "2026-01-01T00:00:00+14:00", "0000-00-00", "1e999", "-5", "99999999999999999999", "1s", "-1s", "9999999h",
    "2562047h", "1h1h1h", "1ns", "* * * * *", "0 0 30 2 *", "@every 1ns", "@yearly", "TZ=Asia/Kathmandu 0 0 * * *",
    "(a+)+$", "[", "gang", "allocate",
)  # fmt: skip
NUMBERS = (
    0,
    -1,
    1,
    2,
    255,
    65536,
    2**31 - 1,
    2**31,
    -(2**31),
    2**53 + 1,
    2**63 - 1,
    -(2**63),
    2**64 - 1,
    0.5,
    -0.0,
    1e308,
)


def _nested(depth: int, inner: Any) -> Any:
    for at in range(depth):
        inner = [inner] if at % 2 else {"a": inner}
    return inner


scalars = st.one_of(
    st.sampled_from(TEXTS), st.sampled_from(QUANTITIES), st.sampled_from(NUMBERS), st.none(), st.booleans(),
    st.text(max_size=8), st.integers(-(2**63), 2**63),
)  # fmt: skip
values = st.one_of(
    scalars,
    st.sampled_from(
        ([], {}, [[]], [{}], [None], {"": None}, {"a": {"b": []}}, [1, "a", {}], {"name": "a"}, [{"name": 1}])
    ),
    st.builds(_nested, st.sampled_from((3, 40, 150)), scalars),
)
"""What stands in the place of a value of another type: scalars, empty and odd containers, deep nesting."""


def _containers(value: Any) -> list[Any]:
    """Return all lists and mappings of a value, itself included."""
    found, waiting = [], [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict | list) and one:
            found.append(one)
            waiting += one.values() if isinstance(one, dict) else one
    return found


@st.composite
def mutated(draw: st.DrawFn, *originals: Any) -> Any:
    """Draw a copy of one of the originals with one to four changes.

    A change drops an entry, replaces its value, duplicates a list's entry, moves a value to another key or adds a key.
    """
    obj = deepcopy(draw(st.sampled_from(originals)))
    for _ in range(draw(st.integers(1, 4))):
        holders = _containers(obj)
        if not holders:
            break
        holder = holders[draw(st.integers(0, len(holders) - 1))]
        keys = list(range(len(holder))) if isinstance(holder, list) else list(holder)
        key = keys[draw(st.integers(0, len(keys) - 1))]
        change = draw(st.sampled_from(("replace", "replace", "replace", "drop", "duplicate", "move", "add")))
        if change == "replace":
            holder[key] = deepcopy(draw(values))
        elif change == "drop":
            del holder[key]
        elif change == "duplicate" and isinstance(holder, list):
            holder += [deepcopy(holder[key])] * draw(st.sampled_from((1, 2, 40)))
        elif isinstance(holder, list):
            holder.insert(0, deepcopy(draw(values)))
        elif change == "move":
            holder[keys[draw(st.integers(0, len(keys) - 1))]] = deepcopy(holder[key])
        else:
            holder[draw(st.sampled_from(TEXTS))] = deepcopy(draw(values))
    return obj


MOST = 1000
"""Size of large lists, mappings and texts; a list of 1,000 tasks is 120 KB."""


def _named(entry: Any, number: int) -> Any:
    """Return a copy of a list's entry with a name of its own."""
    copy = deepcopy(entry)
    return {**copy, "name": f"{copy['name']}-{number}"} if isinstance(copy, dict) and "name" in copy else copy


@st.composite
def enlarged(draw: st.DrawFn, *originals: Any) -> Any:
    """Draw a copy of one of the originals with a list, a mapping or a text that is up to a thousand times as large."""
    obj = deepcopy(draw(st.sampled_from(originals)))
    holders = _containers(obj)
    holder = holders[draw(st.integers(0, len(holders) - 1))]
    count = draw(st.sampled_from((200, MOST)))
    if isinstance(holder, list):
        holder += [_named(holder[-1], number) for number in range(count)]
        return obj
    key = draw(st.sampled_from(sorted(holder)))
    if isinstance(holder[key], str):
        unit = draw(st.sampled_from((holder[key] or "a", "9", "a/", "a,", "1h", "(a+)", "%", "é")))
        holder[key] = unit * (100 * count // len(unit))
    else:
        holder |= {f"{key}-{number}": deepcopy(holder[key]) for number in range(count)}
    return obj


_FIXED = ("name", "namespace", "uid", "creationTimestamp")


@st.composite
def hostile(draw: st.DrawFn, valid: Any) -> Any:
    """Draw a damaged object with what an API server guarantees of it."""
    return guaranteed(draw(mutated(valid)), valid)


def guaranteed(found: Any, valid: Any) -> Any:
    """Return the object with the kind, name and uid of a valid one, and metadata of the types that they must have."""
    if not isinstance(found, dict):
        found = {}
    given = found.get("metadata")
    meta = given if isinstance(given, dict) else {}
    for field in ("labels", "annotations"):
        texts = meta.get(field)
        meta[field] = {key: str(value) for key, value in texts.items()} if isinstance(texts, dict) else {}
    owners = meta.get("ownerReferences")
    meta["ownerReferences"] = [one for one in owners if isinstance(one, dict)] if isinstance(owners, list) else []
    fixed = {key: valid["metadata"][key] for key in _FIXED}
    return {**found, "apiVersion": valid["apiVersion"], "kind": valid["kind"], "metadata": {**meta, **fixed}}


@st.composite
def damaged(draw: st.DrawFn, *texts: str) -> str:
    """Draw one of the texts with a part replaced by another one."""
    text = draw(st.sampled_from(texts))
    at = draw(st.integers(0, len(text)))
    instead = draw(st.one_of(st.text("ab: {}[]-\n'\"&*#,|>!%@\x00é0", max_size=6), st.sampled_from(TEXTS)))
    return text[:at] + instead + text[at + draw(st.integers(0, 30)) :]


def yaml_texts(*originals: Any) -> st.SearchStrategy[str]:
    """Return YAML texts of damaged documents, and damaged texts."""
    whole = [yaml.safe_dump(original, sort_keys=False) for original in originals]
    return st.one_of(mutated(*originals).map(yaml.safe_dump), damaged(*whole))


def outcome(
    errors: type[Exception] | tuple[type[Exception], ...],
    call: Callable[..., Any],
    *arguments: Any,
    longest: int = 200_000,
) -> Any:
    """Return what the call returns, or the error if it is one of ours; its message has at most `longest` characters."""
    try:
        return call(*arguments)
    except errors as error:
        found = error
    assert 0 < len(str(found)) < longest, str(found)[:200]
    return found
