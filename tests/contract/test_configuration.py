"""ConfigMaps and Secrets: keys, size, types, and those that are immutable."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from tests.contract.support import Namespace, Obj, config_map

MEBIBYTE = 2**20
VALUE = base64.b64encode(b"value").decode()


def fields(status: Obj) -> list[str]:
    return [cause["field"] for cause in status["details"]["causes"]]


def secret(**more: Any) -> Obj:
    return {"metadata": {"name": "s"}, **more}


@pytest.mark.parametrize("key", ["a b", "..", "..x", "a" * 254])
def test_keys(namespace: Namespace, key: str) -> None:
    status = namespace.cluster.create(namespace.path("configmaps"), config_map("c") | {"data": {key: "x"}})
    assert fields(status.refused(422, "Invalid")) == [f"data[{key}]"]
    answer = namespace.cluster.create(namespace.path("secrets"), secret(data={key: VALUE}))
    assert fields(answer.refused(422, "Invalid")) == [f"data[{key}]"]


def test_a_key_is_in_one_of_data_and_binary_data(namespace: Namespace) -> None:
    body = config_map("c", key="x") | {"binaryData": {"key": VALUE}}
    status = namespace.cluster.create(namespace.path("configmaps"), body).refused(422, "Invalid")
    assert fields(status) == ["data[key]"]


def test_a_mebibyte_is_the_most(namespace: Namespace) -> None:
    path = namespace.path("configmaps")
    assert namespace.cluster.create(path, config_map("fits", key="x" * MEBIBYTE)).code == 201
    status = namespace.cluster.create(path, config_map("large", key="x" * (MEBIBYTE + 1))).refused(422, "Invalid")
    assert status["message"].endswith("Too long: may not be more than 1048576 bytes")
    large = secret(stringData={"key": "x" * (MEBIBYTE + 1)})
    status = namespace.cluster.create(namespace.path("secrets"), large).refused(422, "Invalid")
    assert fields(status) == ["data"]


def test_a_request_has_a_limit(namespace: Namespace) -> None:
    body = config_map("large", key="x" * 3 * MEBIBYTE)
    namespace.cluster.create(namespace.path("configmaps"), body).refused(413, "RequestEntityTooLarge")


def test_an_object_has_a_limit(namespace: Namespace) -> None:
    path = namespace.path("widgets.v1.contract.volcanoio.dev")
    body = {"apiVersion": "contract.volcanoio.dev/v1", "kind": "Widget", "metadata": {"name": "w"}}
    answer = namespace.cluster.create(path, body | {"spec": {"size": 1, "parts": ["x" * (MEBIBYTE * 3 // 2)]}})
    assert (answer.code, answer.body["message"]) == (500, "etcdserver: request is too large")
    fits = body | {"spec": {"size": 1, "parts": ["x" * (MEBIBYTE * 5 // 4)]}}
    assert namespace.cluster.create(path, fits).code == 201


def test_string_data_becomes_data(namespace: Namespace) -> None:
    body = secret(stringData={"a": "value"}, data={"b": VALUE})
    stored = namespace.cluster.create(namespace.path("secrets"), body).ok()
    assert (stored["type"], stored["data"]) == ("Opaque", {"a": VALUE, "b": VALUE})
    assert "stringData" not in stored


@pytest.mark.parametrize(
    ("kind", "missing"),
    [
        ("kubernetes.io/tls", ["data[tls.crt]", "data[tls.key]"]),
        ("kubernetes.io/dockerconfigjson", ["data[.dockerconfigjson]"]),
        ("kubernetes.io/basic-auth", ["data[username]", "data[password]"]),
        ("kubernetes.io/ssh-auth", ["data[ssh-privatekey]"]),
        ("kubernetes.io/service-account-token", ["metadata.annotations[kubernetes.io/service-account.name]"]),
        ("example.com/own", []),
    ],
)
def test_types_have_keys(namespace: Namespace, kind: str, missing: list[str]) -> None:
    answer = namespace.cluster.create(namespace.path("secrets"), secret(type=kind, data={"key": VALUE}))
    if missing:
        assert fields(answer.refused(422, "Invalid")) == missing
    else:
        assert answer.ok()["type"] == kind


def test_data_that_is_no_base64(namespace: Namespace) -> None:
    namespace.cluster.create(namespace.path("secrets"), secret(data={"key": "!!"})).refused(400, "BadRequest")
    body = config_map("c") | {"binaryData": {"key": "!!"}}
    namespace.cluster.create(namespace.path("configmaps"), body).refused(400, "BadRequest")


def test_immutable_ones_stay(namespace: Namespace) -> None:
    for plural, body, changed in (
        ("configmaps", {"metadata": {"name": "s"}, "data": {"a": "1"}}, {"data": {"a": "2"}}),
        ("secrets", secret(data={"a": VALUE}), {"data": {"a": base64.b64encode(b"other").decode()}}),
    ):
        path = namespace.path(plural, "s")
        namespace.cluster.create(namespace.path(plural), body | {"immutable": True}).ok()
        assert fields(namespace.cluster.patch(path, changed).refused(422, "Invalid")) == ["data"]
        assert fields(namespace.cluster.patch(path, {"immutable": False}).refused(422, "Invalid")) == ["immutable"]
        assert namespace.cluster.patch(path, {"metadata": {"labels": {"a": "b"}}}).code == 200
        assert namespace.cluster.delete(path).code == 200


def test_the_type_of_a_secret_stays(namespace: Namespace) -> None:
    namespace.cluster.create(namespace.path("secrets"), secret(data={"a": VALUE})).ok()
    status = namespace.cluster.patch(namespace.path("secrets", "s"), {"type": "other"}).refused(422, "Invalid")
    assert fields(status) == ["type"]
