"""Kubeconfig files for the users of a throw-away control plane."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import yaml

from tests.realcluster.certificates import Pair

_CLUSTER = "real"


def certificate_user(pair: Pair) -> dict[str, str]:
    """A user who logs in with a client certificate."""
    return {"client-certificate-data": _base64(pair.certificate), "client-key-data": _base64(pair.key)}


def token_user(token: str) -> dict[str, str]:
    """A user who logs in with a bearer token."""
    return {"token": token}


def write(path: Path, server: str, authority: bytes, users: dict[str, dict[str, str]]) -> Path:
    """Write a kubeconfig with a context named like each user; the first one is current. Returns the path."""
    document: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": _CLUSTER, "cluster": {"server": server, "certificate-authority-data": _base64(authority)}}
        ],
        "users": [{"name": name, "user": user} for name, user in users.items()],
        "contexts": [{"name": name, "context": {"cluster": _CLUSTER, "user": name}} for name in users],
        "current-context": next(iter(users)),
    }
    path.touch(0o600)
    path.write_text(yaml.safe_dump(document, sort_keys=False))
    return path


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
