"""Values of custom objects: pruned, given defaults, and refused field by field."""

from __future__ import annotations

import os
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from tests.contract.embedded import embedded_server
from tests.contract.schemas.definitions import CRDS, definition, faults, served, with_spec
from tests.contract.schemas.generate import Schemas
from tests.contract.support import FOREIGN, Answer, Cluster, Obj, unique

NESTED: Obj = {
    "type": "object",
    "default": {},
    "properties": {
        "a": {"type": "string", "default": "x"},
        "inner": {
            "type": "object",
            "default": {"q": 1},
            "properties": {"q": {"type": "integer"}, "r": {"type": "integer", "default": 2}},
        },
        "list": {
            "type": "array",
            "items": {"type": "object", "properties": {"z": {"type": "integer", "default": 9}}},
        },
    },
}
FIELDS: Obj = {
    "text": {"type": "string"},
    "whole": {"type": "integer"},
    "int32": {"type": "integer", "format": "int32"},
    "number": {"type": "number", "minimum": 1.5, "maximum": 10.25},
    "enum": {"type": "string", "enum": ["a", "b"]},
    "length": {"type": "string", "minLength": 2, "maxLength": 3},
    "pattern": {"type": "string", "pattern": "^[a-z]+$"},
    "date": {"type": "string", "format": "date"},
    "duration": {"type": "string", "format": "duration"},
    "either": {"x-kubernetes-int-or-string": True},
    "list": {"type": "array", "maxItems": 1, "items": {"type": "integer"}},
    "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
    "map": {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["k"],
        "items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}}},
    },
    "any": {"type": "object", "additionalProperties": True},
    "kept": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    "nullable": {"type": "string", "nullable": True},
    "alternatives": {"type": "string", "anyOf": [{"pattern": "^x"}, {"maxLength": 2}]},
    "one": {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
        "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
    },
    "embedded": {
        "type": "object",
        "x-kubernetes-embedded-resource": True,
        "x-kubernetes-preserve-unknown-fields": True,
    },
    "nested": NESTED,
}
FILLED = {"a": "x", "inner": {"q": 1, "r": 2}}


@pytest.fixture(scope="module")
def cogs(cluster: Cluster) -> Iterator[str]:
    """The path of objects with a field for each case."""
    with served(cluster, definition("cogs", with_spec(FIELDS), group=f"{unique('values')}.volcanoio.dev")) as path:
        yield path


def _tried(cluster: Cluster, path: str, field: str, value: Any) -> Answer:
    group = path.split("/")[2]
    body = {"apiVersion": f"{group}/v1", "kind": "Cog", "metadata": {"name": "c"}, "spec": {field: value}}
    return cluster.create(path, body, dryRun="All")


@pytest.mark.parametrize(
    ("field", "value", "kept"),
    [
        ("whole", 1.0, 1),
        ("number", 1, 1),  # a bound counts with its whole part for a whole number
        ("text", None, ...),
        ("nullable", None, None),
        ("duration", "2 weeks", "2 weeks"),
        ("pattern", "abc", "abc"),
        ("either", 5, 5),
        ("either", "5%", "5%"),
        ("any", {"a": 1, "b": {"c": 1}, "d": [{"e": 1}]}, {"a": 1, "b": {}, "d": [{}]}),
        ("kept", {"a": {"b": [1, None]}}, {"a": {"b": [1, None]}}),
        ("map", [{"k": "a", "x": 1}], [{"k": "a"}]),
        (
            "embedded",
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "nope": 1}},
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}},
        ),
        ("nested", {"inner": {}}, {"a": "x", "inner": {"r": 2}}),
        ("nested", {"inner": None, "a": None}, FILLED),
        ("nested", {"list": [{}, {"z": 1}]}, FILLED | {"list": [{"z": 9}, {"z": 1}]}),
    ],
)
def test_accepted_values(cluster: Cluster, cogs: str, field: str, value: Any, kept: Any) -> None:
    spec = _tried(cluster, cogs, field, value).ok()["spec"]
    assert spec == ({} if kept is ... else {field: kept}) | ({"nested": FILLED} if field != "nested" else {})


