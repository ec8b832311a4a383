"""Bodies in Kubernetes' protobuf form, as typed Go clients send them for built-in kinds."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.support import Cluster, Namespace
from tests.contract.widgets import GROUP

PROTOBUF = "application/vnd.kubernetes.protobuf"
BOTH = f"{PROTOBUF},application/json"


def field(number: int, content: bytes) -> bytes:
    """A field with a length below 128."""
    assert len(content) < 128
    return bytes([number << 3 | 2, len(content)]) + content


def body(api_version: str, kind: str, raw: bytes = b"") -> bytes:
    return b"k8s\0" + field(1, field(1, api_version.encode()) + field(2, kind.encode())) + field(2, raw)


def named(name: str) -> bytes:
    """An ObjectMeta with a name, as the first field of an object."""
    return field(1, field(1, name.encode()))


def send(cluster: Cluster, path: str, data: bytes, method: str = "POST", **query: Any) -> Any:
    return cluster.request(method, path, data, content_type=PROTOBUF, **query)


def test_create_and_update(namespace: Namespace) -> None:
    path = namespace.path("configmaps")
    made = send(
        namespace.cluster, path, body("v1", "ConfigMap", named("a") + field(2, field(1, b"k") + field(2, b"1")))
    )
    assert (made.code, made.body["data"]) == (201, {"k": "1"})
    changed = body("v1", "ConfigMap", named("a") + field(2, field(1, b"k") + field(2, b"2")))
    assert send(namespace.cluster, f"{path}/a", changed, "PUT").ok()["data"] == {"k": "2"}


def test_options_of_a_deletion(namespace: Namespace) -> None:
    namespace.config_map("a")
    path = namespace.path("configmaps", "a")
    rehearsal = body("v1", "DeleteOptions", field(5, b"All"))
    assert send(namespace.cluster, path, rehearsal, "DELETE").code == 200
    namespace.cluster.get(path).ok()
    other = body("v1", "DeleteOptions", field(2, field(1, b"another-uid")))
    send(namespace.cluster, path, other, "DELETE").refused(409, "Conflict")
    assert send(namespace.cluster, path, body("v1", "DeleteOptions"), "DELETE").code == 200
    namespace.cluster.get(path).refused(404, "NotFound")


def test_a_body_may_leave_its_kind_to_the_path(namespace: Namespace) -> None:
    assert send(namespace.cluster, namespace.path("configmaps"), body("", "", named("a"))).ok()["kind"] == "ConfigMap"


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"garbage", "does not appear to be a protobuf message"),
        (b"", "empty data"),
        (b"k8s\0\xff\xff", "(must be of type ConfigMap)"),
        (body("v1", "Pod", named("a")), "Pod"),
        (body("v1", "Nope", named("a")), "Nope"),
    ],
)
def test_bodies_of_other_messages_are_refused(namespace: Namespace, data: bytes, text: str) -> None:
    status = send(namespace.cluster, namespace.path("configmaps"), data).refused(400, "BadRequest")
    assert text in status["message"]


def test_patches_are_never_protobuf(namespace: Namespace) -> None:
    namespace.config_map("a")
    send(namespace.cluster, namespace.path("configmaps", "a"), body("v1", "ConfigMap", named("a")), "PATCH").refused(
        415, "UnsupportedMediaType"
    )


def test_an_unknown_body_format_names_those_that_are_read(namespace: Namespace) -> None:
    answer = namespace.cluster.create(namespace.path("configmaps"), b"x", content_type="text/plain")
    assert PROTOBUF in answer.refused(415, "UnsupportedMediaType")["message"]


def test_json_is_answered_where_it_is_accepted_too(namespace: Namespace) -> None:
    widgets = f"/apis/{GROUP}/v1/namespaces/{namespace.name}/widgets"
    assert namespace.cluster.get(widgets, accept=BOTH).ok()["kind"] == "WidgetList"


def test_custom_resources_have_no_protobuf_answer(namespace: Namespace) -> None:
    widgets = f"/apis/{GROUP}/v1/namespaces/{namespace.name}/widgets"
    assert namespace.cluster.get(widgets, accept=PROTOBUF).code == 406
    assert namespace.cluster.get(widgets, accept="text/html").refused(406, "NotAcceptable")
