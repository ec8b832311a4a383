"""Service accounts: the default one, their tokens, and what pods get from them."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.contract.identities import REVIEWS, without_credentials
from tests.contract.support import Cluster, Namespace, Obj, eventually, pod

AUDIENCE = "https://kubernetes.default.svc.cluster.local"
TOKEN_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"


def appears(namespace: Namespace, plural: str, name: str) -> Obj:
    """An object that a controller makes, seen by watching."""
    with namespace.cluster.watch(namespace.path(plural), fieldSelector=f"metadata.name={name}") as events:
        found: Obj = next(events)["object"]
        return found


def request(namespace: Namespace, account: str = "default", **spec: Any) -> Any:
    appears(namespace, "serviceaccounts", "default")
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    return namespace.cluster.create(namespace.path("serviceaccounts", account, "token"), body)


def token(namespace: Namespace, **spec: Any) -> str:
    found: str = request(namespace, **spec).ok()["status"]["token"]
    return found


def claims(text: str) -> Obj:
    part = text.split(".")[1]
    found: Obj = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    return found


def reviewed(cluster: Cluster, text: str, *audiences: str) -> Obj:
    spec = {"token": text} | ({"audiences": list(audiences)} if audiences else {})
    status: Obj = cluster.create(TOKEN_REVIEWS, {"spec": spec}).ok()["status"]
    return status


def test_a_namespace_has_an_account_and_the_authority(namespace: Namespace) -> None:
    appears(namespace, "serviceaccounts", "default")
    assert "BEGIN CERTIFICATE" in appears(namespace, "configmaps", "kube-root-ca.crt")["data"]["ca.crt"]


@pytest.mark.parametrize(("plural", "name"), [("serviceaccounts", "default"), ("configmaps", "kube-root-ca.crt")])
def test_deleted_service_accounts_are_created_again(namespace: Namespace, plural: str, name: str) -> None:
    uid = appears(namespace, plural, name)["metadata"]["uid"]
    with namespace.cluster.watch(namespace.path(plural), fieldSelector=f"metadata.name={name}") as events:
        next(events)
        namespace.cluster.delete(namespace.path(plural, name)).ok()
        assert any(event["type"] == "ADDED" and event["object"]["metadata"]["uid"] != uid for event in events)


def test_a_token_identifies_its_account(namespace: Namespace) -> None:
    answer = request(namespace).ok()
    account = namespace.cluster.get(namespace.path("serviceaccounts", "default")).ok()
    assert answer["spec"] == {"audiences": [AUDIENCE], "expirationSeconds": 3600, "boundObjectRef": None}
    found = claims(answer["status"]["token"])
    assert found["iss"] == AUDIENCE
    assert found["aud"] == [AUDIENCE]
    assert found["sub"] == f"system:serviceaccount:{namespace.name}:default"
    assert found["exp"] - found["iat"] == 3600
    private = {"namespace": namespace.name, "serviceaccount": {"name": "default", "uid": account["metadata"]["uid"]}}
    assert found["kubernetes.io"] == private


def test_a_token_authenticates(namespace: Namespace) -> None:
    text = token(namespace)
    answer = without_credentials(namespace.cluster, "POST", REVIEWS, Authorization=f"Bearer {text}")
    user = json.loads(answer.body)["status"]["userInfo"]
    account = namespace.cluster.get(namespace.path("serviceaccounts", "default")).ok()
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{namespace.name}", "system:authenticated"]
    assert user["username"] == f"system:serviceaccount:{namespace.name}:default"
    assert user["uid"] == account["metadata"]["uid"]
    assert user["groups"] == groups
    assert user["extra"] == {"authentication.kubernetes.io/credential-id": [f"JTI={claims(text)['jti']}"]}
    status = reviewed(namespace.cluster, text)
    assert (status["authenticated"], status["audiences"], status["user"]) == (True, [AUDIENCE], user)


def test_a_token_for_others_does_not_open_this_server(namespace: Namespace) -> None:
    text = token(namespace, audiences=["vault", "other"])
    without_credentials(namespace.cluster, "GET", "/api", Authorization=f"Bearer {text}").refused(401, "Unauthorized")
    assert reviewed(namespace.cluster, text, "vault", "third")["audiences"] == ["vault"]
    status = reviewed(namespace.cluster, text)
    assert "authenticated" not in status
    assert status["error"].startswith("[invalid bearer token, token audiences")


def test_a_token_that_is_none(cluster: Cluster) -> None:
    assert reviewed(cluster, "nonsense") == {"user": {}, "error": "invalid bearer token"}


def test_a_token_ends_with_its_account(namespace: Namespace) -> None:
    namespace.cluster.create(namespace.path("serviceaccounts"), {"metadata": {"name": "brief"}}).ok()
    text: str = request(namespace, "brief").ok()["status"]["token"]
    assert reviewed(namespace.cluster, text)["authenticated"]
    namespace.cluster.delete(namespace.path("serviceaccounts", "brief")).ok()
    # The real server remembers a token for some seconds.
    eventually(lambda: "authenticated" not in reviewed(namespace.cluster, text) or None)


def test_a_token_bound_to_a_pod(namespace: Namespace) -> None:
    made = namespace.pod("p", nodeName="node-1")
    reference = {"kind": "Pod", "apiVersion": "v1", "name": "p"}
    text = token(namespace, boundObjectRef=reference)
    private = claims(text)["kubernetes.io"]
    assert private["pod"] == {"name": "p", "uid": made["metadata"]["uid"]}
    assert private["node"]["name"] == "node-1"
    extra = reviewed(namespace.cluster, text)["user"]["extra"]
    assert extra["authentication.kubernetes.io/pod-name"] == ["p"]
    assert extra["authentication.kubernetes.io/node-name"] == ["node-1"]


WRONG: list[tuple[Obj, int, str, str]] = [
    ({"expirationSeconds": 599}, 422, "Invalid", "may not specify a duration less than 10 minutes"),
    ({"expirationSeconds": 2**33}, 422, "Invalid", "may not specify a duration larger than 2^32 seconds"),
    ({"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "x"}}, 404, "NotFound", 'pods "x" not found'),
    (
        {"boundObjectRef": {"kind": "Foo", "apiVersion": "v1", "name": "x"}},
        400,
        "BadRequest",
        "cannot bind token to object of type /v1, Kind=Foo",
    ),
]


@pytest.mark.parametrize(("spec", "code", "reason", "text"), WRONG)
def test_invalid_token_requests(namespace: Namespace, spec: Obj, code: int, reason: str, text: str) -> None:
    assert text in request(namespace, **spec).refused(code, reason)["message"]


def test_no_token_without_an_account(namespace: Namespace) -> None:
    status = request(namespace, "absent").refused(404, "NotFound")
    assert status["message"] == 'serviceaccounts "absent" not found'


@pytest.fixture
def secret(namespace: Namespace) -> Iterator[Obj]:
    """A Secret that asks for a token, once it has one."""
    appears(namespace, "serviceaccounts", "default")
    annotations = {"kubernetes.io/service-account.name": "default"}
    body = {"metadata": {"name": "s", "annotations": annotations}, "type": "kubernetes.io/service-account-token"}
    namespace.cluster.create(namespace.path("secrets"), body).ok()
    with namespace.cluster.watch(namespace.path("secrets"), fieldSelector="metadata.name=s") as events:
        yield next(event["object"] for event in events if "token" in event["object"].get("data", {}))


def test_a_token_in_a_secret(namespace: Namespace, secret: Obj) -> None:
    assert set(secret["data"]) == {"ca.crt", "namespace", "token"}
    account = namespace.cluster.get(namespace.path("serviceaccounts", "default")).ok()
    assert secret["metadata"]["annotations"]["kubernetes.io/service-account.uid"] == account["metadata"]["uid"]
    text = base64.b64decode(secret["data"]["token"]).decode()
    assert reviewed(namespace.cluster, text)["user"]["username"] == f"system:serviceaccount:{namespace.name}:default"


def test_a_pod_gets_the_default_account(namespace: Namespace) -> None:
    spec = namespace.pod("p")["spec"]
    assert spec["serviceAccountName"] == spec["serviceAccount"] == "default"


def test_an_account_must_exist(namespace: Namespace) -> None:
    answer = namespace.cluster.create(namespace.path("pods"), pod("p", serviceAccountName="absent"))
    account = f"{namespace.name}/absent"
    text = f'pods "p" is forbidden: error looking up service account {account}: serviceaccount "absent" not found'
    assert answer.refused(403, "Forbidden")["message"] == text


def test_pull_secrets_come_from_the_account(namespace: Namespace) -> None:
    body = {"metadata": {"name": "puller"}, "imagePullSecrets": [{"name": "registry"}]}
    namespace.cluster.create(namespace.path("serviceaccounts"), body).ok()
    for _ in range(100):  # the real server learns of it a moment later
        answer = namespace.cluster.create(namespace.path("pods"), pod("p", serviceAccountName="puller"))
        if answer.code == 201:
            assert answer.body["spec"]["imagePullSecrets"] == [{"name": "registry"}]
            return
    pytest.fail("the account is not found")
