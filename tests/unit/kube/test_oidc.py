"""OIDC users of a kubeconfig against an identity provider over HTTPS: the provider is verified, tokens are renewed."""

from __future__ import annotations

import base64
import stat
from pathlib import Path
from urllib.parse import quote_plus

import jwt
import pytest

from tests.unit.kube.identity_provider import (
    SECRET,
    id_token,
    identity_provider,
    kubeconfig,
    oidc_kubeconfig,
    stored_config,
)
from volcanoio.kube.kubeconfig import ConfigError, from_file


def subject(header: str) -> str:
    claims = jwt.decode(header.removeprefix("Bearer "), options={"verify_signature": False})
    return str(claims["sub"])


async def test_a_valid_id_token_is_used_without_asking_the_provider(tmp_path: Path) -> None:
    token = id_token("me")
    assert "_" in token.split(".")[1] or "-" in token.split(".")[1]  # the URL-safe alphabet
    config = {"idp-issuer-url": "https://127.0.0.1:9", "client-id": "c", "id-token": token}
    connection = await from_file(oidc_kubeconfig(tmp_path / "config", config))
    assert await connection.credentials.header() == f"Bearer {token}"


async def test_an_expired_id_token_is_renewed_and_stored(tmp_path: Path) -> None:
    path = tmp_path / "config"
    async with identity_provider() as provider:
        oidc_kubeconfig(path, provider.config()).chmod(0o640)
        connection = await from_file(path)
    assert subject(await connection.credentials.header()) == "new-1"
    assert provider.forms == [{"grant_type": "refresh_token", "refresh_token": "refresh-0"}]
    basic = base64.b64decode(provider.headers[0].removeprefix("Basic ")).decode()
    assert basic == f"kubernetes:{quote_plus(SECRET)}"
    assert f"Bearer {stored_config(path)['id-token']}" == await connection.credentials.header()
    assert stored_config(path)["refresh-token"] == "refresh-0"  # the answer had none
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert list(tmp_path.glob("*")) == [path]  # noqa: ASYNC240 - neither a lock nor a temporary file


async def test_a_refresh_token_that_is_valid_once_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "config"
    async with identity_provider() as provider:
        provider.rotates = True
        connection = await from_file(oidc_kubeconfig(path, provider.config()))
        assert stored_config(path)["refresh-token"] == "refresh-1"
        header = await connection.credentials.header()
        oidc_kubeconfig(path, {**stored_config(path), "refresh-token": "from-kubectl"})
        second = await (await from_file(path)).credentials.header()
        assert second == header  # the next process uses what is stored
    assert len(provider.forms) == 1


async def test_a_kubeconfig_that_cannot_be_written_keeps_new_tokens_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "config"
    async with identity_provider() as provider:
        before = oidc_kubeconfig(path, provider.config()).read_text()
        (tmp_path / "config.lock").touch()  # kubectl is writing
        connection = await from_file(path)
    assert subject(await connection.credentials.header()) == "new-1"
    assert path.read_text() == before


async def test_the_authority_of_the_provider_may_be_a_file(tmp_path: Path) -> None:
    async with identity_provider() as provider:
        (tmp_path / "idp.pem").write_bytes(provider.certificates.bundle)
        config = provider.config(idp_certificate_authority_data="", idp_certificate_authority="idp.pem")
        connection = await from_file(oidc_kubeconfig(tmp_path / "config", config))
    assert subject(await connection.credentials.header()) == "new-1"


async def test_no_secret_is_sent_to_a_provider_that_is_not_trusted(tmp_path: Path) -> None:
    async with identity_provider() as provider:
        config = provider.config(idp_certificate_authority_data="")
        with pytest.raises(ConfigError, match="certificate verify failed") as caught:
            await from_file(oidc_kubeconfig(tmp_path / "config", config))
    assert provider.forms == []
    assert "users[u]: oidc: " in str(caught.value)


async def test_a_public_client_sends_its_name_in_the_form(tmp_path: Path) -> None:
    async with identity_provider() as provider:
        await from_file(oidc_kubeconfig(tmp_path / "config", provider.config(client_secret="")))
    assert provider.headers == [""]
    assert provider.forms[0]["client_id"] == "kubernetes"


async def test_the_secret_is_in_the_form_if_the_provider_wants_it_there(tmp_path: Path) -> None:
    async with identity_provider() as provider:
        provider.methods = ["client_secret_post"]
        await from_file(oidc_kubeconfig(tmp_path / "config", provider.config()))
    assert provider.headers == [""]
    assert provider.forms[0]["client_secret"] == SECRET


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ((400, {"error": "invalid_grant", "error_description": "s3cr3t"}), "refused the refresh token"),
        ((500, {}), "HTTP 500"),
        ((200, {"access_token": "s3cr3t"}), "request the scope openid"),
        ((200, {"id_token": "s3cr3t"}), "not a JSON Web Token"),
        ((200, ["s3cr3t"]), "not the expected JSON"),
    ],
)  # fmt: skip
async def test_a_provider_that_gives_no_token_is_an_error(
    tmp_path: Path, answer: tuple[int, object], words: str
) -> None:
    path = tmp_path / "config"
    async with identity_provider() as provider:
        provider.answer = answer
        with pytest.raises(ConfigError, match=words) as caught:
            await from_file(oidc_kubeconfig(path, provider.config()))
    assert str(path) in str(caught.value)
    assert "s3cr3t" not in str(caught.value)


async def test_secrets_are_never_sent_in_clear(tmp_path: Path) -> None:
    async with identity_provider() as provider:
        provider.token_endpoint = "http://127.0.0.1:9/token"
        with pytest.raises(ConfigError, match="must be an https URL"):
            await from_file(oidc_kubeconfig(tmp_path / "config", provider.config()))
    config = provider.config(idp_issuer_url="http://127.0.0.1:9")
    with pytest.raises(ConfigError, match="idp-issuer-url must be an https URL"):
        await from_file(oidc_kubeconfig(tmp_path / "config", config))


@pytest.mark.parametrize(
    ("without", "words"),
    [
        ("idp-issuer-url", "idp-issuer-url is missing"),
        ("client-id", "client-id is missing"),
        ("refresh-token", "log in again"),
    ],
)
async def test_missing_settings_are_named(tmp_path: Path, without: str, words: str) -> None:
    config = {"idp-issuer-url": "https://127.0.0.1:9", "client-id": "c", "refresh-token": "r"}
    del config[without]
    with pytest.raises(ConfigError, match=words):
        await from_file(oidc_kubeconfig(tmp_path / "config", config))


async def test_other_auth_providers_are_refused_as_kubectl_refuses_them(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path / "config", {"auth-provider": {"name": "gcp", "config": {"cmd-path": "gcloud"}}})
    with pytest.raises(ConfigError, match=r"users\[u\]: auth-provider 'gcp' is not supported; use an exec plug-in"):
        await from_file(path)
