"""The catalogue of metrics contains those that the code records, and no others; the page is generated from it."""

from __future__ import annotations

import ast
import re

from tests.architecture import metrics_page
from tests.architecture.measure import product
from volcanoio.runtime.metric_catalogue import CATALOGUE

NAME = re.compile(r"volcano(?:io)?_[a-z0-9_]*(?:\{\}[a-z0-9_]*)*")
"""A metric's name; `{}` stands for what is filled in."""
OTHERS = {"volcanoio_plugins", "volcanoio_policies", "volcanoio_mounted"}
"""Packages, whose names look the same."""
CATALOGUE_MODULE = "volcanoio.runtime.metric_catalogue"
RECORDING = {"count", "gauge", "observe", "forget"}


def text_of(node: ast.AST) -> str:
    """Return a string constant, or an f-string with `{}` for each value; "" for other nodes."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return re.sub(r"\{\w*\}", "{}", node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
    return ""


def recorded() -> dict[str, str]:
    """Return where each name of a metric stands, `module:line`."""
    return {
        name: f"{module.name}:{getattr(node, 'lineno', 0)}"
        for module in product().values()
        if module.name != CATALOGUE_MODULE
        for node in ast.walk(module.tree)
        if NAME.fullmatch(name := text_of(node)) and not name.endswith("_") and name not in OTHERS
    }


def matches(name: str) -> list[str]:
    """Return the metrics of the catalogue that a name in the code stands for; a `{}` may have one word or several."""
    pattern = re.compile(re.escape(name).replace(r"\{\}", "[a-z0-9_]+"))
    return [metric for metric in CATALOGUE if pattern.fullmatch(metric)]


def test_each_recorded_metric_is_in_the_catalogue() -> None:
    unknown = {name: where for name, where in recorded().items() if not matches(name)}
    assert not unknown, (
        f"{unknown}: add type, labels and meaning to volcanoio/runtime/metric_catalogue.py, then run `make metrics`"
    )


def test_each_metric_of_the_catalogue_is_recorded() -> None:
    found = {metric for name in recorded() for metric in matches(name)}
    assert sorted(CATALOGUE.keys() - found) == []


def test_metrics_are_recorded_with_their_labels() -> None:
    wrong = []
    for module in product().values():
        for call in ast.walk(module.tree):
            if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.args):
                continue
            name = text_of(call.args[0])
            if call.func.attr not in RECORDING or name not in CATALOGUE or None in {each.arg for each in call.keywords}:
                continue
            labels = {each.arg for each in call.keywords} - {"times", "amount", "value"}
            if labels != set(CATALOGUE[name].labels):
                wrong.append(f"{module.name}:{call.lineno}: {name} has the labels {CATALOGUE[name].labels}")
    assert wrong == []


def test_labels_are_sorted_and_known_values_cover_them() -> None:
    for metric in CATALOGUE.values():
        assert list(metric.labels) == sorted(metric.labels), metric.name
        assert not metric.known or metric.known.keys() == set(metric.labels), metric.name


def test_the_page_is_generated() -> None:
    assert metrics_page.PAGE.read_text() == metrics_page.written(), "run `make metrics`"
