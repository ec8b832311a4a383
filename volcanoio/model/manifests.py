"""Reading manifests: YAML as Kubernetes reads it, with errors that say where and what to do.

PyYAML speaks YAML 1.1; Kubernetes' reader differs in that dates stay strings, `12:30` is no number, and `1e3` is one.
"""

from __future__ import annotations

import contextlib
import math
import re
import sys
from pathlib import Path
from typing import Any

import yaml

from volcanoio.model.base import Manifest
from volcanoio.model.plainyaml import NotPlainError, PlainYaml

_LoaderBase: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_INTEGER = re.compile(r"^(?:[-+]?0b[0-1_]+|[-+]?0x[0-9a-fA-F_]+|[-+]?0o?[0-7_]+|[-+]?(?:0|[1-9][0-9_]*))$")
_FLOAT = re.compile(
    r"^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$|^[-+]?\.(?:inf|Inf|INF)$|^\.(?:nan|NaN|NAN)$"
)


_ITEMS = re.compile(r"^items:\n(?=- )", re.MULTILINE)
"""Where the entries of a List begin, in a column with their key."""
_AFTER_ITEMS = re.compile(r"^(?![- \n])", re.MULTILINE)
_ENTRY = re.compile(r"^(?=- )", re.MULTILINE)
_SEPARATOR = re.compile(r"^--- *$", re.MULTILINE)
_HEADER = re.compile(r"\A(?:#.*\n)+")
"""Comments at the top, which the plain form has nowhere."""
_MARKER = re.compile(r"^(?:---(?! *$)|\.\.\.|%)", re.MULTILINE)
"""What is said of a document beside that it begins."""


class ManifestError(ValueError):
    """A file that is no manifest; the message names file, line, rule and next step."""


class KubernetesLoader(_LoaderBase):  # type: ignore[misc]  # the C loader has no type information
    """The safe loader with Kubernetes' scalars."""


def _resolvers() -> dict[str, list[tuple[str, re.Pattern[str]]]]:
    dropped = {f"tag:yaml.org,2002:{name}" for name in ("timestamp", "int", "float", "value")}
    kept = {
        first: [(tag, pattern) for tag, pattern in rows if tag not in dropped]
        for first, rows in _LoaderBase.yaml_implicit_resolvers.items()
    }
    for first in "-+0123456789":
        kept.setdefault(first, []).insert(0, ("tag:yaml.org,2002:int", _INTEGER))
    for first in "-+.0123456789":
        kept.setdefault(first, []).append(("tag:yaml.org,2002:float", _FLOAT))
    return kept


def _integer(loader: Any, node: Any) -> int | float:
    """An integer; a float where it takes more than 64 bits."""
    number = int(loader.construct_yaml_int(node))
    return number if -(2**63) <= number < 2**63 else float(number)


def construct_float(loader: Any, node: Any) -> float | str:
    """A float of YAML; a text where it is too large for one."""
    text = str(loader.construct_scalar(node))
    number = float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
    return text if math.isinf(number) and text[-1].isdigit() else number


KubernetesLoader.yaml_implicit_resolvers = _resolvers()
KubernetesLoader.add_constructor("tag:yaml.org,2002:int", _integer)
KubernetesLoader.add_constructor("tag:yaml.org,2002:float", construct_float)


def _hint(line: str) -> str:
    if re.search(r"^\s*(?:-\s*)?(?:event|events)\s*:.*(?<![\"'])\*", line) or re.search(r"^\s*-\s*\*\s*$", line):
        return '; a bare * is a YAML alias: quote it, as in event: "*"'
    if "\t" in line:
        return "; YAML is indented with spaces, not tabs"
    return "; mend the YAML there"


def _documents(text: str) -> list[Any]:
    """All documents of a text; raises yaml.YAMLError.

    What kubectl prints is read document by document and entry by entry, those beyond the plain form by themselves. A
    text with a mistake is read once more as a whole, which tells where the mistake is.
    """
    if _MARKER.search(text) is None:
        plain = PlainYaml(_resolved)
        with contextlib.suppress(yaml.YAMLError, TypeError):
            return [_document(part, plain) for part in _SEPARATOR.split(_HEADER.sub("", text))]
    return list(yaml.load_all(text, Loader=KubernetesLoader))


def _document(text: str, plain: PlainYaml) -> Any:
    """One document; a List's entries are read one by one."""
    start = _ITEMS.search(text)
    if start is None:
        return _value(text, plain)
    after = _AFTER_ITEMS.search(text, start.end())
    end = len(text) if after is None else after.start()
    frame = _value(text[: start.start()] + text[end:], plain)
    items = [item for entry in _ENTRY.split(text[start.end() : end]) if entry for item in _value(entry, plain)]
    return {**frame, "items": items}


def _value(text: str, plain: PlainYaml) -> Any:
    try:
        return plain.read(text)
    except NotPlainError:
        return yaml.load(text, Loader=KubernetesLoader)


def _resolved(text: str) -> Any:
    """The value of a plain scalar."""
    resolvers = KubernetesLoader.yaml_implicit_resolvers.get(text[0], ())
    if any(pattern.match(text) for _, pattern in resolvers):
        return yaml.load(text, Loader=KubernetesLoader)
    return sys.intern(text) if len(text) < 64 else text


def load_manifests(text: str, source: str = "input") -> list[Manifest]:
    """All documents of a YAML or JSON text, Lists unfolded, empty documents dropped; raises ManifestError."""
    try:
        documents = _documents(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        row, column = (mark.line, mark.column) if mark else (0, 0)
        lines = text.splitlines()
        line = lines[row] if row < len(lines) else ""
        msg = f"{source}, line {row + 1}, column {column + 1}: {error.problem or error}{_hint(line)}"
        raise ManifestError(msg) from None
    except yaml.YAMLError as error:
        msg = f"{source}: {error}"
        raise ManifestError(msg) from None
    manifests: list[Manifest] = []
    for number, document in enumerate(documents, start=1):
        if document is None:
            continue
        if not isinstance(document, dict) or not document.get("kind") or not document.get("apiVersion"):
            msg = f"{source}, document {number}: an object needs apiVersion and kind; write both at its top"
            raise ManifestError(msg)
        if not isinstance(document.get("metadata", {}), dict):
            msg = f"{source}, document {number}: metadata must be a mapping; write for instance metadata: {{name: x}}"
            raise ManifestError(msg)
        if document["kind"] == "List" and document["apiVersion"] == "v1":
            manifests.extend(document.get("items") or [])
        else:
            manifests.append(document)
    return manifests


def read_manifests(path: Path) -> list[Manifest]:
    """All objects of a file; raises ManifestError."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        msg = f"cannot read {path}: {error.strerror}; give the path of a YAML or JSON file"
        raise ManifestError(msg) from None
    except UnicodeDecodeError:
        msg = f"cannot read {path}: it is not UTF-8 text; give a YAML or JSON file"
        raise ManifestError(msg) from None
    return load_manifests(text, str(path))
