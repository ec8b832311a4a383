"""Kubeconfigs: the fields that are read, and errors of invalid files."""

from __future__ import annotations

import base64
import ssl
import sys
import traceback
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from volcanoio.kube.kubeconfig import ConfigError, from_file, in_cluster, load


def kubeconfig(cluster: dict[str, Any] | None = None, user: dict[str, Any] | None = None) -> dict[str, Any]:
    return {
        "current-context": "here",
        "clusters": [{"name": "c", "cluster": cluster or {"server": "http://127.0.0.1:8001/"}}],
        "users": [{"name": "u", "user": user or {}}],
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "team"}}],
    }


def write(path: Path, content: object) -> Path:
    path.write_text(yaml.safe_dump(content))
    return path


def self_signed() -> tuple[bytes, bytes]:
    import datetime

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "me")])
    start = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(start)
        .not_valid_after(start + datetime.timedelta(days=36500))
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return certificate.public_bytes(pem), private


async def test_a_token_over_plain_http(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "config", kubeconfig(user={"token": "abc"}))
    monkeypatch.setenv("KUBECONFIG", str(path))
    connection = await load()
    assert (connection.server, connection.namespace, connection.ssl) == ("http://127.0.0.1:8001", "team", True)
    assert await connection.credentials.header() == "Bearer abc"


@pytest.mark.parametrize(
    ("user", "header"),
    [({"username": "a", "password": "b"}, "Basic YTpi"), ({"tokenFile": "token"}, "Bearer from-file"), ({}, "")],
)
async def test_other_static_credentials(tmp_path: Path, user: dict[str, Any], header: str) -> None:
    (tmp_path / "token").write_text("from-file\n")
    connection = await from_file(write(tmp_path / "config", kubeconfig(user=user)))
    assert await connection.credentials.header() == header


async def test_certificates_inline_and_as_files(tmp_path: Path) -> None:
    certificate, key = self_signed()
    (tmp_path / "me.crt").write_bytes(certificate)
    (tmp_path / "me.key").write_bytes(key)
    inline = base64.b64encode(certificate).decode()
    cluster = {"server": "https://example.test", "certificate-authority-data": inline}
    user = {"client-certificate": "me.crt", "client-key": "me.key"}
    connection = await from_file(write(tmp_path / "config", kubeconfig(cluster, user)))
    context = connection.context()
    assert isinstance(context, ssl.SSLContext)
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.cert_store_stats()["x509"] == 1

    skipping = {"server": "https://example.test", "insecure-skip-tls-verify": True}
    insecure = await from_file(write(tmp_path / "config", kubeconfig(skipping)))
    context = insecure.context()
    assert isinstance(context, ssl.SSLContext)
    assert context.verify_mode is ssl.CERT_NONE


@pytest.mark.parametrize("data", ["no base64", "\xe9YQ=="])
async def test_an_authority_that_is_no_base64_is_an_error_with_its_field(tmp_path: Path, data: str) -> None:
    cluster = {"server": "https://example.test", "certificate-authority-data": data}
    with pytest.raises(ConfigError, match="certificate-authority"):
        await from_file(write(tmp_path / "config", kubeconfig(cluster)))


async def test_an_exec_plugin_gives_a_token(tmp_path: Path) -> None:
    script = tmp_path / "plugin.py"
    script.write_text(
        'print(\'{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"t"}}\')'
    )
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": sys.executable,
        "args": [str(script)],
        "interactiveMode": "Never",
    }
    connection = await from_file(write(tmp_path / "config", kubeconfig(user={"exec": plugin})))
    assert await connection.credentials.header() == "Bearer t"
    assert await connection.credentials.header(refused="Bearer t") == "Bearer t"


@pytest.mark.parametrize(
    "content",
    [
        "users: [{name: u, user: {token: !!int s3cr3t}}]",
        "users: [{name: u, user: {token: *s3cr3t}}]",
        "users: [{name: u, user: {token: 's3cr3t]",
        "users: [{name: u, user: {password: [s3cr3t]}}]",
        "token: !s3cr3t-x y",
    ],
)
async def test_an_error_contains_no_secret_of_the_file(tmp_path: Path, content: str) -> None:
    path = tmp_path / "config"
    path.write_text(content)
    with pytest.raises(ConfigError) as caught:
        await from_file(path)
    assert str(path) in str(caught.value)
    assert "s3cr3t" not in "".join(traceback.format_exception(caught.value)).replace(content, "")


@pytest.mark.parametrize(
    "printed", ["s3cr3t", '{"kind": "ExecCredential", "status": {"token": "s3cr3t"}}', "[1, 's3cr3t'"]
)
async def test_the_error_of_an_exec_plugin_contains_none_of_its_output(tmp_path: Path, printed: str) -> None:
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": sys.executable,
        "args": ["-c", f"print({printed!r})"],
        "interactiveMode": "Never",
    }
    with pytest.raises(ConfigError) as caught:
        await from_file(write(tmp_path / "config", kubeconfig(user={"exec": plugin})))
    assert "users[u]: exec: " in str(caught.value)
    assert "s3cr3t" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"current-context": ""}, "current-context is not set"),
        ({"current-context": "there"}, "contexts has no 'there'; it has here"),
        ({"clusters": []}, "clusters has no 'c'; it has none"),
        ({"clusters": [{"name": "c", "cluster": {"server": "nowhere"}}]}, "must be an http"),
        ({"users": [{"name": "u", "user": {"client-key-data": "aGk="}}], "clusters": 3}, "not a kubeconfig"),
        ({"users": [{"name": "u", "user": {"client-key-data": "aGk="}}]}, "belong together"),
        ({"users": [{"name": "u", "user": {"client-key-data": "%"}}]}, "client-key"),
    ],
)
async def test_an_invalid_file_is_reported_with_its_errors(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    path = write(tmp_path / "config", {**kubeconfig(), **change})
    with pytest.raises(ConfigError, match=words) as caught:
        await from_file(path)
    assert str(path) in str(caught.value)


async def test_no_file_and_no_yaml(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--kubeconfig"):
        await load(tmp_path / "missing")
    (tmp_path / "bad").write_text("a: [")
    with pytest.raises(ConfigError, match="not YAML"):
        await load(tmp_path / "bad")


async def test_outside_a_cluster_there_is_no_service_account(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(ConfigError, match="give a kubeconfig"):
        in_cluster()
