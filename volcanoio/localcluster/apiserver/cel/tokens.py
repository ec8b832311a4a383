"""Text to tokens (cel-spec, "Lexical syntax")."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from volcanoio.localcluster.apiserver.cel.errors import Issue

_ESCAPE: Final = r"""\\(?:[abfnrtv\\?"'`]|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-3][0-7]{2})"""
_TOKEN: Final = re.compile(
    rf"""(?P<space>(?:[\t\n\f\r ]|//[^\n]*)+)
      | (?P<bytes>(?:[bB][rR]|[rR][bB])(?:\"{{3}}[\s\S]*?\"{{3}}|'{{3}}[\s\S]*?'{{3}}|"[^"\n\r]*"|'[^'\n\r]*')
               |[bB](?:\"{{3}}(?:{_ESCAPE}|[^\\])*?\"{{3}}|'{{3}}(?:{_ESCAPE}|[^\\])*?'{{3}}
                      |"(?:{_ESCAPE}|[^\\"\n\r])*"|'(?:{_ESCAPE}|[^\\'\n\r])*'))
      | (?P<string>[rR](?:\"{{3}}[\s\S]*?\"{{3}}|'{{3}}[\s\S]*?'{{3}}|"[^"\n\r]*"|'[^'\n\r]*')
               |\"{{3}}(?:{_ESCAPE}|[^\\])*?\"{{3}}|'{{3}}(?:{_ESCAPE}|[^\\])*?'{{3}}
               |"(?:{_ESCAPE}|[^\\"\n\r])*"|'(?:{_ESCAPE}|[^\\'\n\r])*')
      | (?P<float>\d+\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\.\d+(?:[eE][+-]?\d+)?)
      | (?P<uint>(?:0x[0-9a-fA-F]+|\d+)[uU])
      | (?P<int>0x[0-9a-fA-F]+|\d+)
      | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
      | (?P<quoted>`[A-Za-z0-9_.\-/\ ]+`)
      | (?P<op>==|!=|<=|>=|&&|\|\||[-+*/%!<>?:.,()\[\]{{}}])
    """,
    re.VERBOSE,
)
_BROKEN: Final = re.compile(rf"""(["'])(?:{_ESCAPE}|(?!\1)[^\\\n\r])*(?:\\.?)?""")
"""As much of a text as is read before it turns out not to be one."""
_SIMPLE_ESCAPES: Final = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
    "\\": "\\", "?": "?", '"': '"', "'": "'", "`": "`",
}  # fmt: skip
_NUMBERS: Final = (("x", 2, 16), ("X", 2, 16), ("u", 4, 16), ("U", 8, 16))


class Token(NamedTuple):
    """One token; `kind` is the group of the pattern, `end` for the end of the text."""

    kind: str
    text: str
    at: int


def tokens(source: str) -> tuple[list[Token], list[Issue]]:
    """All tokens and the end, and what is none."""
    found: list[Token] = []
    issues: list[Issue] = []
    at = 0
    while at < len(source):
        match = _TOKEN.match(source, at)
        if match is None:
            broken = _BROKEN.match(source, at)
            shown = broken.group() if broken is not None else source[at]
            issues.append(Issue(at, f"Syntax error: token recognition error at: '{shown}'"))
            at += len(shown)
            continue
        kind = match.lastgroup or ""
        if kind != "space":
            found.append(Token(kind, match.group(), at))
        at = match.end()
    found.append(Token("end", "<EOF>", len(source)))
    return found, issues


def text_of(token: str) -> str:
    """The value of a string literal; raises ValueError for an escape that does not exist."""
    prefix = len(token) - len(token.lstrip("rRbB"))
    raw = "r" in token[:prefix].lower()
    body = token[prefix:]
    quotes = 3 if len(body) >= 6 and body[:3] in {'"""', "'''"} else 1
    body = body[quotes:-quotes].replace("\r\n", "\n").replace("\r", "\n")
    return body if raw else _unescaped(body)


def bytes_of(token: str) -> bytes:
    """The value of a bytes literal; raises ValueError."""
    text = text_of(token)
    return text.encode("latin-1") if all(ord(one) < 256 for one in text) and "\\" in token else text.encode()


def _unescaped(body: str) -> str:
    if "\\" not in body:
        return body
    found: list[str] = []
    at = 0
    while at < len(body):
        if body[at] != "\\":
            end = body.find("\\", at)
            end = len(body) if end < 0 else end
            found.append(body[at:end])
            at = end
            continue
        letter = body[at + 1 : at + 2]
        if letter in _SIMPLE_ESCAPES:
            found.append(_SIMPLE_ESCAPES[letter])
            at += 2
            continue
        size, base, start = next(
            ((size, base, at + 2) for one, size, base in _NUMBERS if one == letter), (3, 8, at + 1)
        )
        digits = body[start : start + size]
        if len(digits) < size:
            raise ValueError("unable to unescape string")
        found.append(chr(int(digits, base)))
        at = start + size
    return "".join(found)
