"""Parser from text to a syntax tree (cel-spec, "Lexical syntax" and "Syntax").

It uses precedence climbing, and expands macros to nodes of their own.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from volcanoio.model.cel import macros
from volcanoio.model.cel.errors import CompileError, Issue
from volcanoio.model.cel.nodes import Call, Ident, ListNode, Literal, MapNode, Node, Select, Struct
from volcanoio.model.cel.types import BOOL, BYTES, DOUBLE, INT, NULL, STRING, UINT
from volcanoio.model.cel.values import UInt

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
"""The part of an invalid string literal that errors report."""
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
    """Return all tokens with an end token, and the issues of invalid text."""
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
    """Return the value of a string literal; raises ValueError for an invalid escape."""
    prefix = len(token) - len(token.lstrip("rRbB"))
    raw = "r" in token[:prefix].lower()
    body = token[prefix:]
    quotes = 3 if len(body) >= 6 and body[:3] in {'"""', "'''"} else 1
    body = body[quotes:-quotes].replace("\r\n", "\n").replace("\r", "\n")
    return body if raw else _unescaped(body)


def bytes_of(token: str) -> bytes:
    """Return the value of a bytes literal; raises ValueError."""
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


MAX_DEPTH: Final = 250
"""Maximal nesting of expressions (cel-go's limit)."""
MAX_LENGTH: Final = 100_000
"""Maximal code points of an expression (cel-go's limit)."""

_BINARY: Final[tuple[dict[str, str], ...]] = (
    {"||": "_||_"},
    {"&&": "_&&_"},
    {"<": "_<_", "<=": "_<=_", ">": "_>_", ">=": "_>=_", "==": "_==_", "!=": "_!=_", "in": "@in"},
    {"+": "_+_", "-": "_-_"},
    {"*": "_*_", "/": "_/_", "%": "_%_"},
)
"""Operators by increasing precedence; all associate to the left."""
_START: Final = (
    "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}"
)
_RESERVED: Final = frozenset(
    {
        "as", "break", "const", "continue", "else", "for", "function", "if", "import", "let", "loop", "package",
        "namespace", "return", "var", "void", "while",
    }
)  # fmt: skip
_CONSTANTS: Final = {"true": (True, BOOL), "false": (False, BOOL), "null": (None, NULL)}


def parse(source: str, *, binds: bool = False) -> Node:
    """Parse an expression, in which `cel.bind` is a macro if `binds` is set; raises CompileError."""
    if len(source) > MAX_LENGTH:
        text = f"expression code point size exceeds limit: size: {len(source)}, limit {MAX_LENGTH}"
        raise CompileError(source, [Issue(0, text)])
    parser = _Parser(source, binds=binds)
    node = parser.expression()
    if parser.token.kind != "end":
        last = parser.follows("<EOF>")
        parser.fail("extraneous input" if last else "mismatched input", "<EOF>")
    if parser.issues:
        raise CompileError(source, parser.issues)
    return node


