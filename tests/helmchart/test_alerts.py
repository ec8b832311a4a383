"""The alerts of a release: those on a lease without a holder exist for the components that report one."""

from __future__ import annotations

import pytest

from tests.goclient.building import HELM, NotBuiltError, program
from tests.helmchart.rendering import manifests
from tests.unit.monitoring.queries import rules

SCHEDULERS, CONTROLLERS = "VolcanoNoSchedulerLeader", "VolcanoNoControllersLeader"


@pytest.fixture(autouse=True)
def _built() -> None:
    try:
        program(HELM)
    except NotBuiltError as error:
        pytest.skip(f"HELM WAS NOT TESTED: {error}")


def expressions(*sets: str, namespace: str = "volcano-system") -> dict[str, str]:
    """Return the expression of each alert of a release."""
    (found,) = (
        one
        for one in manifests("prometheusRule.enabled=true", *sets, namespace=namespace)
        if one["kind"] == "PrometheusRule"
    )
    return {rule["alert"]: rule["expr"] for group in found["spec"]["groups"] for rule in group["rules"]}


@pytest.mark.parametrize(
    ("value", "missing"),
    [
        ("custom.controller_enable=false", {CONTROLLERS}),
        ("custom.controller_metrics_enable=false", {CONTROLLERS}),
        ("custom.scheduler_enable=false", {SCHEDULERS}),
        ("custom.scheduler_metrics_enable=false", {SCHEDULERS}),
        ("custom.leader_elect_enable=false", {SCHEDULERS, CONTROLLERS}),
        ("custom.admission_enable=false", set()),
    ],
)
def test_an_alert_on_a_lease_exists_where_a_component_reports_it(value: str, missing: set[str]) -> None:
    assert {rule["alert"] for rule in rules()} - expressions(value).keys() == missing


def test_only_alerts_that_can_be_left_out_fire_where_there_are_no_series() -> None:
    assert {name for name, text in expressions().items() if "absent" in text} == {SCHEDULERS, CONTROLLERS}


def test_alerts_on_leases_are_about_the_namespace_of_the_release() -> None:
    found = expressions(namespace="batch")
    for name in (SCHEDULERS, CONTROLLERS):
        assert found[name].count('namespace="batch"') == 2
