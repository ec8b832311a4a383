"""Each query of the boards and each alert asks for series that somebody exports, by labels that these have."""

from __future__ import annotations

import re

import pytest
import yaml

from tests.architecture.measure import ROOT
from tests.unit.monitoring.exporters import LOKI_LABELS
from tests.unit.monitoring.queries import (
    BOARDS,
    LOGQL_LABEL,
    Query,
    alert_queries,
    board,
    known_labels,
    labels_of,
    log_queries,
    matchers,
    named_labels,
    panel_queries,
    rules,
    selectors,
)
from volcanoio.model.packaged import config_path

QUERIES = [*panel_queries(), *alert_queries()]
VARIABLE = re.compile(r"\$\{?(\w+)\}?")
BUILT_IN = {"__rate_interval"}


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.where)
def test_each_series_of_a_query_is_exported(query: Query) -> None:
    found = selectors(query.expression)
    assert found
    for selector in found:
        labels = known_labels(selector.name or "")
        assert labels is not None, f"{query.where}: no exporter has {selector.name}"
        unknown = {name for name, _, _ in matchers(selector)} - labels
        assert not unknown, f"{query.where}: {selector.name} has no label {unknown}"


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.where)
def test_operations_and_texts_name_labels_that_the_series_have(query: Query) -> None:
    expression = query.expression
    for label, available in named_labels(expression):
        assert label in available, f"{query.where}: no series has the label {label} here"
    missing = query.result_labels - labels_of(expression)
    assert not missing, f"{query.where}: the result has no label {missing}"


def test_the_parser_refuses_what_prometheus_refuses() -> None:
    for text in ("sum by (a (x)", "rate(x)", "x{a=b}", "rate(x[5m]"):
        with pytest.raises(ValueError, match=r".+"):
            selectors(Query("wrong", text).expression)


def test_an_unknown_metric_is_found() -> None:
    assert known_labels("volcano_queue_allocated_cpu") is None
    assert known_labels("volcanoio_cycles_total_bucket") is None
    assert "le" in (known_labels("volcanoio_reaction_seconds_bucket") or ())
    assert "le" not in (known_labels("volcanoio_reaction_seconds_sum") or ())
    assert labels_of(Query("", "sum by (queue_name, phase) (volcano_queue_share)").expression) == {"queue_name"}


@pytest.mark.parametrize("name", BOARDS)
def test_a_board_uses_its_own_variables_and_sources(name: str) -> None:
    content = board(name)
    variables = {variable["name"] for variable in content["templating"]["list"]}
    texts = [target["expr"] for panel in content["panels"] for target in panel.get("targets", ())]
    texts += [target["datasource"]["uid"] for panel in content["panels"] for target in panel.get("targets", ())]
    used = {name for text in texts for name in VARIABLE.findall(text)} - BUILT_IN
    assert used == variables
    ids = [panel["id"] for panel in content["panels"]]
    assert len(set(ids)) == len(ids)
    places = [panel["gridPos"] for panel in content["panels"]]
    assert all(place["x"] + place["w"] <= 24 for place in places)
    cells = [
        (column, line)
        for at in places
        for column in range(at["x"], at["x"] + at["w"])
        for line in range(at["y"], at["y"] + at["h"])
    ]
    assert len(set(cells)) == len(cells), "panels overlap"


def test_the_board_of_jobs_shows_what_is_unused_on_a_second_axis_and_the_logs() -> None:
    panels = {panel["title"]: panel for panel in board("jobs")["panels"]}
    for title in ("CPU", "Memory"):
        (override,) = panels[title]["fieldConfig"]["overrides"]
        placed = {each["id"]: each["value"] for each in override["properties"]}
        assert placed["custom.axisPlacement"] == "right"
        (target,) = [each for each in panels[title]["targets"] if each["refId"] == override["matcher"]["options"]]
        assert "volcanoio_job_unused" in target["expr"]
    for text in log_queries():
        assert set(LOGQL_LABEL.findall(text)) <= LOKI_LABELS
    assert len(log_queries()) == 1


def test_each_alert_has_a_severity_a_runbook_and_a_section_of_the_operations_page() -> None:
    page = (ROOT / "docs/operations.md").read_text()
    names = [rule["alert"] for rule in rules()]
    assert len(set(names)) == len(names)
    for rule in rules():
        assert rule["labels"]["severity"] in ("critical", "warning", "info"), rule["alert"]
        assert set(rule["annotations"]) == {"summary", "description", "runbook"}, rule["alert"]
        assert f"`{rule['alert']}`" in page, rule["alert"]
    assert sorted(set(re.findall(r"`(Volcano[A-Z]\w+)`", page))) == sorted(names)


def test_service_monitors_select_the_services_of_the_deployment() -> None:
    monitors = list(yaml.safe_load_all(config_path("prometheus", "service-monitors.yaml").read_text()))
    manifests = [
        manifest
        for file in sorted((ROOT / "config/deploy").glob("*.yaml"))
        for manifest in yaml.safe_load_all(file.read_text())
        if manifest and manifest["kind"] == "Service"
    ]
    for monitor in monitors:
        wanted = monitor["spec"]["selector"]["matchLabels"].items()
        (service,) = [each for each in manifests if wanted <= each["metadata"]["labels"].items()]
        ports = {port["name"] for port in service["spec"]["ports"]}
        assert {endpoint["port"] for endpoint in monitor["spec"]["endpoints"]} <= ports
        assert service["metadata"]["namespace"] == monitor["metadata"]["namespace"]
