"""Redaction of journals and saved states: stable pseudonyms in place of names, labels, images and other texts.

Every word that neither Kubernetes nor volcanoio knows is replaced by the same pseudonym everywhere, so that names that
are made of others (`JOB-TASK-0`), selectors and keys still fit together. Pseudonyms sort as the words did, and nodes
keep the hash of their name as an annotation: the scheduler breaks ties by both. Suffixes that the job controller
derives become those of the pseudonyms; numbers, amounts, times and uids stay. So a redacted journal replays to the same
decisions.
"""

from __future__ import annotations

import importlib.util
import os
import pkgutil
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import CodeType
from typing import Any

import msgspec

from volcanoio.bus.journal import SUFFIX, JournalError
from volcanoio.bus.redaction import redact
from volcanoio.engine.jobs.pods.manifests import name_suffix
from volcanoio.engine.jobs.pods.plugins import CONTENT_ANNOTATION
from volcanoio.engine.scheduling.cluster.node_columns import name_hash
from volcanoio.model import kinds
from volcanoio.model.base import Manifest, ObjectMeta
from volcanoio.model.batch import Job
from volcanoio.model.names import NAME_HASH

_PACKAGES = (
    "volcanoio.model",
    "volcanoio.framework",
    "volcanoio.engine",
    "volcanoio.bus",
    "volcanoio.runtime",
    "volcanoio.compose.journals",
    "volcanoio_plugins",
    "volcanoio_policies",
)
"""Packages whose words have a meaning; those of other distributions are named with `keep`."""
_LITERAL = re.compile(r'"(?:[^"\\]|\\.)*"')
_START = r"(?<![0-9A-Za-z])"
_PART = re.compile(
    rf"(?P<uid>{_START}[0-9a-f]{{8}}-[0-9a-f]{{4}}-[0-9a-f]{{4}}-[0-9a-f]{{4}}-[0-9a-f]{{12}}(?![0-9A-Za-z]))"
    rf"|(?P<time>{_START}\d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d))"
    rf"|(?P<address>{_START}\d{{1,3}}(?:\.\d{{1,3}}){{3}}(?![0-9A-Za-z]))"
    r"|(?P<word>[^\W_]+)"
)
"""A part of a text that is replaced or kept as a whole."""
_PLAIN = re.compile(
    r"\d+(?:n|u|m|k|[MGTPE]|[KMGTPE]i|[eE]\d+)?"  # numbers and quantities
    r"|(?:\d+(?:ns|us|µs|ms|s|m|h|d))+"  # durations
)
"""Words that are kept whatever they are."""
_OPAQUE = re.compile(f'"(?:uid|transitionID|{CONTENT_ANNOTATION})": ?"([0-9a-f]{{16,}})"')
"""Uids without hyphens, ids of transitions, and digests of Secrets, which are kept: replays compute them."""
_NAMED = re.compile(r'"(?:name|namespace|queue|nodeName|group|parent|priorityClassName|key)": ?("(?:[^"\\]|\\.)*")')
"""Fields by which objects are ordered."""
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_LOCAL = ("0.0.0.0", "127.0.0.1")
_CACHED = 1 << 18
"""Texts whose replacement is remembered."""


@cache
def vocabulary() -> frozenset[str]:
    """Return the words in the constants of volcanoio's code and in the names of fields; docstrings are not read."""
    found: set[str] = set()
    for package in _PACKAGES:
        spec = importlib.util.find_spec(package)
        paths = spec.submodule_search_locations if spec is not None else None
        for module in pkgutil.walk_packages(paths or (), f"{package}."):
            if (inner := importlib.util.find_spec(module.name)) is not None and inner.loader is not None:
                code = getattr(inner.loader, "get_code", lambda _: None)(module.name)
                _collect(code, found)
    rest: list[type[msgspec.Struct]] = [msgspec.Struct]
    while rest:
        inherited: list[type[msgspec.Struct]] = rest.pop().__subclasses__()
        rest += inherited
        for struct in inherited:
            found.update(getattr(struct, "__struct_encode_fields__", ()), (struct.__name__,))
    return frozenset(word for text in found for word in re.findall(r"[^\W_]+", text))


