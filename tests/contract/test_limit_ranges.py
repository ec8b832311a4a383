"""LimitRange: what containers get that ask for nothing, and who is out of bounds."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.support import Answer, Namespace, Obj, pod, unique

_TRIES = 200


def limited(namespace: Namespace, *limits: Obj) -> None:
    """Store a LimitRange with one more bound, and wait until that is in force."""
    marker = {"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}}
    body = {"metadata": {"name": unique("limits")}, "spec": {"limits": [*limits, marker]}}
    namespace.cluster.create(namespace.path("limitranges"), body).ok()
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}}}
    claims = namespace.path("persistentvolumeclaims")
    for _ in range(_TRIES):
        if namespace.cluster.create(claims, {"metadata": {"name": "marker"}, "spec": spec}, dryRun="All").code == 403:
            return
    pytest.fail("the limits have no effect")


def create(namespace: Namespace, *containers: Obj, **spec: Any) -> Answer:
    """Try to create a pod of containers with these resources."""
    named = [{"name": f"c{at}", "image": "busybox", "resources": one} for at, one in enumerate(containers)]
    return namespace.cluster.create(namespace.path("pods"), pod("p", containers=named, **spec), dryRun="All")


def refusal(answer: Answer) -> str:
    text = str(answer.refused(403, "Forbidden")["message"])
    return text.removeprefix('pods "p" is forbidden: ')


def test_defaults_of_containers(namespace: Namespace) -> None:
    limited(
        namespace,
        {"type": "Container", "default": {"cpu": "1", "memory": "1Gi"}, "defaultRequest": {"cpu": "100m"}},
    )
    made = create(namespace, {}, {"limits": {"cpu": "2"}}).ok()
    first, second = (one["resources"] for one in made["spec"]["containers"])
    assert first == {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "100m", "memory": "1Gi"}}
    assert second == {"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "2", "memory": "1Gi"}}
    note = made["metadata"]["annotations"]["kubernetes.io/limit-ranger"]
    assert note == (
        "LimitRanger plugin set: cpu, memory request for container c0; cpu, memory limit for container c0; "
        "memory request for container c1; memory limit for container c1"
    )
    assert made["status"]["qosClass"] == "Burstable"


def test_defaults_of_the_limits_themselves(namespace: Namespace) -> None:
    limits = {"type": "Container", "max": {"cpu": "2", "memory": "1Gi"}, "min": {"cpu": "10m"}, "default": {"cpu": "1"}}
    body = {"metadata": {"name": "l"}, "spec": {"limits": [limits]}}
    [stored] = namespace.cluster.create(namespace.path("limitranges"), body).ok()["spec"]["limits"]
    assert stored["default"] == stored["defaultRequest"] == {"cpu": "1", "memory": "1Gi"}


CASES: list[tuple[Obj, Obj, str]] = [
    (
        {"min": {"cpu": "100m"}},
        {"requests": {"cpu": "50m"}},
        "minimum cpu usage per Container is 100m, but request is 50m",
    ),
    ({"max": {"cpu": "2"}}, {"limits": {"cpu": "3"}}, "maximum cpu usage per Container is 2, but limit is 3"),
    (
        {"max": {"memory": "1Gi"}},
        {"limits": {"memory": "1Gi"}, "requests": {"memory": "1Gi"}},
        "",
    ),
    (
        {"maxLimitRequestRatio": {"cpu": "4"}},
        {"limits": {"cpu": "500m"}, "requests": {"cpu": "100m"}},
        "cpu max limit to request ratio per Container is 4, but provided ratio is 5.000000",
    ),
    (
        {"maxLimitRequestRatio": {"cpu": "4"}},
        {"limits": {"memory": "1Gi"}},
        "cpu max limit to request ratio per Container is 4, but no request is specified or request is 0",
    ),
]


@pytest.mark.parametrize(("limit", "resources", "text"), CASES)
def test_bounds_of_containers(namespace: Namespace, limit: Obj, resources: Obj, text: str) -> None:
    limited(namespace, {"type": "Container"} | limit)
    answer = create(namespace, resources)
    if text:
        assert refusal(answer) == text
    else:
        answer.ok()


def test_all_values_out_of_bounds_are_reported(namespace: Namespace) -> None:
    limited(namespace, {"type": "Container", "max": {"cpu": "1"}}, {"type": "Pod", "max": {"memory": "1Gi"}})
    text = refusal(create(namespace, {"limits": {"cpu": "2", "memory": "2Gi"}}))
    first = "maximum cpu usage per Container is 1, but limit is 2"
    assert text == f"[{first}, maximum memory usage per Pod is 1Gi, but limit is 2Gi]"


def test_bounds_of_pods(namespace: Namespace) -> None:
    """A pod is as large as its containers together, or its largest init container."""
    limited(namespace, {"type": "Pod", "max": {"cpu": "3"}})
    two = {"limits": {"cpu": "2"}}
    assert refusal(create(namespace, two, two)) == "maximum cpu usage per Pod is 3, but limit is 4"
    init = [{"name": "i", "image": "busybox", "resources": two}]
    create(namespace, two, initContainers=init).ok()
    assert refusal(create(namespace, {})) == "maximum cpu usage per Pod is 3.  No limit is specified"


@pytest.mark.parametrize(("storage", "text"), [
    ("3Gi", "maximum storage usage per PersistentVolumeClaim is 2Gi, but request is 3Gi"),
    ("1Mi", "minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 1Mi"),
])  # fmt: skip
def test_bounds_of_claims(namespace: Namespace, storage: str, text: str) -> None:
    bounds = {"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}, "max": {"storage": "2Gi"}}
    body = {"metadata": {"name": "l"}, "spec": {"limits": [bounds]}}
    namespace.cluster.create(namespace.path("limitranges"), body).ok()
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": storage}}}
    for _ in range(_TRIES):
        claim = {"metadata": {"name": "c"}, "spec": spec}
        answer = namespace.cluster.create(namespace.path("persistentvolumeclaims"), claim, dryRun="All")
        if answer.code == 403:
            assert answer.body["message"] == f'persistentvolumeclaims "c" is forbidden: {text}'
            return
    pytest.fail("the limits have no effect")


WRONG: list[tuple[Obj, list[str]]] = [
    ({"type": "Other"}, ["spec.limits[0].type"]),
    ({"type": "Container", "defaultRequest": {"foo": "1"}}, ["spec.limits[0].defaultRequest[foo]"] * 2),
    ({"type": "Pod", "default": {"cpu": "1"}}, ["spec.limits[0].default"]),
    ({"type": "PersistentVolumeClaim"}, ["spec.limits[0].limits"]),
    (
        {"type": "Container", "min": {"cpu": "2"}, "max": {"cpu": "1"}},
        ["spec.limits[0].min[cpu]", "spec.limits[0].defaultRequest[cpu]", "spec.limits[0].default[cpu]"],
    ),
    (
        {"type": "Pod", "min": {"cpu": "1"}, "max": {"cpu": "2"}, "maxLimitRequestRatio": {"cpu": "5"}},
        ["spec.limits[0].maxLimitRequestRatio[cpu]"],
    ),
]


@pytest.mark.parametrize(("limit", "fields"), WRONG)
def test_a_limit_range_must_be_right(namespace: Namespace, limit: Obj, fields: list[str]) -> None:
    body = {"metadata": {"name": "l"}, "spec": {"limits": [limit]}}
    answer = namespace.cluster.create(namespace.path("limitranges"), body)
    assert [cause["field"] for cause in answer.refused(422, "Invalid")["details"]["causes"]] == fields
