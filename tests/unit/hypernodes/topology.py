"""A world of nodes, HyperNodes and a configuration, with the HyperNode controller in it."""

from __future__ import annotations

from typing import Any

import msgspec

from tests.unit.world import World
from volcanoio.engine.hypernodes.configuration import SECTION, read_sources
from volcanoio.engine.hypernodes.controller import HyperNodeController
from volcanoio.engine.scheduling.config.yaml_nodes import Reader
from volcanoio.framework.effects import Record
from volcanoio.model import kinds
from volcanoio.model.base import ApiObject, Manifest
from volcanoio.model.nodes import CONFIGURATION_NAME, DiscoverySource, HyperNode

TWO_TIERS = """
networkTopologyDiscovery:
- source: label
  enabled: true
  config:
    networkTopologyTypes:
      gpu:
      - nodeLabel: example.com/spine
      - nodeLabel: example.com/rack
      - nodeLabel: kubernetes.io/hostname
"""
"""Racks below spines, discovered from node labels."""
_LOCAL = {kind.resource: kind.type for kind in kinds.LOCAL}


def sources(text: str) -> tuple[DiscoverySource, ...]:
    """Return the sources of a section without problems."""
    found, problems = read(text)
    assert not problems
    return found


def read(text: str) -> tuple[tuple[DiscoverySource, ...], list[str]]:
    """Return the sources of a section, and the problems."""
    reader = Reader()
    root = reader.document(text, SECTION)
    assert root is not None
    found = read_sources(root.mapping("the file", (SECTION,))[SECTION])
    return found, [str(problem) for problem in reader.problems]


class Topology(World):
    """The world. `warnings` are the Events as (object, reason)."""

    def __init__(self) -> None:
        self.warnings: list[tuple[str, str]] = []
        super().__init__([HyperNodeController])

    def node(self, name: str, **labels: str | None) -> None:
        """Add a node, or change its labels; `rack` stands for example.com/rack, None removes a label."""
        named = {f"example.com/{key}": value for key, value in labels.items()}
        self.put(kinds.NODE, {"metadata": {"name": name, "labels": named}})

    def hyper_node(self, name: str, *members: Manifest, tier: int = 1, source: str = "") -> None:
        """Add a HyperNode, or change its members."""
        marks = {"volcano.sh/network-topology-source": source} if source else {}
        meta = {"name": name, "labels": marks}
        self.put(kinds.HYPER_NODE, {"metadata": meta, "spec": {"tier": tier, "members": list(members)}})

    def configure(self, text: str) -> None:
        """Put a section into force."""
        plain = msgspec.to_builtins(sources(text))
        self.put(kinds.DISCOVERY, {"metadata": {"name": CONFIGURATION_NAME}, "sources": plain})

    def fabric(self, **nodes_of: str) -> None:
        """A UFM server listed these leaf switches with their nodes, separated by blanks."""
        links = sorted([node, leaf] for leaf, nodes in nodes_of.items() for node in nodes.split())
        self.put(kinds.FABRIC, {"metadata": {"name": "ufm"}, "links": links})

    @property
    def tree(self) -> dict[str, str]:
        """Tier and members of each HyperNode; the random end of a name is left out, for its label's value."""
        shown = {name: self._shown(name) for name in self.names(kinds.HYPER_NODE)}
        return {shown[name]: self._described(name, shown) for name in sorted(shown, key=shown.__getitem__)}

    def _named(self, name: str) -> HyperNode:
        found = self.get(kinds.HYPER_NODE, name)
        assert isinstance(found, HyperNode)
        return found

    def _shown(self, name: str) -> str:
        values = [v for key, v in self._named(name).metadata.labels.items() if key.startswith("example.com/")]
        return f"{name.rpartition('-')[0]}={values[0]}" if values else name

    def _described(self, name: str, shown: dict[str, str]) -> str:
        spec = self._named(name).spec
        members = [each.selector.exact_match.name for each in spec.members if each.selector.exact_match]
        return f"{spec.tier}: {' '.join(sorted(shown.get(each, each) for each in members))}"

    def counts(self) -> dict[str, int]:
        """Return status.nodeCount of each HyperNode."""
        return {name: self._named(name).status.node_count for name in self.names(kinds.HYPER_NODE)}

    def _typed(self, resource: str, key: str) -> ApiObject:
        if (struct := _LOCAL.get(resource)) is None:
            return super()._typed(resource, key)
        return msgspec.convert(self.objects[resource, key], struct)

    def _carry_out(self, dispatch: Any, effect: Any, dropped: tuple[int, ...]) -> bool:
        if isinstance(effect, Record):
            self.warnings.append((effect.regarding.name, effect.reason))
        return super()._carry_out(dispatch, effect, dropped)


def exact(name: str, kind: str = "Node") -> Manifest:
    return {"type": kind, "selector": {"exactMatch": {"name": name}}}


def child(name: str) -> Manifest:
    return exact(name, "HyperNode")


def pattern(text: str) -> Manifest:
    return {"type": "Node", "selector": {"regexMatch": {"pattern": text}}}


def labelled(**labels: str) -> Manifest:
    named = {f"example.com/{key}": value for key, value in labels.items()}
    return {"type": "Node", "selector": {"labelMatch": {"matchLabels": named}}}