def _collect(code: CodeType | None, found: set[str]) -> None:
    """Add the constants of a code object, apart from its docstring, which comes first."""
    if code is None:
        return
    consts: Sequence[Any] = code.co_consts
    if "__doc__" in code.co_names:
        skipped = 1 if "__qualname__" in code.co_names else 0
        consts = (*consts[:skipped], *consts[skipped + 1 :])
    elif code.co_name != "<module>":
        consts = consts[1:]
    rest = [*consts]
    while rest:
        value = rest.pop()
        if isinstance(value, str):
            found.add(value)
        elif isinstance(value, CodeType):
            _collect(value, found)
        elif isinstance(value, tuple | frozenset):
            rest.extend(value)


@dataclass
class Pseudonyms:
    """Replacements of words: learn all texts first, then replace. `keep` are further words that stay."""

    keep: frozenset[str] = frozenset()
    _words: set[str] = field(default_factory=set)
    _fixed: set[str] = field(default_factory=set)
    _addresses: set[str] = field(default_factory=set)
    _opaque: set[str] = field(default_factory=set)
    _mounts: set[tuple[str, str]] = field(default_factory=set)
    """Uids and mount paths of Jobs, from which the job controller derives suffixes of names."""
    _replacements: dict[str, str] = field(default_factory=dict)
    _texts: dict[str, str] = field(default_factory=dict)

    def learn(self, content: str) -> None:
        """Learn the words of a JSON text."""
        for literal in set(_LITERAL.findall(content)) - self._texts.keys():
            self._remember(literal, "")
            for part in _PART.finditer(_decoded(literal)):
                if part.lastgroup == "address":
                    self._addresses.add(part[0])
                elif part.lastgroup == "word" and not self._stays(part[0]):
                    self._words.add(part[0])
        for literal in set(_NAMED.findall(content)):
            words = re.findall(r"[^\W_]+", _decoded(literal))
            self._fixed.update(word for word in words if not _PLAIN.fullmatch(word) and self._stays(word))
        self._opaque.update(_OPAQUE.findall(content))

    def learn_mounts(self, job: Manifest) -> None:
        """Learn from which texts of a Job names are derived."""
        uid = (job.get("metadata") or {}).get("uid") or ""
        volumes = (job.get("spec") or {}).get("volumes") or ()
        self._mounts.update((uid, volume.get("mountPath") or "") for volume in volumes)

    def complete(self) -> None:
        """Assign the pseudonyms."""
        suffixes = {_suffix(uid, path): (uid, path) for uid, path in self._mounts}
        self._words -= self._opaque | suffixes.keys()
        self._assign()
        self._texts.clear()
        for suffix, texts in suffixes.items():
            self._replacements[suffix] = _suffix(*map(self._replaced, texts))

    def _assign(self) -> None:
        fixed = sorted(self._fixed)
        groups: dict[str, list[str]] = {}
        for word in sorted(self._words):
            number = word[: len(word) - len(word.lstrip(_DIGITS[:10]))]
            before = fixed[place - 1] if (place := bisect_right(fixed, word)) else ""
            if number:
                base = before if before.startswith(number) else f"{number}a"
            else:
                base = "9z" if not before or before[0].isdigit() else before
            groups.setdefault(base, []).append(word)
        for base, words in groups.items():
            width = max(len(_number(len(words))), 2)
            for index, word in enumerate(words):
                self._replacements[word] = f"{base}0{_number(index).rjust(width, '0')}"
        for index, address in enumerate(sorted(self._addresses - {*_LOCAL})):
            self._replacements[address] = f"10.{index >> 16 & 255}.{index >> 8 & 255}.{index & 255}"

    def replace(self, content: str) -> str:
        """Return a JSON text with pseudonyms."""
        return _LITERAL.sub(self._literal, content)

    def _stays(self, word: str) -> bool:
        if _PLAIN.fullmatch(word):
            return True
        stem = word.rstrip(_DIGITS[:10])
        return any(each in self.keep or each in vocabulary() for each in (word, stem))

    def _literal(self, match: re.Match[str]) -> str:
        literal = match[0]
        if (known := self._texts.get(literal)) is None:
            known = msgspec.json.encode(self._replaced(_decoded(literal))).decode()
            self._remember(literal, known)
        return known

    def _replaced(self, text: str) -> str:
        return _PART.sub(lambda part: self._replacements.get(part[0], part[0]), text)

    def _remember(self, literal: str, replacement: str) -> None:
        if len(self._texts) >= _CACHED:
            self._texts.clear()
        self._texts[literal] = replacement


