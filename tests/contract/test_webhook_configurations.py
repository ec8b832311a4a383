"""What a webhook configuration must look like."""

from __future__ import annotations

import pytest

from tests.contract.support import Cluster, Obj, unique
from tests.contract.webhooks import CONFIG_MAPS, MUTATING, rule

SERVICE = {"name": "a", "namespace": "b"}
WRONG: list[tuple[Obj, str]] = [
    ({"name": "short"}, "webhooks[0].name"),
    ({"sideEffects": "Some"}, "webhooks[0].sideEffects"),
    ({"sideEffects": None}, "webhooks[0].sideEffects"),
    ({"admissionReviewVersions": []}, "webhooks[0].admissionReviewVersions"),
    ({"admissionReviewVersions": ["v9"]}, "webhooks[0].admissionReviewVersions"),
    ({"timeoutSeconds": 31}, "webhooks[0].timeoutSeconds"),
    ({"failurePolicy": "X"}, "webhooks[0].failurePolicy"),
    ({"clientConfig": {}}, "webhooks[0].clientConfig"),
    ({"clientConfig": {"url": "http://a/b"}}, "webhooks[0].clientConfig.url"),
    (
        {"clientConfig": {"service": {"name": "a", "namespace": "b", "path": "x"}}},
        "webhooks[0].clientConfig.service.path",
    ),
    ({"rules": [{}]}, "webhooks[0].rules[0].operations"),
    ({"rules": [rule("a", scope="W")]}, "webhooks[0].rules[0].scope"),
    ({"rules": [rule("a/*", "a/b")]}, "webhooks[0].rules[0].resources[1]"),
    (
        {"namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}},
        "webhooks[0].namespaceSelector.matchExpressions[0].values",
    ),
    ({"matchConditions": [{"name": "", "expression": "true"}]}, "webhooks[0].matchConditions[0].name"),
    ({"matchConditions": [{"name": "a", "expression": "object.a"}]}, "webhooks[0].matchConditions[0].expression"),
    ({"matchConditions": [{"name": "a", "expression": "request.x"}]}, "webhooks[0].matchConditions[0].expression"),
]


@pytest.mark.parametrize(("fields", "field"), WRONG)
def test_a_configuration_must_be_right(cluster: Cluster, fields: Obj, field: str) -> None:
    answer = cluster.create(MUTATING, _configuration(fields), dryRun="All")
    causes = answer.refused(422, "Invalid")["details"]["causes"]
    assert causes[0]["field"] == field


def test_defaults(cluster: Cluster) -> None:
    service = {"clientConfig": {"service": SERVICE}}
    [hook] = cluster.create(MUTATING, _configuration(service), dryRun="All").ok()["webhooks"]
    expected = {"failurePolicy": "Fail", "matchPolicy": "Equivalent", "timeoutSeconds": 10, "namespaceSelector": {}}
    expected |= {"objectSelector": {}, "reinvocationPolicy": "Never"}
    assert hook.items() >= expected.items()
    assert hook["clientConfig"]["service"]["port"] == 443
    assert hook["rules"][0]["scope"] == "*"


def _configuration(fields: Obj) -> Obj:
    hook = {
        "name": "a.contract.volcanoio.dev",
        "clientConfig": {"url": "https://127.0.0.1/x"},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "rules": [CONFIG_MAPS],
    }
    return {"metadata": {"name": unique("wrong")}, "webhooks": [hook | fields]}
