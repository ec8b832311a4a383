r"""Regular expressions as Go writes them (RE2: github.com/google/re2/wiki/Syntax), compiled to Python's.

Go's `$` is the very end, its `\d`, `\w`, `\s` and `\b` are ASCII, it knows `\z`, `\pL`, `[[:alpha:]]` and flags in the
middle, and it knows neither looking around nor references to groups.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from functools import cache, lru_cache
from typing import Final

_POSIX: Final = {
    "alnum": "0-9A-Za-z", "alpha": "A-Za-z", "ascii": r"\x00-\x7f", "blank": r"\t ", "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9", "graph": "!-~", "lower": "a-z", "print": " -~", "punct": r"!-/:-@\[-`{-~", "space": r"\t\n\v\f\r ",
    "upper": "A-Z", "word": "0-9A-Za-z_", "xdigit": "0-9A-Fa-f",
}  # fmt: skip
_PERL: Final = {"d": "0-9", "w": "0-9A-Za-z_", "s": r"\t\n\f\r "}
_CONTROLS: Final = frozenset("aftnrv")
_REPEAT: Final = re.compile(r"\{(\d+)(?:(,)(\d*))?\}")
_GROUP: Final = re.compile(r"\(\?(?:P?<(\w+)>|([imsU]*)(?:-([imsU]+))?([:)]))")
_MOST: Final = 1000
"""Go's limit of a repetition."""


class PatternError(ValueError):
    """Go would not compile the pattern; the text is what it says."""

    def __init__(self, text: str, part: str) -> None:
        super().__init__(f"error parsing regexp: {text}: `{part}`")


@lru_cache(maxsize=4096)
def compile_pattern(pattern: str) -> re.Pattern[str]:
    """The pattern, to be used with `search`; raises PatternError."""
    translated = _Translator(pattern).translate()
    try:
        return re.compile(translated, re.ASCII)
    except (re.error, OverflowError) as error:
        raise PatternError(f"not understood ({error})", pattern) from None


