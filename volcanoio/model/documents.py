"""YAML and JSON from outside: bounded in size, depth and alias expansion before anything is built of them.

What the parsers do without bounds: libyaml's composer recurses in C and ends the process at 200,000 levels (200 kB); a
kilobyte of aliases of aliases stands for gigabytes once it is written out; a value tagged `!!timestamp`, `!!int` or
`!!bool` raises ValueError or KeyError. Here each document is first read as a sequence of events, without recursion,
in a third to a half of the time that composing takes. Every error is a YAMLError or a msgspec.DecodeError.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar, overload

import msgspec
import yaml

Result = TypeVar("Result")
Form = TypeVar("Form")


class Limits(NamedTuple):
    """Bounds of a text.

    - `size`: bytes, or characters of a str
    - `depth`: nested lists and mappings
    - `aliased`: values that YAML aliases may add, each counted as often as it stands in the expanded document
    """

    size: int
    depth: int = 200
    aliased: int = 100_000


CONFIGURATION: Final = Limits(size=4 << 20)
"""Configuration files, annotations and kubeconfigs; the API server stores ConfigMaps up to 1 MiB."""
ANSWER: Final = Limits(size=64 << 20)
"""Answers of metrics servers and extenders."""
MANIFESTS: Final = Limits(size=1 << 30)
"""Manifests and states of whole clusters, which only the user of a command names."""
_DIRECTIVES = 100
"""Maximum number of `%TAG` lines: libyaml compares each with all others."""
_DIRECTIVE = re.compile(r"^%TAG", re.MULTILINE)
_BINARY_DIRECTIVE = re.compile(rb"^%TAG", re.MULTILINE)


class YamlLimitError(yaml.MarkedYAMLError):
    """The text is over a limit, or contains an alias of itself; `problem` names the limit and the next step."""


class YamlValueError(yaml.MarkedYAMLError):
    """A value does not fit its YAML tag, such as the date 2001-99-99."""


class JsonLimitError(msgspec.DecodeError):
    """The text is over a limit; the message names the limit and the next step."""


class FileSizeError(OSError):
    """The file is over the limit; `strerror` names the limit, `filename` the file."""


def read_bytes(path: Path, limits: Limits = CONFIGURATION) -> bytes:
    """Return the content of a file, of which no more than the limit is read; raises OSError, also over the limit."""
    with path.open("rb") as file:
        content = file.read(limits.size + 1)
    if len(content) > limits.size:
        raise FileSizeError(errno.EFBIG, _too_large(limits), str(path))
    return content


def read_text(path: Path, limits: Limits = CONFIGURATION) -> str:
    """Return the UTF-8 text of a file; raises OSError, also over the limit, and UnicodeDecodeError."""
    return read_bytes(path, limits).decode()


def load_yaml(text: str | bytes, loader: Any = yaml.CSafeLoader, limits: Limits = CONFIGURATION) -> Any:
    """Return the value of the only document; raises YAMLError."""
    return _checked(text, limits, lambda: yaml.load(text, Loader=loader))


def load_all_yaml(text: str | bytes, loader: Any = yaml.CSafeLoader, limits: Limits = CONFIGURATION) -> list[Any]:
    """Return the values of all documents; raises YAMLError."""
    return _checked(text, limits, lambda: list(yaml.load_all(text, Loader=loader)))


def compose_yaml(text: str | bytes, limits: Limits = CONFIGURATION) -> yaml.Node | None:
    """Return the root node of the only document, None if there is none; raises YAMLError."""
    return _checked(text, limits, lambda: yaml.compose(text, Loader=yaml.CSafeLoader))


def compose_all_yaml(text: str | bytes, limits: Limits = CONFIGURATION) -> list[yaml.Node]:
    """Return the root nodes of all documents; raises YAMLError."""
    return _checked(text, limits, lambda: list(yaml.compose_all(text, Loader=yaml.CSafeLoader)))


def construct_yaml(node: yaml.Node) -> Any:
    """Return the value of a node of a composed document; raises YAMLError."""
    return _constructed(lambda: yaml.constructor.SafeConstructor().construct_object(node, deep=True))


def _checked(text: str | bytes, limits: Limits, build: Callable[[], Result]) -> Result:
    check_yaml(text, limits)
    return _constructed(build)


def _constructed(build: Callable[[], Result]) -> Result:
    """Build values; PyYAML lets the errors of the types through that it builds them of."""
    try:
        return build()
    except yaml.YAMLError:
        raise
    except (ValueError, TypeError, KeyError, AttributeError, IndexError, OverflowError):
        # without the error's text, which contains the value: perhaps a token
        rule = "a value does not fit its type, as 2001-99-99 is no date"
        raise YamlValueError(problem=f"{rule}; put it in quotes") from None


def check_yaml(text: str | bytes, limits: Limits = CONFIGURATION) -> None:
    """Check a text against its limits without building anything; raises YAMLError."""
    if len(text) > limits.size:
        raise YamlLimitError(problem=_too_large(limits))
    found = _DIRECTIVE.findall(text) if isinstance(text, str) else _BINARY_DIRECTIVE.findall(text)
    if len(found) > _DIRECTIVES:
        raise YamlLimitError(problem=f"it has more than {_DIRECTIVES} %TAG lines; remove them")
    try:
        _Extent(limits).read(yaml.parse(text, Loader=yaml.CSafeLoader))
    except UnicodeError as error:
        raise YamlValueError(problem=f"not text: {error}; save it as UTF-8") from None
    except yaml.MarkedYAMLError as error:
        if "maximum nesting depth" not in str(error.problem):  # a limit of libyaml since PyYAML 6.0.4
            raise
        raise YamlLimitError(problem=_too_deep(limits), problem_mark=error.problem_mark) from None


class _Extent:
    """Depth of a document and its number of values, aliases expanded."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._count = self._added = 0
        self._open: list[tuple[str | None, int]] = []  # of each open list and mapping: anchor, and the count before it
        self._sizes: dict[str | None, int] = {}  # values below an anchor; 0 while it is open
        self._steps: dict[type[yaml.Event], Callable[[Any], None]] = {
            yaml.ScalarEvent: self._add,
            yaml.MappingStartEvent: self._enter,
            yaml.SequenceStartEvent: self._enter,
            yaml.MappingEndEvent: self._leave,
            yaml.SequenceEndEvent: self._leave,
            yaml.AliasEvent: self._expand,
        }

    def read(self, events: Iterator[yaml.Event]) -> None:
        """Read all events; raises YamlLimitError."""
        for event in events:
            if (step := self._steps.get(event.__class__)) is not None:
                step(event)

    def _add(self, event: yaml.ScalarEvent) -> None:
        self._count += 1
        self._sizes[event.anchor] = 1

    def _enter(self, event: yaml.CollectionStartEvent) -> None:
        if len(self._open) == self._limits.depth:
            raise _limit(event, _too_deep(self._limits))
        self._open.append((event.anchor, self._count))
        self._count += 1
        self._sizes[event.anchor] = 0

    def _leave(self, _: yaml.CollectionEndEvent) -> None:
        anchor, before = self._open.pop()
        self._sizes[anchor] = self._count - before

    def _expand(self, event: yaml.AliasEvent) -> None:
        size = self._sizes.get(event.anchor, 1)  # of an unknown anchor: the composer reports it
        if not size:
            raise _limit(event, f"alias *{event.anchor} is inside its own anchor; write the value out")
        self._count += size
        self._added += size
        if self._added > self._limits.aliased:
            raise _limit(event, f"aliases add more than {self._limits.aliased} values; write fewer of them")


