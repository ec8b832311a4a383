"""Certificates, token and kubeconfig."""

from __future__ import annotations

import base64
import stat
from pathlib import Path

import yaml

from volcanoio.localcluster.apiserver import kubeconfig
from volcanoio.localcluster.apiserver.identity import load_or_create


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
    path = kubeconfig.write(tmp_path / "kubeconfig", "https://127.0.0.1:1", token="t", ca_pem=identity.ca_pem)
    for file in (path, identity.key, tmp_path / "pki" / "token"):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_kubeconfig_names_server_authority_and_token(tmp_path: Path) -> None:
    path = kubeconfig.write(tmp_path / "kubeconfig", "https://127.0.0.1:1", token="t", ca_pem=b"PEM")
    document = yaml.safe_load(path.read_text())
    cluster = document["clusters"][0]["cluster"]
    assert cluster["server"] == "https://127.0.0.1:1"
    assert base64.b64decode(cluster["certificate-authority-data"]) == b"PEM"
    assert document["users"][0]["user"] == {"token": "t"}
    assert document["current-context"] == document["contexts"][0]["name"] == "volcanoio"
