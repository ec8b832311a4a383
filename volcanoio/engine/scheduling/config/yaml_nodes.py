"""YAML nodes with positions, so that each problem names line and column. Problems are collected; reading continues."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, NamedTuple

import yaml

from volcanoio.framework.arguments import suggestion
from volcanoio.model.documents import compose_yaml, construct_yaml


class Place(NamedTuple):
    """A position in a file; line and column count from 1."""

    line: int = 0
    column: int = 0


@dataclass(frozen=True, slots=True)
class Problem:
    """A violated rule with its position and how to fix it; lines and columns count from 1."""

    line: int
    column: int
    rule: str
    advice: str = ""

    def __str__(self) -> str:
        """Return `line 4, column 11: rule; advice`; without a position if there is no file."""
        if not self.line:
            return f"{self.rule}{self.advice}"
        return f"line {self.line}, column {self.column}: {self.rule}{self.advice}"


class Reader:
    """Composes one document and collects its problems; `warnings` need not be fixed."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.warnings: list[Problem] = []

    def document(self, text: str, expected: str) -> Value | None:
        """Return the root of the document, None (and a problem) if it is empty; `expected` is what it needs."""
        try:
            node = compose_yaml(text)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
            lines = text.splitlines() or [""]
            if line > len(lines):  # libyaml reports an unfinished value on the line after the last
                line, column = len(lines), len(lines[-1]) + 1
            self.problems.append(Problem(line, column, f"not YAML: {error.problem or error.context}"))
            return None
        except yaml.YAMLError as error:
            self.problems.append(Problem(1, 1, f"not YAML: {error}"))
            return None
        if node is None:
            self.problems.append(Problem(1, 1, "the document is empty", f"; it needs {expected}"))
            return None
        return Value(node, self)


class Value:
    """A node of the document, read as the schema requires. `key` is the position of its key, if any."""

    key = Place()

    def __init__(self, node: yaml.Node, reader: Reader) -> None:
        self._node = node
        self._reader = reader
        self.place = Place(node.start_mark.line + 1, node.start_mark.column + 1)

    def problem(self, rule: str, advice: str = "", *, at: int | None = None) -> None:
        """Add a problem at this position; in a string, at character `at`."""
        self._reader.problems.append(Problem(*self._inside(at), rule, advice))

    def warning(self, rule: str, advice: str = "", *, at: int | None = None) -> None:
        """Add a warning at this position; in a string, at character `at`."""
        self._reader.warnings.append(Problem(*self._inside(at), rule, advice))

    def _inside(self, at: int | None) -> Place:
        """Return the position of a character of a string, if the string is written literally."""
        start, end = self._node.start_mark, self._node.end_mark
        quote = len(getattr(self._node, "style", None) or "")
        if at is None or start.line != end.line or end.column - start.column != len(self._node.value) + 2 * quote:
            return self.place
        return Place(self.place.line, self.place.column + quote + at)

    @property
    def span(self) -> tuple[int, int]:
        """Start and end of the value in the text, in characters."""
        return self._node.start_mark.index, self._node.end_mark.index

    @property
    def empty(self) -> bool:
        """Whether the value is null or empty."""
        return self.null or not self._node.value

    @property
    def is_mapping(self) -> bool:
        """Whether the value is a mapping."""
        return isinstance(self._node, yaml.MappingNode)

    @property
    def null(self) -> bool:
        """Whether the value is null."""
        return bool(self._node.tag == "tag:yaml.org,2002:null")

    def mapping(self, what: str, keys: Collection[str] | None = None) -> dict[str, Value]:
        """Return the values of a mapping by key; with `keys`, any other key is a problem."""
        if not isinstance(self._node, yaml.MappingNode):
            if not self.null:
                self.problem(f"{what} must be a mapping", "; write key: value")
            return {}
        result: dict[str, Value] = {}
        for key_node, value_node in self._pairs():
            at = Value(key_node, self._reader)
            if (key := str(key_node.value)) in result:
                at.problem(f'key "{key}" is given twice in {what}', "; keep one of them")
            elif keys is not None and key not in keys:
                at.problem(f'key "{key}" is unknown in {what}', suggestion(key, sorted(keys)))
            else:
                result[key] = Value(value_node, self._reader)
                result[key].key = at.place
        return result

    def _pairs(self) -> list[tuple[yaml.Node, yaml.Node]]:
        """Return the keys and values of a mapping, with those merged into it (`<<: *other`)."""
        pairs: list[tuple[yaml.Node, yaml.Node]] = []
        merged: list[tuple[yaml.Node, yaml.Node]] = []
        for key, value in self._node.value:
            if key.tag != "tag:yaml.org,2002:merge":
                pairs.append((key, value))
                continue
            for each in value.value if isinstance(value, yaml.SequenceNode) else [value]:
                if isinstance(each, yaml.MappingNode) and each is not self._node:
                    merged += [pair for pair in each.value if pair[0].tag != key.tag]
        seen = {key.value for key, _ in pairs if isinstance(key.value, str)}
        for key, value in merged:
            if key.value not in seen:
                seen.add(key.value)
                pairs.append((key, value))
        return pairs

    def items(self, what: str) -> list[Value]:
        """Return the entries of a list; null is an empty one."""
        if isinstance(self._node, yaml.SequenceNode):
            return [Value(item, self._reader) for item in self._node.value]
        if not self.null:
            self.problem(f"{what} must be a list", "; start each entry with a dash")
        return []

    def string(self, what: str) -> str:
        """Return a string; "" and a problem for anything else."""
        if self._node.tag != "tag:yaml.org,2002:str" or not self._node.value:
            self.problem(f"{what} must be a string that is not empty", "; put it in quotes")
            return ""
        return str(self._node.value)

    def boolean(self, what: str, default: bool) -> bool:
        """Return a boolean; the default for null, and a problem for anything else."""
        if self._node.tag == "tag:yaml.org,2002:bool":
            return bool(self._plain())
        if not self.null:
            self.problem(f"{what} must be true or false", ", without quotes")
        return default

    def scalar(self, what: str) -> str:
        """Return a string, number or boolean as it is written; "" for null, and a problem for anything else."""
        if isinstance(self._node, yaml.ScalarNode):
            return "" if self.null else str(self._node.value)
        self.problem(f"{what} must be a single value")
        return ""

    def plain_mapping(self, what: str) -> tuple[dict[str, Any], dict[str, Place]]:
        """Return a mapping as plain values, and the position of each key."""
        self.mapping(what)
        if not isinstance(self._node, yaml.MappingNode):
            return {}, {}
        places = {str(key.value): Value(key, self._reader).place for key, _ in self._node.value}
        return {str(key): item for key, item in self._plain().items()}, places

    def _plain(self) -> Any:
        """Return the value of YAML's safe constructor; None and a problem for a recursive alias."""
        try:
            return construct_yaml(self._node)
        except yaml.MarkedYAMLError as error:
            self.problem(f"not YAML: {error.problem}")
            return {}
