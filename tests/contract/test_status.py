"""Spec and status are written through different doors."""

from __future__ import annotations

from tests.contract.support import Namespace
from tests.contract.widgets import PLURAL, widget


def test_a_create_drops_the_status(namespace: Namespace) -> None:
    body = {**widget("w"), "status": {"phase": "Made up"}}
    assert "status" not in namespace.cluster.create(namespace.path(PLURAL), body).ok()


def test_a_write_of_the_object_leaves_the_status(namespace: Namespace) -> None:
    stored = namespace.cluster.create(namespace.path(PLURAL), widget("w")).ok()
    path = namespace.path(PLURAL, "w")
    with_status = namespace.cluster.replace(f"{path}/status", {**stored, "status": {"phase": "Ready"}}).ok()
    changed = {**with_status, "spec": {"size": 9}, "status": {"phase": "Lost"}}
    replaced = namespace.cluster.replace(path, changed).ok()
    assert (replaced["spec"]["size"], replaced["status"]) == (9, {"phase": "Ready"})
    patched = namespace.cluster.patch(path, {"status": {"phase": "Lost"}}).ok()
    assert patched["status"] == {"phase": "Ready"}


def test_a_write_of_the_status_leaves_the_object(namespace: Namespace) -> None:
    stored = namespace.cluster.create(namespace.path(PLURAL), widget("w")).ok()
    body = {**stored, "spec": {"size": 9}, "status": {"phase": "Ready"}}
    replaced = namespace.cluster.replace(namespace.path(PLURAL, "w", "status"), body).ok()
    assert (replaced["spec"], replaced["status"]) == (stored["spec"], {"phase": "Ready"})
    assert replaced["metadata"]["generation"] == stored["metadata"]["generation"]


def test_a_status_is_patched(namespace: Namespace) -> None:
    namespace.pod("p")
    path = namespace.path("pods", "p", "status")
    change = {"status": {"phase": "Running", "podIP": "10.0.0.1"}, "spec": {"nodeName": "sneaked-in"}}
    patched = namespace.cluster.patch(path, change).ok()
    assert patched["status"]["phase"] == "Running"
    assert "nodeName" not in patched["spec"]
    ignored = namespace.cluster.patch(namespace.path("pods", "p"), {"status": {"phase": "Failed"}}).ok()
    assert ignored["status"]["phase"] == "Running"


def test_a_status_write_needs_the_version_it_was_made_for(namespace: Namespace) -> None:
    stale = namespace.cluster.create(namespace.path(PLURAL), widget("w")).ok()
    path = namespace.path(PLURAL, "w")
    namespace.cluster.patch(path, {"spec": {"size": 2}}).ok()
    answer = namespace.cluster.replace(f"{path}/status", {**stale, "status": {"phase": "Ready"}})
    answer.refused(409, "Conflict")


def test_the_scale_of_a_custom_resource(namespace: Namespace) -> None:
    namespace.cluster.create(namespace.path(PLURAL), widget("w", size=2)).ok()
    path = namespace.path(PLURAL, "w", "scale")
    scale = namespace.cluster.get(path).ok()
    assert (scale["kind"], scale["apiVersion"], scale["spec"]["replicas"]) == ("Scale", "autoscaling/v1", 2)
    namespace.cluster.patch(path, {"spec": {"replicas": 5}}).ok()
    assert namespace.cluster.get(namespace.path(PLURAL, "w")).ok()["spec"]["size"] == 5


def test_a_scale_is_of_the_object_at_the_path(namespace: Namespace) -> None:
    namespace.cluster.create(namespace.path(PLURAL), widget("w")).ok()
    path = namespace.path(PLURAL, "w", "scale")
    scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "v"}, "spec": {"replicas": 3}}
    namespace.cluster.replace(path, scale).refused(400, "BadRequest")
    namespace.cluster.patch(path, {"spec": {"replicas": "x"}}).refused(422, "Invalid")
    assert namespace.cluster.replace(path, scale | {"metadata": {"name": "w"}}).ok()["spec"]["replicas"] == 3


def test_a_scale_that_cannot_be_read(namespace: Namespace) -> None:
    """The server of custom resources does not know a Scale by its type."""
    namespace.cluster.create(namespace.path(PLURAL), widget("w")).ok()
    path = namespace.path(PLURAL, "w", "scale")
    scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "w"}, "spec": {"replicas": "x"}}
    twice = b'{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"w"},"spec":{"replicas":1,"replicas":2}}'
    for body in (scale, b"{", twice):
        answer = namespace.cluster.replace(path, body, fieldValidation="Strict").refused(400, "BadRequest")
        assert answer["message"].startswith("no kind is registered for the type v1.Scale in scheme")
    assert namespace.cluster.get(path).ok()["spec"]["replicas"] == 1
