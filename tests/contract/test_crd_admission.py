"""Which definitions are refused, and what is said of them."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from tests.contract.schemas.definitions import CRDS, definition, faults, with_spec
from tests.contract.support import Cluster, Obj

GROUP = "admission.volcanoio.dev"
ROOT = "spec.validation.openAPIV3Schema"
A = f"{ROOT}.properties[spec].properties[a]"
LABEL = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "
    "'[a-z]([-a-z0-9]*[a-z0-9])?')"
)


def of(field: Obj) -> Obj:
    """A schema with one field `a`."""
    return with_spec({"a": field})


@pytest.mark.parametrize(
    ("schema", "field", "message"),
    [
        (of({}), f"{A}.type", "Required value: must not be empty for specified object fields"),
        (
            of({"type": "strin"}),
            f"{A}.type",
            (
                'Unsupported value: "strin": supported values: "array", "boolean", "integer", '
                '"number", "object", "string"'
            ),
        ),
        (of({"type": "array"}), f"{A}.items", "Required value: must be specified"),
        (
            of({"type": "array", "items": {}}),
            f"{A}.items.type",
            ("Required value: must not be empty for specified array items"),
        ),
        (
            {"type": "array", "items": {"type": "object"}},
            f"{ROOT}.type",
            ('Invalid value: "array": must be object at the root'),
        ),
        ({"type": "object", "nullable": True}, f"{ROOT}.nullable", "Forbidden: nullable cannot be true at the root"),
        (
            {"type": "object", "additionalProperties": {"type": "string"}},
            f"{ROOT}.additionalProperties",
            "Forbidden: must not be used at the root",
        ),
        (
            of({"type": "array", "uniqueItems": True, "items": {"type": "string"}}),
            f"{A}.uniqueItems",
            "Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
        ),
        (
            of({"type": "object", "properties": {"b": {"type": "string"}}, "additionalProperties": False}),
            f"{A}.additionalProperties",
            "Forbidden: additionalProperties and properties are mutual exclusive",
        ),
        (
            of({"type": "string", "anyOf": [{"type": "string"}]}),
            f"{A}.anyOf[0].type",
            "Forbidden: must be empty to be structural",
        ),
        (
            {"type": "object", "anyOf": [{"properties": {"b": {"minLength": 1}}}]},
            f"{ROOT}.properties[b]",
            f"Required value: because it is defined in {ROOT}.anyOf[0].properties[b]",
        ),
        (
            of({"type": "string", "pattern": "a(?=b)"}),
            f"{A}.pattern",
            (
                'Invalid value: "a(?=b)": must be a valid regular '
                "expression, but isn't: error parsing regexp: invalid or unsupported Perl syntax: `(?=`"
            ),
        ),
        (
            of({"type": "object", "x-kubernetes-preserve-unknown-fields": False}),
            f"{A}.x-kubernetes-preserve-unknown-fields",
            "Invalid value: false: must be true or undefined",
        ),
        (
            of({"type": "object", "x-kubernetes-embedded-resource": True}),
            f"{A}.properties",
            (
                "Required value: must not be "
                "empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields"
            ),
        ),
        (
            of({"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "set"}),
            f"{A}.items.x-kubernetes-map-type",
            "Invalid value: null: must be atomic as item of a list with x-kubernetes-list-type=set",
        ),
        (
            of(
                {
                    "type": "array",
                    "items": {"type": "object", "properties": {"k": {"type": "string"}}},
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["k"],
                }
            ),
            f"{A}.items.properties[k].default",
            (
                "Required value: this property is in x-kubernetes-list-map-keys, so it must have a default "
                "or be a required property"
            ),
        ),
        (
            of({"type": "string", "default": 1}),
            f"{A}.default",
            'Invalid value: "integer":  in body must be of type string: "integer"',
        ),
        (
            of({"type": "object", "properties": {"b": {"type": "string"}}, "default": {"c": 1}}),
            f"{A}.default",
            'Invalid value: {"c":1}: must not have unknown fields',
        ),
        (
            {
                "type": "object",
                "properties": {"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}},
            },
            f"{ROOT}.properties[metadata]",
            (
                "Forbidden: must not specify anything other than name and generateName, but "
                "metadata is implicitly specified"
            ),
        ),
    ],
)
def test_schemas_are_structural(cluster: Cluster, schema: Obj, field: str, message: str) -> None:
    answer = cluster.create(CRDS, definition("cogs", schema, group=GROUP), dryRun="All")
    answer.refused(422, "Invalid")
    assert (field, message) in {(where, what) for where, _, what in faults(answer)}


def _set(*path: Any) -> Any:
    *places, last, value = path

    def change(body: Obj) -> None:
        target: Any = body
        for one in places:
            target = target[one]
        target[last] = value

    return change


VERSION = ("spec", "versions", 0)


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        (
            _set("metadata", "name", "x.y.z"),
            {("metadata.name", 'Invalid value: "x.y.z": must be spec.names.plural+"."+spec.group')},
        ),
        (
            _set("spec", "scope", "Sideways"),
            {("spec.scope", 'Unsupported value: "Sideways": supported values: "Cluster", "Namespaced"')},
        ),
        (
            _set("spec", "names", "listKind", "Cog"),
            {("spec.names.listKind", 'Invalid value: "Cog": kind and listKind may not be the same')},
        ),
        (
            _set("spec", "names", "shortNames", ["cg", "C"]),
            {("spec.names.shortNames[1]", f'Invalid value: "C": {LABEL}')},
        ),
        (
            _set(*VERSION, "deprecationWarning", "x"),
            {("spec.versions[0].deprecationWarning", 'Invalid value: "x": can only be set for deprecated versions')},
        ),
        (
            _set("spec", "preserveUnknownFields", True),
            {
                (
                    "spec.preserveUnknownFields",
                    (
                        "Invalid value: true: cannot set to true, set "
                        "x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
                    ),
                )
            },
        ),
        (
            _set(*VERSION, "additionalPrinterColumns", [{"name": "X", "type": "foo", "jsonPath": "x"}]),
            {
                (
                    "spec.additionalPrinterColumns[0].type",
                    'Invalid value: "foo": must be one of boolean,date,integer,number,string',
                ),
                (
                    "spec.additionalPrinterColumns[0].JSONPath",
                    'Invalid value: "x": must be a simple json path starting with .',
                ),
            },
        ),
        (
            _set(*VERSION, "selectableFields", [{"jsonPath": ".spec.nope"}, {"jsonPath": ".metadata.name"}]),
            {
                (
                    "spec.selectableFields[0].jsonPath",
                    'Invalid value: ".spec.nope": is an invalid path: does not refer to a valid field',
                ),
                (
                    "spec.selectableFields[1].jsonPath",
                    'Invalid value: ".metadata.name": is an invalid path: does not refer to a valid field',
                ),
            },
        ),
        (
            _set(*VERSION, "subresources", {"scale": {"specReplicasPath": ".status.x"}}),
            {
                (
                    "spec.subresources.scale.specReplicasPath",
                    'Invalid value: ".status.x": should be a json path under .spec',
                ),
                ("spec.subresources.scale.statusReplicasPath", "Required value"),
            },
        ),
        (
            _set("spec", "conversion", {"strategy": "Webhook"}),
            {
                ("spec.conversion.webhookClientConfig", "Required value: required when strategy is set to Webhook"),
                ("spec.conversion.conversionReviewVersions", "Required value"),
            },
        ),
    ],
)
def test_definitions_are_whole(cluster: Cluster, change: Any, wanted: set[tuple[str, str]]) -> None:
    body = definition("cogs", of({"type": "string"}), group=GROUP)
    change(body)
    answer = cluster.create(CRDS, body, dryRun="All")
    answer.refused(422, "Invalid")
    assert {(where, what) for where, _, what in faults(answer)} == wanted


def test_one_version_is_stored(cluster: Cluster) -> None:
    body = definition("cogs", of({"type": "string"}), group=GROUP)
    second = deepcopy(body["spec"]["versions"][0]) | {"name": "v2"}
    body["spec"]["versions"].append(second)
    answer = cluster.create(CRDS, body, dryRun="All")
    messages = {where: what for where, _, what in faults(answer)}
    assert messages["spec.versions"].endswith(": must have exactly one version marked as storage version")


@pytest.mark.parametrize(
    ("annotation", "code"),
    [(None, 422), ("x", 422), ("unapproved, a test", 201), ("https://github.com/kubernetes/kubernetes/pull/1", 201)],
)
def test_kubernetes_own_groups_need_an_approval(cluster: Cluster, annotation: str | None, code: int) -> None:
    body = definition("cogs", of({"type": "string"}), group="volcanoio-contract.k8s.io")
    if annotation is not None:
        body["metadata"]["annotations"] = {"api-approved.kubernetes.io": annotation}
    answer = cluster.create(CRDS, body, dryRun="All")
    assert answer.code == code
    if code == 422:
        assert {where for where, _, _ in faults(answer)} == {"metadata.annotations[api-approved.kubernetes.io]"}


def test_formats_without_effect_cause_a_warning(cluster: Cluster) -> None:
    body = definition("cogs", of({"type": "string", "format": "nonsense"}), group=GROUP)
    answer = cluster.create(CRDS, body, dryRun="All")
    answer.ok()
    assert 'unrecognized format \\"nonsense\\"' in answer.headers["warning"]


@pytest.mark.parametrize(
    ("word", "value", "said"),
    [
        ("nonsense", 1, 'strict decoding error: unknown field "spec.versions[0].schema.openAPIV3Schema.properties.'),
        ("maxLength", "5", "json: cannot unmarshal string into Go struct field JSONSchemaProps.spec.versions.schema."),
        ("type", ["string"], "json: cannot unmarshal array into Go struct field JSONSchemaProps.spec.versions.schema."),
        ("additionalProperties", 5, "boolean or JSON schema expected"),
    ],
)
def test_schemas_have_known_words(cluster: Cluster, word: str, value: Any, said: str) -> None:
    body = definition("cogs", of({"type": "string", word: value}), group=GROUP)
    answer = cluster.create(CRDS, body, dryRun="All", fieldValidation="Strict")
    assert said in answer.refused(400, "BadRequest")["message"]


def test_a_definition_without_a_name_reports_only_the_name(cluster: Cluster) -> None:
    body = definition("things", with_spec({}), group=GROUP)
    body["metadata"] = {}
    assert {field for field, _, _ in faults(cluster.create(CRDS, body))} == {"metadata.name"}
    body["spec"]["versions"][0]["name"] = ""
    fields = {"metadata.name", "spec.versions[0].name"}
    assert {field for field, _, _ in faults(cluster.create(CRDS, body))} == fields
