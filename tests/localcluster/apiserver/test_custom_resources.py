"""Custom resources: served at once, pruned, defaulted, validated, and gone with their definition."""

from __future__ import annotations

from copy import deepcopy

import msgspec
import pytest

from tests.localcluster.apiserver.api import (
    DEFINITIONS,
    MERGE,
    STRATEGIC,
    WIDGET_SCHEMA,
    WIDGETS,
    Api,
    running,
    widget,
    widget_definition,
)
from volcanoio.model.base import Manifest


async def defined(api: Api, *, status: bool = True) -> None:
    await api.made(DEFINITIONS, widget_definition(status=status))


async def test_a_definition_is_established_and_served_at_once() -> None:
    async with running() as api:
        before = api.server.registry.revision
        made = await api.made(DEFINITIONS, widget_definition())
        conditions = {one["type"]: one["status"] for one in made["status"]["conditions"]}
        assert conditions == {"NamesAccepted": "True", "Established": "True"}
        assert made["status"]["acceptedNames"]["listKind"] == "WidgetList"
        assert api.server.registry.revision > before
        listed = await api("GET", WIDGETS)
        assert (listed.code, listed.body["kind"], listed.body["items"]) == (200, "WidgetList", [])
        resource = api.server.registry.find("example.com", "v1", "widgets")
        assert resource is not None
        assert (resource.short_names, resource.subresources) == (("wd",), ("status", "scale"))


async def test_pruning_and_defaults() -> None:
    async with running() as api:
        await defined(api)
        sent = widget(nonsense=1, free={"kept": {"deep": 1}}, parts=[{"name": "a"}, {"name": "b", "count": 5, "x": 1}])
        answer = await api("POST", WIDGETS, sent)
        assert answer.code == 201
        assert (
            'unknown field \\"spec.nonsense\\"' in answer.warning or 'unknown field "spec.nonsense"' in answer.warning
        )
        assert answer.body["spec"] == {
            "size": 3,
            "color": "red",
            "replicas": 1,
            "free": {"kept": {"deep": 1}},
            "parts": [{"name": "a", "count": 2}, {"name": "b", "count": 5}],
        }
        strict = await api("POST", WIDGETS, widget("x", colour="red"), fieldValidation="Strict")
        assert strict.code == 400
        assert 'unknown field "spec.colour"; did you mean "color"?' in strict.message


@pytest.mark.parametrize(
    ("change", "field", "text"),
    [
        ({"size": None}, "spec.size", "Required value"),  # a null that is not allowed is no value
        ({"size": "3"}, "spec.size", 'Invalid value: "string": spec.size in body must be of type integer: "string"'),
        ({"size": 0}, "spec.size", "spec.size in body should be greater than or equal to 1"),
        ({"size": 11}, "spec.size", "spec.size in body should be less than or equal to 10"),
        ({"color": "blue"}, "spec.color", 'Unsupported value: "blue": supported values: "red", "green"'),
        ({"port": True}, "spec.port", "must be of type integer,string"),
        ({"parts": [{"name": "A"}]}, "spec.parts[0].name", "should match '^[a-z]+$'"),
        ({"parts": [{}]}, "spec.parts[0].name", "Required value"),
        ({"parts": [{"name": "a"}, {"name": "a"}]}, "spec.parts[1]", 'Duplicate value: {"name":"a"}'),
    ],
)
async def test_violations_name_field_and_rule(change: Manifest, field: str, text: str) -> None:
    async with running() as api:
        await defined(api)
        answer = await api("POST", WIDGETS, widget(**change))
        assert (answer.code, answer.reason) == (422, "Invalid")
        assert answer.message.startswith('Widget.example.com "w" is invalid: ')
        causes = {cause["field"]: cause["message"] for cause in answer.body["details"]["causes"]}
        assert text in causes[field]


async def test_status_is_apart_and_generation_counts_specs() -> None:
    async with running() as api:
        await defined(api)
        made = await api.made(WIDGETS, {**widget(), "status": {"phase": "dropped"}})
        assert "status" not in made
        assert made["metadata"]["generation"] == 1
        status = await api("PATCH", f"{WIDGETS}/w/status", {"status": {"phase": "A"}, "spec": {"size": 9}}, kind=MERGE)
        assert (status.body["status"], status.body["spec"]["size"]) == ({"phase": "A"}, 3)
        assert status.body["metadata"]["generation"] == 1
        changed = await api("PATCH", f"{WIDGETS}/w", {"spec": {"size": 4}, "status": {"phase": "B"}}, kind=MERGE)
        assert (changed.body["status"], changed.body["metadata"]["generation"]) == ({"phase": "A"}, 2)
        missing_version = await api("PUT", f"{WIDGETS}/w", widget())
        assert missing_version.code == 422
        assert "must be specified for an update" in missing_version.message


async def test_without_the_subresource_status_is_an_ordinary_field() -> None:
    async with running() as api:
        await defined(api, status=False)
        made = await api.made(WIDGETS, {**widget(), "status": {"phase": "kept"}})
        assert made["status"] == {"phase": "kept"}
        assert (await api("PATCH", f"{WIDGETS}/w/status", {"status": {}}, kind=MERGE)).code == 404


@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH"])
async def test_a_subresource_that_a_kind_does_not_have_is_named_in_a_warning(method: str) -> None:
    """A real server says only that the object is not found, though it is there."""
    async with running() as api:
        await defined(api, status=False)
        await api.made(WIDGETS, widget())
        refused = await api(method, f"{WIDGETS}/w/scale", {"spec": {"replicas": 2}}, kind=MERGE)
        assert (refused.code, refused.reason) == (404, "NotFound")
        assert refused.message == 'widgets.example.com "w" not found'
        assert refused.warning == '299 - "widgets.example.com has no subresource \\"scale\\"; valid values: none"'


