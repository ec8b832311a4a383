"""Definitions over time: new versions, changed schemas, taken names, tables, and their end."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest

from tests.contract.schemas.definitions import CRDS, changed, definition, faults, served, until, with_spec
from tests.contract.support import JSON_PATCH, TABLE, Answer, Cluster, Obj, eventually, gone, unique

ITEM: Obj = {
    "type": "object",
    "required": ["k"],
    "properties": {"k": {"type": "string", "maxLength": 9}, "v": {"type": "string", "maxLength": 9}},
}
LIST: Obj = {"type": "array", "maxItems": 9, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}
FIELDS: Obj = {
    "a": {"type": "string"},
    "n": {"type": "integer"},
    "l": {**LIST, "items": ITEM},
    "m": {"type": "object", "additionalProperties": {"type": "string"}},
}
COLUMNS = [
    {"name": "A", "type": "string", "jsonPath": ".spec.a"},
    {"name": "N", "type": "integer", "jsonPath": ".spec.n"},
    {"name": "First", "type": "string", "jsonPath": ".spec.l[0].k"},
    {"name": "Found", "type": "string", "jsonPath": ".spec.l[?(@.k=='b')].v"},
    {"name": "Map", "type": "string", "jsonPath": ".spec.m"},
    {"name": "Flag", "type": "boolean", "jsonPath": ".spec.a"},
    {"name": "When", "type": "date", "jsonPath": ".spec.a"},
    {"name": "Broken", "type": "string", "jsonPath": ".spec.["},
]


def body_of(group: str, name: str, version: str = "v1", **spec: Any) -> Obj:
    """A Cog."""
    return {"apiVersion": f"{group}/{version}", "kind": "Cog", "metadata": {"name": name}, "spec": spec}


@pytest.fixture
def group() -> str:
    """A group of the test's own."""
    return f"{unique('life')}.volcanoio.dev"


@pytest.fixture
def cogs(cluster: Cluster, group: str) -> Iterator[str]:
    """The path of Cogs."""
    body = definition("cogs", with_spec(FIELDS), group=group, additionalPrinterColumns=COLUMNS)
    with served(cluster, body) as path:
        yield path


def test_tables_show_the_columns_of_the_definition(cluster: Cluster, cogs: str, group: str) -> None:
    items = [{"k": "a", "v": "1"}, {"k": "b", "v": "2"}]
    cluster.create(cogs, body_of(group, "c", a="x", n=3, l=items, m={"z": "1", "y": "2"})).ok()
    cluster.create(cogs, body_of(group, "d")).ok()
    table = cluster.request("GET", cogs, accept=TABLE).ok()
    shown = [(one["name"], one["type"], one["priority"]) for one in table["columnDefinitions"]]
    assert shown == [("Name", "string", 0), *[(one["name"], one["type"], 0) for one in COLUMNS[:-1]]]
    assert [row["cells"] for row in table["rows"]] == [
        ["c", "x", 3, "a", "2", '{"y":"2","z":"1"}', None, "<invalid>"],
        ["d", None, None, None, None, None, None, None],
    ]


def _tightened(body: Obj) -> None:
    fields = body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    fields["a"]["maxLength"] = 1
    fields["n"]["maximum"] = 3
    fields["l"]["items"]["properties"]["v"]["pattern"] = "^z"
    fields["l"]["items"]["x-kubernetes-validations"] = [{"rule": "self.v.startsWith('z')"}]
    fields["m"]["additionalProperties"]["minLength"] = 5
    fields["added"] = {"type": "string", "default": "new"}


KEPT = [{"k": "a", "v": "1"}, {"k": "b", "v": "2"}]
ITEM_RULE = "Invalid value: failed rule: self.v.startsWith('z')"


def test_an_unchanged_value_is_not_validated_again(cluster: Cluster, cogs: str, group: str) -> None:
    cluster.create(cogs, body_of(group, "c", a="long", n=7, l=KEPT, m={"x": "y"})).ok()
    changed(cluster, f"cogs.{group}", _tightened).ok()
    one = f"{cogs}/c"
    # Served by the new schema when its default shows.
    eventually(lambda: cluster.get(one).ok()["spec"].get("added"))

    def tried(**spec: Any) -> Answer:
        return cluster.patch(one, {"spec": spec}, dryRun="All")

    untouched = cluster.patch(one, {"metadata": {"labels": {"a": "b"}}}, dryRun="All")
    untouched.ok()
    assert ITEM_RULE in untouched.headers["warning"]
    tried(n=2).ok()
    tried(l=KEPT[::-1]).ok()
    assert ("spec.a", "FieldValueTooLong", "Too long: may not be more than 1 byte") in faults(tried(a="longer"))
    assert {where for where, _, _ in faults(tried(l=[*KEPT, {"k": "c", "v": "x"}]))} == {"spec.l[2].v", "spec.l[2]"}
    assert {where for where, _, _ in faults(tried(l=[{"k": "a", "v": "9"}, KEPT[1]]))} == {"spec.l[0].v", "spec.l[0]"}
    assert {where for where, _, _ in faults(tried(m={"z": "q"}))} == {"spec.m.z"}


def _second(body: Obj) -> None:
    version = deepcopy(body["spec"]["versions"][0])
    fields = {"a": {"type": "string"}, "two": {"type": "string", "default": "2"}}
    body["spec"]["versions"].append(
        version | {"name": "v2", "storage": False, "deprecated": True, "schema": {"openAPIV3Schema": with_spec(fields)}}
    )