@pytest.mark.parametrize(
    ("field", "value", "wanted"),
    [
        (
            "text",
            1,
            {
                (
                    "spec.text",
                    "FieldValueTypeInvalid",
                    'Invalid value: "integer": spec.text in body must be of type string: "integer"',
                )
            },
        ),
        (
            "whole",
            1.5,
            {
                (
                    "spec.whole",
                    "FieldValueTypeInvalid",
                    'Invalid value: "number": spec.whole in body must be of type integer: "number"',
                ),
                (
                    "<nil>",
                    "FieldValueInvalid",
                    'Invalid value: "": Checked value must be of type integer (default format) in spec.whole',
                ),
            },
        ),
        (
            "whole",
            True,
            {
                (
                    "spec.whole",
                    "FieldValueTypeInvalid",
                    'Invalid value: "boolean": spec.whole in body must be of type integer: "boolean"',
                )
            },
        ),
        (
            "int32",
            2**31,
            {
                (
                    "<nil>",
                    "FieldValueInvalid",
                    ('Invalid value: "": Checked value must be of type integer with format int32 in spec.int32'),
                )
            },
        ),
        (
            "number",
            11,
            {
                (
                    "spec.number",
                    "FieldValueInvalid",
                    "Invalid value: 11: spec.number in body should be less than or equal to 10",
                )
            },
        ),
        ("enum", "c", {("spec.enum", "FieldValueNotSupported", 'Unsupported value: "c": supported values: "a", "b"')}),
        ("length", "abcd", {("spec.length", "FieldValueTooLong", "Too long: may not be more than 3 bytes")}),
        (
            "length",
            "a",
            {
                (
                    "spec.length",
                    "FieldValueInvalid",
                    'Invalid value: "a": spec.length in body should be at least 2 chars long',
                )
            },
        ),
        (
            "pattern",
            "abc\n",
            {
                (
                    "spec.pattern",
                    "FieldValueInvalid",
                    "Invalid value: \"abc\\n\": spec.pattern in body should match '^[a-z]+$'",
                )
            },
        ),
        (
            "date",
            "2020-13-01",
            {
                (
                    "spec.date",
                    "FieldValueTypeInvalid",
                    'Invalid value: "2020-13-01": spec.date in body must be of type date: "2020-13-01"',
                )
            },
        ),
        (
            "either",
            True,
            {
                (
                    "spec.either",
                    "FieldValueTypeInvalid",
                    'Invalid value: "boolean": spec.either in body must be of type integer,string: "boolean"',
                )
            },
        ),
        ("list", [1, 2], {("spec.list", "FieldValueTooMany", "Too many: 2: must have at most 1 item")}),
        ("set", ["a", "b", "a", "a"], {("spec.set[2]", "FieldValueDuplicate", 'Duplicate value: "a"')}),
        ("map", [{"k": "a"}, {"k": "a"}], {("spec.map[1]", "FieldValueDuplicate", 'Duplicate value: {"k":"a"}')}),
        ("map", [{}], {("spec.map[0].k", "FieldValueRequired", "Required value")}),
        (
            "alternatives",
            "abc",
            {
                (
                    "<nil>",
                    "FieldValueInvalid",
                    'Invalid value: "": "spec.alternatives" must validate at least one schema (anyOf)',
                ),
                (
                    "spec.alternatives",
                    "FieldValueInvalid",
                    "Invalid value: \"abc\": spec.alternatives in body should match '^x'",
                ),
            },
        ),
        (
            "one",
            {"a": "1", "b": "2"},
            {
                (
                    "<nil>",
                    "FieldValueInvalid",
                    (
                        'Invalid value: "": "spec.one" must validate one and '
                        "only one schema (oneOf). Found 2 valid alternatives"
                    ),
                )
            },
        ),
        (
            "embedded",
            {"kind": "P_d"},
            {
                ("spec.embedded.apiVersion", "FieldValueRequired", "Required value"),
                (
                    "spec.embedded.kind",
                    "FieldValueInvalid",
                    (
                        'Invalid value: "P_d": may have mixed case, but should otherwise match: a DNS-1035 label must '
                        "consist of lower case alphanumeric characters or '-', start with an alphabetic character, and "
                        "end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation "
                        "is '[a-z]([-a-z0-9]*[a-z0-9])?')"
                    ),
                ),
            },
        ),
    ],
)
def test_refused_values(cluster: Cluster, cogs: str, field: str, value: Any, wanted: set[tuple[str, str, str]]) -> None:
    answer = _tried(cluster, cogs, field, value)
    answer.refused(422, "Invalid")
    assert faults(answer) == wanted


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The embedded server, beside the real one."""
    with embedded_server(tmp_path_factory.mktemp("embedded")) as kubeconfig:
        cluster = Cluster.of(kubeconfig)
        yield cluster
        cluster.close()


@pytest.mark.skipif(not os.environ.get(FOREIGN), reason="there is no real control plane to compare with")
@pytest.mark.parametrize("seed", range(3))
def test_random_schemas_validate_random_values_alike(seed: int, cluster: Cluster, embedded: Cluster) -> None:
    schemas = Schemas(Random(seed))
    fields = {f"f{at}": schemas.schema() for at in range(30)}
    body = definition("cogs", with_spec(fields), group=f"{unique('random')}.volcanoio.dev")
    refusals = [faults(one.create(CRDS, body, dryRun="All")) for one in (cluster, embedded)]
    assert refusals[0] == refusals[1]
    for where, _, _ in refusals[0]:
        fields.pop(where.split(".properties[")[2].split("]")[0], None)
    different = []
    with served(cluster, body) as path, served(embedded, body):
        for name, schema in fields.items():
            for value in (schemas.value(schema), schemas.value(schema)):
                answers = [_tried(one, path, name, value) for one in (cluster, embedded)]
                outcomes = [(one.code, one.body.get("spec"), faults(one)) for one in answers]
                if outcomes[0] != outcomes[1]:
                    different.append((schema, value, outcomes))
    assert not different, different[0]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(("1e6", 1_000_000), ("-1e-3", -0.001), ("1.0", 1), ("08", 8), ("017", 15), ("0o17", 15), ("0x1F", 31)),
        *(("1:2", "1:2"), ("12:30:45", "12:30:45"), ("2001-01-01", "2001-01-01"), ("=", "="), ("1e400", "1e400")),
        *(("y", True), ("off", False), ("~", None)),
    ],
)
def test_scalars_of_yaml(cluster: Cluster, cogs: str, text: str, value: Any) -> None:
    group = cogs.split("/")[2]
    body = f"apiVersion: {group}/v1\nkind: Cog\nmetadata: {{name: c}}\nspec: {{kept: {{v: {text}}}}}\n".encode()
    made = cluster.request(
        "POST", cogs, body, content_type="application/yaml", accept="application/json", dryRun="All"
    ).ok()
    found = made["spec"]["kept"]["v"]
    assert (type(found) is bool, found) == (type(value) is bool, value)


def test_yaml_has_numbers_that_json_has_not(cluster: Cluster, cogs: str) -> None:
    group = cogs.split("/")[2]
    body = f"apiVersion: {group}/v1\nkind: Cog\nmetadata: {{name: c}}\nspec: {{kept: {{v: .inf}}}}\n".encode()
    answer = cluster.request("POST", cogs, body, content_type="application/yaml", accept="application/json")
    assert "json: unsupported value: +Inf" in answer.refused(400, "BadRequest")["message"]
