"""Authentication, impersonation, and the requests that anonymous users may send."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from tests.contract.identities import REVIEWS, without_credentials
from tests.contract.support import Cluster, Namespace, Obj


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz", "/version"])
def test_anybody_may_ask_for_health_and_version(cluster: Cluster, path: str) -> None:
    assert without_credentials(cluster, "GET", path).code == 200


DENIED = [
    ("GET", "/api", 'forbidden: User "system:anonymous" cannot get path "/api"', {}),
    ("GET", "/openapi/v2", 'forbidden: User "system:anonymous" cannot get path "/openapi/v2"', {}),
    (
        "GET",
        "/api/v1/namespaces/default/pods",
        (
            'pods is forbidden: User "system:anonymous" cannot list resource "pods" in API group "" '
            'in the namespace "default"'
        ),
        {"kind": "pods"},
    ),
    (
        "GET",
        "/api/v1/pods?watch=1",
        'pods is forbidden: User "system:anonymous" cannot watch resource "pods" in API group "" at the cluster scope',
        {"kind": "pods"},
    ),
    (
        "GET",
        "/api/v1/namespaces/default/pods/x/log",
        (
            'pods "x" is forbidden: User "system:anonymous" cannot get resource "pods/log" in API group "" '
            'in the namespace "default"'
        ),
        {"name": "x", "kind": "pods"},
    ),
    (
        "POST",
        "/api/v1/namespaces/default/configmaps",
        (
            'configmaps is forbidden: User "system:anonymous" cannot create resource "configmaps" in API group "" '
            'in the namespace "default"'
        ),
        {"kind": "configmaps"},
    ),
    (
        "DELETE",
        "/api/v1/nodes/x",
        (
            'nodes "x" is forbidden: User "system:anonymous" cannot delete resource "nodes" in API group "" '
            "at the cluster scope"
        ),
        {"name": "x", "kind": "nodes"},
    ),
    (
        "PATCH",
        "/apis/apps/v1/namespaces/default/deployments/x",
        (
            'deployments.apps "x" is forbidden: User "system:anonymous" cannot patch resource "deployments" '
            'in API group "apps" in the namespace "default"'
        ),
        {"name": "x", "group": "apps", "kind": "deployments"},
    ),
]


@pytest.mark.parametrize(("method", "path", "message", "details"), DENIED)
def test_an_anonymous_user_may_do_nothing(cluster: Cluster, method: str, path: str, message: str, details: Obj) -> None:
    status = without_credentials(cluster, method, path).refused(403, "Forbidden")
    assert status["message"] == message
    assert status.get("details", {}) == details


@pytest.mark.parametrize("path", ["/api/v1/pods", "/healthz"])
def test_a_wrong_token_is_worse_than_none(cluster: Cluster, path: str) -> None:
    status = without_credentials(cluster, "GET", path, Authorization="Bearer wrong").refused(401, "Unauthorized")
    assert status["message"] == "Unauthorized"


def whoami(cluster: Cluster, **headers: str) -> Obj:
    found: Obj = cluster.create(REVIEWS, {}, headers=headers).ok()["status"]["userInfo"]
    return found


def test_the_owner(cluster: Cluster) -> None:
    user = whoami(cluster)
    assert user["username"]
    assert {"system:masters", "system:authenticated"} <= set(user["groups"])


IMPERSONATED: list[tuple[Mapping[str, str], Obj]] = [
    ({"Impersonate-User": "bob"}, {"username": "bob", "groups": ["system:authenticated"]}),
    (
        {"Impersonate-User": "bob", "Impersonate-Group": "g1", "Impersonate-Extra-Foo": "x"},
        {"username": "bob", "groups": ["g1", "system:authenticated"], "extra": {"foo": ["x"]}},
    ),
    (
        {"Impersonate-User": "system:serviceaccount:a:b"},
        {
            "username": "system:serviceaccount:a:b",
            "groups": ["system:serviceaccounts", "system:serviceaccounts:a", "system:authenticated"],
        },
    ),
]


@pytest.mark.parametrize(("headers", "user"), IMPERSONATED)
def test_impersonation(cluster: Cluster, headers: Mapping[str, str], user: Obj) -> None:
    assert whoami(cluster, **headers) == user


def test_impersonating_without_a_user(cluster: Cluster) -> None:
    group = cluster.create(REVIEWS, {}, headers={"Impersonate-Group": "g1"})
    assert "without impersonating a user name" in group.refused(400, "BadRequest")["message"]
    anonymous = cluster.create(REVIEWS, {}, headers={"Impersonate-User": "system:anonymous"})
    text = 'selfsubjectreviews.authentication.k8s.io is forbidden: User "system:anonymous" cannot create resource'
    assert anonymous.refused(403, "Forbidden")["message"].startswith(text)


def test_impersonated_users_are_in_reviews_and_responses(namespace: Namespace) -> None:
    bob = replace(namespace.cluster, headers=namespace.cluster.headers | {"Impersonate-User": "bob"})
    masters = {"Impersonate-Group": "system:masters"}
    assert bob.create(namespace.path("configmaps"), {"metadata": {"name": "a"}}, headers=masters).code == 201
    bob.close()


ACCESS = "/apis/authorization.k8s.io/v1"


def test_rights_of_the_owner(cluster: Cluster) -> None:
    spec = {"resourceAttributes": {"verb": "get", "resource": "pods"}}
    review = cluster.create(f"{ACCESS}/selfsubjectaccessreviews", {"spec": spec}).ok()
    assert review["status"]["allowed"] is True
    assert review["spec"] == spec
    of_bob = {"spec": spec | {"user": "bob", "groups": ["system:masters"]}}
    assert cluster.create(f"{ACCESS}/subjectaccessreviews", of_bob).ok()["status"]["allowed"] is True
    rules = cluster.create(f"{ACCESS}/selfsubjectrulesreviews", {"spec": {"namespace": "default"}}).ok()["status"]
    everything = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
    assert everything in rules["resourceRules"]


def test_an_empty_access_review(cluster: Cluster) -> None:
    [cause] = cluster.create(f"{ACCESS}/selfsubjectaccessreviews", {"spec": {}}).refused(422, "Invalid")["details"][
        "causes"
    ]
    assert cause["field"] == "spec.resourceAttributes"