class _Parser:
    """Parser that reads tokens from the left; `issues` are errors that do not stop it."""

    def __init__(self, source: str, *, binds: bool) -> None:
        self._source = source
        self._binds = binds
        self._tokens, self.issues = tokens(source)
        self._at = 0
        self._depth = 0

    @property
    def token(self) -> Token:
        """The next token."""
        return self._tokens[self._at]

    def follows(self, text: str) -> bool:
        """Return whether the token after the next one has this text."""
        return self._tokens[self._at + 1].text == text

    def fail(self, what: str, expecting: str) -> None:
        """Raise CompileError at the next token."""
        text = f"Syntax error: {what} '{self.token.text}'" + (f" expecting {expecting}" if expecting else "")
        raise CompileError(self._source, [*self.issues, Issue(self.token.at, text)])

    def expression(self) -> Node:
        """Parse a whole expression: a condition with `?:`, or an operator of higher precedence."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            text = f"expression recursion limit exceeded: {MAX_DEPTH}"
            raise CompileError(self._source, [Issue(self.token.at, text)])
        node = self._binary(0)
        if self.token.text == "?" and self.token.kind == "op":
            at = self._next().at
            then = self._binary(0)
            self._expect(":")
            node = Call(at, "_?_:_", None, [node, then, self.expression()])
        self._depth -= 1
        return node

    def _binary(self, level: int) -> Node:
        if level == len(_BINARY):
            return self._unary()
        operators = _BINARY[level]
        node = self._binary(level + 1)
        while self.token.kind in {"op", "name"} and self.token.text in operators:
            token = self._next()
            node = Call(token.at, operators[token.text], None, [node, self._binary(level + 1)])
        return node

    def _unary(self) -> Node:
        token = self.token
        if token.kind != "op" or token.text not in {"!", "-"}:
            return self._member()
        if token.text == "-" and self._tokens[self._at + 1].kind in {"int", "float"}:
            self._next()
            return self._member(negative=True)
        count = 0
        while self.token.kind == "op" and self.token.text == token.text:
            self._next()
            count += 1
        node = self._member()
        if count % 2 == 0:
            return node
        return Call(token.at, "!_" if token.text == "!" else "-_", None, [node])

    def _member(self, *, negative: bool = False) -> Node:
        node = self._primary(negative=negative)
        while self.token.kind == "op" and self.token.text in {".", "[", "{"}:
            token = self.token
            if token.text == "{":
                name = macros.qualified_name(node)
                if not name:
                    break
                self._next()
                self._struct_fields()
                node = Struct(token.at, name)
            elif token.text == ".":
                self._next()
                optional = self._accept("?")
                name = self._name(selector=True)
                if self.token.text == "(" and self.token.kind == "op" and not optional:
                    at = self._next().at
                    node = self._call(Call(at, name, node, self._list(")")[0]))
                else:
                    node = Select(token.at, node, name, optional=optional)
            else:
                self._next()
                function = "_[?_]" if self._accept("?") else "_[_]"
                index = self.expression()
                self._expect("]")
                node = Call(token.at, function, None, [node, index])
        return node

    def _primary(self, *, negative: bool) -> Node:
        token = self.token
        if token.kind in {"int", "uint", "float", "string", "bytes"}:
            return self._literal(self._next(), negative=negative)
        if token.kind == "name" and token.text in _CONSTANTS:
            value, type_ = _CONSTANTS[self._next().text]
            return Literal(token.at, value, type_)
        if token.kind == "op" and token.text in {"(", "[", "{"}:
            return self._bracketed(self._next())
        if token.kind == "name" or (token.kind == "op" and token.text == "."):
            self._accept(".")
            token = self.token
            name = self._name(selector=False)
            if self.token.kind == "op" and self.token.text == "(":
                at = self._next().at
                return self._call(Call(at, name, None, self._list(")")[0]))
            if name in _RESERVED:
                self.issues.append(Issue(token.at, f"reserved identifier: {name}"))
            return Ident(token.at, name)
        self.fail("mismatched input", _START)
        raise AssertionError("fail raises")

    def _bracketed(self, opened: Token) -> Node:
        if opened.text == "(":
            node = self.expression()
            self._expect(")")
            return node
        if opened.text == "[":
            items, optional = self._list("]")
            return ListNode(opened.at, items, optional)
        entries: list[tuple[Node, Node]] = []
        chosen: set[int] = set()
        while not self._accept("}"):
            if self._accept("?"):
                chosen.add(len(entries))
            key = self.expression()
            self._expect(":")
            entries.append((key, self.expression()))
            if not self._accept(",") and self.token.text != "}":
                self._expect("}")
        return MapNode(opened.at, entries, chosen)

    def _list(self, end: str) -> tuple[list[Node], set[int]]:
        """Parse expressions up to `end`, and which of them are optional (in lists)."""
        items: list[Node] = []
        optional: set[int] = set()
        while not self._accept(end):
            if end == "]" and self._accept("?"):
                optional.add(len(items))
            items.append(self.expression())
            if self._accept(","):
                if end == ")" and self.token.text == end:
                    self.fail("mismatched input", _START)
            elif self.token.text != end or self.token.kind != "op":
                self._expect(end)
        return items, optional

    def _struct_fields(self) -> None:
        while not self._accept("}"):
            self._accept("?")
            self._name(selector=True)
            self._expect(":")
            self.expression()
            if not self._accept(",") and self.token.text != "}":
                self._expect("}")

    def _call(self, call: Call) -> Node:
        return macros.expand(call, self.issues, binds=self._binds)

    def _literal(self, token: Token, *, negative: bool) -> Node:
        sign = -1 if negative else 1
        at = token.at - negative
        try:
            match token.kind:
                case "string":
                    return Literal(at, text_of(token.text), STRING)
                case "bytes":
                    return Literal(at, bytes_of(token.text), BYTES)
                case "float":
                    return Literal(at, sign * float(token.text), DOUBLE)
                case "uint":
                    unsigned = int(token.text[:-1], 0 if "x" in token.text else 10)
                    if unsigned < 2**64:
                        return Literal(at, UInt(unsigned), UINT)
                case _:
                    value = sign * int(token.text, 0 if "x" in token.text else 10)
                    if -(2**63) <= value < 2**63:
                        return Literal(at, value, INT)
        except ValueError as error:
            raise CompileError(self._source, [Issue(at, str(error))]) from None
        raise CompileError(self._source, [Issue(at, f"invalid {token.kind} literal")])

    def _name(self, *, selector: bool) -> str:
        token = self.token
        if token.kind == "name" and token.text not in {*_CONSTANTS, "in"}:
            return self._next().text
        if selector and token.kind == "quoted":
            return self._next().text[1:-1]
        if selector:
            text = f"Syntax error: no viable alternative at input '.{token.text}'"
            raise CompileError(self._source, [*self.issues, Issue(token.at, text)])
        self.fail("mismatched input", "IDENTIFIER")
        raise AssertionError("fail raises")

    def _accept(self, text: str) -> bool:
        if self.token.kind == "op" and self.token.text == text:
            self._at += 1
            return True
        return False

    def _expect(self, text: str) -> None:
        if self._accept(text):
            return
        if self.token.kind == "end":
            raise CompileError(
                self._source, [*self.issues, Issue(self.token.at, f"Syntax error: missing '{text}' at '<EOF>'")]
            )
        self.fail("mismatched input", f"'{text}'")

    def _next(self) -> Token:
        token = self.token
        self._at += 1
        return token
