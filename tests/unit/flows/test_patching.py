"""A patch laid over a template's spec: what is merged by key, and what takes the place of the old."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from volcanoio.engine.flows.jobs import apply_patch
from volcanoio.model.base import Manifest

NAMES = st.sampled_from(["a", "b", "c"])


def task(name: str, **more: Any) -> Manifest:
    return {"name": name, **more}


@pytest.mark.parametrize(
    ("spec", "patch", "expected"),
    [
        ({"queue": "a", "maxRetry": 3}, {"queue": "b"}, {"queue": "b", "maxRetry": 3}),
        ({"queue": "a"}, {"queue": None}, {}),
        ({"plugins": {"env": []}}, {"plugins": {"svc": []}}, {"plugins": {"env": [], "svc": []}}),
        ({"plugins": {"svc": ["-a"]}}, {"plugins": {"svc": ["-b"]}}, {"plugins": {"svc": ["-b"]}}),
        (
            {"tasks": [task("a", replicas=1, maxRetry=2), task("b")]},
            {"tasks": [task("c"), task("a", replicas=5)]},
            {"tasks": [task("a", replicas=5, maxRetry=2), task("b"), task("c")]},
        ),
        ({"tasks": [task("a")]}, {"tasks": [{"replicas": 1}]}, {"tasks": [{"replicas": 1}]}),
        (
            {"volumes": [{"mountPath": "/a", "volumeClaimName": "x"}]},
            {"volumes": [{"mountPath": "/a", "volumeClaimName": "y"}, {"mountPath": "/b"}]},
            {"volumes": [{"mountPath": "/a", "volumeClaimName": "y"}, {"mountPath": "/b"}]},
        ),
        (
            {"policies": [{"event": "PodFailed", "action": "RestartJob"}]},
            {"policies": [{"event": "PodEvicted", "action": "AbortJob"}]},
            {"policies": [{"event": "PodEvicted", "action": "AbortJob"}]},
        ),
    ],
)
def test_patches(spec: Manifest, patch: Manifest, expected: Manifest) -> None:
    assert apply_patch(spec, patch) == expected


@given(st.lists(NAMES, unique=True), st.lists(NAMES, unique=True), st.integers(1, 9))
def test_every_task_exists_once_with_its_patch(old: list[str], new: list[str], replicas: int) -> None:
    spec = {"tasks": [task(name, image="i") for name in old]}
    patch = {"tasks": [task(name, replicas=replicas) for name in new]}
    result = apply_patch(spec, patch)
    names = [each["name"] for each in result["tasks"]]
    assert names == [*old, *(name for name in new if name not in old)]
    assert all((each.get("replicas") == replicas) is (each["name"] in new) for each in result["tasks"])
    assert apply_patch(result, patch) == result
    assert spec == {"tasks": [task(name, image="i") for name in old]}
