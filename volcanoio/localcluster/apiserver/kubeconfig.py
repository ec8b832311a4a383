"""The kubeconfig file with which any Kubernetes client reaches the embedded API server."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import yaml

from volcanoio.localcluster.apiserver.identity import ClientCertificate
from volcanoio.localcluster.apiserver.private_files import write_private

CONTEXT = "volcanoio"
CERTIFICATE_CONTEXT = "volcanoio-certificate"
"""The same cluster and user, who logs in with a client certificate instead of the token."""


def render(
    server: str,
    *,
    token: str = "",
    ca_pem: bytes = b"",
    namespace: str = "default",
    certificate: ClientCertificate | None = None,
) -> str:
    """A kubeconfig in YAML with one cluster, user and context, all named volcanoio. `server` is a URL.

    With a client certificate there is a second context that uses it.
    """
    cluster: dict[str, str] = {"server": server}
    if ca_pem:
        cluster["certificate-authority-data"] = base64.b64encode(ca_pem).decode()
    users: dict[str, dict[str, str]] = {CONTEXT: {"token": token} if token else {}}
    if certificate is not None:
        data = {"client-certificate-data": certificate.certificate, "client-key-data": certificate.key}
        users[CERTIFICATE_CONTEXT] = {key: base64.b64encode(pem).decode() for key, pem in data.items()}
    document: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": CONTEXT, "cluster": cluster}],
        "users": [{"name": name, "user": user} for name, user in users.items()],
        "contexts": [
            {"name": name, "context": {"cluster": CONTEXT, "user": name, "namespace": namespace}} for name in users
        ],
        "current-context": CONTEXT,
        "preferences": {},
    }
    return yaml.safe_dump(document, sort_keys=False)


def write(
    path: Path,
    server: str,
    *,
    token: str = "",
    ca_pem: bytes = b"",
    namespace: str = "default",
    certificate: ClientCertificate | None = None,
) -> Path:
    """Write the kubeconfig to `path` (mode 0600, atomically) and return the path."""
    text = render(server, token=token, ca_pem=ca_pem, namespace=namespace, certificate=certificate)
    write_private(path, text.encode())
    return path
