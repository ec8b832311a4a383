"""Users over TLS: client certificates, tokens of service accounts, and who is refused."""

from __future__ import annotations

import ssl
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from volcanoio.localcluster.apiserver.authn import credentials
from volcanoio.localcluster.apiserver.authn.credentials import ClientCertificate, Identity, load_or_create
from volcanoio.localcluster.apiserver.authn.guard import certificate_user
from volcanoio.localcluster.apiserver.http.listener import Bound, serve
from volcanoio.localcluster.apiserver.server import ApiServer, install

REVIEWS = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


@asynccontextmanager
async def served(identity: Identity) -> AsyncIterator[Bound]:
    async with ApiServer.open(None, identity=lambda: identity).running() as server:
        install(server)
        async with serve(server, identity=identity, account=server.tokens.user) as bound:
            yield bound


def context(identity: Identity, certificate: ClientCertificate | None = None) -> ssl.SSLContext:
    found = identity.client_context()
    if certificate is not None:
        with tempfile.NamedTemporaryFile() as file:
            file.write(certificate.certificate + certificate.key)
            file.flush()
            found.load_cert_chain(file.name)
    return found


async def whoami(bound: Bound, tls: ssl.SSLContext, **headers: str) -> tuple[int, dict[str, Any]]:
    async with (
        aiohttp.ClientSession(bound.url, connector=aiohttp.TCPConnector(ssl=tls)) as session,
        session.post(REVIEWS, json={}, headers=headers) as response,
    ):
        body = await response.json()
        return response.status, body.get("status", {}).get("userInfo", {}) if response.status == 201 else body


async def test_a_certificate_names_user_and_groups(tmp_path: Path) -> None:
    identity = load_or_create(tmp_path)
    async with served(identity) as bound:
        code, user = await whoami(bound, context(identity, identity.issue_client("ann", ["dev", "ops"])))
        assert (code, user) == (201, {"username": "ann", "groups": ["dev", "ops", "system:authenticated"]})
        _, owner = await whoami(bound, context(identity, identity.admin))
        assert owner == {"username": "volcanoio", "groups": ["system:masters", "system:authenticated"]}
        code, denied = await whoami(bound, context(identity))
        assert (code, denied["reason"]) == (403, "Forbidden")


async def test_a_certificate_of_another_cluster_is_refused(tmp_path: Path) -> None:
    identity, other = load_or_create(tmp_path / "a"), load_or_create(tmp_path / "b")
    async with served(identity) as bound:
        with pytest.raises((aiohttp.ClientError, ssl.SSLError, ConnectionError)):
            await whoami(bound, context(identity, other.admin))


async def test_a_token_goes_before_a_certificate(tmp_path: Path) -> None:
    identity = load_or_create(tmp_path)
    async with served(identity) as bound:
        tls = context(identity, identity.issue_client("ann"))
        _, user = await whoami(bound, tls, Authorization=f"Bearer {bound.token}")
        assert user["username"] == "volcanoio"
        code, _ = await whoami(bound, tls, Authorization="Bearer wrong")
        assert code == 401


async def test_the_keys_of_tokens_are_published(tmp_path: Path) -> None:
    identity = load_or_create(tmp_path)
    async with served(identity) as bound, aiohttp.ClientSession(bound.url) as session:
        headers = {"Authorization": f"Bearer {bound.token}"}
        tls = context(identity)
        async with session.get("/.well-known/openid-configuration", headers=headers, ssl=tls) as response:
            document = await response.json()
        assert document["jwks_uri"] == f"{bound.url}/openid/v1/jwks"
        async with session.get("/openid/v1/jwks", headers=headers, ssl=tls) as response:
            assert [key["kty"] for key in (await response.json(content_type=None))["keys"]] == ["EC"]


def test_a_directory_of_an_older_version_gets_missing_files(tmp_path: Path) -> None:
    first = load_or_create(tmp_path)
    for name in ("client-ca.crt", "sa.key", "admin.crt"):
        (tmp_path / name).unlink()
    second = load_or_create(tmp_path)
    assert (second.ca_pem, second.token) == (first.ca_pem, first.token)
    assert second.account_key != first.account_key
    assert load_or_create(tmp_path) == second


def test_a_kubeconfig_may_log_in_with_a_certificate(tmp_path: Path) -> None:
    identity = load_or_create(tmp_path / "pki")
    text = credentials.render_kubeconfig("https://127.0.0.1:1", token="t", certificate=identity.admin)
    document = yaml.safe_load(text)
    users = {one["name"]: one["user"] for one in document["users"]}
    assert set(users["volcanoio-certificate"]) == {"client-certificate-data", "client-key-data"}
    assert {one["name"]: one["context"]["user"] for one in document["contexts"]} == {name: name for name in users}


def test_a_certificate_without_a_name_is_anonymous() -> None:
    assert certificate_user({"subject": ((("organizationName", "system:masters"),),)}) is None
