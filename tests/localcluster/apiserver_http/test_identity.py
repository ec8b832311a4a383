"""Certificates, token and kubeconfig."""

from __future__ import annotations

import base64
import stat
from pathlib import Path

import yaml

from volcanoio.localcluster.apiserver.authn import credentials
from volcanoio.localcluster.apiserver.authn.credentials import load_or_create


def test_an_identity_is_made_once_and_kept(tmp_path: Path) -> None:
    first = load_or_create(tmp_path / "pki")
    assert load_or_create(tmp_path / "pki") == first
    assert load_or_create(tmp_path / "other").token != first.token


def test_a_damaged_identity_is_replaced(tmp_path: Path) -> None:
    first = load_or_create(tmp_path)
    first.key.write_text("damaged")
    second = load_or_create(tmp_path)
    assert second.ca_pem != first.ca_pem
    second.server_context()


def test_secrets_are_for_their_owner_only(tmp_path: Path) -> None:
    identity = load_or_create(tmp_path / "pki")
    path = credentials.write_kubeconfig(
        tmp_path / "kubeconfig", credentials.render_kubeconfig("https://127.0.0.1:1", token="t", ca_pem=identity.ca_pem)
    )
    for file in (path, identity.key, tmp_path / "pki" / "token"):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_kubeconfig_names_server_authority_and_token() -> None:
    document = yaml.safe_load(credentials.render_kubeconfig("https://127.0.0.1:1", token="t", ca_pem=b"PEM"))
    cluster = document["clusters"][0]["cluster"]
    assert cluster["server"] == "https://127.0.0.1:1"
    assert base64.b64decode(cluster["certificate-authority-data"]) == b"PEM"
    assert document["users"][0]["user"] == {"token": "t"}
    assert document["current-context"] == document["contexts"][0]["name"] == "volcanoio"


def test_the_port_of_a_kubeconfig_is_read(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    assert credentials.kubeconfig_port(path) == 0
    credentials.write_kubeconfig(path, credentials.render_kubeconfig("https://127.0.0.1:40123"))
    assert credentials.kubeconfig_port(path) == 40123
    for text in ("", "[]", "clusters: 7", "clusters: [{name: volcanoio}]", "a: [", "clusters: [{name: other}]",
                 "clusters: [{name: volcanoio, cluster: {server: 'https://127.0.0.1:high'}}]"):  # fmt: skip
        path.write_text(text)
        assert credentials.kubeconfig_port(path) == 0, text
