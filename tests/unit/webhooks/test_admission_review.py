"""AdmissionReview v1: what is decoded and encoded, and JSON patches that change no more than they must."""

from __future__ import annotations

import base64
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from volcanoio.engine.admission.request import Operation, ReviewRequest, User
from volcanoio.localcluster.apiserver.patches import json_patch as applying
from volcanoio.model.base import Manifest
from volcanoio.runtime.webhooks import admission_review
from volcanoio.runtime.webhooks.admission_review import MAX_DEPTH, DecodedReview, ReviewError, json_patch

REQUEST: Manifest = {
    "uid": "u1",
    "kind": {"group": "batch.volcano.sh", "version": "v1alpha1", "kind": "Job"},
    "resource": {"group": "batch.volcano.sh", "version": "v1alpha1", "resource": "jobs"},
    "requestKind": {"group": "batch.volcano.sh", "version": "v1alpha1", "kind": "Job"},
    "name": "j",
    "namespace": "ns",
    "operation": "CREATE",
    "userInfo": {"username": "alice", "groups": ["a", "system:authenticated"], "extra": {"x": ["y"]}},
    "object": {"spec": {"queue": "q"}},
    "oldObject": None,
    "dryRun": False,
    "options": {"kind": "CreateOptions"},
}


def body(**changes: Any) -> bytes:
    request = {key: value for key, value in {**REQUEST, **changes}.items() if value is not ...}
    return msgspec.json.encode({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})


def test_a_request_is_decoded() -> None:
    asked = ReviewRequest(
        operation=Operation.CREATE,
        resource="jobs.batch.volcano.sh",
        name="j",
        namespace="ns",
        object={"spec": {"queue": "q"}},
        username="alice",
    )
    user = User(username="alice", groups=("a", "system:authenticated"), extra={"x": ("y",)})
    assert admission_review.decode(body()) == DecodedReview("u1", asked, user)


def nested(levels: int) -> Manifest:
    value: Manifest = {}
    for _ in range(levels - 1):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "the body is no AdmissionReview: Input data was truncated"),
        (b"[]", "the body is no AdmissionReview: Expected `object`"),
        (b"\xff", "the body is no AdmissionReview"),
        (b"{}", "the body is no admission.k8s.io/v1 AdmissionReview with a request"),
        (body(uid=...), "the body is no AdmissionReview: Object missing required field `uid`"),
        (body(object=[]), "the body is no AdmissionReview: Expected `object | null`"),
        (body(operation="CONNECT"), "request.operation: CONNECT is not reviewed; valid values: CREATE, UPDATE, DELETE"),
        (body(subResource="status"), "request.subResource: status is not reviewed"),
        (body(object=nested(MAX_DEPTH + 1)), "request.object: nested more than 64 levels deep"),
        (body(oldObject={"a": [nested(MAX_DEPTH)]}), "request.oldObject: nested more than 64 levels deep"),
        (b'{"request":' + b"[" * 100_000, "the body is"),
    ],
)
def test_other_bodies_are_refused(content: bytes, problem: str) -> None:
    with pytest.raises(ReviewError) as caught:
        admission_review.decode(content)
    assert str(caught.value).startswith(problem)


def test_an_object_of_the_greatest_depth_is_decoded() -> None:
    assert admission_review.decode(body(object=nested(MAX_DEPTH))).request.object == nested(MAX_DEPTH)


def test_responses() -> None:
    patch = [{"op": "add", "path": "/a", "value": 1}]
    assert msgspec.json.decode(admission_review.allowed("u1", patch, ("careful",))) == {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {
            "uid": "u1",
            "allowed": True,
            "patchType": "JSONPatch",
            "patch": base64.b64encode(b'[{"op":"add","path":"/a","value":1}]').decode(),
            "warnings": ["careful"],
        },
    }
    assert msgspec.json.decode(admission_review.allowed("u1", []))["response"] == {"uid": "u1", "allowed": True}
    assert msgspec.json.decode(admission_review.denied("u1", "no"))["response"] == {
        "uid": "u1",
        "allowed": False,
        "status": {"status": "Failure", "message": "no", "reason": "Forbidden", "code": 403},
    }


def test_a_patch_has_only_what_changed() -> None:
    before = {"spec": {"tasks": [{"name": "a"}, {"replicas": 1}], "a/b~c": 1, "gone": 1}, "metadata": {"name": "j"}}
    after = {
        "spec": {"tasks": [{"name": "a"}, {"replicas": 1, "name": "b"}, {}], "a/b~c": 2},
        "metadata": {"name": "j"},
    }
    assert json_patch(before, after) == [
        {"op": "replace", "path": "/spec/a~1b~0c", "value": 2},
        {"op": "remove", "path": "/spec/gone"},
        {"op": "add", "path": "/spec/tasks/1/name", "value": "b"},
        {"op": "add", "path": "/spec/tasks/-", "value": {}},
    ]
    assert json_patch(before, before) == []


values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text("a/~", max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab/~0", max_size=3), inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(st.text("ab/~0", max_size=3), values, max_size=3)


@given(objects, objects)
def test_a_patch_changes_one_object_into_the_other(before: Manifest, after: Manifest) -> None:
    patched = applying.apply(before, json_patch(before, after)) if json_patch(before, after) else before
    assert msgspec.json.encode(patched, order="sorted") == msgspec.json.encode(after, order="sorted")
