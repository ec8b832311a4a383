"""The queries of the Grafana boards and the alerts, and what they select."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import promql_parser as promql
import yaml

from tests.unit.monitoring.exporters import EXPORTERS, SCRAPED
from volcanoio.model.packaged import config_path
from volcanoio.runtime.metric_catalogue import CATALOGUE, HISTOGRAM

BOARDS = ("cluster", "jobs")
HISTOGRAM_SUFFIXES = ("_bucket", "_count", "_sum")
LABEL_VALUES = re.compile(r"label_values\((?P<selector>.+), (?P<label>\w+)\)")
LOGQL_LABEL = re.compile(r"(\w+)\s*=~?\s*\"")


@dataclass(frozen=True)
class Query:
    """One query and where it stands; `result_labels` are those that a legend or an annotation uses."""

    where: str
    text: str
    result_labels: frozenset[str] = frozenset()

    @property
    def expression(self) -> promql.Expr:
        """The query's syntax tree, with a value for each interval of Grafana; raises ValueError."""
        return promql.parse(self.text.replace("$__rate_interval", "5m"))


def board(name: str) -> dict[str, Any]:
    """Return a board as Grafana reads it."""
    content: dict[str, Any] = json.loads(config_path("grafana", f"{name}.json").read_text())
    return content


def rules() -> list[dict[str, Any]]:
    """Return the alerts."""
    manifest = yaml.safe_load(config_path("prometheus", "rules.yaml").read_text())
    return [rule for group in manifest["spec"]["groups"] for rule in group["rules"]]


def is_logs(target: dict[str, Any]) -> bool:
    """Return whether a target is a query of logs."""
    return bool(target["datasource"]["type"] == "loki")


def panel_queries() -> list[Query]:
    """Return the queries of panels and of variables of all boards."""
    found = []
    for name in BOARDS:
        content = board(name)
        for panel in content["panels"]:
            for target in panel.get("targets", ()):
                if not is_logs(target):
                    used = frozenset(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
                    found.append(Query(f"{name}: {panel['title']}: {target['refId']}", target["expr"], used))
        for variable in content["templating"]["list"]:
            if variable["type"] == "query":
                matched = LABEL_VALUES.fullmatch(variable["query"]["query"])
                assert matched, variable
                found.append(Query(f"{name}: ${variable['name']}", matched["selector"], frozenset({matched["label"]})))
    return found


def alert_queries() -> list[Query]:
    """Return the expressions of all alerts."""
    return [
        Query(
            rule["alert"],
            rule["expr"],
            frozenset(re.findall(r"\$labels\.(\w+)", " ".join(rule["annotations"].values()))),
        )
        for rule in rules()
    ]


def log_queries() -> list[str]:
    """Return the queries of logs."""
    return [
        target["expr"]
        for name in BOARDS
        for panel in board(name)["panels"]
        for target in panel.get("targets", ())
        if is_logs(target)
    ]


def children(node: Any) -> Iterator[Any]:
    """Yield the operands of a node of a syntax tree."""
    for name in ("lhs", "rhs", "expr", "param", "vector_selector"):
        if (child := getattr(node, name, None)) is not None and not isinstance(child, str | float):
            yield child
    yield from getattr(node, "args", None) or ()


def selectors(node: Any) -> list[promql.VectorSelector]:
    """Return the selectors of series below a node."""
    if isinstance(node, promql.VectorSelector):
        return [node]
    return [found for child in children(node) for found in selectors(child)]


def matchers(selector: promql.VectorSelector) -> list[tuple[str, Any, str]]:
    """Return label, operator and value of each matcher."""
    return [(each.name, each.op, each.value) for each in selector.matchers.matchers]


@cache
def known_labels(name: str) -> frozenset[str] | None:
    """Return the labels of a series' name, of ours or of a documented exporter; None if it is unknown."""
    if name in EXPORTERS:
        return frozenset(EXPORTERS[name])
    metric = CATALOGUE.get(name)
    if metric is not None and metric.type is not HISTOGRAM:
        return frozenset(metric.labels) | SCRAPED
    for suffix in HISTOGRAM_SUFFIXES:
        metric = CATALOGUE.get(name.removesuffix(suffix))
        if name.endswith(suffix) and metric is not None and metric.type is HISTOGRAM:
            return frozenset(metric.labels) | SCRAPED | ({"le"} if suffix == "_bucket" else set())
    return None


def labels_of(node: Any) -> frozenset[str]:
    """Return the labels that the result of a node has; those of one operand for operations on two vectors but `or`."""
    if isinstance(node, promql.VectorSelector):
        return known_labels(node.name or "") or frozenset()
    if isinstance(node, promql.AggregateExpr):
        modifier = node.modifier
        if modifier is None:
            return frozenset()
        inner = labels_of(node.expr)
        named = frozenset(modifier.labels)
        return inner & named if modifier.type == promql.AggModifierType.By else inner - named
    if isinstance(node, promql.BinaryExpr) and str(node.op) == "or":
        return labels_of(node.lhs) & labels_of(node.rhs)
    if isinstance(node, promql.BinaryExpr):
        return (labels_of(node.lhs) or labels_of(node.rhs)) | frozenset(group_labels(node))
    if isinstance(node, promql.Call) and node.func.name == "histogram_quantile":
        return labels_of(node.args[1]) - {"le"}
    if isinstance(node, promql.Call) and node.func.name == "absent":
        return _labels_of_absent(node.args[0])
    return frozenset().union(*(labels_of(child) for child in children(node)))


def _labels_of_absent(argument: Any) -> frozenset[str]:
    """Return the labels of `absent(argument)`: those that a selector equates; none for any other expression."""
    if not isinstance(argument, promql.VectorSelector):
        return frozenset()
    return frozenset(name for name, operator, _ in matchers(argument) if operator == promql.MatchOp.Equal)


def group_labels(node: Any) -> list[str]:
    """Return the labels that an operation copies from one operand."""
    return (node.modifier.group_labels if node.modifier is not None else None) or []


def named_labels(node: Any) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield each label that an operation names, with the labels that its operands have."""
    if isinstance(node, promql.AggregateExpr) and node.modifier is not None:
        for label in node.modifier.labels:
            yield label, labels_of(node.expr)
    if isinstance(node, promql.BinaryExpr) and node.modifier is not None:
        if node.modifier.matching is not None:
            for label in node.modifier.matching.labels:
                yield label, labels_of(node.lhs) & labels_of(node.rhs)
        for label in group_labels(node):
            yield label, labels_of(node.rhs) | labels_of(node.lhs)
    for child in children(node):
        yield from named_labels(child)
