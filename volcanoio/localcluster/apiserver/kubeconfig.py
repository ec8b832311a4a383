"""The kubeconfig file with which any Kubernetes client reaches the embedded API server."""

from __future__ import annotations

import base64
from pathlib import Path

import yaml

from volcanoio.localcluster.apiserver.private_files import write_private

CONTEXT = "volcanoio"


def render(server: str, *, token: str = "", ca_pem: bytes = b"", namespace: str = "default") -> str:
    """A kubeconfig in YAML with one cluster, user and context, all named volcanoio. `server` is a URL."""
    cluster: dict[str, str] = {"server": server}
    if ca_pem:
        cluster["certificate-authority-data"] = base64.b64encode(ca_pem).decode()
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": CONTEXT, "cluster": cluster}],
        "users": [{"name": CONTEXT, "user": {"token": token} if token else {}}],
        "contexts": [{"name": CONTEXT, "context": {"cluster": CONTEXT, "user": CONTEXT, "namespace": namespace}}],
        "current-context": CONTEXT,
        "preferences": {},
    }
    return yaml.safe_dump(document, sort_keys=False)


def write(path: Path, server: str, *, token: str = "", ca_pem: bytes = b"", namespace: str = "default") -> Path:
    """Write the kubeconfig to `path` (mode 0600, atomically) and return the path."""
    write_private(path, render(server, token=token, ca_pem=ca_pem, namespace=namespace).encode())
    return path
