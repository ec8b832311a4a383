"""Odd values where admission, reviews and subresources read them: refused or stored, never our own fault."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.localcluster.apiserver.api import running
from volcanoio.localcluster.apiserver.server import install
from volcanoio.model.base import Manifest

NAMESPACE = "/api/v1/namespaces/default"
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
ODD: tuple[Any, ...] = (None, [], {}, "x", 1, True, [None], {"a": None}, [1], ["x"])
_CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
_VOLUME = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/x"}}
_HOOK = {
    "name": "a.b.c",
    "clientConfig": {"url": "https://127.0.0.1:1"},
    "sideEffects": "None",
    "admissionReviewVersions": ["v1"],
    "failurePolicy": "Ignore",
}
_PODS = (
    *(
        "tolerations",
        "serviceAccountName",
        "priorityClassName",
        "containers",
        "volumes",
        "imagePullSecrets",
        "overhead",
    ),
    *("activeDeadlineSeconds", "affinity", "resources", "initContainers", "priority", "preemptionPolicy"),
)
_SPECS: tuple[tuple[str, Manifest, tuple[str, ...]], ...] = (
    (f"{NAMESPACE}/pods", {"containers": [{"name": "a", "image": "b"}]}, _PODS),
    (f"{NAMESPACE}/persistentvolumeclaims", _CLAIM, ("accessModes", "resources", "selector", "storageClassName")),
    ("/api/v1/persistentvolumes", _VOLUME, ("capacity", "accessModes", "claimRef", "hostPath")),
    (f"{NAMESPACE}/resourcequotas", {"hard": {"pods": "100000"}}, ("hard", "scopes", "scopeSelector")),
    (f"{NAMESPACE}/limitranges", {"limits": []}, ("limits",)),
)
_LIMITS = ("type", "max", "min", "default", "defaultRequest", "maxLimitRequestRatio")
_HOOKS = ("rules", "clientConfig", "namespaceSelector", "matchConditions", "timeoutSeconds", "admissionReviewVersions")
_REVIEWS = (
    *(f"authentication.k8s.io/v1/{name}" for name in ("tokenreviews", "selfsubjectreviews")),
    *(f"authorization.k8s.io/v1/{name}" for name in ("selfsubjectaccessreviews", "subjectaccessreviews")),
    "authorization.k8s.io/v1/selfsubjectrulesreviews",
)


def requests(odd: Any) -> Iterator[tuple[str, str, Any]]:
    """Method, path and body of requests with an odd value in each place."""
    metadata = {"generateName": "odd-"}
    for path, spec, fields in _SPECS:
        for field in fields:
            yield "POST", path, {"metadata": metadata, "spec": spec | {field: odd}}
    for field in _LIMITS:
        limit = {"type": "Pod", "max": {"cpu": "1000"}, field: odd}
        yield "POST", f"{NAMESPACE}/limitranges", {"metadata": metadata, "spec": {"limits": [limit]}}
    for field in _HOOKS:
        yield "POST", CONFIGURATIONS, {"metadata": metadata, "webhooks": [_HOOK | {field: odd}]}
    yield "POST", CONFIGURATIONS, {"metadata": metadata, "webhooks": odd}
    for review in _REVIEWS:
        for body in (odd, {"metadata": odd}, {"spec": odd}, {"spec": {"token": odd, "audiences": odd, "user": odd}}):
            yield "POST", f"/apis/{review}", body
    for body in (odd, {"spec": odd}, {"spec": {"audiences": odd, "boundObjectRef": odd, "expirationSeconds": odd}}):
        yield "POST", f"{NAMESPACE}/serviceaccounts/default/token", body
    for body in (odd, {"spec": odd}, {"spec": {"finalizers": odd}}):
        yield "PUT", f"{NAMESPACE}/finalize", body


async def test_invalid_values_cause_no_internal_error() -> None:
    async with running() as api:
        install(api.server)
        for odd in ODD:
            for method, path, body in requests(odd):
                answer = await api(method, path, body)
                assert answer.code != 500, (method, path, body, answer.body)