def _decoded(literal: str) -> str:
    return literal[1:-1] if "\\" not in literal else msgspec.json.decode(literal.encode(), type=str)


def _suffix(uid: str, path: str) -> str:
    return name_suffix(Job(metadata=ObjectMeta(uid=uid)), path)


def _number(number: int) -> str:
    """Return a number in base 36."""
    text = ""
    while number or not text:
        number, digit = divmod(number, 36)
        text = _DIGITS[digit] + text
    return text


class JournalRedaction:
    """A redacted copy of all segments below a directory, with the same files and lines; raises JournalError.

    `keep` are words that stay.
    """

    def __init__(self, source: Path, keep: Iterable[str] = ()) -> None:
        self._source = source
        self._segments = sorted(source.rglob(f"*{SUFFIX}"))
        if not self._segments:
            raise JournalError(f"{source}: no journal; give the directory of --journal")
        self._pseudonyms = Pseudonyms(frozenset(keep))
        for segment in self._segments:
            for line in _lines(segment):
                self._pseudonyms.learn(line)
                if _JOB_EVENT in line[:400] and '"mountPath"' in line:
                    for job in _objects(msgspec.json.decode(line)):
                        self._pseudonyms.learn_mounts(job)
        self._pseudonyms.complete()

    def write(self, into: Path, digests: Mapping[str, str] | None = None) -> None:
        """Write the copy, over an earlier one.

        `digests` of contents that are not in a journal depend on the names: a replay shows those of the pseudonyms.
        """
        for segment in self._segments:
            target = into / segment.relative_to(self._source)
            target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            number = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(number, "w", encoding="utf-8") as file:
                for line in _lines(segment):
                    text = self._pseudonyms.replace(_with_hashes(line))
                    for digest in set(_DIGEST.findall(text)) if digests else ():
                        text = text.replace(digest, digests.get(digest, digest)) if digests else text
                    file.write(text + "\n")


_DIGEST = re.compile(f'"{CONTENT_ANNOTATION}":"([0-9a-f]+)"')


def _lines(segment: Path) -> Iterator[str]:
    """Yield the complete lines of a segment; raises JournalError."""
    try:
        with segment.open(encoding="utf-8") as lines:
            for line in lines:
                if line.endswith("\n"):
                    yield line.rstrip("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise JournalError(f"{segment}: {error}; give the directory of --journal") from error


_NODE_EVENT, _JOB_EVENT = (f'"resource":"{kind.resource}"' for kind in (kinds.NODE, kinds.JOB))


def _objects(record: Any) -> Iterator[Manifest]:
    """Yield the objects in the fields of a decoded event."""
    for value in (record.get("event") or {}).values():
        if isinstance(value, dict) and "$object" in value:
            yield value["$object"]


def _with_hashes(line: str) -> str:
    """Return the line of an observed node with the hash of its name; other lines as they are."""
    if _NODE_EVENT not in line[:400]:
        return line
    record = msgspec.json.decode(line)
    for node in _objects(record):
        _add_hash(node)
    return msgspec.json.encode(record).decode()


def _add_hash(node: Manifest) -> None:
    annotations = node["metadata"].setdefault("annotations", {})
    annotations.setdefault(NAME_HASH, str(name_hash(node["metadata"]["name"])))


def redact_state(manifests: Iterable[Manifest], keep: Iterable[str] = ()) -> bytes:
    """Return a redacted List of objects as JSON; environments and Secret data are left out."""
    items = []
    for manifest in manifests:
        item = redact(manifest)
        item.get("metadata", {}).pop("managedFields", None)
        if item.get("kind") == kinds.NODE.kind and item.get("metadata", {}).get("name"):
            _add_hash(item)
        items.append(item)
    content = msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": items}).decode()
    pseudonyms = Pseudonyms(frozenset(keep))
    for item in items:
        if item.get("kind") == kinds.JOB.kind:
            pseudonyms.learn_mounts(item)
    pseudonyms.learn(content)
    pseudonyms.complete()
    return pseudonyms.replace(content).encode()
