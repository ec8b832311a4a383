"""The table of selectors and tolerations that Kubernetes' own code wrote (tests/goclient/matching)."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from tests.goclient.building import MODULE
from tests.unit.scheduling_plugins.nodeviews import make_node
from volcanoio.model.core import Node, NodeSpec, Taint

GOLDEN = MODULE / "golden" / "matching.json"
Row = dict[str, Any]
TABLE: Row = json.loads(GOLDEN.read_text(encoding="utf-8"))
ABSENT_AND_VALUES: list[str | None] = [None, *TABLE["labelValues"]]
NODES = [make_node(one["name"], one["labels"]) for one in TABLE["nodes"]]
TAINTS = [msgspec.convert(one, Taint) for one in TABLE["taints"]]


def shown(row: Row) -> str:
    return json.dumps({key: value for key, value in row.items() if key not in ("selected", "tolerated", "error")})


def expected(row: Row) -> list[str | None]:
    """The values of the label that Kubernetes finds as required, None for a missing label."""
    return [*([None] if row.get("none") else []), *row.get("selected", [])]


def name(node: Node) -> str:
    return node.metadata.name


def tainted(taint: Taint) -> Node:
    return msgspec.structs.replace(make_node("n"), spec=NodeSpec(taints=(taint,)))
