"""Names in backticks in docstrings and comments of the product exist."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PRODUCT = ("volcanoio", "plugins/volcanoio_plugins", "policies/volcanoio_policies")
FOREIGN = frozenset({
    # Go: Kubernetes, Volcano, cel-go, robfig/cron
    "EnqueueRequestsFromMapFunc", "IsDNS1035Label", "MaxRequestBodyBytes", "NewGenericServerResponse",
    "SimulateRemoveTask", "StatusReason", "cache.Indexers", "cel.OptionalTypes", "cron.ParseStandard",
    "duration.HumanDuration", "fieldpath", "generateEmbeddedObjectMeta", "managedfields", "metav1.LabelSelector",
    "metav1.Time", "noderesources.Fits", "tableconvertor", "time.ParseDuration", "typed", "url.ParseRequestURI",
    # Kubernetes: libraries of CEL, reasons, models, groups, keys of quotas
    "CoreV1Event", "OutOfcpu", "OutOfmemory", "OutOfpods", "V1Pod", "authorizer", "kubernetes.io", "kubernetes.lists",
    "kubernetes.urls", "metrics.k8s.io", "patchMergeKey", "requests.", "requests.cpu", "restartPolicyRules",
    # Python
    "selectors.BaseSelector.select", "torch.distributed", "watchfiles", "yield",
})  # fmt: skip
"""Names of other projects, which our code does not contain."""
FIELD = re.compile(r"(?:spec|status|metadata)\.[a-z]\w*(?:\.[a-z]\w*)*$|[a-z]+(?:[A-Z]\w*)$")
"""A field of an API object in its JSON form."""
GO_FILE = re.compile(r"\w+\.go$")

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


@cache
def _paths() -> tuple[tuple[str, ...], ...]:
    """Each module as the names of its folders and its own."""
    return tuple(tuple(path.removesuffix(".py").removesuffix("/__init__").split("/")) for path in _code())


@cache
def _words_at(path: tuple[str, ...]) -> frozenset[str]:
    """The words of the modules whose path ends with these names, or that are below such a package."""
    size = len(path)
    found = {
        file
        for file, folders in zip(_code(), _paths(), strict=True)
        if any(folders[at : at + size] == path for at in range(len(folders) - size + 1))
    }
    return frozenset(word for file in found for word in re.findall(r"\w+", _code()[file]))


def _is_below_package(name: str) -> bool:
    """Whether a dotted name is a module's path, followed by names that the module or package contains."""
    parts = tuple(name.split("."))
    return any(
        (words := _words_at(parts[:size])) and words.issuperset(parts[size:]) for size in range(len(parts), 0, -1)
    )


def _is_field(name: str, local: frozenset[str]) -> bool:
    """Whether all parts of a field's JSON path are attributes in snake_case, or keys."""
    parts = [re.sub(r"(?<=[a-z])[A-Z]", lambda found: f"_{found[0]}".lower(), part) for part in name.split(".")]
    return all({part, snake} & (local | _offered()) for part, snake in zip(name.split("."), parts, strict=True))


def _exists(name: str, local: frozenset[str]) -> bool:
    """Whether a name, dotted or not, is offered by a module or used in the one that mentions it (`local`)."""
    if FIELD.match(name) and _is_field(name, local):
        return True
    first, *rest = name.split(".")
    if not rest:
        return name in local or name in _offered()
    if _is_below_package(name):
        return True
    if (words := _words_of(first)) and first not in local:
        return words.issuperset(rest)
    return all(part in local or part in _offered() for part in (first, *rest))


def test_names_in_docstrings_and_comments_exist() -> None:
    unknown = []
    for path, text in _code().items():
        local = frozenset(re.findall(r"\w+", text))
        for line, shown in _texts(path):
            names = [name for name in QUOTED.findall(shown) if name not in FOREIGN and not GO_FILE.match(name)]
            unknown += [f"{path}:{line}: `{name}`" for name in names if not _exists(name, local)]
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
    assert _exists("kube.InformerSet", local)
    assert not _exists("kube.ClusterState", local)
    assert _exists("spec.schedulerName", local)
    assert not _exists("spec.schedulersName", local)