def test_objects_are_read_and_written_in_each_version(cluster: Cluster, cogs: str, group: str) -> None:
    cluster.create(cogs, body_of(group, "c", a="x", n=1)).ok()
    name, second = f"cogs.{group}", f"/apis/{group}/v2/cogs"
    changed(cluster, name, _second).ok()
    until(cluster, second)
    seen = cluster.get(f"{second}/c")
    assert (seen.ok()["apiVersion"], seen.ok()["spec"]) == (f"{group}/v2", {"a": "x"})
    assert f"{group}/v2 Cog is deprecated" in seen.headers["warning"]
    assert cluster.create(second, body_of(group, "d", "v2", a="y", two="z")).ok()["spec"] == {"a": "y"}
    assert cluster.get(f"{cogs}/d").ok()["apiVersion"] == f"{group}/v1"
    assert cluster.create(cogs, body_of(group, "e", "v2")).code == 400
    versions = [one["version"] for one in cluster.get(f"/apis/{group}").ok()["versions"]]
    assert versions == ["v2", "v1"]

    def swapped(body: Obj) -> None:
        for one in body["spec"]["versions"]:
            one["storage"] = not one["storage"]

    assert changed(cluster, name, swapped).ok()["status"]["storedVersions"] == ["v1", "v2"]

    def without(body: Obj) -> None:
        body["spec"]["versions"] = body["spec"]["versions"][1:]

    assert {where for where, _, _ in faults(changed(cluster, name, without))} == {"status.storedVersions[0]"}

    def unserved(body: Obj) -> None:
        body["spec"]["versions"][0]["served"] = False

    changed(cluster, name, unserved).ok()
    until(cluster, cogs, code=404)
    assert cluster.get(f"{second}/c").ok()["spec"]["a"] == "x"


def test_the_names_of_a_definition_are_immutable(cluster: Cluster, cogs: str, group: str) -> None:
    del cogs

    def renamed(body: Obj) -> None:
        body["spec"]["scope"] = "Namespaced"
        body["spec"]["names"]["kind"] = "Wheel"

    assert {where for where, _, _ in faults(changed(cluster, f"cogs.{group}", renamed))} == {
        "spec.scope",
        "spec.names.kind",
    }


def test_names_are_given_once(cluster: Cluster, cogs: str, group: str) -> None:
    del cogs
    rival = definition("wheels", with_spec(FIELDS), group=group)
    rival["spec"]["names"] |= {"kind": "Cog", "listKind": "CogList"}
    path = f"{CRDS}/wheels.{group}"
    cluster.create(CRDS, rival).ok()

    def refused() -> Obj | None:
        conditions: dict[str, Obj] = {one["type"]: one for one in cluster.get(path).ok()["status"]["conditions"] or ()}
        return conditions if {"NamesAccepted", "Established"} <= set(conditions) else None

    conditions = eventually(refused)
    found = [(one, conditions[one]["status"], conditions[one]["reason"]) for one in ("NamesAccepted", "Established")]
    assert found == [("NamesAccepted", "False", "ListKindConflict"), ("Established", "False", "NotAccepted")]
    assert cluster.get(f"/apis/{group}/v1/wheels").code == 404
    cluster.delete(f"{CRDS}/cogs.{group}").ok()
    until(cluster, f"/apis/{group}/v1/wheels")
    cluster.delete(path).ok()
    gone(cluster, path)


def test_a_definition_waits_for_its_objects(cluster: Cluster, cogs: str, group: str) -> None:
    held = body_of(group, "c")
    held["metadata"]["finalizers"] = ["volcanoio.dev/test"]
    cluster.create(cogs, held).ok()
    cluster.create(cogs, body_of(group, "d")).ok()
    path = f"{CRDS}/cogs.{group}"
    cluster.delete(path).ok()
    gone(cluster, f"{cogs}/d")
    conditions = {one["type"]: one["reason"] for one in cluster.get(path).ok()["status"]["conditions"]}
    assert conditions["Terminating"] == "InstanceDeletionInProgress"
    late = cluster.create(cogs, body_of(group, "e")).refused(403, "Forbidden")
    assert late["message"].endswith("create not allowed while custom resource definition is terminating")
    released = [{"op": "remove", "path": "/metadata/finalizers"}]
    cluster.patch(f"{cogs}/c", released, JSON_PATCH).ok()
    gone(cluster, path)


def test_true_is_not_one_and_a_whole_float_is(cluster: Cluster, group: str) -> None:
    free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    with served(cluster, definition("cogs", with_spec({"free": free}), group=group)) as path:
        cluster.create(path, body_of(group, "c", free={"x": 1, "y": 1.0})).ok()
        assert cluster.get(f"{path}/c").ok()["spec"]["free"] == {"x": 1, "y": 1}
        patched = cluster.patch(f"{path}/c", {"spec": {"free": {"x": True}}}).ok()
        assert patched["spec"]["free"]["x"] is True
        assert patched["metadata"]["generation"] == 2


def test_a_definition_keeps_its_spec(cluster: Cluster, group: str) -> None:
    with served(cluster, definition("cogs", with_spec({}), group=group)):
        for change in ({"op": "remove", "path": "/spec"}, {"op": "remove", "path": "/spec/names"}):
            answer = cluster.patch(f"{CRDS}/cogs.{group}", [change], JSON_PATCH)
            assert "spec.names.plural" in {field for field, _, _ in faults(answer)}, answer.body
