"""Parts of schemas that are known to be sound are left out, and nothing else is: faults are found all the same."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from volcanoio.compose.definitions import crd_manifests
from volcanoio.localcluster.apiserver.crds import schemas
from volcanoio.localcluster.apiserver.crds.schemas import schema_errors

PATH = "spec.validation.openAPIV3Schema"


def job_schema() -> dict[str, Any]:
    (job,) = (one for one in crd_manifests() if one["metadata"]["name"] == "jobs.batch.volcano.sh")
    schema: dict[str, Any] = job["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


def template_of(schema: dict[str, Any]) -> dict[str, Any]:
    task = schema["properties"]["spec"]["properties"]["tasks"]["items"]
    template: dict[str, Any] = task["properties"]["template"]
    return template


@pytest.fixture(autouse=True)
def job_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schemas, "_known", set())
    assert schema_errors(job_schema(), PATH, status=True) == []


def test_a_known_part_is_skipped_in_another_definition() -> None:
    other = {
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": {"t": template_of(job_schema())}}},
    }
    assert schemas.without_validated(other) == {
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": {"t": {"type": "object"}}}},
    }
    assert schema_errors(other, PATH, status=False) == []


def test_a_fault_deep_inside_a_part_that_was_known_is_found() -> None:
    schema = job_schema()
    template_of(schema)["properties"]["spec"]["properties"]["containers"]["items"]["properties"]["image"] = {}
    (found,) = schema_errors(schema, PATH, status=True)
    assert "image" in found.field
    assert found.reason == "FieldValueRequired"


def test_a_default_above_a_known_part_is_validated_by_all_of_it() -> None:
    schema = job_schema()
    spec = schema["properties"]["spec"]
    spec["default"] = {"tasks": [{"template": {"spec": {"containers": "none"}}}]}
    assert schema_errors(schema, PATH, status=True)


def test_metadata_has_rules_of_its_own() -> None:
    part = copy.deepcopy(job_schema()["properties"]["spec"])
    schema = {"type": "object", "properties": {"metadata": part}}
    assert schemas.without_validated(schema) == schema


def test_expressions_see_all_of_a_schema() -> None:
    schema = job_schema()
    schema["properties"]["spec"]["x-kubernetes-validations"] = [{"rule": "self.tasks.all(t, t.nonsense > 1)"}]
    assert schemas.without_validated(schema) is schema
    assert schema_errors(schema, PATH, status=True)
