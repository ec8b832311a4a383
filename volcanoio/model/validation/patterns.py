"""Regular expressions as Go writes them, matched by RE2 in time linear in the text.

Go's `regexp` package is a port of RE2 (github.com/google/re2/wiki/Syntax): syntax and results are the same, only the
texts of syntax errors differ.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Final, Protocol

import re2

_GO_ERRORS: Final = {
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "trailing \\": "trailing backslash at end of expression",
    "no argument for repetition operator": "missing argument to repetition operator",
    "invalid repetition size": "invalid repeat count",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
}
"""Texts of RE2 and of Go for the same syntax error, where they differ."""
_LOOK_BEHIND: Final = frozenset({"(?<!", "(?<="})
"""What Go reports as the name of a group."""
_OPTIONS: Final = re2.Options()
_OPTIONS.log_errors = False


class Match(Protocol):
    """One match of a pattern."""

    def group(self) -> str:
        """Return the matched text."""
        ...


class Pattern(Protocol):
    """A compiled pattern."""

    def search(self, text: str) -> Match | None:
        """Return the first match."""
        ...

    def finditer(self, text: str) -> Iterator[Match]:
        """Yield all matches that do not overlap."""
        ...


class PatternError(ValueError):
    """A pattern that Go would not compile, with Go's text."""


@lru_cache(maxsize=4096)
def compile_pattern(pattern: str) -> Pattern:
    """Compile a pattern; raises PatternError."""
    try:
        compiled: Pattern = re2.compile(pattern, _OPTIONS)
    except re2.error as error:
        text, _, part = error.args[0].decode().partition(": ")
        if part in _LOOK_BEHIND:
            text, part = "invalid named capture", _capture_name(pattern[pattern.index(part) :])
        raise PatternError(f"error parsing regexp: {_GO_ERRORS.get(text, text)}: `{part}`") from None
    return compiled


def _capture_name(rest: str) -> str:
    """Return the start of a pattern that Go takes for the name of a group: up to `>`, or all."""
    return rest[: rest.find(">") + 1] or rest
