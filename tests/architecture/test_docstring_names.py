"""Names in backticks in the scheduling engine's docstrings and comments exist in the product."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PRODUCT = ("volcanoio", "plugins/volcanoio_plugins", "policies/volcanoio_policies")
CHECKED = ("volcanoio/engine/scheduling", "plugins/volcanoio_plugins/actions")
ALLOWED = frozenset({"status.nominatedNodeName"})
"""Names of Kubernetes, Volcano or a library that no code of ours contains."""

TEXT = re.compile(r'"""(.*?)"""|(?:^|\s)#(.*?)$', re.DOTALL | re.MULTILINE)
"""A docstring or a comment."""
QUOTED = re.compile(r"`([A-Za-z_][\w.]*)`")
OFFERED = re.compile(
    r'(?:def|class) (\w+)|\.(\w+)|(\w+)(?:: |=)|^(?: {4})?(\w+) = |import (\w+)|"([\w./-]+)"', re.MULTILINE
)
"""What other modules may refer to: definitions, attributes, parameters, constants, keys; no local variables."""


@cache
def _code() -> dict[str, str]:
    """The product's code by path, without docstrings and comments."""
    files = [path for part in PRODUCT for path in sorted((ROOT / part).rglob("*.py"))]
    return {path.relative_to(ROOT).as_posix(): TEXT.sub("", path.read_text("utf-8")) for path in files}


@cache
def _offered() -> frozenset[str]:
    """All names that a text in any module may contain."""
    names = {part for path in _code() for part in path.removesuffix(".py").split("/")}
    for text in _code().values():
        for match in OFFERED.findall(text):
            names.update(re.split(r"[./-]", max(match, key=len)))
    return frozenset(names)


@cache
def _words_of(name: str) -> frozenset[str]:
    """The words of the modules called so, or of those that define a class and its bases; none if there is neither."""
    definition = re.compile(rf"^\s*class {name}\b(?:\(([^)]*)\))?", re.MULTILINE)
    words: set[str] = set()
    for path, text in _code().items():
        *folders, file = path.removesuffix(".py").split("/")
        if file == name:
            words.update(re.findall(r"\w+", text))
        elif name in folders:
            words.update((*folders, file))
        if f"class {name}" in text and (found := definition.search(text)):
            words.update(re.findall(r"\w+", text))
            for base in re.findall(r"\w+", found[1] or ""):
                words |= _words_of(base)
    return frozenset(words)


def _texts(path: str) -> Iterator[tuple[int, str]]:
    """Yield the docstrings and comments of a file with their lines."""
    whole = (ROOT / path).read_text("utf-8")
    for match in TEXT.finditer(whole):
        for offset, line in enumerate(match[0].split("\n")):
            yield whole.count("\n", 0, match.start()) + offset + 1, line


def _exists(name: str, local: frozenset[str]) -> bool:
    """Whether a name, dotted or not, is offered by a module or used in the one that mentions it (`local`)."""
    first, *rest = name.split(".")
    if rest and (words := _words_of(first)):
        return words.issuperset(rest)
    return all(part in local or part in _offered() for part in (first, *rest))


def test_names_in_docstrings_and_comments_exist() -> None:
    unknown = []
    for path, text in _code().items():
        if path.startswith(CHECKED):
            local = frozenset(re.findall(r"\w+", text))
            for line, shown in _texts(path):
                names = [name for name in QUOTED.findall(shown) if name not in ALLOWED and not _exists(name, local)]
                unknown += [f"{path}:{line}: `{name}`" for name in names]
    assert not unknown, "\n".join(unknown)


def test_names_are_looked_up_where_they_are_defined() -> None:
    local = frozenset({"placed"})
    assert _exists("placed", local)
    assert _exists("NodeColumns.changed_at", local)
    assert _exists("CycleSession.set_condition", local)  # of a base class
    assert not _exists("NodeColumns.set_condition", local)
    assert _exists("placement.score_table", local)
    assert not _exists("placement.statement", local)
    assert not _exists("Columns.changed_before", local)