def _limit(event: Any, problem: str) -> YamlLimitError:
    return YamlLimitError(problem=problem, problem_mark=event.start_mark)


def _too_large(limits: Limits) -> str:
    size = limits.size
    return f"larger than {f'{size >> 20} MiB' if size >= 1 << 20 else f'{size} bytes'}"


def _too_deep(limits: Limits) -> str:
    return f"nested deeper than {limits.depth} levels; make it flatter"


_STRINGS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
"""Strings; one without its end reaches to the end of the text, so that a search stays linear."""
_NO_BRACKETS = bytes(sorted(set(range(256)) - set(b"[]{}")))


@overload
def decode_json(text: str | bytes, form: type[Form], limits: Limits = CONFIGURATION) -> Form: ...
@overload
def decode_json(text: str | bytes, form: Any = Any, limits: Limits = CONFIGURATION) -> Any: ...
def decode_json(text: str | bytes, form: Any = Any, limits: Limits = CONFIGURATION) -> Any:
    """Decode JSON within limits; raises msgspec.DecodeError."""
    try:
        data = text.encode() if isinstance(text, str) else text
        if len(data) > limits.size:
            raise JsonLimitError(_too_large(limits))
        if is_deeper(data, limits.depth):
            raise JsonLimitError(_too_deep(limits))
        return msgspec.json.decode(data, type=form)
    except RecursionError:  # brackets that are never closed
        raise JsonLimitError(_too_deep(limits)) from None
    except UnicodeError as error:
        raise msgspec.DecodeError(f"not text: {error}") from None


def is_deeper(data: bytes, depth: int) -> bool:
    """Return whether well-formed JSON is nested deeper than `depth` levels, without decoding it.

    msgspec stops at Python's recursion limit only, less the depth of the caller's stack.
    """
    if data.count(b"[") + data.count(b"{") <= depth:
        return False
    brackets = _STRINGS.sub(b"", data).translate(None, _NO_BRACKETS)
    for _ in range(depth):
        inner = brackets.replace(b"[]", b"").replace(b"{}", b"")
        if not inner or len(inner) == len(brackets):
            return False
        brackets = inner
    return True
