"""Which definitions of a cluster ours may replace: those of which no field or version is lost."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from volcanoio.compose.definitions import compare, crd_manifests

OURS: dict[str, dict[str, Any]] = {one["metadata"]["name"]: one for one in crd_manifests()}
QUEUES, PODGROUPS = OURS["queues.scheduling.volcano.sh"], OURS["podgroups.scheduling.volcano.sh"]


def spec_of(definition: dict[str, Any]) -> dict[str, Any]:
    properties: dict[str, Any] = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    spec: dict[str, Any] = properties["spec"]
    return spec


@pytest.mark.parametrize("name", OURS)
def test_a_definition_breaks_nothing_of_itself(name: str) -> None:
    assert compare(OURS[name], OURS[name]) == ((), (), ())


def test_fields_that_an_older_definition_has_not_are_added() -> None:
    older = copy.deepcopy(QUEUES)
    del spec_of(older)["properties"]["deserved"]
    assert compare(older, QUEUES) == (("v1beta1.spec.deserved",), (), ())


def test_a_field_that_ours_has_not_would_be_lost() -> None:
    newer = copy.deepcopy(QUEUES)
    spec_of(newer)["properties"]["color"] = {"type": "string"}
    assert compare(newer, QUEUES).lost == ("v1beta1.spec.color: the field would be removed",)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"type": "string"}, "its type would change from string to integer"),
        ({"type": "integer", "x-kubernetes-preserve-unknown-fields": True}, "unknown fields would be removed"),
    ],
)
def test_a_field_of_another_type_breaks(change: dict[str, Any], said: str) -> None:
    other = copy.deepcopy(QUEUES)
    spec_of(other)["properties"]["weight"] = change
    assert compare(other, QUEUES).lost == (f"v1beta1.spec.weight: {said}",)


@pytest.mark.parametrize(
    ("stricter", "said"),
    [
        ({"minimum": 1}, "minimum 1 would hold"),
        ({"maximum": 9}, "maximum 9 would hold"),
        ({"enum": [1, 2]}, "only 1, 2 would be valid"),
        ({"x-kubernetes-validations": [{"rule": "self > 0"}]}, "the rule self > 0 would hold"),
    ],
)
def test_stricter_rules_are_no_losses(stricter: dict[str, Any], said: str) -> None:
    before, after = copy.deepcopy(QUEUES), copy.deepcopy(QUEUES)
    spec_of(before)["properties"]["weight"] = {"type": "integer"}
    spec_of(after)["properties"]["weight"] = {"type": "integer", **stricter}
    assert compare(before, after) == ((), (f"v1beta1.spec.weight: {said}",), ())
    assert compare(after, before) == ((), (), ())


def test_a_newly_required_field_breaks() -> None:
    after = copy.deepcopy(QUEUES)
    spec_of(after)["required"] = ["weight"]
    assert compare(QUEUES, after).lost == ("v1beta1.spec: weight would be required",)


def test_a_version_that_is_stored_or_served_must_stay() -> None:
    older = copy.deepcopy(PODGROUPS)
    older["spec"]["versions"].append({**older["spec"]["versions"][0], "name": "v1alpha2", "storage": False})
    assert compare(older, PODGROUPS).lost == ("v1alpha2: objects of this version would no longer be served",)
    older["spec"]["versions"][1]["served"] = False
    assert not compare(older, PODGROUPS).lost
    older["status"] = {"storedVersions": ["v1alpha2"]}
    assert compare(older, PODGROUPS).lost


def test_scope_subresources_and_conversion_must_stay() -> None:
    other = copy.deepcopy(QUEUES)
    other["spec"]["scope"] = "Namespaced"
    other["spec"]["versions"][0]["subresources"] = {}
    other["spec"]["conversion"] = {"strategy": "Webhook"}
    conversion, scope, status = compare(other, QUEUES).lost
    assert conversion.startswith("conversion:")
    assert "Cluster" in scope
    assert status == "v1beta1: the status would be written to its subresource"
