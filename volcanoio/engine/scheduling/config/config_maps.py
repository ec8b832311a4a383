"""Configurations inside manifests: the text under a ConfigMap's key, and its position in the file."""

from collections.abc import Iterator
from dataclasses import dataclass

import yaml

from volcanoio.engine.scheduling.config.yaml_nodes import Place
from volcanoio.model.documents import compose_all_yaml

KEY = "volcano-scheduler.conf"
"""The key of Volcano's ConfigMap."""
KEYS = (KEY, "volcano-controller.conf")
"""The keys of configurations, the controllers' included."""


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A text, its key in the ConfigMap, and its start in the file.

    `follows` is set if its lines are those of the file, offset by `start`.
    """

    key: str
    text: str
    start: Place
    follows: bool

    def place(self, line: int, column: int) -> Place:
        """Return the position in the file of a line and column; the start if `follows` is not set."""
        if not self.follows:
            return self.start
        return Place(self.start.line + line - 1, self.start.column + column - 1)


def excerpts(text: str) -> list[Excerpt] | None:
    """Return the configurations in the ConfigMaps of a manifest; None if the text is not a manifest."""
    try:
        documents = compose_all_yaml(text)
    except yaml.YAMLError:
        return None
    objects = [each for document in documents if (fields := _fields(document)) for each in _objects(document, fields)]
    if not objects:
        return None
    lines = text.splitlines()
    return [_excerpt(key, value, lines) for each in objects for key, value in _configurations(_fields(each))]


def _objects(node: yaml.Node, fields: dict[str, yaml.Node]) -> Iterator[yaml.Node]:
    if not isinstance(fields.get("kind"), yaml.ScalarNode) or "apiVersion" not in fields:
        return
    items = fields.get("items")
    yield from items.value if isinstance(items, yaml.SequenceNode) else [node]


def _configurations(fields: dict[str, yaml.Node]) -> Iterator[tuple[str, yaml.ScalarNode]]:
    """Yield the values of KEYS; if there are none, those of keys that end in .conf."""
    if (kind := fields.get("kind")) is None or kind.value != "ConfigMap":
        return
    data = {key: value for key, value in _fields(fields.get("data")).items() if isinstance(value, yaml.ScalarNode)}
    ours = [(key, data[key]) for key in KEYS if key in data]
    yield from ours or [(key, value) for key, value in data.items() if key.endswith(".conf")]


def _excerpt(key: str, node: yaml.ScalarNode, lines: list[str]) -> Excerpt:
    line = node.start_mark.line
    if node.style != "|":
        return Excerpt(key, node.value, Place(line + 1, node.start_mark.column + 1), follows=False)
    first = next((each for each in lines[line + 1 :] if each.strip()), "")
    return Excerpt(key, node.value, Place(line + 2, len(first) - len(first.lstrip()) + 1), follows=True)


def _fields(node: yaml.Node | None) -> dict[str, yaml.Node]:
    if not isinstance(node, yaml.MappingNode):
        return {}
    return {str(key.value): value for key, value in node.value}