class _Translator:
    """Reads a pattern from the left and writes Python's."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self._out: list[str] = []
        # How many groups of ours end with each open group of theirs, and whether ^ and $ mean lines in it.
        self._open: list[tuple[int, bool]] = [(0, False)]
        self._starts: list[int] = []
        self._repeatable = False
        self._repeated = -1

    def translate(self) -> str:
        """Python's pattern; raises PatternError."""
        pattern = self._pattern
        while self._at < len(pattern):
            char = pattern[self._at]
            match char:
                case "\\":
                    self._out.append(self._escape())
                    self._repeatable, self._repeated = True, -1
                case "[":
                    self._out.append(self._class())
                    self._repeatable, self._repeated = True, -1
                case "(":
                    self._group()
                case ")":
                    self._close()
                case "*" | "+" | "?" | "{":
                    self._repetition(char)
                case "|":
                    self._put("|", repeatable=False)
                case "^":
                    self._put("^" if self._open[-1][1] else r"\A")
                case "$":
                    self._put("$" if self._open[-1][1] else r"\Z")
                case ".":
                    self._put(".")
                case _:
                    self._put(re.escape(char))
        if len(self._open) > 1:
            raise PatternError("missing closing )", pattern)
        return "".join(self._out) + ")" * self._open[0][0]

    def _put(self, text: str, *, repeatable: bool = True) -> None:
        self._out.append(text)
        self._at += 1
        self._repeatable, self._repeated = repeatable, -1

    def _group(self) -> None:
        pattern = self._pattern
        self._repeatable, self._repeated = False, -1
        lines = self._open[-1][1]
        if not pattern.startswith("(?", self._at):
            self._out.append("(")
            self._open.append((0, lines))
            self._at += 1
            return
        match = _GROUP.match(pattern, self._at)
        if match is None:
            if pattern.startswith(("(?<", "(?P<"), self._at):
                end = pattern.find(">", self._at) + 1
                raise PatternError("invalid named capture", pattern[self._at : end or len(pattern)])
            end = 3
            raise PatternError("invalid or unsupported Perl syntax", pattern[self._at : self._at + end])
        self._at = match.end()
        if match[1]:
            self._out.append(f"(?P<{match[1]}>")
            self._open.append((0, lines))
            return
        on, off = match[2], match[3] or ""
        lines = "m" in on or (lines and "m" not in off)
        flags = "".join(one for one in on if one in "ims") + (
            f"-{off.replace('U', '')}" if off.replace("U", "") else ""
        )
        if match[4] == ":":
            self._out.append(f"(?{flags}:")
            self._open.append((0, lines))
        else:  # up to the end of the group around it, which is a group of our own
            self._out.append(f"(?{flags}:")
            self._open[-1] = (self._open[-1][0] + 1, lines)

    def _close(self) -> None:
        if len(self._open) == 1:
            raise PatternError("unexpected )", self._pattern)
        self._out.append(")" * (self._open.pop()[0]))
        self._put(")")

    def _repetition(self, char: str) -> None:
        pattern, start = self._pattern, self._at
        if char == "{":
            match = _REPEAT.match(pattern, start)
            if match is None:
                self._put(r"\{")
                return
            least, most = int(match[1]), int(match[3] or -1)
            if least > _MOST or most > _MOST or -1 < most < least:
                raise PatternError("invalid repeat count", match.group())
            text = match.group()
        else:
            text = char
        if self._repeated >= 0:
            raise PatternError("invalid nested repetition operator", pattern[self._repeated : start + len(text)])
        if not self._repeatable:
            raise PatternError("missing argument to repetition operator", text)
        self._at += len(text)
        if pattern.startswith("?", self._at):
            text += "?"
            self._at += 1
        self._out.append(text)
        self._repeated = start

    def _escape(self) -> str:
        """One escape outside of a class."""
        pattern, start = self._pattern, self._at
        if start + 1 >= len(pattern):
            raise PatternError("trailing backslash at end of expression", "")
        char = pattern[start + 1]
        if char == "Q":
            end = pattern.find(r"\E", start + 2)
            quoted = pattern[start + 2 : end if end >= 0 else len(pattern)]
            self._at = end + 2 if end >= 0 else len(pattern)
            return re.escape(quoted)
        if char in "AbB":
            self._at += 2
            return pattern[start : start + 2]
        if char == "z":
            self._at += 2
            return r"\Z"
        if char == "C":
            self._at += 2
            return "(?s:.)"
        if char.lower() in _PERL:
            self._at += 2
            return f"[{'^' if char.isupper() else ''}{_PERL[char.lower()]}]"
        if char in "pP":
            negated, inside = self._category()
            return f"[{'^' if negated else ''}{inside}]"
        return self._character()

    def _character(self) -> str:
        """An escape that stands for one character."""
        pattern, start = self._pattern, self._at
        char = pattern[start + 1]
        self._at += 2
        if char in _CONTROLS:
            return f"\\{char}"
        if char == "x":
            match = re.compile(r"\{([0-9A-Fa-f]{1,8})\}|([0-9A-Fa-f]{2})").match(pattern, self._at)
            if match is not None and int(match[1] or match[2], 16) <= sys.maxunicode:
                self._at = match.end()
                return re.escape(chr(int(match[1] or match[2], 16)))
        elif char == "0" or (char in "1234567" and pattern[self._at : self._at + 1] in set("01234567")):
            match = re.compile(r"[0-7]{1,3}").match(pattern, start + 1)
            if match is not None:
                self._at = match.end()
                return re.escape(chr(int(match.group(), 8)))
        elif char.isascii() and not char.isalnum():
            return re.escape(char)
        raise PatternError("invalid escape sequence", pattern[start : start + 2])

    def _category(self) -> tuple[bool, str]:
        r"""`\pL`, `\p{Greek}`, `\P…`: whether it is negated, and what to write in a class."""
        match = re.compile(r"\\([pP])(?:\{(\^?)(\w+)\}|(\w))").match(self._pattern, self._at)
        if match is None:
            raise PatternError("invalid character class range", self._pattern[self._at : self._at + 2])
        inside = _members(match[3] or match[4])
        if not inside:
            raise PatternError("invalid character class range", match.group())
        self._at = match.end()
        return (match[1] == "P") != bool(match[2]), inside

    def _class(self) -> str:
        """A class in brackets."""
        pattern, start = self._pattern, self._at
        self._at += 1
        parts: list[str] = ["["]
        if pattern.startswith("^", self._at):
            parts.append("^")
            self._at += 1
        first = True
        while not pattern.startswith("]", self._at) or first:
            first = False
            if self._at >= len(pattern):
                raise PatternError("missing closing ]", pattern[start:])
            if (found := self._set()) is not None:
                parts.append(found)
                continue
            begun = self._at
            low = self._single(start)
            if pattern.startswith("-", self._at) and pattern[self._at + 1 : self._at + 2] not in {"]", ""}:
                self._at += 1
                high = self._single(start)
                low_char, high_char = (re.sub(r"^\\(?![aftnrv])", "", one) for one in (low, high))
                if len(low_char) == len(high_char) == 1 and low_char > high_char:
                    raise PatternError("invalid character class range", pattern[begun : self._at])
                low = f"{low}-{high}"
            parts.append(low)
        self._at += 1
        return "".join(parts) + "]"

    def _set(self) -> str | None:
        r"""`[:alpha:]`, `\d` or `\pL` within a class."""
        pattern = self._pattern
        if pattern.startswith("[:", self._at):
            end = pattern.find(":]", self._at + 2)
            if end >= 0:
                name = pattern[self._at + 2 : end]
                known = _POSIX.get(name.removeprefix("^"))
                if known is None:
                    raise PatternError("invalid character class range", pattern[self._at : end + 2])
                self._at = end + 2
                return known if not name.startswith("^") else _complement(known)
        if pattern.startswith("\\", self._at) and self._at + 1 < len(pattern):
            char = pattern[self._at + 1]
            if char.lower() in _PERL:
                self._at += 2
                return _PERL[char] if char.islower() else _complement(_PERL[char.lower()])
            if char in "pP":
                negated, inside = self._category()
                return _complement(inside) if negated else inside
        return None

    def _single(self, start: int) -> str:
        pattern = self._pattern
        if self._at >= len(pattern):
            raise PatternError("missing closing ]", pattern[start:])
        if pattern[self._at] == "\\":
            if self._at + 1 >= len(pattern):
                raise PatternError("missing closing ]", pattern[start:])
            if pattern[self._at + 1].lower() in {*_PERL, "p"}:
                raise PatternError("invalid character class range", pattern[self._at - 2 : self._at + 2])
            return self._character()
        self._at += 1
        char = pattern[self._at - 1]
        return char if char.isalnum() else f"\\{char}"


@cache
def _complement(inside: str) -> str:
    """All other characters, as ranges."""
    excluded = re.compile(f"[{inside}]", re.ASCII)
    return _ranges([not excluded.match(chr(code)) for code in range(sys.maxunicode + 1)])


@cache
def _members(name: str) -> str:
    """The characters of a Unicode category (`L`, `Lu`) or script, as ranges; empty for an unknown one."""
    if re.fullmatch(r"[CLMNPSZ][a-z]?", name):
        return _ranges([unicodedata.category(chr(code)).startswith(name) for code in range(sys.maxunicode + 1)])
    script = f"{name.upper()} "
    return _ranges([unicodedata.name(chr(code), "").startswith(script) for code in range(sys.maxunicode + 1)])


def _ranges(members: list[bool]) -> str:
    found: list[str] = []
    start = -1
    for code, member in enumerate([*members, False]):
        if member and start < 0:
            start = code
        elif not member and start >= 0:
            found.append(f"{_code(start)}-{_code(code - 1)}")
            start = -1
    return "".join(found)


def _code(code: int) -> str:
    return f"\\U{code:08x}"