async def test_strategic_patches_are_for_builtin_kinds() -> None:
    async with running() as api:
        await defined(api)
        await api.made(WIDGETS, widget())
        refused = await api("PATCH", f"{WIDGETS}/w", {"spec": {"size": 4}}, kind=STRATEGIC)
        assert (refused.code, refused.reason) == (415, "UnsupportedMediaType")
        assert "application/json-patch+json, application/merge-patch+json" in refused.message


async def test_scale() -> None:
    async with running() as api:
        await defined(api)
        await api.made(WIDGETS, widget())
        scale = (await api("GET", f"{WIDGETS}/w/scale")).body
        assert (scale["kind"], scale["spec"]) == ("Scale", {"replicas": 1})
        after = await api("PATCH", f"{WIDGETS}/w/scale", {"spec": {"replicas": 4}}, kind=MERGE)
        assert after.body["spec"] == {"replicas": 4}
        assert (await api.got(f"{WIDGETS}/w"))["spec"]["replicas"] == 4


async def test_selectable_fields() -> None:
    async with running() as api:
        await defined(api)
        await api.made(WIDGETS, widget("a"))
        await api.made(WIDGETS, widget("b", color="green"))
        assert await api.names(WIDGETS, fieldSelector="spec.color=green") == ["b"]
        assert (await api("GET", WIDGETS, fieldSelector="spec.size=3")).code == 400


async def test_stored_objects_get_defaults_that_are_added_later() -> None:
    async with running() as api:
        await defined(api)
        made = await api.made(WIDGETS, widget())
        schema = deepcopy(WIDGET_SCHEMA)
        schema["properties"]["spec"]["properties"]["shape"] = {"type": "string", "default": "round"}
        definition = await api.got(f"{DEFINITIONS}/widgets.example.com")
        definition["spec"]["versions"][0]["schema"] = {"openAPIV3Schema": schema}
        assert (await api("PUT", f"{DEFINITIONS}/widgets.example.com", definition)).code == 200
        read = await api.got(f"{WIDGETS}/w")
        assert read["spec"]["shape"] == "round"
        assert read["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


async def test_rules_that_are_added_later_apply_to_changes() -> None:
    async with running() as api:
        await defined(api)
        await api.made(WIDGETS, widget())
        schema = deepcopy(WIDGET_SCHEMA)
        schema["properties"]["spec"]["properties"]["size"]["maximum"] = 2
        definition = await api.got(f"{DEFINITIONS}/widgets.example.com")
        definition["spec"]["versions"][0]["schema"] = {"openAPIV3Schema": schema}
        assert (await api("PUT", f"{DEFINITIONS}/widgets.example.com", definition)).code == 200
        assert (await api("PATCH", f"{WIDGETS}/w/status", {"status": {"phase": "A"}}, kind=MERGE)).code == 200
        assert (await api("PATCH", f"{WIDGETS}/w", {"metadata": {"labels": {"a": "b"}}}, kind=MERGE)).code == 200
        wrong = await api("PATCH", f"{WIDGETS}/w/status", {"status": {"phase": 1}}, kind=MERGE)
        assert (wrong.code, [one["field"] for one in wrong.body["details"]["causes"]]) == (422, ["status.phase"])
        assert (await api("PATCH", f"{WIDGETS}/w", {"spec": {"size": 4}}, kind=MERGE)).code == 422
        assert (await api("PATCH", f"{WIDGETS}/w", {"spec": {"size": 2}}, kind=MERGE)).code == 200


async def test_a_definition_takes_its_objects_along() -> None:
    async with running() as api:
        await defined(api)
        held = widget()
        held["metadata"]["finalizers"] = ["example.com/hold"]
        await api.made(WIDGETS, held)
        await api.made(WIDGETS, widget("free"))
        await api("DELETE", f"{DEFINITIONS}/widgets.example.com")
        await api.gone(f"{WIDGETS}/free")
        assert (await api("GET", f"{DEFINITIONS}/widgets.example.com")).code == 200
        await api("PATCH", f"{WIDGETS}/w", {"metadata": {"finalizers": None}}, kind=MERGE)
        await api.gone(f"{DEFINITIONS}/widgets.example.com")
        assert (await api("GET", WIDGETS)).code == 404


async def test_watches_end_with_the_definition() -> None:
    async with running() as api:
        await defined(api)
        await api.made(WIDGETS, widget())
        async with api.transport.stream(WIDGETS, query={"watch": "true"}) as batches:
            await api("DELETE", f"{DEFINITIONS}/widgets.example.com")
            types = [msgspec.json.decode(line)["type"] async for batch in batches for line in batch]
        assert types == ["ADDED", "DELETED"]


async def test_broken_definitions_are_refused() -> None:
    async with running() as api:
        wrong = widget_definition()
        wrong["metadata"]["name"] = "things.example.com"
        wrong["spec"]["versions"][0]["storage"] = False
        answer = await api("POST", DEFINITIONS, wrong)
        fields = {cause["field"] for cause in answer.body["details"]["causes"]}
        assert {"metadata.name", "spec.versions"} <= fields
        untyped = widget_definition(schema={"type": "object", "properties": {"spec": {}}})
        assert "must not be empty for specified object fields" in (await api("POST", DEFINITIONS, untyped)).message
