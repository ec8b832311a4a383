"""Parameters of requests that are malformed or contradict each other."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.support import Namespace, Obj, config_map


def causes(status: Obj) -> list[tuple[str, str]]:
    return [(cause["field"], cause["reason"]) for cause in status["details"]["causes"]]


@pytest.mark.parametrize(
    ("query", "cause"),
    [
        ({"resourceVersionMatch": "Exact"}, ("resourceVersionMatch", "FieldValueForbidden")),
        ({"resourceVersionMatch": "Exact", "resourceVersion": "0"}, ("resourceVersionMatch", "FieldValueForbidden")),
        ({"resourceVersionMatch": "Foo", "resourceVersion": "1"}, ("resourceVersionMatch", "FieldValueNotSupported")),
        ({"sendInitialEvents": "true"}, ("sendInitialEvents", "FieldValueForbidden")),
        ({"watch": "true", "sendInitialEvents": "true"}, ("resourceVersionMatch", "FieldValueForbidden")),
        ({"watch": "true", "resourceVersionMatch": "NotOlderThan"}, ("resourceVersionMatch", "FieldValueForbidden")),
    ],
)
def test_lists_that_contradict_themselves(namespace: Namespace, query: dict[str, str], cause: tuple[str, str]) -> None:
    status = namespace.cluster.get(namespace.path("configmaps"), **query).refused(422, "Invalid")
    assert (status["details"]["group"], status["details"]["kind"]) == ("meta.k8s.io", "ListOptions")
    assert status["message"].startswith('ListOptions.meta.k8s.io "" is invalid: ')
    assert causes(status) == [cause]


@pytest.mark.parametrize("name", ["limit", "timeoutSeconds"])
def test_options_that_are_no_numbers(namespace: Namespace, name: str) -> None:
    status = namespace.cluster.get(namespace.path("configmaps"), **{name: "abc"}).refused(400, "BadRequest")
    assert status["message"] == 'strconv.ParseInt: parsing "abc": invalid syntax'


def test_a_negative_limit_is_none(namespace: Namespace) -> None:
    for name in ("a", "b"):
        namespace.config_map(name, {"mine": "yes"})
    listed = namespace.cluster.get(namespace.path("configmaps"), limit=-1, labelSelector="mine").ok()
    assert [one["metadata"]["name"] for one in listed["items"]] == ["a", "b"]
    assert not listed["metadata"].get("continue")


def test_an_exact_version_that_is_past(namespace: Namespace) -> None:
    query: dict[str, Any] = {"resourceVersion": "1", "resourceVersionMatch": "Exact"}
    answer = namespace.cluster.get(namespace.path("configmaps"), **query)
    if answer.code == 200:
        pytest.skip("this server still has its first version")
    assert "too old" in answer.refused(410, "Expired")["message"]


@pytest.mark.parametrize(
    ("query", "supported"),
    [({"dryRun": "Some"}, '"All"'), ({"fieldValidation": "Loose"}, '"", "Ignore", "Strict", "Warn"')],
)
def test_values_of_a_write_that_there_are_not(namespace: Namespace, query: dict[str, str], supported: str) -> None:
    (name,) = query
    path = namespace.path("configmaps")
    namespace.config_map("a")
    body = config_map("b")
    for kind, answer in (
        ("CreateOptions", namespace.cluster.create(path, body, **query)),
        ("UpdateOptions", namespace.cluster.replace(f"{path}/a", config_map("a"), **query)),
        ("PatchOptions", namespace.cluster.patch(f"{path}/a", {}, **query)),
    ):
        status = answer.refused(422, "Invalid")
        assert status["details"]["kind"] == kind
        assert status["message"].endswith(f"supported values: {supported}")
        assert causes(status) == [(name, "FieldValueNotSupported")]


@pytest.mark.parametrize(
    ("options", "cause"),
    [
        ({"propagationPolicy": "Some"}, ("propagationPolicy", "FieldValueNotSupported")),
        ({"propagationPolicy": "Orphan", "orphanDependents": True}, ("propagationPolicy", "FieldValueInvalid")),
        ({"dryRun": ["Some"]}, ("dryRun", "FieldValueNotSupported")),
    ],
)
def test_deletions_that_cannot_be(namespace: Namespace, options: Obj, cause: tuple[str, str]) -> None:
    namespace.config_map("a")
    path = namespace.path("configmaps", "a")
    status = namespace.cluster.delete(path, options).refused(422, "Invalid")
    assert status["details"]["kind"] == "DeleteOptions"
    assert causes(status) == [cause]
    namespace.cluster.delete(path, {"kind": "Foo", "apiVersion": "v1"}).refused(400, "BadRequest")
    assert namespace.cluster.get(path).code == 200


def test_less_than_no_grace_is_one_second(namespace: Namespace) -> None:
    namespace.pod("p")
    namespace.bind("p", "node-1").ok()
    answered = namespace.cluster.delete(namespace.path("pods", "p"), {"gracePeriodSeconds": -5}).ok()
    assert answered["metadata"]["deletionGracePeriodSeconds"] == 1
    namespace.cluster.delete(namespace.path("pods", "p"), {"gracePeriodSeconds": 0}).ok()
