"""The command lines of the three servers: loopback only, TLS, client certificates and tokens, Node and RBAC."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.realcluster.binaries import Binaries

ISSUER = "https://kubernetes.default.svc.cluster.local"


@dataclass(frozen=True)
class Ports:
    """Where each server listens on 127.0.0.1."""

    etcd: int
    etcd_peer: int
    apiserver: int

    @property
    def etcd_url(self) -> str:
        """Where clients find etcd."""
        return f"http://127.0.0.1:{self.etcd}"

    @property
    def apiserver_url(self) -> str:
        """Where clients find the API server."""
        return f"https://127.0.0.1:{self.apiserver}"


@dataclass(frozen=True)
class Files:
    """What the servers read, and etcd's data directory."""

    data: Path
    authority: Path
    server_certificate: Path
    server_key: Path
    signing_key: Path
    verifying_key: Path
    tokens: Path
    controller_kubeconfig: Path


def etcd(binaries: Binaries, ports: Ports, files: Files) -> list[str]:
    """Etcd that keeps nothing safe: what it holds is thrown away anyhow."""
    peer = f"http://127.0.0.1:{ports.etcd_peer}"
    return [
        binaries.path("etcd"),
        "--name=real",
        f"--data-dir={files.data}",
        f"--listen-client-urls={ports.etcd_url}",
        f"--advertise-client-urls={ports.etcd_url}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=real={peer}",
        "--unsafe-no-fsync",
        "--log-level=warn",
    ]


def apiserver(binaries: Binaries, ports: Ports, files: Files, extra: Sequence[str] = ()) -> list[str]:
    """kube-apiserver with everything at its default but addresses, keys and who may do what; `extra` overrides."""
    return [
        binaries.path("kube-apiserver"),
        f"--etcd-servers={ports.etcd_url}",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        "--endpoint-reconciler-type=none",  # a loopback address is no valid endpoint
        f"--secure-port={ports.apiserver}",
        f"--tls-cert-file={files.server_certificate}",
        f"--tls-private-key-file={files.server_key}",
        f"--client-ca-file={files.authority}",
        f"--token-auth-file={files.tokens}",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--allow-privileged=true",
        f"--service-account-issuer={ISSUER}",
        f"--service-account-signing-key-file={files.signing_key}",
        f"--service-account-key-file={files.verifying_key}",
        "--service-cluster-ip-range=10.96.0.0/16",
        "--shutdown-send-retry-after=false",
        "--profiling=false",
        *extra,
    ]


def controller_manager(binaries: Binaries, files: Files) -> list[str]:
    """kube-controller-manager with all its controllers, and no brake on how fast they write."""
    return [
        binaries.path("kube-controller-manager"),
        "--secure-port=0",  # what it does shows in the API
        f"--kubeconfig={files.controller_kubeconfig}",
        f"--service-account-private-key-file={files.signing_key}",
        f"--root-ca-file={files.authority}",
        "--use-service-account-credentials=true",
        "--leader-elect=false",
        "--kube-api-qps=500",
        "--kube-api-burst=1000",
        "--profiling=false",
    ]
