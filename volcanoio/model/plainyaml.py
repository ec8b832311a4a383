"""The YAML that `kubectl get -o yaml` prints, read fast: a line is a key, an entry of a list, or part of a text.

What is beyond this form (anchors, flow style, comments, odd indentation) raises NotPlainError, and the caller has the
whole language read it. What is not beyond it comes out as the whole language would have it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

_LINE = re.compile(r"^( *)(- )?(?:([A-Za-z_][^\s:#]*(?::[^\s:#]+)*):(?: |$))?(.*)$", re.MULTILINE)
"""Indentation, mark of an entry, key, and what follows."""
_SINGLE = re.compile(r"'(?:[^']|'')*'\Z")
_NO_PLAIN = frozenset("&*!%@`?,]}[{\"'|>#: \t")
"""What a text without quotes does not begin with."""

_Row = tuple[str, str, str, str]


class NotPlainError(ValueError):
    """A text that is beyond this form."""


class PlainYaml:
    """Reads texts; `resolve` gives the value of a text without quotes. What it gave is remembered."""

    def __init__(self, resolve: Callable[[str], Any]) -> None:
        self._resolve = resolve
        self._known: dict[str, Any] = {}
        self._rows: list[_Row] = []
        self._text = ""

    def read(self, text: str) -> Any:
        """The value of a document, or of an entry of a list (as a list of one); raises NotPlainError."""
        self._text = text.strip("\n")
        if not self._text or "\t" in text or "\r" in text:
            raise NotPlainError
        self._rows = _LINE.findall(self._text)
        value, end = self._block(0, 0)
        if end != len(self._rows):
            raise NotPlainError
        return value

    def _block(self, at: int, indent: int) -> tuple[Any, int]:
        return self._sequence(at, indent) if self._rows[at][1] else self._mapping(at, indent)

    def _mapping(self, at: int, indent: int) -> tuple[dict[str, Any], int]:
        rows, count, known = self._rows, len(self._rows), self._known
        result: dict[str, Any] = {}
        while at < count:
            blanks, dash, key, text = rows[at]
            if len(blanks) != indent or dash:
                if len(blanks) > indent:
                    raise NotPlainError
                break
            if not key:
                raise NotPlainError
            name = known.get(key) or self._plain(key)
            if name.__class__ is not str:
                raise NotPlainError
            at += 1
            if text:
                result[name], at = self._scalar(text, at, indent)
            elif at < count and (len(rows[at][0]) > indent or (rows[at][1] and len(rows[at][0]) == indent)):
                result[name], at = self._block(at, len(rows[at][0]))
            else:
                result[name] = None
        return result, at

    def _sequence(self, at: int, indent: int) -> tuple[list[Any], int]:
        rows, count = self._rows, len(self._rows)
        result: list[Any] = []
        while at < count:
            blanks, dash, key, text = rows[at]
            if len(blanks) != indent or not dash:
                if len(blanks) > indent:
                    raise NotPlainError
                break
            if key:
                rows[at] = (f"{blanks}  ", "", key, text)
                item, at = self._mapping(at, indent + 2)
                result.append(item)
            elif text:
                value, at = self._scalar(text, at + 1, indent)
                result.append(value)
            else:
                raise NotPlainError
        return result, at

    def _scalar(self, text: str, at: int, indent: int) -> tuple[Any, int]:
        """The value of a text that begins after a key or mark, and the next row after it."""
        rows = self._rows
        if at < len(rows) and (len(rows[at][0]) > indent or not any(rows[at])):
            if text in ("|", "|-"):
                return self._literal(text, at, indent)
            text, at = self._folded(text, at, indent)
        try:
            return self._known[text], at
        except KeyError:
            pass
        first = text[0]
        if first == "'":
            if _SINGLE.match(text) is None:
                raise NotPlainError
            return text[1:-1].replace("''", "'"), at
        if first == '"':
            try:
                return json.loads(text), at
            except ValueError:
                raise NotPlainError from None
        if first in "{[":
            if text == "{}":
                return {}, at
            if text == "[]":
                return [], at
            raise NotPlainError
        return self._plain(text), at

    def _plain(self, text: str) -> Any:
        if (
            text[0] in _NO_PLAIN
            or text[-1] in ": "
            or ": " in text
            or " #" in text
            or text == "-"
            or text.startswith(("- ", "---"))
        ):
            raise NotPlainError
        value = self._known[text] = self._resolve(text)
        return value

    def _lines(self, at: int, indent: int) -> tuple[list[str], int]:
        """The lines that belong to the text before, and the next row after them."""
        rows, end = self._rows, at
        while end < len(rows) and (len(rows[end][0]) > indent or not any(rows[end])):
            end += 1
        return self._text.split("\n")[at:end], end

    def _folded(self, text: str, at: int, indent: int) -> tuple[str, int]:
        """A text over several lines: each break is a blank."""
        lines, end = self._lines(at, indent)
        if text[0] in '"|>{[' or not all(lines):
            raise NotPlainError
        return " ".join([text, *(line.strip() for line in lines)]), end

    def _literal(self, header: str, at: int, indent: int) -> tuple[str, int]:
        lines, end = self._lines(at, indent)
        depth = len(lines[0]) - len(lines[0].lstrip(" "))
        if not lines[0].strip() or any(line.strip() and line[:depth].strip() for line in lines):
            raise NotPlainError
        if any(not line.strip() and len(line) > depth for line in lines):
            raise NotPlainError
        text = "\n".join(line[depth:] for line in lines).rstrip("\n")
        return (f"{text}\n" if header == "|" else text), end
